"""How far a row can be trusted: high, medium or low, by a rule that can be read."""

from __future__ import annotations

from collections.abc import Sequence

from roofline_model.core.answer import CONFIDENCES, Confidence, Estimate
from roofline_model.core.finding import Finding, finding

LEAST_PROCESS_COUNT = 3
"""Processes a measured time needs for full confidence."""
WIDE_RATIO = 0.05
"""Half an interval beyond which a time is not stable: that of the flag `noisy`."""
OWN_PROVENANCES = frozenset({"fitted", "measured-here"})
"""Of expected times whose constants come from measurements of this very chip."""


def measured_confidence(
    process_count: int, half_width_ratio: float | None, doubts: Sequence[str], *, is_stale: bool
) -> tuple[Confidence, tuple[Finding, ...]]:
    """Return the confidence in a measured time, and why.

    high: at least three processes, an interval of at most ±5 %, no doubt, not stale. Each of these that is missed takes
    one step: too few processes; an interval that is wide, or unknown though there are enough processes to know it; a
    flag that puts the time in doubt; staleness. Simulated times are low.
    """
    if "simulated" in doubts:
        return "low", (finding("simulated"),)
    weak = []
    if process_count == 1:
        weak.append(finding("less-sure", kind="one-process"))
    elif process_count < LEAST_PROCESS_COUNT:
        weak.append(finding("less-sure", kind="few-processes", process_count=process_count))
    if half_width_ratio is None and process_count >= LEAST_PROCESS_COUNT:
        weak.append(finding("less-sure", kind="interval-unknown"))
    elif half_width_ratio is not None and half_width_ratio > WIDE_RATIO:
        weak.append(finding("less-sure", kind="interval-wide", half_width_ratio=half_width_ratio))
    if doubts:
        weak.append(finding("less-sure", kind="doubtful", doubts=tuple(doubts)))
    if is_stale:
        weak.append(finding("less-sure", kind="stale"))
    reasons = tuple(weak) or (finding("sure", kind="measured", process_count=process_count),)
    return CONFIDENCES[min(len(weak), 2)], reasons


def predicted_confidence(estimate: Estimate) -> tuple[Confidence, tuple[Finding, ...]]:
    """Return the confidence in a predicted time: medium for an expected one with an interval, from constants of this
    chip.
    """
    provenance = estimate.provenance or None
    if estimate.source == "ideal":
        return "low", (finding("less-sure", kind="ideal"),)
    has_interval = estimate.low_s is not None and estimate.high_s is not None
    if has_interval and estimate.provenance in OWN_PROVENANCES:
        return "medium", (finding("sure", kind="expected", provenance=provenance),)
    return "low", (
        finding("less-sure", kind="other-chips" if has_interval else "without-interval", provenance=provenance),
    )
