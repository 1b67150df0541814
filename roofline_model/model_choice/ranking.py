"""Which plan comes first: limits, then time with ties, known losses before unknown ones; and what must be said of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from roofline_model.model_choice.answer import ModelCandidate, RefusedPlan
from roofline_model.model_choice.limits import ModelLimits, limit_misses
from roofline_model.model_choice.time_kinds import CEILINGS, is_comparable
from roofline_model.quantization_engine import TIE_RATIO
from roofline_model.tie_ranking import by_time_with_ties
from roofline_model.units import format_time


def ranked_plans(
    weighed: Sequence[ModelCandidate], baseline: ModelCandidate, limits: ModelLimits
) -> tuple[list[ModelCandidate], list[RefusedPlan]]:
    """Return the plans in order, and those that miss a limit, the nearest first."""
    within, missed = [], []
    for one in weighed:
        loss_pct, loss_text = one.quality.loss_pct, one.quality.text
        at_least_pct = one.quality.at_least_pct
        if at_least_pct is not None and at_least_pct > limits.max_loss_pct:
            loss_pct, loss_text = at_least_pct, f"measured layers alone: {at_least_pct:.3g}%"
        misses = limit_misses(limits, one.memory.total_bytes, one.time_s, loss_pct, loss_text)
        if misses:
            text = "; ".join(miss.text for miss in misses)
            missed.append(RefusedPlan(one.label, text, tuple(misses), one))
        else:
            within.append(one)
    missed.sort(key=lambda one: one.worst_excess_ratio or 0.0)
    known = [one for one in within if one.quality.loss_pct is not None]
    unknown = [one for one in within if one.quality.loss_pct is None]
    return [*_in_order(known, baseline), *_in_order(unknown, baseline)], missed


def _in_order(candidates: Iterable[ModelCandidate], baseline: ModelCandidate) -> list[ModelCandidate]:
    """Sort by time with ties; plans whose time may not be compared with the baseline's come behind the others."""
    found = list(candidates)
    alike = [one for one in found if is_comparable(one.time_source, baseline.time_source)]
    others = [one for one in found if not is_comparable(one.time_source, baseline.time_source)]
    return [
        one
        for group in (alike, others)
        for one in by_time_with_ties(group, time_s=lambda one: one.time_s, better=_tie_key, tie_ratio=TIE_RATIO)
    ]


def _tie_key(one: ModelCandidate) -> tuple[float, float, float]:
    loss = one.quality.loss_pct
    return (one.quality.loss_value or 0.0) if loss is None else loss, one.memory.total_bytes, one.time_s


def choice_of(
    ranked: Sequence[ModelCandidate], missed: Sequence[RefusedPlan], refused: Sequence[RefusedPlan], limits: ModelLimits
) -> tuple[ModelCandidate | None, str]:
    """Return the plan to take, or what the nearest one misses."""
    if ranked and (ranked[0].quality.loss_pct is not None or not limits.is_loss_given):
        return ranked[0], ""
    if ranked:
        return None, (
            f"nothing is known to lose at most {limits.max_loss_pct:g} %: {ranked[0].label} meets the other limits, but its loss "
            f"is {ranked[0].quality.text}; measure it, or leave out the limit of the loss"
        )
    if not missed:
        return None, f"no plan can run here: {refused[0].label}: {refused[0].reason}"
    nearest = missed[0]
    others = ", ".join(dict.fromkeys(miss.limit for one in missed for miss in one.misses))
    return None, f"nothing meets the limits ({others}); nearest: {nearest.label}, which {nearest.reason}"


def notes_on_choice(chosen: ModelCandidate, ranked: Sequence[ModelCandidate], baseline: ModelCandidate) -> list[str]:
    """Return what must be known of the choice beside its figures: an unknown loss, and faster plans of unknown loss."""
    notes = []
    if chosen.quality.loss_pct is None:
        notes.append(
            f"the loss of {chosen.label} is {chosen.quality.text}: no plan whose loss is known meets the limits; measure it before use"
        )
    faster = [
        one for one in ranked
        if one.quality.loss_pct is None and one is not chosen and is_comparable(one.time_source, chosen.time_source)
        and one.time_s < chosen.time_s / (1 + TIE_RATIO)
    ]  # fmt: skip
    if faster and chosen.quality.loss_pct is not None:
        listed = ", ".join(f"{one.label} ({format_time(one.time_s)})" for one in faster[:3])
        notes.append(f"faster, but nobody knows what they lose: {listed}; measure one before you take it")
    untimed = [one.label for one in ranked if one.time_source == CEILINGS != baseline.time_source]
    if untimed:
        notes.append(
            f"{', '.join(untimed)}: their kernels were not timed on this machine; their times are what its ceilings allow, so "
            "they stand behind"
        )
    is_alike = is_comparable(chosen.time_source, baseline.time_source)
    if chosen.kind != "baseline" and is_alike and chosen.time_s > baseline.time_s:
        notes.append(f"{chosen.label} is slower than 16 bit; it is taken because 16 bit does not meet the limits")
    return notes
