"""How far a row can be trusted: high, medium or low, by a rule that can be read."""

from __future__ import annotations

from collections.abc import Sequence

from reports.text.display_text import counted
from results.statistics.replication import width_text
from roofline_model.core.answer import CONFIDENCES, Confidence, Estimate

LEAST_PROCESS_COUNT = 3
"""Processes a measured time needs for full confidence."""
WIDE_RATIO = 0.05
"""Half an interval beyond which a time is not stable: that of the flag `noisy`."""
OWN_PROVENANCES = frozenset({"fitted", "measured-here"})
"""Of expected times whose constants come from measurements of this very chip."""


def measured_confidence(
    process_count: int, half_width_ratio: float | None, doubts: Sequence[str], stale_reason: str
) -> tuple[Confidence, str]:
    """Return the confidence in a measured time, and why.

    high: at least three processes, an interval of at most ±5 %, no doubt, not stale. Each of these that is missed takes one
    step: too few processes; an interval that is wide, or unknown though there are enough processes to know it; a flag that
    puts the time in doubt; staleness. Simulated times are low.
    """
    weak = []
    if process_count < LEAST_PROCESS_COUNT:
        weak.append(f"{counted(process_count, 'process', 'processes')} only")
    if half_width_ratio is None and process_count >= LEAST_PROCESS_COUNT:
        weak.append("interval unknown")
    elif half_width_ratio is not None and half_width_ratio > WIDE_RATIO:
        weak.append(f"interval ±{width_text(half_width_ratio)}")
    if doubts:
        weak.append(f"doubtful ({', '.join(doubts)})")
    if stale_reason:
        weak.append("stale")
    if "simulated" in doubts:
        return "low", "times of a simulated timer"
    said = f"measured in {counted(process_count, 'process', 'processes')}, stable" if not weak else ", ".join(weak)
    return CONFIDENCES[min(len(weak), 2)], said


def predicted_confidence(estimate: Estimate, *, is_doubtful: bool = False) -> tuple[Confidence, str]:
    """Return the confidence in a predicted time: medium for an expected one with an interval, from constants of this chip.

    `is_doubtful`: these constants were measured on a busy machine.
    """
    provenance = estimate.provenance or "of unknown source"
    if estimate.source == "ideal":
        return "low", "ideal time only, the speed of light"
    if is_doubtful:
        return "low", f"expected, {provenance} on a busy machine"
    has_interval = estimate.low_s is not None and estimate.high_s is not None
    if has_interval and estimate.provenance in OWN_PROVENANCES:
        return "medium", f"expected, {provenance}, with an 80 % interval"
    return "low", f"expected, {provenance}{'' if has_interval else ', without an interval'}"
