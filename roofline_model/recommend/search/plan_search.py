"""Formats layer by layer: the Pareto searches that a recommendation makes where losses are known.

Two goals. `pareto-fastest`: the least time within the limit of the loss and the memory, and of plans as fast the one
that loses least. `pareto-least-loss`: the least loss within the latency and the memory. The search adds times of groups
up; the plan it finds is predicted as a whole, and searched again with less time where that shows it to be too slow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from roofline_model.chips.hardware import Device
from roofline_model.core.answer import Exclusion
from roofline_model.core.finding import Finding, finding
from roofline_model.models.format_plan import FormatPlan
from roofline_model.models.model_shapes import ModelShape
from roofline_model.recommend.plan_formats import plan_formats
from roofline_model.recommend.plan_loss import LossBook
from roofline_model.recommend.plans import CandidatePlan
from roofline_model.recommend.ranking import Limits
from roofline_model.recommend.search.front import FormatAssignment, pareto_front
from roofline_model.recommend.search.losses import LossTable, parse_formats
from roofline_model.recommend.search.losses_file import loss_in_nats
from roofline_model.recommend.search.model_problem import ModelProblem, TrafficShare, model_problem
from roofline_model.recommend.search.problem import Budgets
from roofline_model.recommend.search.search import BudgetMiss, ParetoChoice, choose_formats, least_time_s

FASTEST, LEAST_LOSS = "pareto-fastest", "pareto-least-loss"
MAX_PASSES = 4
"""Searches for a plan that meets the latency as a whole."""
_SLACK_RATIO = 1e-9
"""A time budget that a plan was found for is given back this much wider: sums in another order differ."""


@dataclass(frozen=True, slots=True)
class FormatSearch:
    """What one Pareto search found."""

    label: str
    """pareto-fastest or pareto-least-loss."""
    goal: Finding
    """What was searched for."""
    choice: ParetoChoice
    """Format, reason and neighbours of every group; its times are sums over groups."""
    passes_count: int
    """Searches until the plan met the latency as a whole, count."""


@dataclass(frozen=True, slots=True)
class SearchedPlans:
    """What the searches found."""

    candidates: tuple[CandidatePlan, ...]
    searches: tuple[FormatSearch, ...]
    excluded: tuple[Exclusion, ...]
    front: tuple[FormatAssignment, ...]
    findings: tuple[Finding, ...]


NO_SEARCH = SearchedPlans((), (), (), (), ())


def search_plans(
    device: Device,
    shape: ModelShape,
    book: LossBook,
    *,
    wide: str,
    traffic: Sequence[TrafficShare],
    limits: Limits,
    is_ideal: bool,
    latency_share_of: Callable[[FormatPlan], float],
    why_not: Callable[[str], Finding | None],
) -> SearchedPlans:
    """Return the plans of least time and of least loss, and the whole front. `latency_share_of`: time of a plan as a
    whole over its limit, the largest of its phases; 0 without a limit.

    `why_not`: a format, or `kv=FORMAT` of the cache → why it is not searched, None when it is.
    """
    caches, findings = _searched(book.cache_formats(wide), why_not, "kv=")
    table, more = _searched_table(book.table, why_not, wide)
    findings += more
    if table is None:
        return SearchedPlans((), (), (), (), tuple(findings))
    model = model_problem(device, shape, table, traffic=traffic, kv_formats=caches, is_ideal=is_ideal, wide=wide)
    findings += model.problem.findings
    if book.unused:
        findings.append(
            finding("losses-applied", shape.name, kind="unused", count=len(book.unused), part=book.unused[0])
        )
    results: list[FormatSearch | Exclusion] = []
    if book.losses.is_in_nats:
        results.append(_fastest(model, limits))
    if limits.time_s is not None or limits.phase_times_s or not book.losses.is_in_nats:
        results.append(_least_loss(model, limits, latency_share_of))
    if not book.losses.is_in_nats:
        findings.append(finding("losses-applied", kind="without-percent", unit=book.losses.unit))
    searches = tuple(result for result in results if isinstance(result, FormatSearch))
    excluded = tuple(result for result in results if isinstance(result, Exclusion))
    candidates = []
    for search in searches:
        plan = model.plan(search.choice.choices, label=search.label)
        candidates.append(CandidatePlan(search.label, "search", plan, plan_formats(plan, shape)))
    return SearchedPlans(tuple(candidates), searches, excluded, pareto_front(model.problem).points, tuple(findings))


def _fastest(model: ModelProblem, limits: Limits) -> FormatSearch | Exclusion:
    limit_pct = limits.loss_pct or 0.0
    allowed = loss_in_nats(limit_pct)
    time_s = least_time_s(model.problem, loss_value=allowed, memory_bytes=limits.memory_bytes)
    if time_s is None:
        return Exclusion(FASTEST, (finding("search-failed", FASTEST, kind="empty", limit_pct=limit_pct),))
    budgets = Budgets(time_s * (1 + _SLACK_RATIO), limits.memory_bytes)
    goal = finding("search-goal", FASTEST, kind="time", limit_pct=limit_pct, time_s=time_s)
    return FormatSearch(FASTEST, goal, choose_formats(model.problem, budgets), 1)


def _least_loss(
    model: ModelProblem, limits: Limits, latency_share_of: Callable[[FormatPlan], float]
) -> FormatSearch | Exclusion:
    goal = finding("search-goal", LEAST_LOSS, kind="loss-in-phases" if limits.phase_times_s else "loss")
    if limits.time_s is not None:
        goal = finding("search-goal", LEAST_LOSS, kind="loss-in-time", time_s=limits.time_s)
    budget_s, last = limits.time_s, None
    for at in range(1, MAX_PASSES + 1):
        choice = choose_formats(model.problem, Budgets(budget_s, limits.memory_bytes))
        if choice.plan is None:
            # Behind a first plan: it is too slow by a little, and the ranking says by how much.
            return last or Exclusion(LEAST_LOSS, tuple(map(_budget_miss, choice.misses)))
        last = FormatSearch(LEAST_LOSS, goal, choice, at)
        share = latency_share_of(model.plan(choice.choices))
        if share <= 1:
            return last
        # What the groups' sum leaves out, it leaves out of the next plan by the same factor.
        budget_s = choice.plan.time_s / share
    assert last is not None  # the loop runs at least once
    return last


def _budget_miss(miss: BudgetMiss) -> Finding:
    unit = "bytes" if miss.constraint == "memory" else "s"
    values = {
        f"value_{unit}": miss.least_value,
        f"limit_{unit}": miss.budget_value,
        f"excess_{unit}": miss.missed_value,
    }
    return finding("search-failed", LEAST_LOSS, kind=miss.constraint.replace(" ", "-"), **values)


def _searched_table(
    table: LossTable, why_not: Callable[[str], Finding | None], wide: str
) -> tuple[LossTable | None, list[Finding]]:
    """Return the table without the formats that are not searched, None when none is left, and why."""
    labels = {parse_formats(label).label for name, label in table.values if not name.endswith(".kv")} - {wide}
    searched, findings = _searched(sorted(labels), why_not)
    if not searched:
        return None, [*findings, finding("search-failed", kind="without-formats")]
    allowed = {*searched, wide}
    values = {
        (name, label): value
        for (name, label), value in table.values.items()
        if name.endswith(".kv") or parse_formats(label).label in allowed
    }
    return LossTable(values, table.source, table.confidence), findings


def _searched(
    labels: Iterable[str], why_not: Callable[[str], Finding | None], prefix: str = ""
) -> tuple[list[str], list[Finding]]:
    """Return the labels that are searched, and for each of the others that it is not, followed by why."""
    reasons = {label: why_not(f"{prefix}{label}") for label in labels}
    findings: list[Finding] = []
    for label, reason in reasons.items():
        if reason is not None:
            findings += [finding("search-failed", f"{prefix}{label}", kind="skipped"), reason]
    return [label for label, reason in reasons.items() if reason is None], findings
