"""The plan to take in place of a choice that loses much: what it costs in time, and which limit chooses it.

The order goes by time, and a loss decides between plans that are level alone. So the choice may lose much more than the
next plan that loses little; that one is told beside it, in a line. docs/pareto.md says why it is told and not taken.
"""

from __future__ import annotations

from collections.abc import Sequence

from roofline_model.model_choice.answer import GentlerPlan, ModelCandidate
from roofline_model.model_choice.ranking import in_order
from roofline_model.model_choice.time_kinds import is_comparable
from roofline_model.units import format_time

GENTLE_PCT = 3.0
"""A loss up to this is small: what was published of 8-bit weights and activations with an 8-bit cache is within it."""


def gentler_plan(
    chosen: ModelCandidate, ranked: Sequence[ModelCandidate], baseline: ModelCandidate
) -> GentlerPlan | None:
    """Return what a limit of `GENTLE_PCT` would choose of the ranked plans; None where the choice is within it, or nothing is."""
    if chosen.quality.loss_pct is None or chosen.quality.loss_pct <= GENTLE_PCT:
        return None
    gentle = in_order([one for one in ranked if _is_gentle(one)], baseline)
    if not gentle:
        return None
    first = gentle[0]
    is_alike = is_comparable(first.time_source, chosen.time_source)
    ratio = first.time_s / chosen.time_s if is_alike else None
    option = f"--max-quality-loss {GENTLE_PCT:g} (max_loss_pct in Python and the API)"
    return GentlerPlan(first, GENTLE_PCT, ratio, _text(first, chosen, ratio), option)


def _is_gentle(one: ModelCandidate) -> bool:
    """Return whether a plan keeps the limit, as `ranked_plans` holds it against it, and has known kernels."""
    losses = [one.quality.loss_pct, one.quality.at_least_pct]
    return (
        losses[0] is not None and all(loss <= GENTLE_PCT for loss in losses if loss is not None) and not one.kernel_gap
    )


def _text(one: ModelCandidate, chosen: ModelCandidate, ratio: float | None) -> str:
    cost = "" if ratio is None else f", {_times(ratio)} of {chosen.label}"
    loss = "which loses nothing" if one.quality.source == "reference" else f"loss {one.quality.text}"
    return f"gentler than {chosen.label}: {one.label}, {loss}, in {format_time(one.time_s)}{cost}"


def _times(ratio: float) -> str:
    """Return `1.31 times the time`; `the time` where they are equal in what is printed."""
    said = f"{ratio:.2f}"
    return "the time" if said == "1.00" else f"{said} times the time"
