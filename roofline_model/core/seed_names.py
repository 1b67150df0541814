"""The original documents' names for the figures of a prediction: read-only, beside the SI fields that hold the
truth.
"""

from __future__ import annotations

from typing import Any


class SeedNames:
    """Adds the seeds' names to a prediction of one kernel, or of several in sequence: what has the SI fields below."""

    __slots__ = ()

    @property
    def predicted_time_us(self: Any) -> float:
        """Time in µs (seeds' name)."""
        return float(self.time_s * 1e6)

    @property
    def predicted_tflops(self: Any) -> float:
        """Rate in TFLOP/s (seeds' name)."""
        return float(self.rate_flops_per_s / 1e12)

    @property
    def bottleneck(self: Any) -> str:
        """`memory` or `compute` (seeds' name)."""
        return str(self.bound)

    @property
    def arithmetic_intensity(self: Any) -> float:
        """FLOP/byte (seeds' name)."""
        return float(self.intensity_flop_per_byte)

    @property
    def critical_ai(self: Any) -> float:
        """FLOP/byte at the ridge (seeds' name)."""
        return float(self.critical_intensity_flop_per_byte)
