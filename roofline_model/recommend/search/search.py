"""The plan of least loss within the budgets, how sure it is, and why every group got its format."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from roofline_model.recommend.search.front import FormatAssignment, assignment, ordered_choices
from roofline_model.recommend.search.least_cost import ROUNDING_RATIO, Solution, minimise, total
from roofline_model.recommend.search.problem import Budgets, FormatChoice, LayerGroup, ParetoProblem

NO_LIMITS = Budgets()
TIE_BREAK_CHOICES = 400
"""Problems of at most this many choices: of plans with equal loss, the fastest is looked for."""


@dataclass(frozen=True, slots=True)
class GroupReason:
    """Why one group got its format, and what the next better one would have cost."""

    JSON_KEYS: ClassVar = {
        "group": "group",
        "format": "chosen.label",
        "loss_value": "chosen.loss_value",
        "time_s": "chosen.time_s",
        "memory_bytes": "chosen.memory_bytes",
        "time_source": "chosen.time_source",
        "constraint": "constraint",
        "better_format": "better.label",
        "better_extra_s": "better_time_s",
        "better_extra_bytes": "better_bytes",
        "better_saved_loss_value": "better_saved_loss_value",
    }

    group: str
    """Name of the group: layer and part."""
    chosen: FormatChoice
    constraint: str
    """What kept it from losing less: time, memory, time and memory, gap (the search left it open), or none."""
    better: FormatChoice | None
    """The next format of less loss; None: there is none."""
    better_time_s: float | None
    """What the better one would have added to the pass, seconds (negative: saved)."""
    better_bytes: float | None
    """What the better one would have added to the memory, bytes."""
    cheaper: FormatChoice | None
    """The next format of more loss that saves time or memory; None: there is none."""

    @property
    def better_saved_loss_value(self) -> float | None:
        """How much less the better one would have lost, in the search's loss_unit."""
        return None if self.better is None else self.chosen.loss_value - self.better.loss_value


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
    """The groups of layers, in the model's order."""

    @property
    def gap_value(self) -> float | None:
        """How much less than the plan's loss an undiscovered plan could lose at most; in the unit of the
        losses. 0: proven best; None: no plan.
        """
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

    Of plans with equal loss the faster one. `gap_value` says how much better a plan might still be where the search
    was cut short. A budget is met up to rounding (1e-12 of it).
    """
    rows = [ordered_choices(group) for group in problem.groups]
    limits = _limits(problem, budgets)
    solution = minimise(rows, "loss_value", limits)
    if solution.chosen is None:
        return ParetoChoice(problem, budgets, None, solution.bound_value, _misses(problem, rows, budgets, limits), ())
    plan = assignment(problem, _tie_broken(rows, solution, limits) or solution.chosen)
    reasons = tuple(
        _reason(group, label, plan, budgets) for group, label in zip(problem.groups, plan.labels, strict=True)
    )
    return ParetoChoice(problem, budgets, plan, min(solution.bound_value, plan.loss_value), (), reasons)


def least_time_s(problem: ParetoProblem, *, loss_value: float, memory_bytes: float | None = None) -> float | None:
    """Return the least time of a plan within a loss and a memory budget, None where no plan was found.

    With this time as a budget, `choose_formats` gives the plan. Both budgets are met up to rounding.
    """
    rows = [ordered_choices(group) for group in problem.groups]
    limits = _limits(problem, Budgets(memory_bytes=memory_bytes))
    solution = minimise(rows, "time_s", {"loss_value": loss_value, **limits})
    return None if solution.chosen is None else solution.cost_value + problem.fixed_time_s


def _limits(problem: ParetoProblem, budgets: Budgets) -> dict[str, float]:
    """Return what the groups may take: the budgets less what is spent anyway."""
    given = (
        ("time_s", budgets.time_s, problem.fixed_time_s),
        ("memory_bytes", budgets.memory_bytes, problem.fixed_bytes),
    )
    return {name: budget * (1 + ROUNDING_RATIO) - fixed for name, budget, fixed in given if budget is not None}


def _tie_broken(
    rows: Sequence[Sequence[FormatChoice]], solution: Solution, limits: Mapping[str, float]
) -> tuple[FormatChoice, ...] | None:
    """Return the fastest of the plans that lose as little as the one found; None where the problem is too large to
    ask, or none is faster.
    """
    if not solution.is_optimal or sum(len(row) for row in rows) > TIE_BREAK_CHOICES:
        return None
    faster = minimise(rows, "time_s", {**limits, "loss_value": solution.cost_value}).chosen
    return faster if faster and total(faster, "loss_value") <= solution.cost_value else None


def _misses(
    problem: ParetoProblem, rows: Sequence[Sequence[FormatChoice]], budgets: Budgets, limits: Mapping[str, float]
) -> tuple[BudgetMiss, ...]:
    misses = []
    for constraint, name, fixed in (
        ("time", "time_s", problem.fixed_time_s),
        ("memory", "memory_bytes", problem.fixed_bytes),
    ):
        least = math.fsum([fixed, *(min(getattr(choice, name) for choice in row) for row in rows)])
        if name in limits and least - fixed > limits[name]:
            misses.append(BudgetMiss(constraint, least, getattr(budgets, name)))
    if not misses and budgets.time_s is not None:
        within = {name: limit for name, limit in limits.items() if name != "time_s"}
        least = minimise(rows, "time_s", within).cost_value + problem.fixed_time_s
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
    for name, budget, value in (("time", budgets.time_s, time_s), ("memory", budgets.memory_bytes, memory_bytes)):
        if budget is not None and value > budget * (1 + ROUNDING_RATIO):
            yield name
