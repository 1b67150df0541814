"""Formats layer by layer: the Pareto searches that a recommendation makes where losses are known.

Two goals. `pareto-fastest`: the least time within the limit of the loss and the memory, and of plans as fast the one that
loses least. `pareto-least-loss`: the least loss within the latency and the memory. The search adds times of groups up; the
plan it finds is predicted as a whole, and searched again with less time where that shows it to be too slow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from roofline_model.decoder.format_plan import FormatPlan
from roofline_model.decoder.model_shapes import ModelShape
from roofline_model.hardware import Device
from roofline_model.model_choice.answer import FormatSearch, RefusedPlan
from roofline_model.model_choice.limits import ModelLimits
from roofline_model.model_choice.plan_candidates import PlanCandidate
from roofline_model.model_choice.plan_formats import plan_formats
from roofline_model.model_choice.plan_quality import LossBook
from roofline_model.pareto.fastest import least_time_s
from roofline_model.pareto.front import FormatAssignment, pareto_front
from roofline_model.pareto.losses import LossTable, parse_formats
from roofline_model.pareto.losses_file import loss_in_nats
from roofline_model.pareto.model_problem import ModelProblem, TrafficShare, model_problem
from roofline_model.pareto.problem import Budgets
from roofline_model.pareto.search import choose_formats
from roofline_model.units import format_time

FASTEST, LEAST_LOSS = "pareto-fastest", "pareto-least-loss"
MAX_PASSES = 4
"""Searches for a plan that meets the latency as a whole."""
_SLACK_RATIO = 1e-9
"""A time budget that a plan was found for is given back this much wider: sums in another order differ."""


@dataclass(frozen=True, slots=True)
class SearchedPlans:
    """What the searches found."""

    candidates: tuple[PlanCandidate, ...]
    searches: tuple[FormatSearch, ...]
    refused: tuple[RefusedPlan, ...]
    front: tuple[FormatAssignment, ...]
    notes: tuple[str, ...]


NO_SEARCH = SearchedPlans((), (), (), (), ())


def search_plans(
    device: Device,
    shape: ModelShape,
    book: LossBook,
    *,
    wide: str,
    traffic: Sequence[TrafficShare],
    limits: ModelLimits,
    is_ideal: bool,
    time_of: Callable[[FormatPlan], float],
    why_not: Callable[[str], str],
) -> SearchedPlans:
    """Return the plans of least time and of least loss, and the whole front. `time_of`: time of a plan as a whole.

    `why_not`: a format, or `kv=FORMAT` of the cache → why it is not searched, empty when it is.
    """
    caches, notes = _kept(book.cache_formats(wide), why_not, "kv=")
    table, more = _searched_table(book.table, why_not, wide)
    notes += more
    if table is None:
        return SearchedPlans((), (), (), (), tuple(notes))
    model = model_problem(device, shape, table, traffic=traffic, kv_formats=caches, is_ideal=is_ideal, wide=wide)
    notes += model.problem.notes
    if book.unused:
        notes.append(
            f"losses of {len(book.unused)} parts that {shape.name} does not have are not used, e.g. {book.unused[0]}"
        )
    found: list[FormatSearch] = []
    refused: list[RefusedPlan] = []
    if book.losses.is_in_nats:
        _take(_fastest(model, limits), found, refused)
    if limits.max_latency_s is not None or not book.losses.is_in_nats:
        _take(_least_loss(model, limits, time_of), found, refused)
    if not book.losses.is_in_nats:
        notes.append(
            f"losses in {book.losses.unit} order formats but say nothing in percent: the search took the least score within "
            "the latency and the memory, and the limit of the loss was not applied to it"
        )
    candidates = []
    for one in found:
        plan = model.plan(one.choice.choices, label=one.label)
        candidates.append(PlanCandidate(one.label, "search", plan, plan_formats(plan, shape)))
    return SearchedPlans(
        tuple(candidates), tuple(found), tuple(refused), pareto_front(model.problem).points, tuple(notes)
    )


def _fastest(model: ModelProblem, limits: ModelLimits) -> FormatSearch | RefusedPlan:
    allowed = loss_in_nats(limits.max_loss_pct)
    time_s = least_time_s(model.problem, loss_value=allowed, memory_bytes=limits.memory_bytes)
    if time_s is None:
        return RefusedPlan(FASTEST, f"no plan within the memory loses at most {limits.max_loss_pct:g} %")
    budgets = Budgets(time_s * (1 + _SLACK_RATIO), limits.memory_bytes)
    goal = f"the least time at a loss of at most {limits.max_loss_pct:g} %: {format_time(time_s)}, which is the time budget below"
    return FormatSearch(FASTEST, goal, choose_formats(model.problem, budgets), 1)


def _least_loss(
    model: ModelProblem, limits: ModelLimits, time_of: Callable[[FormatPlan], float]
) -> FormatSearch | RefusedPlan:
    latency_s = limits.max_latency_s
    within = [
        *([] if latency_s is None else [format_time(latency_s)]),
        *(["the memory"] if limits.memory_bytes else []),
    ]
    goal = "the least loss" + (f" within {' and '.join(within)}" if within else "")
    budget_s, last = latency_s, None
    for at in range(1, MAX_PASSES + 1):
        choice = choose_formats(model.problem, Budgets(budget_s, limits.memory_bytes))
        if choice.plan is None:
            # Behind a first plan: it is too slow by a little, and the ranking says by how much.
            return last or RefusedPlan(LEAST_LOSS, "; ".join(str(miss) for miss in choice.misses))
        last = FormatSearch(LEAST_LOSS, goal, choice, at)
        time_s = time_of(model.plan(choice.choices))
        if latency_s is None or time_s <= latency_s:
            return last
        # What the groups' sum leaves out, it leaves out of the next plan by the same factor.
        budget_s = choice.plan.time_s * latency_s / time_s
    assert last is not None  # the loop runs at least once
    return last


def _take(one: FormatSearch | RefusedPlan, found: list[FormatSearch], refused: list[RefusedPlan]) -> None:
    if isinstance(one, RefusedPlan):
        refused.append(one)
    else:
        found.append(one)


def _searched_table(table: LossTable, why_not: Callable[[str], str], wide: str) -> tuple[LossTable | None, list[str]]:
    """Return the table without the formats that are not searched, None when none is left, and why."""
    labels = {parse_formats(label).label for name, label in table.values if not name.endswith(".kv")} - {wide}
    kept, notes = _kept(sorted(labels), why_not)
    if not kept:
        return None, [*notes, "nothing is left to search"]
    allowed = {*kept, wide}
    values = {
        (name, label): value
        for (name, label), value in table.values.items()
        if name.endswith(".kv") or parse_formats(label).label in allowed
    }
    return LossTable(values, table.source, table.confidence), notes


def _kept(labels: Iterable[str], why_not: Callable[[str], str], prefix: str = "") -> tuple[list[str], list[str]]:
    """Return the labels that are searched, and a note on each of the others."""
    reasons = {label: why_not(f"{prefix}{label}") for label in labels}
    return [label for label, reason in reasons.items() if not reason], [
        f"not searched: {prefix}{label}: {reason}" for label, reason in reasons.items() if reason
    ]
