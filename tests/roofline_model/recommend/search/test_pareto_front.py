"""The whole front: nothing on it is beaten, nothing unbeaten is missing, and the supported part of it is what it
says.
"""

from __future__ import annotations

import math
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline_model.core.errors import InvalidValueError, UnknownNameError
from roofline_model.recommend.search import front as front_module
from roofline_model.recommend.search.front import assess, pareto_front
from roofline_model.recommend.search.problem import FormatChoice, LayerGroup, ParetoProblem

WHOLE = st.integers(0, 9)


@st.composite
def problems(draw) -> ParetoProblem:
    """Whole numbers: sums are exact, and ties are many."""
    groups = []
    for at in range(draw(st.integers(1, 5))):
        rows = draw(st.lists(st.tuples(WHOLE, WHOLE, WHOLE), min_size=1, max_size=4))
        groups.append(LayerGroup(f"g{at}", tuple(FormatChoice(f"f{i}", *row) for i, row in enumerate(rows))))
    return ParetoProblem(tuple(groups), 1.0, 2.0)


def all_totals(problem: ParetoProblem) -> set[tuple[float, float, float]]:
    return {
        (
            math.fsum(choice.loss_value for choice in chosen),
            1.0 + math.fsum(choice.time_s for choice in chosen),
            2.0 + math.fsum(choice.memory_bytes for choice in chosen),
        )
        for chosen in product(*(group.choices for group in problem.groups))
    }


def is_beaten(plan: tuple[float, ...], plans: set[tuple[float, float, float]]) -> bool:
    return any(other != plan and all(a <= b for a, b in zip(other, plan, strict=True)) for other in plans)


@given(problems())
def test_the_front_of_a_small_problem_is_complete(problem):
    plans = all_totals(problem)
    front = pareto_front(problem)
    assert front.is_complete
    got = [(point.loss_value, point.time_s, point.memory_bytes) for point in front.points]
    assert len(got) == len(set(got))
    assert set(got) == {plan for plan in plans if not is_beaten(plan, plans)}
    assert [point[0] for point in got] == sorted(point[0] for point in got)


@given(problems())
def test_supported_points_are_beaten_by_no_plan(problem):
    plans = all_totals(problem)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(front_module, "COMPLETE_LIMIT", 0)
        front = pareto_front(problem)
    assert not front.is_complete
    assert front.points
    for point in front.points:
        assert not is_beaten((point.loss_value, point.time_s, point.memory_bytes), plans)
    # The corners are there: least loss, least time, least memory.
    for column, name in enumerate(("loss_value", "time_s", "memory_bytes")):
        assert min(getattr(point, name) for point in front.points) == min(plan[column] for plan in plans)


def test_a_front_over_two_thousand_plans_is_its_supported_part():
    groups = tuple(
        LayerGroup(
            f"g{at}",
            tuple(
                FormatChoice(f"f{i}", i * (1 + at / 7), (3 - i) * (1 + at / 11), (3 - i) ** 2 * (1 + at / 13))
                for i in range(4)
            ),
        )
        for at in range(20)
    )
    front = pareto_front(ParetoProblem(groups))
    assert not front.is_complete
    totals = {(point.loss_value, point.time_s, point.memory_bytes) for point in front.points}
    assert len(totals) == len(front.points) > 50
    assert not any(is_beaten(point, totals) for point in totals)


def test_a_plan_of_ones_own_is_assessed():
    group = LayerGroup("a", (FormatChoice("BF16", 0, 2, 4), FormatChoice("FP8", 1, 1, 2)))
    problem = ParetoProblem((group, LayerGroup("b", group.choices)), 0.5, 0.25)
    assignment = assess(problem, {"a": "FP8", "b": "BF16"})
    assert (assignment.loss_value, assignment.time_s, assignment.memory_bytes) == (1, 3.5, 6.25)
    with pytest.raises(UnknownNameError, match="INT4"):
        assess(problem, {"a": "INT4", "b": "BF16"})
    with pytest.raises(InvalidValueError, match="no format is given for b"):
        assess(problem, {"a": "FP8"})
