"""Which plan comes first: limits, then the time it most likely keeps, known losses before unknown ones; and what must be said of it.

Plans go by the one rule for predictions, `tie_ranking.order_predictions`; a checkpoint that was published narrow stays unless
it is clearly slower (`_published_first`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from roofline_model.model_choice.answer import ModelCandidate, RefusedPlan
from roofline_model.model_choice.limits import ModelLimits, limit_misses
from roofline_model.model_choice.time_kinds import CEILINGS, is_comparable
from roofline_model.recommend.ranking import LEVEL_RATIO, Standing, are_level_predictions, order_predictions
from roofline_model.units import format_time


def ranked_plans(
    weighed: Sequence[ModelCandidate], baseline: ModelCandidate, limits: ModelLimits
) -> tuple[list[ModelCandidate], list[RefusedPlan]]:
    """Return the plans in order, and those that miss a limit, the nearest first."""
    within, missed = [], []
    for one in weighed:
        loss_pct, loss_text = one.quality.loss_pct, one.quality.text
        at_least_pct, source, metric = one.quality.at_least_pct, one.quality.source, one.quality.claimed_metric
        if at_least_pct is not None and at_least_pct > limits.max_loss_pct:
            loss_pct, loss_text = at_least_pct, f"measured layers alone: {at_least_pct:.3g}%"
            source, metric = "measured", ""
        misses = limit_misses(limits, one.memory.total_bytes, one.time_s, loss_pct, loss_text, source, metric)
        if misses:
            text = "; ".join(miss.text for miss in misses)
            missed.append(RefusedPlan(one.label, text, tuple(misses), one))
        else:
            within.append(one)
    missed.sort(
        key=lambda one: (one.candidate is not None and bool(one.candidate.kernel_gap), one.worst_excess_ratio or 0.0)
    )
    known = [one for one in within if one.quality.loss_pct is not None]
    unknown = [one for one in within if one.quality.loss_pct is None]
    ordered = [*in_order(known, baseline), *_by_the_rule(unknown, baseline)]
    return sorted(ordered, key=lambda one: bool(one.kernel_gap)), missed  # stable: the order above within each half


def in_order(known: Iterable[ModelCandidate], baseline: ModelCandidate) -> list[ModelCandidate]:
    """Return plans of known loss in the order of the recommendation."""
    return _published_first(_by_the_rule(known, baseline))


def _published_first(ordered: list[ModelCandidate]) -> list[ModelCandidate]:
    """Put a checkpoint that was published narrow before what is not clearly faster: it has to be neither made nor measured.

    Clearly: expected more than `LEVEL_RATIO` faster, and its 80 % interval ends before that of the checkpoint begins.
    """
    published = next((one for one in ordered if one.kind == "published"), None)
    if published is None or published is ordered[0] or not is_comparable(published.time_source, ordered[0].time_source):
        return ordered
    if _is_clearly_slower(published, ordered[0]):
        return ordered
    return [published, *(one for one in ordered if one is not published)]


def _is_clearly_slower(one: ModelCandidate, other: ModelCandidate) -> bool:
    return one.time_s > other.time_s * (1 + LEVEL_RATIO) and _begins_s(one) > other.prudent_s


def _by_the_rule(candidates: Iterable[ModelCandidate], baseline: ModelCandidate) -> list[ModelCandidate]:
    """Sort by the one rule for predictions; plans whose time may not be compared with the baseline's come behind the others."""
    found = list(candidates)
    alike = [one for one in found if is_comparable(one.time_source, baseline.time_source)]
    others = [one for one in found if not is_comparable(one.time_source, baseline.time_source)]
    return [one for group in (alike, others) for one in order_predictions(group, _standing)]


def _standing(one: ModelCandidate) -> Standing:
    return Standing(one.time_s, one.low_s, one.high_s, _known_loss(one), one.memory.total_bytes)


def _known_loss(one: ModelCandidate) -> float | None:
    """Return the loss in percent; of those whose loss nobody knows, which are ranked apart, the score without data."""
    return one.quality.loss_value if one.quality.loss_pct is None else one.quality.loss_pct


def choice_of(
    ranked: Sequence[ModelCandidate], missed: Sequence[RefusedPlan], refused: Sequence[RefusedPlan], limits: ModelLimits
) -> tuple[ModelCandidate | None, str]:
    """Return the plan to take, or what the nearest one misses; a plan without a known kernel is never taken."""
    if ranked and ranked[0].kernel_gap:  # such plans stand last: all others miss a limit
        one = ranked[0]
        return None, (
            f"nothing runs within the limits; {one.label} would take {format_time(one.time_s)}, if a serving kernel existed: {one.kernel_gap}"
        )
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
    """Return what must be known of the choice beside its figures: its loss, its kernels, and why not a faster plan."""
    notes = [
        *_notes_on_memory(chosen),
        *_notes_on_loss(chosen),
        *_notes_on_faster(chosen, ranked),
        *_notes_on_standing(chosen, ranked),
    ]
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


def notes_on_kernels(ranked: Sequence[ModelCandidate]) -> list[str]:
    """Say of each ranked plan without a known kernel, one that was named or published so, that it has none."""
    return [f"warning: {one.label} stands last: {one.kernel_gap}" for one in ranked if one.kernel_gap]


def notes_on_claims(ranked: Sequence[ModelCandidate], model: str) -> list[str]:
    """Say whose models the claimed losses of the ranked plans are of; nothing where none is a claim."""
    claimed = [one for one in ranked if one.quality.source == "claimed"]
    own = [one.label for one in claimed if one.quality.is_of_model]
    others = [one.label for one in claimed if not one.quality.is_of_model]
    if not claimed:
        return []
    whose = "of other models, in part or whole"
    if not own:
        said = f"claimed losses are {whose}"
    elif len(others) < len(own):
        said = f"claimed losses were published of {model}" + (
            f", those of {', '.join(others)} {whose}" if others else ""
        )
    else:
        said = f"claimed losses of {', '.join(own)} were published of {model}, the others {whose}"
    return [f"{said} (sources: docs/quality.md, --json); losses of yours, measured, replace them"]


def notes_on_baseline(baseline: ModelCandidate, limits: ModelLimits) -> list[str]:
    """Say what a speed-up is against where 16 bit does not keep the memory."""
    misses = limit_misses(limits, baseline.memory.total_bytes, 0.0, None, "")
    return [
        f"{baseline.label} {one.text}: it cannot run here, and speed-ups are against the time it would take with enough memory"
        for one in misses
    ]


def _notes_on_memory(chosen: ModelCandidate) -> list[str]:
    """Say that a limit above the chip's own memory let in what does not fit one chip."""
    memory = chosen.memory
    if memory.fits is not False or memory.capacity_bytes is None:
        return []
    needed, there = memory.total_bytes / 1e9, memory.capacity_bytes / 1e9
    return [
        f"{chosen.label} needs {needed:.4g} GB, and the chip has {there:.4g} GB: the memory limit that was given is above that"
    ]


def _notes_on_loss(chosen: ModelCandidate) -> list[str]:
    """Say of an unknown loss that nobody knows it, and of a claimed one whose it is."""
    loss = chosen.quality.loss_pct
    if loss is None:
        return [
            f"the loss of {chosen.label} is {chosen.quality.text}: no plan whose loss is known meets the limits; measure it before use"
        ]
    if chosen.quality.source != "claimed":
        return []
    whose = "published of this model" if chosen.quality.is_of_model else "published of other models, in part or whole"
    return [f"the loss of {chosen.label} is {chosen.quality.text}, {whose}: measure it on yours (roofline losses)"]


def _notes_on_faster(chosen: ModelCandidate, ranked: Sequence[ModelCandidate]) -> list[str]:
    """Say why a plan of a shorter expected time is not taken: its interval ends later, it loses more, or nobody knows its loss."""
    faster = [
        one
        for one in ranked
        if one is not chosen
        and not one.kernel_gap
        and is_comparable(one.time_source, chosen.time_source)
        and one.time_s < chosen.time_s
    ]
    notes = []
    unknown = [one for one in faster if one.quality.loss_pct is None and one.time_s < chosen.time_s / (1 + LEVEL_RATIO)]
    if unknown and chosen.quality.loss_pct is not None:
        listed = ", ".join(f"{one.label} ({format_time(one.time_s)})" for one in unknown[:3])
        notes.append(f"faster, but nobody knows what they lose: {listed}; measure one before you take it")
    known = [one for one in faster if one.quality.loss_pct is not None]
    if known and chosen.quality.loss_pct is not None:
        listed = "; ".join(f"{one.label} ({format_time(one.time_s)}): {_why_behind(one, chosen)}" for one in known[:3])
        notes.append(f"expected faster than {chosen.label} ({format_time(chosen.time_s)}), and not taken: {listed}")
    return notes


def _notes_on_standing(chosen: ModelCandidate, ranked: Sequence[ModelCandidate]) -> list[str]:
    """Say of which kernel the expected times of weight-only plans are, where the choice is one or one is within its reach."""
    near = [
        one
        for one in ranked
        if one.stands_for
        and not one.kernel_gap
        and is_comparable(one.time_source, chosen.time_source)
        and (one is chosen or _begins_s(one) <= chosen.prudent_s)
    ]
    if not near:
        return []
    names = ", ".join(one.label for one in near[:3]) + (f" and {len(near) - 3} more" if len(near) > 3 else "")
    return [f"expected times of weight-only products ({names}): {near[0].stands_for}"]


def _begins_s(one: ModelCandidate) -> float:
    """Return the lower end of a plan's interval; its time where it has none."""
    return one.time_s if one.low_s is None else one.low_s


def _why_behind(one: ModelCandidate, chosen: ModelCandidate) -> str:
    """Say why a plan of a shorter expected time stands behind the chosen one."""
    if chosen.kind == "published":
        return f"not clearly (their 80 % intervals overlap, or within 5 %), and {chosen.label} is published as it is, without a loss"
    if one.prudent_s > chosen.prudent_s * (1 + LEVEL_RATIO):
        return (
            f"less certain, its 80 % interval ends at {format_time(one.prudent_s)}, not {format_time(chosen.prudent_s)}"
        )
    if not are_level_predictions(_standing(one), _standing(chosen)):
        return "behind a plan that is surer"
    within = "level: the end of the interval and the expected time within 5 %"
    if (one.quality.loss_pct or 0.0) > (chosen.quality.loss_pct or 0.0):
        return f"{within}, and its loss is larger"
    return f"{within}, and it takes more memory" if one.memory.total_bytes > chosen.memory.total_bytes else within
