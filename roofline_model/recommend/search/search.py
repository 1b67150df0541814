"""The plan of least loss within the budgets, how sure it is, and why every group got its format."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from roofline_model.recommend.search.front import FormatAssignment, assignment, choice_table, ordered_choices
from roofline_model.recommend.search.knapsack import ROUNDING_RATIO, Solution, Table, minimise
from roofline_model.recommend.search.problem import Budgets, FormatChoice, LayerGroup, ParetoProblem

NO_LIMITS = Budgets()
TIE_BREAK_CHOICES = 400
"""Problems of at most this many choices: of plans with equal loss, the fastest is looked for."""


@dataclass(frozen=True, slots=True)
class GroupReason:
    """Why one group got its format."""

    group: str
    chosen: FormatChoice
    constraint: str
    """What kept it from losing less: time, memory, time and memory, gap (the search left it open), or none."""
    better: FormatChoice | None
    """The next format of less loss; None: there is none."""
    better_time_s: float | None
    """What the better one would have added to the pass (negative: saved)."""
    better_bytes: float | None
    """What the better one would have added to the memory."""
    cheaper: FormatChoice | None
    """The next format of more loss that saves time or memory; None: there is none."""


@dataclass(frozen=True, slots=True)
class BudgetMiss:
    """A budget that no plan meets."""

    constraint: str
    """time, memory, or time within memory: each can be met alone, not both."""
    least_value: float
    """The least any plan takes: seconds, or bytes of memory (for time within memory, the least time inside that
    budget).
    """
    budget_value: float

    @property
    def missed_value(self) -> float:
        """By how much, in the same unit."""
        return self.least_value - self.budget_value


@dataclass(frozen=True, slots=True)
class ParetoChoice:
    """The plan for given budgets: its choices, what it costs, and how far it may be from the optimum."""

    problem: ParetoProblem
    budgets: Budgets
    plan: FormatAssignment | None
    """None: no plan was found inside the budgets (see `misses`)."""
    bound_value: float
    """Proven: no plan inside the budgets loses less. Infinite when there is none."""
    misses: tuple[BudgetMiss, ...]
    """What cannot be met, and by how much; empty when a plan was found."""
    reasons: tuple[GroupReason, ...]

    @property
    def gap_value(self) -> float | None:
        """How much less than the plan's loss an undiscovered plan could lose at most; 0: proven best; None: no plan."""
        return None if self.plan is None else max(0.0, self.plan.loss_value - self.bound_value)

    @property
    def is_optimal(self) -> bool:
        """Whether the plan is proven best."""
        return self.gap_value == 0.0

    @property
    def choices(self) -> dict[str, str]:
        """Group → format; empty without a plan."""
        if self.plan is None:
            return {}
        return {group.name: label for group, label in zip(self.problem.groups, self.plan.labels, strict=True)}


def choose_formats(problem: ParetoProblem, budgets: Budgets = NO_LIMITS) -> ParetoChoice:
    """Return the plan of least loss whose time and memory stay within the budgets.

    Of plans with equal loss the faster one. Small problems are solved exactly; where the search of a large one is cut
    short, `gap_value` says how much better a plan might still be. A budget is met up to rounding (1e-12 of it).
    """
    rows = [ordered_choices(group) for group in problem.groups]
    table = choice_table(rows)
    limits = _limits(problem, budgets)
    solution = _tie_broken(table, minimise(table, *limits), limits)
    if solution.picks is None:
        return ParetoChoice(problem, budgets, None, solution.bound_value, _misses(problem, table, budgets, limits), ())
    plan = assignment(problem, rows, solution.picks)
    bound = plan.loss_value if solution.is_optimal else min(solution.bound_value, plan.loss_value)
    reasons = tuple(
        _reason(group, label, plan, budgets) for group, label in zip(problem.groups, plan.labels, strict=True)
    )
    return ParetoChoice(problem, budgets, plan, bound, (), reasons)


def _limits(problem: ParetoProblem, budgets: Budgets) -> tuple[float, float]:
    """Return what the groups may take: the budgets less what is spent anyway."""
    return (
        math.inf if budgets.time_s is None else _left(budgets.time_s, problem.fixed_time_s),
        math.inf if budgets.memory_bytes is None else _left(budgets.memory_bytes, problem.fixed_bytes),
    )


def _left(budget: float, fixed: float) -> float:
    return budget * (1 + ROUNDING_RATIO) - fixed


def _tie_broken(table: Table, solution: Solution, limits: tuple[float, float]) -> Solution:
    """Return the fastest of the plans that lose as little as the one found, where the problem is small enough to
    ask.
    """
    if solution.picks is None or not solution.is_optimal or table.cost.size > TIE_BREAK_CHOICES:
        return solution
    faster = minimise(table.costing_first(), solution.cost_value, limits[1])
    if faster.picks is None or table.totals(faster.picks)[0] > solution.cost_value:
        return solution
    return Solution(faster.picks, solution.cost_value, solution.bound_value)


def _misses(
    problem: ParetoProblem, table: Table, budgets: Budgets, limits: tuple[float, float]
) -> tuple[BudgetMiss, ...]:
    misses = []
    for name, values, fixed, limit, budget in (
        ("time", table.first, problem.fixed_time_s, limits[0], budgets.time_s),
        ("memory", table.second, problem.fixed_bytes, limits[1], budgets.memory_bytes),
    ):
        least = math.fsum([fixed, *values.min(axis=1).tolist()])
        if budget is not None and least - fixed > limit:
            misses.append(BudgetMiss(name, least, budget))
    if not misses and budgets.time_s is not None:
        least = minimise(table.costing_first(), math.inf, limits[1]).cost_value + problem.fixed_time_s
        misses.append(BudgetMiss("time within memory", least, budgets.time_s))
    return tuple(misses)


def _reason(group: LayerGroup, label: str, plan: FormatAssignment, budgets: Budgets) -> GroupReason:
    """Compare a group's format with its neighbours in loss, all other groups as they are."""
    rows = ordered_choices(group)
    chosen = next(row for row in rows if row.label == label)
    better = next((row for row in reversed(rows) if row.loss_value < chosen.loss_value), None)
    cheaper = next((row for row in rows if row.loss_value > chosen.loss_value), None)
    if better is None:
        return GroupReason(group.name, chosen, "none", None, None, None, cheaper)
    more_s, more_bytes = better.time_s - chosen.time_s, better.memory_bytes - chosen.memory_bytes
    constraint = " and ".join(_overspent(budgets, plan.time_s + more_s, plan.memory_bytes + more_bytes)) or "gap"
    return GroupReason(group.name, chosen, constraint, better, more_s, more_bytes, cheaper)


def _overspent(budgets: Budgets, time_s: float, memory_bytes: float) -> Iterator[str]:
    """Yield the budgets that a plan breaks."""
    limit_s, limit_bytes = budgets.time_s, budgets.memory_bytes
    if limit_s is not None and time_s > limit_s * (1 + ROUNDING_RATIO):
        yield "time"
    if limit_bytes is not None and memory_bytes > limit_bytes * (1 + ROUNDING_RATIO):
        yield "memory"
