"""What a recommendation is made of: a time, a candidate format, the ranked answer."""

from __future__ import annotations

import math
from dataclasses import dataclass

from roofline_model.errors import InvalidValueError


@dataclass(frozen=True, slots=True)
class TimeEstimate:
    """A better time than the ideal one for a case, and where it comes from."""

    time_s: float
    source: str
    """measured, expected, …; never `ideal`, which is the time this one replaces."""
    low_s: float | None = None
    high_s: float | None = None
    provenance: str = ""
    """Of an expected time: fitted, transferred-sibling, …; empty where the source says it all."""

    def __post_init__(self) -> None:
        if not 0 < self.time_s < math.inf:
            raise InvalidValueError(
                f"time_s of a TimeEstimate must be a positive number of seconds, got {self.time_s!r}"
            )


@dataclass(frozen=True, slots=True)
class Candidate:
    """One format for the product, with its time, its memory and why it stands where it stands."""

    precision: str
    """Format key of the weight; names the candidate."""
    weight_format: str
    activation_format: str
    method: str
    """none, PTQ, AWQ, native_fp8, native_mxfp8, native_fp4, …, or weight_only."""
    path: str
    """native, emulated or dequantize."""
    time_s: float
    time_source: str
    """ideal, or the source that `times` gave."""
    ideal_s: float
    speedup: float
    """Against the 16-bit baseline, from times of the same source; ideal against ideal where the sources differ."""
    ideal_speedup: float
    """Against the 16-bit baseline, ideal against ideal."""
    memory_bytes: float
    """What has to fit: the weights of the whole model if its parameters are known, else A, B and C of this product."""
    memory_saved_ratio: float
    """Share of the 16-bit weight bytes that is saved."""
    bound: str
    quality: str
    reason: str
    low_s: float | None = None
    """One time in ten is expected below, one above `high_s`; None where the source of the time gives no interval."""
    high_s: float | None = None
    time_provenance: str = ""
    """Of an expected time: fitted, transferred-sibling, …"""
    kernel_gap: str = ""
    """Why no kernel is known to run it on the chip; such a candidate stands behind all others. Empty for the others."""
    engine_gap: str = ""
    """Which serving engines lack a kernel for it here, where a library has one (`serving_kernels.engine_gap`)."""
    loss_pct: float | None = None
    """Upper end of what was published of its loss, 0 for 16 bit; None where nobody knows."""


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The ranked answer for one shape on one chip."""

    hardware: str
    M: int
    N: int
    K: int
    phase: str
    candidates: tuple[Candidate, ...]
    """Best first; only those that fit the memory limit (or the smallest one, if none fits)."""
    excluded: tuple[tuple[str, str], ...]
    """(format, reason) of everything that was asked for or declared but cannot be recommended."""
    baseline: Candidate
    """The 16-bit candidate that speed-ups refer to, whether it fits or not."""
    notes: tuple[str, ...] = ()
    misfit: str = ""
    """Empty, or that nothing fits the memory limit and by how much the smallest candidate misses."""

    @property
    def fits(self) -> bool:
        """Whether the best candidate fits the memory limit; True without a limit."""
        return not self.misfit

    @property
    def best(self) -> Candidate:
        """The recommended candidate; the smallest one when nothing fits (see `fits`)."""
        return self.candidates[0]

    @property
    def precision(self) -> str:
        """Recommended format key."""
        return self.best.precision

    @property
    def method(self) -> str:
        """How to get there: PTQ, AWQ, native_fp8, …"""
        return self.best.method

    @property
    def speedup(self) -> float:
        """Speed-up of the recommendation over 16 bit."""
        return self.best.speedup

    @property
    def predicted_time_us(self) -> float:
        """Time of the recommendation in µs (seeds' name)."""
        return self.best.time_s * 1e6

    @property
    def memory_savings_pct(self) -> float:
        """Saved share of the 16-bit weight bytes in percent (seeds' name)."""
        return self.best.memory_saved_ratio * 100

    @property
    def reason(self) -> str:
        """Why this format."""
        return self.best.reason

    def __str__(self) -> str:
        if self.misfit:
            return self.misfit
        if self.best.precision == self.baseline.precision:
            return f"stay at {self.best.precision}"
        return f"{self.precision} ({self.method}) {speedup_words(self.speedup, self.baseline.precision, why_slower='needed for the memory limit')}"


def speedup_words(speedup: float, wide: str, *, why_slower: str) -> str:
    """Return `3.5x speedup`, `as fast as BF16` within 1 %, or a slowdown and why it is taken.

    >>> speedup_words(3.52, "FP16", why_slower=""), speedup_words(1.003, "BF16", why_slower="")
    ('3.5x speedup', 'as fast as BF16')
    >>> speedup_words(0.82, "BF16", why_slower="needed for the memory limit")
    '0.8x the speed of BF16, needed for the memory limit'
    """
    if abs(speedup - 1) < 0.01:
        return f"as fast as {wide}" + (f", {why_slower}" if speedup < 1 else "")
    said = f"{speedup:.2f}x" if 0.95 <= speedup < 1.05 else f"{speedup:.1f}x"
    return f"{said} speedup" if speedup > 1 else f"{said} the speed of {wide}, {why_slower}"
