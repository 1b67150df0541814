"""The choice for given budgets against every plan there is, and the laws it must obey."""

from __future__ import annotations

import ctypes
import math
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from benchmarks.predictions.pareto_rate import layered_problem
from roofline_model.core.errors import InvalidValueError, UnknownNameError
from roofline_model.recommend.search.front import assess
from roofline_model.recommend.search.problem import Budgets, FormatChoice, LayerGroup, ParetoProblem, share_formats
from roofline_model.recommend.search.search import choose_formats

NUMBERS = st.integers(0, 12) | st.floats(0, 12, allow_nan=False).map(lambda value: round(value, 3))


@st.composite
def problems(draw, max_groups: int = 5) -> ParetoProblem:
    groups = []
    for at in range(draw(st.integers(1, max_groups))):
        rows = draw(st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS), min_size=1, max_size=4))
        groups.append(LayerGroup(f"g{at}", tuple(FormatChoice(f"f{i}", *row) for i, row in enumerate(rows))))
    return ParetoProblem(tuple(groups), fixed_time_s=draw(NUMBERS), fixed_bytes=draw(NUMBERS))


def every_plan(problem: ParetoProblem) -> list[tuple[float, float, float]]:
    """Return (loss, time, bytes) of all plans."""
    return [
        (
            math.fsum(choice.loss_value for choice in chosen),
            math.fsum([problem.fixed_time_s, *(choice.time_s for choice in chosen)]),
            math.fsum([problem.fixed_bytes, *(choice.memory_bytes for choice in chosen)]),
        )
        for chosen in product(*(group.choices for group in problem.groups))
    ]


def within(plan: tuple[float, float, float], budgets: Budgets) -> bool:
    return (budgets.time_s is None or plan[1] <= budgets.time_s * (1 + 1e-12)) and (
        budgets.memory_bytes is None or plan[2] <= budgets.memory_bytes * (1 + 1e-12)
    )


@st.composite
def budgets_near(draw, problem: ParetoProblem) -> Budgets:
    """Return budgets at, above or below what some plan takes: the boundary is where mistakes are."""
    plans = every_plan(problem)
    budgets = []
    for column in (1, 2):
        taken = draw(st.sampled_from(plans))[column] * draw(st.sampled_from((1.0, 1.0, 0.9, 1.1)))
        budgets.append(taken if taken > 0 and draw(st.booleans()) else None)
    return Budgets(*budgets)


@given(st.data())
def test_the_choice_is_the_best_of_all_plans(data):
    problem = data.draw(problems())
    budgets = data.draw(budgets_near(problem))
    possible = [plan for plan in every_plan(problem) if within(plan, budgets)]
    choice = choose_formats(problem, budgets)
    if not possible:
        assert choice.plan is None
        assert choice.gap_value is None
        assert choice.misses
        assert all(miss.missed_value > 0 for miss in choice.misses)
        return
    best = min(possible)
    assert choice.plan is not None
    assert choice.plan.loss_value == pytest.approx(best[0], abs=1e-9)
    assert choice.is_optimal
    # Ties: of plans that lose as little, the fastest.
    assert choice.plan.time_s == pytest.approx(best[1], abs=1e-9)
    assert within((choice.plan.loss_value, choice.plan.time_s, choice.plan.memory_bytes), budgets)


@given(st.data())
def test_a_miss_is_what_the_closest_plan_misses_by(data):
    problem = data.draw(problems())
    plans = every_plan(problem)
    least = [min(plan[column] for plan in plans) for column in (1, 2)]
    assume(min(least) > 0)
    budgets = Budgets(*(limit * data.draw(st.sampled_from((0.8, 1.0, 1.05))) for limit in least))
    choice = choose_formats(problem, budgets)
    assert bool(choice.misses) == (not any(within(plan, budgets) for plan in plans))
    for miss in choice.misses:
        if miss.constraint == "memory":
            assert miss.least_value == pytest.approx(min(plan[2] for plan in plans))
        elif miss.constraint == "time":
            assert miss.least_value == pytest.approx(min(plan[1] for plan in plans))
        else:
            inside = [plan for plan in plans if within(plan, Budgets(None, budgets.memory_bytes))]
            assert miss.least_value == pytest.approx(min(plan[1] for plan in inside))


def decoder(layer_count: int, *, is_equal: bool = False) -> ParetoProblem:
    """Return a problem large enough that no search enumerates it."""
    groups = []
    for layer in range(layer_count):
        hard = 1.0 if is_equal else 1.0 + (layer * 37 % 29) / 29
        choices = tuple(
            FormatChoice(name, hard * loss, time, size * 1e6)
            for name, loss, time, size in (
                ("BF16", 0.0, 1e-3, 16),
                ("FP8", 0.011, 5.6e-4, 8),
                ("INT8", 0.009, 6.4e-4, 8.1),
                ("MXFP6", 0.02, 4.9e-4, 6.25),
                ("NVFP4", 0.051, 3.3e-4, 4.5),
                ("MXFP4", 0.06, 3.1e-4, 4.25),
                ("INT4", 0.08, 3.2e-4, 4.125),
            )
        )
        groups.append(LayerGroup(f"layers.{layer}", choices))
    return ParetoProblem(tuple(groups), 1e-3, 1e6)


def test_a_search_cut_short_reports_its_gap(monkeypatch):
    problem = decoder(40)
    budgets = Budgets(time_s=0.0215, memory_bytes=2.9e8)
    whole = choose_formats(problem, budgets)
    monkeypatch.setattr("roofline_model.recommend.search.least_cost.NODE_LIMIT", 1)
    cut = choose_formats(problem, budgets)
    assert whole.plan is not None
    assert cut.plan is not None
    assert cut.bound_value <= whole.plan.loss_value + 1e-12 <= cut.plan.loss_value + 2e-12
    assert cut.gap_value is not None
    assert cut.gap_value >= cut.plan.loss_value - whole.plan.loss_value - 1e-12


def test_each_group_says_why():
    group = LayerGroup("a", (FormatChoice("BF16", 0.0, 2e-3, 4e6), FormatChoice("FP8", 0.1, 1e-3, 2e6)))
    other = LayerGroup("b", (FormatChoice("BF16", 0.0, 2e-3, 4e6), FormatChoice("FP8", 0.4, 1e-3, 2e6)))
    choice = choose_formats(ParetoProblem((group, other), 1e-3, 1e6), Budgets(time_s=4.1e-3))
    assert choice.choices == {"a": "FP8", "b": "BF16"}
    reason, free = choice.reasons
    assert (reason.constraint, free.constraint) == ("time", "none")
    assert reason.better is not None
    assert reason.better.label == "BF16"
    assert (reason.better_time_s, reason.better_bytes) == (pytest.approx(1e-3), pytest.approx(2e6))
    assert free.cheaper is not None
    assert free.cheaper.label == "FP8"
    memory = choose_formats(ParetoProblem((group, other), 1e-3, 1e6), Budgets(memory_bytes=7.5e6))
    assert memory.reasons[0].constraint == "memory"


def test_budgets_nothing_meets_say_by_how_much():
    group = LayerGroup("a", (FormatChoice("BF16", 0.0, 1e-3, 4e9), FormatChoice("INT4", 0.1, 2e-3, 1e9)))
    problem = ParetoProblem((group,))
    time = choose_formats(problem, Budgets(time_s=5e-4)).misses
    assert [(miss.constraint, miss.least_value, miss.missed_value) for miss in time] == [("time", 1e-3, 5e-4)]
    memory = choose_formats(problem, Budgets(memory_bytes=5e8)).misses
    assert [(miss.constraint, miss.least_value, miss.missed_value) for miss in memory] == [("memory", 1e9, 5e8)]
    both = choose_formats(problem, Budgets(1.5e-3, 2e9)).misses
    assert [(miss.constraint, miss.least_value) for miss in both] == [("time within memory", 2e-3)]


def test_groups_that_share_a_format():
    problem = decoder(4)
    joined = share_formats(problem, {"first": ["layers.0", "layers.1"], "last": ["layers.3"]})
    assert [group.name for group in joined.groups] == ["first", "layers.2", "last"]
    assert joined.groups[0].members == ("layers.0", "layers.1")
    assert joined.groups[0].choice("FP8").time_s == pytest.approx(1.12e-3)
    free, shared = (choose_formats(variant, Budgets(time_s=3.4e-3)).plan for variant in (problem, joined))
    assert free is not None
    assert shared is not None
    assert free.loss_value <= shared.loss_value
    with pytest.raises(UnknownNameError, match=r"unknown part 'layers\.9'"):
        share_formats(problem, {"x": ["layers.9"]})
    with pytest.raises(InvalidValueError, match="one format only"):
        share_formats(problem, {"x": ["layers.0"], "y": ["layers.0"]})
    odd = replace(problem, groups=(*problem.groups, LayerGroup("odd", (FormatChoice("NF4", 0, 0, 0),))))
    with pytest.raises(InvalidValueError, match="no format in common"):
        share_formats(odd, {"x": ["layers.0", "odd"]})
    with pytest.raises(InvalidValueError, match="joins nothing"):
        share_formats(problem, {"x": []})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FormatChoice("FP8", math.nan, 1, 1), "loss_value must be a finite number"),
        (lambda: FormatChoice("FP8", 0, -1, 1), "time_s must not be negative"),
        (lambda: FormatChoice("FP8", 0, 1, math.inf), "memory_bytes must be a finite number"),
        (lambda: LayerGroup("a", ()), "no format to choose from"),
        (lambda: LayerGroup("a", (FormatChoice("x", 0, 0, 0),) * 2), "names x twice"),
        (lambda: Budgets(time_s=0), "budget time_s must be a positive number"),
        (lambda: Budgets(memory_bytes=math.nan), "budget memory_bytes must be a positive number"),
        (lambda: ParetoProblem(()), "at least one group"),
        (lambda: ParetoProblem((LayerGroup("a", (FormatChoice("x", 0, 0, 0),)),) * 2), "two groups are called 'a'"),
        (lambda: replace(decoder(1), confidence="sure"), "confidence must be high, medium, low"),
        (lambda: replace(decoder(1), fixed_bytes=-1.0), "fixed_bytes must be a number from 0"),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises(InvalidValueError, match=message):
        make()


def test_the_solver_prints_nothing(capfd):
    """HiGHS 1.12 prints a line when it repairs a plan, as it does for this problem; `--json` must stay clean."""
    problem = layered_problem(20, seed=205)
    wide = assess(problem, dict.fromkeys((group.name for group in problem.groups), "BF16"))
    assert choose_formats(problem, Budgets(0.6 * wide.time_s, 0.45 * wide.memory_bytes)).is_optimal
    ctypes.CDLL(None).fflush(None)
    assert capfd.readouterr().out == ""


def test_of_equal_groups_the_earlier_loses_less():
    problem = decoder(12, is_equal=True)
    chosen = choose_formats(problem, Budgets(time_s=9e-3)).choices.values()
    losses = [problem.groups[0].choice(label).loss_value for label in chosen]
    assert losses == sorted(losses)
    assert losses[0] < losses[-1]
