"""Nights far off the rest: drawn in before anything is averaged, and counted, because they say what noise this is.
Pure.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

FENCE = 4.5
"""Nights further from the median of the nights before than this many robust standard deviations are drawn in to
there.
"""
NORMAL_MAD = 1.4826
"""Standard deviation of a normal distribution over its median absolute deviation: 1 / Φ⁻¹(0.75)."""
_LEAST_NIGHTS = 5
_OFTEN = 12
_HEAVY_FENCE = 3.8
_HEAVY_SHARE = 0.01
_HEAVY_KURTOSIS = 0.8
"""Excess kurtosis that 40 normal nights exceed in one case of ten; Student's t with three degrees of freedom in three
of four.
"""


def clip_to_fences(values: Sequence[float], least: float = 0.0) -> NDArray[Any]:
    """Return the series with every night clipped to the fence that the nights *before* it set.

    Looks back only: what is known of a night does not change when later ones follow. The robust spread is never taken
    as less than half the standard deviation, so that a series with two states keeps both. `least`: the smallest
    difference that counts: a night is never drawn in closer than three of them, so that exact figures (bytes) may
    change at all.
    """
    import numpy as np

    clipped = np.empty(len(values))
    ordered: list[float] = []
    total = squares = spread = 0.0
    for count, value in enumerate(values):
        if count >= _LEAST_NIGHTS:
            middle = _median(ordered)
            if count < _OFTEN or count % 4 == 0:
                deviation = max(squares / count - (total / count) ** 2, 0.0) ** 0.5
                spread = max(
                    NORMAL_MAD * _median(sorted(abs(neighbour - middle) for neighbour in ordered)), deviation / 2
                )
            fence = max(FENCE * spread, 3 * least)
            value = min(max(value, middle - fence), middle + fence)
        clipped[count] = value
        insort(ordered, value)
        # Around the first night: squares of numbers far from zero would lose the digits that matter.
        total += value - values[0]
        squares += (value - values[0]) ** 2
    return clipped


def is_heavy_tailed(values: NDArray[Any]) -> bool:
    """Return whether nights far off are usual in this series, so that two of them in a row mean little."""
    import numpy as np

    centred = values - values.mean()
    variance = float(np.mean(centred**2))
    if variance == 0:
        return False
    if float(np.mean(centred**4)) / variance**2 - 3 > _HEAVY_KURTOSIS:
        return True
    distances = np.abs(values - np.median(values))
    spread = NORMAL_MAD * float(np.median(distances))
    return int(np.count_nonzero(distances > _HEAVY_FENCE * spread)) > _HEAVY_SHARE * len(values)


def _median(ordered: Sequence[float]) -> float:
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
