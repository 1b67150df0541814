"""80 % intervals: factors on the expected time by regime, and how they widen when constants are transferred.

A regime is the number of rows (m ≤ 16, 17 to 256, more) and whether the launch floor rules (time ≤ 1.6 floors) or the body.
Factors are the 10 % and 90 % quantiles of measured over predicted, on rows the constants were not fitted on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from roofline_model.errors import InvalidValueError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

REGIMES = ("m16-floor", "m16-body", "m256-floor", "m256-body", "large-floor", "large-body")
FLOOR_RATIO = 1.6
"""Up to this multiple of the launch floor a call is ruled by it."""
SIBLING_DRIFT = 0.05
"""Log error added in quadrature to a sibling's own interval: another chip of the family, another clock and memory."""


@dataclass(frozen=True, slots=True)
class IntervalTable:
    """Low and high factor for each of `REGIMES`, in that order."""

    low: tuple[float, ...]
    high: tuple[float, ...]

    def __post_init__(self) -> None:
        for low, high, regime in zip(self.low, self.high, REGIMES, strict=True):
            if not 0 < low <= 1 <= high < math.inf:
                raise InvalidValueError(f"interval {regime}: need 0 < low ≤ 1 ≤ high, got {low} and {high}")

    @classmethod
    def from_pairs(cls, pairs: Mapping[str, tuple[float, float]]) -> IntervalTable:
        """Return the table of a mapping regime → (low, high); raises `InvalidValueError` for a missing or unknown one."""
        if set(pairs) != set(REGIMES):
            odd = sorted(set(pairs) ^ set(REGIMES))
            raise InvalidValueError(
                f"interval needs exactly {', '.join(REGIMES)}; missing or unknown: {', '.join(odd)}"
            )
        return cls(tuple(float(pairs[name][0]) for name in REGIMES), tuple(float(pairs[name][1]) for name in REGIMES))

    def pairs(self) -> dict[str, tuple[float, float]]:
        """Return the table as regime → (low, high)."""
        return {name: (low, high) for name, low, high in zip(REGIMES, self.low, self.high, strict=True)}

    def bounds(self, M: Floats, time_s: Floats, launch_s: float) -> tuple[Floats, Floats]:
        """Return (low, high) seconds of predictions of `M` rows whose launch floor is `launch_s`."""
        import numpy as np

        regime = regimes_of(M, time_s, launch_s)
        return time_s * np.take(self.low, regime), time_s * np.take(self.high, regime)

    def widened(self, other: IntervalTable, share: float) -> IntervalTable:
        """Return this table widened in quadrature of logs by `share` of `other`: two independent sources of error."""

        def joined(mine: float, theirs: float, sign: int) -> float:
            return math.exp(sign * math.hypot(math.log(mine), share * math.log(theirs)))

        return IntervalTable(
            tuple(joined(a, b, -1) for a, b in zip(self.low, other.low, strict=True)),
            tuple(joined(a, b, +1) for a, b in zip(self.high, other.high, strict=True)),
        )


def regimes_of(M: Floats, time_s: Floats, launch_s: float) -> NDArray[np.intp]:
    """Return the index into `REGIMES` of each prediction."""
    import numpy as np

    rows = np.searchsorted((16, 256), M, side="left")
    return np.asarray(2 * rows + (time_s > FLOOR_RATIO * launch_s), dtype=np.intp)


# 10 and 90 % quantiles of measured over predicted when the constants come from other families: every chip of the 18,000
# rows left out in turn (2026-11-21), rounded outwards. WO: weight-only kernels. NVFP4: from the other class.
ACROSS_FAMILIES: dict[str, IntervalTable] = {
    "BF16": IntervalTable((0.75, 0.88, 0.75, 0.84, 0.76, 0.83), (1.32, 1.23, 1.34, 1.22, 1.31, 1.22)),
    "FP8": IntervalTable((0.88, 0.85, 0.89, 0.84, 0.88, 0.83), (1.15, 1.15, 1.14, 1.17, 1.21, 1.21)),
    "NVFP4": IntervalTable((0.69, 0.76, 0.68, 0.75, 0.78, 0.84), (1.45, 1.26, 1.46, 1.24, 1.63, 1.27)),
    "WO": IntervalTable((0.65, 0.81, 0.69, 0.79, 0.74, 0.82), (1.55, 1.45, 1.35, 1.35, 1.32, 1.24)),
}


def across_families(kernel_family: str) -> IntervalTable:
    """Return the factors for constants of another GPU family."""
    return ACROSS_FAMILIES.get(kernel_family, ACROSS_FAMILIES["WO"])


def for_sibling(own: IntervalTable, kernel_family: str) -> IntervalTable:
    """Return the factors for another chip of a calibrated family, whose own factors are `own`.

    The sibling keeps the model's errors on single shapes (`own`) and adds a drift of its own; never narrower than half
    (in logs) of what a change of family costs. A judgement: the rows hold no sibling pair.
    """
    row = across_families(kernel_family)
    low = tuple(
        math.exp(-max(math.hypot(math.log(a), SIBLING_DRIFT), -0.5 * math.log(b)))
        for a, b in zip(own.low, row.low, strict=True)
    )
    high = tuple(
        math.exp(max(math.hypot(math.log(a), SIBLING_DRIFT), 0.5 * math.log(b)))
        for a, b in zip(own.high, row.high, strict=True)
    )
    return IntervalTable(low, high)
