"""The other way round: the least time of a plan that loses no more than a limit."""

from __future__ import annotations

import math

from roofline_model.recommend.search.front import choice_table, ordered_choices
from roofline_model.recommend.search.knapsack import ROUNDING_RATIO, minimise
from roofline_model.recommend.search.problem import ParetoProblem


def least_time_s(problem: ParetoProblem, *, loss_value: float, memory_bytes: float | None = None) -> float | None:
    """Return the least time of a plan within a loss and a memory budget, None where no plan was found.

    With this time as a budget, `choose_formats` gives the plan. Both budgets are met up to rounding.
    """
    table = choice_table([ordered_choices(group) for group in problem.groups])
    left = math.inf if memory_bytes is None else memory_bytes * (1 + ROUNDING_RATIO) - problem.fixed_bytes
    solution = minimise(table.costing_first(), loss_value, left)
    return None if solution.picks is None else solution.cost_value + problem.fixed_time_s
