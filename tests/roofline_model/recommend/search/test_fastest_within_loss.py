"""The least time within a loss: what every plan of a small problem says."""

from __future__ import annotations

import math
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from roofline_model.recommend.search.problem import Budgets, FormatChoice, LayerGroup, ParetoProblem
from roofline_model.recommend.search.search import choose_formats, least_time_s

costs = st.tuples(st.integers(0, 40), st.integers(1, 40), st.integers(1, 40))
problems = st.lists(st.lists(costs, min_size=1, max_size=4), min_size=1, max_size=4)


def problem_of(rows) -> ParetoProblem:
    groups = tuple(
        LayerGroup(
            f"layers.{at}",
            tuple(FormatChoice(f"F{i}", float(a), float(b), float(c)) for i, (a, b, c) in enumerate(row)),
        )
        for at, row in enumerate(rows)
    )
    return ParetoProblem(groups, fixed_time_s=3.0, fixed_bytes=5.0)


@given(rows=problems, loss=st.integers(0, 80), memory=st.none() | st.integers(10, 120))
def test_no_plan_within_the_loss_is_faster(rows, loss, memory):
    every = [tuple(math.fsum(values) for values in zip(*plan, strict=True)) for plan in product(*rows)]
    times = [3.0 + time for value, time, size in every if value <= loss and (memory is None or size + 5 <= memory)]
    problem = problem_of(rows)
    time_found_s = least_time_s(problem, loss_value=float(loss), memory_bytes=memory)
    assert time_found_s == (min(times) if times else None)
    if time_found_s is not None:
        # The time as a budget gives a plan: as fast, and within the loss.
        plan = choose_formats(problem, Budgets(time_found_s * (1 + 1e-9), memory)).plan
        assert plan is not None
        assert plan.loss_value <= loss
        assert plan.time_s <= time_found_s * (1 + 1e-9)
