"""Rules of a diff, and its verdicts and reasons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from results.records.flags import INVALIDATING_FLAGS
from roofline_model.core.errors import InvalidValueError

Verdict = Literal["SLOWER", "FASTER", "SAME", "AMBIGUOUS", "INVALID", "NEW", "GONE"]
VERDICTS: tuple[Verdict, ...] = ("SLOWER", "FASTER", "GONE", "NEW", "INVALID", "AMBIGUOUS", "SAME")
"""In the order they are told."""

REASONS = frozenset(
    (
        "more-cycles",
        "fewer-cycles",
        "clock-lower",
        "clock-higher",
        "significant",
        "no-difference",
        "below-minimum",
        "below-limit",
        "limit-unproven",
        "not-significant",
        "ranks-disagree",
        "few-processes",
        "too-noisy",
        "load-differs",
        "noise-unknown",
        "method-differs",
        *INVALIDATING_FLAGS,
        "absent",
        "skipped",
        "failed",
        "predicted",
    )
)
"""Reason codes of a verdict; the catalog of findings has their words."""

BUSY_REASONS = frozenset({"contended", "stolen", "shared-device"})
"""Those of them that are other work: measuring again on a quiet machine mends them."""
MACHINE_REASONS = BUSY_REASONS | {"quarantined", "capped"}
"""Reasons of INVALID that are the machine's."""


@dataclass(frozen=True, slots=True)
class DiffRules:
    """Rules of a comparison: minimum effect, limit, false-discovery rate. Ratios of the time: 0.05 is 5 %."""

    min_effect_ratio: float = 0.01
    """Share: smaller changes are never called; a case's own `threshold` takes its place, twice its noise floor raises
    it.
    """
    false_discovery_ratio: float = 0.01
    """Of the cases called SLOWER, the share that may be wrong; of those called FASTER too (Benjamini–Hochberg, each
    side).
    """
    limit_ratio: float = 0.05
    """SAME promises that no slow-down or speed-up beyond this is hidden; a case's own `threshold` takes its place."""
    asked_ratio: float = 0.0
    """The slow-down that a gate asks for (`slower:5%`): SLOWER needs its whole interval beyond it. 0: any."""

    def __post_init__(self) -> None:
        for name, value in (
            ("min_effect", self.min_effect_ratio),
            ("fdr", self.false_discovery_ratio),
        ):
            if not 0 < value < 1:
                raise InvalidValueError(f"{name} must be above 0 and below 1 (100 %), got {value:g}")
        if not 0 < self.limit_ratio < 10:
            raise InvalidValueError(f"limit must be above 0 and below 10 (1,000 %), got {self.limit_ratio:g}")
        if not 0 <= self.asked_ratio < 10:
            raise InvalidValueError(f"asked must be from 0 to below 10 (1,000 %), got {self.asked_ratio:g}")
