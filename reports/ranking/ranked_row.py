"""A ranked configuration of a shape, and the ranking it stands in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from reports.text.display_text import shown
from results.verdicts.gain import times_faster
from roofline_model.core.answer import Loss
from roofline_model.core.finding import Finding, first_with, optional_text

Source = Literal["measured", "expected", "ideal"]
"""As of an `Estimate`; what this machine's ceilings allow is told as expected."""


@dataclass(frozen=True, slots=True)
class RankedRow:
    """One configuration in the ranking of a shape."""

    rank: int
    label: str
    weight_format: str
    activation_format: str
    kernel: str | None
    """None: no kernel of the run; the model proposes the format."""
    method: str
    path: str
    source: Source
    time_s: float
    interval_ratio: float | None
    """± of a measured time: over processes where their spread is known, else the widest inside one of them."""
    ideal_s: float | None
    speedup: float | None
    """Over the baseline: measured over measured, expected over expected or ideal over ideal; None without a baseline."""
    memory_saved_ratio: float | None
    """Share of the weight's 16-bit bytes that the format saves."""
    loss: Loss
    reason_rest: str
    """Why it stands here, but for a measured speed-up."""
    record_ids: tuple[str, ...]
    """The stored records behind the row."""
    doubts: tuple[str, ...] = ()
    """The flags of its measurements that put the time in doubt, in the order they are explained."""
    case_key: str = ""
    """Of the stored case; empty where the model proposes the format."""
    low_s: float | None = None
    """Lower end of the interval: 95 % of a measured time, 80 % of an expected one; None where none is known."""
    high_s: float | None = None
    memory_bytes: float | None = None
    """Compulsory bytes of a call: of a product its operands; None without a prediction."""
    expected_s: float | None = None
    """Expected time, where one is known."""
    provenance: str = ""
    """Of an expected time: fitted, transferred-sibling, measured-here, …"""
    findings: tuple[Finding, ...] = ()
    """`kernel-gap` where no kernel is known to run it on the chip, unless it was measured."""

    @property
    def kernel_gap(self) -> str:
        """Why no kernel is known to run it on the chip; empty for the others."""
        return shown(optional_text(first_with(self.findings, "kernel-gap")) or "")

    is_gain: bool = False
    """Whether the reason begins with the measured speed-up."""

    @property
    def reason(self) -> str:
        """Why it stands here."""
        if not self.is_gain or self.speedup is None:
            return self.reason_rest
        return f"measured {times_faster(self.speedup)} {self.reason_rest}"

    @property
    def is_emulated(self) -> bool:
        """True when software stands in for a missing unit, whose cost an ideal time leaves out."""
        return self.path == "emulated" or (self.kernel or "").endswith("_emulated")


@dataclass(frozen=True, slots=True)
class ShapeRecommendation:
    """The ranking of one shape on one chip."""

    hardware_key: str
    op: str
    shape_label: str
    cache: str
    mode: str
    phase: str
    """decode, prefill, or empty for operators that are no products."""
    baseline_label: str
    """What speed-ups are counted against; empty when the run has no 16-bit or FP32 configuration."""
    rows: tuple[RankedRow, ...]
    excluded: tuple[tuple[str, str], ...]
    """(configuration or format, why it is not ranked)."""
    summary: str
    baseline_doubts: tuple[str, ...] = ()
    """Flags that put the baseline's measured time, and so every measured speed-up here, in doubt."""

    def is_speedup_doubtful(self, row: RankedRow) -> bool:
        """Whether a row's measured speed-up rests on a baseline in doubt; `row.doubts` tells of its own time."""
        return bool(self.baseline_doubts) and row.source == "measured" and row.label != self.baseline_label

    @property
    def best(self) -> RankedRow | None:
        """The first row, or None when nothing could be ranked."""
        return self.rows[0] if self.rows else None
