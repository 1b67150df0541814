"""What a diff decides by, and the words it decides in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from roofline_model.errors import InvalidValueError

Verdict = Literal["SLOWER", "FASTER", "SAME", "AMBIGUOUS", "INVALID", "NEW", "GONE"]
VERDICTS: tuple[Verdict, ...] = ("SLOWER", "FASTER", "GONE", "NEW", "INVALID", "AMBIGUOUS", "SAME")
"""In the order they are told."""

REASONS: dict[str, str] = {
    "more-cycles": "at an unchanged clock, or beyond what the clock explains: the code or what it calls changed",
    "fewer-cycles": "beyond what the clock explains: the code or what it calls changed",
    "clock-lower": "at equal cycles: the clock was lower, not the code slower",
    "clock-higher": "at equal cycles: the clock was higher, not the code faster",
    "significant": "beyond noise; no clock is known on both sides, so code and clock cannot be told apart",
    "no-difference": "no change of the minimum effect, and none beyond the limit can be hidden in the noise",
    "below-minimum": "a change is there, but smaller than the minimum effect",
    "not-significant": "a change as large as the minimum effect was seen, which noise makes as often in a suite of this size",
    "ranks-disagree": "the means differ, the order of the processes does not: one or two processes carry the change",
    "few-processes": "so few processes cannot tell a slow process from a slow kernel; three a side can (--roofline-processes 3), or a stored noise floor (`roofline doctor --noise`)",
    "too-noisy": "a change beyond the limit can be hidden in the noise",
    "noise-unknown": "one process a side and no stored noise floor: nothing says how far fresh processes differ; --roofline-processes 3 or `roofline doctor --noise` tells",
    "method-differs": "the two sides were measured by different methods",
    "contended": "other processes used the CPUs meanwhile: repeat on a quiet machine",
    "stolen": "the hypervisor gave the CPUs away",
    "shared-device": "another process used the GPU",
    "capped": "the clock was held down in every try",
    "quarantined": "the canary kernel beside it ran slow: the machine was in a slow state",
    "above-roof": "a time that no kernel of this work can have",
    "absent": "the other run does not have the case",
    "skipped": "the case was skipped there",
    "failed": "the case failed there",
    "predicted": "the case was only predicted there",
}
"""Reason code of a verdict → what it says."""

INVALIDATING_FLAGS = ("quarantined", "capped", "contended", "stolen", "shared-device", "above-roof")
"""Flags of a measurement that a diff does not use: the state of the machine or a wrong count of work, not the code. The
other doubtful flags (noisy, drift, bimodal, …) are in the spread that the test knows, and are only told."""

MACHINE_REASONS = frozenset({"quarantined", "capped", "contended", "stolen", "shared-device"})
"""Reasons of INVALID that are the machine's."""


@dataclass(frozen=True, slots=True)
class DiffRules:
    """What counts as a change. Ratios are of the time: 0.05 is 5 %."""

    min_effect_ratio: float = 0.01
    """Smaller changes are never called; a case's own `threshold` takes its place, twice its noise floor raises it."""
    false_discovery_ratio: float = 0.05
    """Of the cases called SLOWER, the share that may be wrong; of those called FASTER too (Benjamini–Hochberg, each side)."""
    limit_ratio: float = 0.05
    """SAME promises that no slow-down or speed-up beyond this is hidden; a case's own `threshold` takes its place."""

    def __post_init__(self) -> None:
        for name, value in (
            ("min_effect", self.min_effect_ratio),
            ("fdr", self.false_discovery_ratio),
            ("limit", self.limit_ratio),
        ):
            if not 0 < value < 1:
                raise InvalidValueError(f"{name} must be above 0 and below 1 (100 %), got {value:g}")
