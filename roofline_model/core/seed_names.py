"""The original documents' names for the figures of a prediction: read-only, beside the SI fields that hold the
truth.
"""

from __future__ import annotations

from typing import Protocol


class _Figures(Protocol):
    """What the names stand for."""

    @property
    def time_s(self) -> float: ...

    @property
    def rate_flops_per_s(self) -> float: ...

    @property
    def bound(self) -> str: ...

    @property
    def intensity_flop_per_byte(self) -> float: ...

    @property
    def critical_intensity_flop_per_byte(self) -> float: ...


class SeedNames:
    """Adds the seeds' names to a prediction of one kernel, or of several in sequence."""

    __slots__ = ()

    @property
    def predicted_time_us(self: _Figures) -> float:
        """Time in µs (seeds' name)."""
        return self.time_s * 1e6

    @property
    def predicted_tflops(self: _Figures) -> float:
        """Rate in TFLOP/s (seeds' name)."""
        return self.rate_flops_per_s / 1e12

    @property
    def bottleneck(self: _Figures) -> str:
        """`memory` or `compute` (seeds' name)."""
        return self.bound

    @property
    def arithmetic_intensity(self: _Figures) -> float:
        """FLOP/byte (seeds' name)."""
        return self.intensity_flop_per_byte

    @property
    def critical_ai(self: _Figures) -> float:
        """FLOP/byte at the ridge (seeds' name)."""
        return self.critical_intensity_flop_per_byte
