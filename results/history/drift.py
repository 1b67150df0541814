"""Slow movement of a level: a slope too small for any one night, whose total counts. Deterministic. Pure; numpy, scipy
lazily.

Theil–Sen slope (the median of all pairwise slopes: P. K. Sen, J. Am. Stat. Assoc. 63 (1968) 1379) and the Mann–Kendall
test for a trend (H. B. Mann, Econometrica 13 (1945) 245), its variance corrected for autocorrelation of the ranks
around the trend as K. Hamed and A. R. Rao give it (J. Hydrology 204 (1998) 182): nights that resemble their neighbours
are fewer nights than they look. The test is repeated every night and a wandering machine shows slopes that mean
nothing, so the chance is small, and both halves of the nights have to move the same way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

LEAST_NIGHTS = 14
CHANCE = 1e-5
"""Two-sided, per look; by simulation, with the conditions below, at most 1 series of 100 unchanged ones in 60
nights.
"""
LEAST_SD = 2.0
"""The total movement is at least this many standard deviations of the nights around the trend."""
_MOST_LAGS = 20
_ROUNDING = 1e-9
_LEAST_HALF_SHARE = 0.2
"""Each half has to carry at least this share of the total: a step carries it all in one place, a bump takes it back."""


def find_trend(values: Sequence[float], *, least: float = 0.0) -> float | None:
    """Return the total of the slow movement of one level, its slope times its nights, or None where that may be chance.

    `values`: outliers drawn in; `least`: the smallest total that counts.
    """
    import numpy as np

    count = len(values)
    if count < LEAST_NIGHTS:
        return None
    series = np.asarray(values, dtype=float)
    slope, score = _theil_sen(series)
    total = slope * (count - 1)
    if total == 0 or abs(total) < least:
        return None
    around = series - slope * np.arange(count)
    spread = float(np.std(around, ddof=2))
    if abs(total) < LEAST_SD * spread or not _moves_throughout(series, total):
        return None
    # Around an exact line there is only rounding, and nothing to learn from its order.
    growth = _variance_growth(around) if spread > _ROUNDING * abs(total) else 1.0
    variance = count * (count - 1) * (2 * count + 5) / 18 * growth
    z = (abs(score) - 1) / math.sqrt(variance)
    return total if math.erfc(z / math.sqrt(2)) < CHANCE else None


def _theil_sen(series: NDArray[Any]) -> tuple[float, float]:
    """Return the median of the pairwise slopes, and Kendall's score: rising pairs minus falling ones."""
    import numpy as np

    first, second = np.triu_indices(len(series), 1)
    rises = series[second] - series[first]
    return float(np.median(rises / (second - first))), float(np.sign(rises).sum())


def _moves_throughout(series: NDArray[Any], total: float) -> bool:
    """Return whether each half rises (or falls) by its part: medians of thirds of the halves, so one night decides
    nothing.
    """
    import numpy as np

    thirds = [float(np.median(part)) for part in np.array_split(series, 3)]
    steps = [(later - earlier) / total for earlier, later in pairwise(thirds)]
    return min(steps) >= _LEAST_HALF_SHARE


def _variance_growth(around: NDArray[Any]) -> float:
    """Return n/n* of Hamed and Rao: 1 + 2 / (n (n−1)(n−2)) Σ (n−j)(n−j−1)(n−j−2) r_j, at least 1.

    r_j: autocorrelation of the ranks around the trend, corrected by 1/n for the mean and the slope that were taken out;
    up to the first lag at which it is no longer positive.
    """
    import numpy as np

    count = len(around)
    ranks = np.argsort(np.argsort(around, kind="stable"), kind="stable").astype(float)
    ranks -= ranks.mean()
    squares = float(np.sum(ranks**2))
    weighted = 0.0
    for lag in range(1, min(_MOST_LAGS, count // 3) + 1):
        correlation = float(np.sum(ranks[lag:] * ranks[:-lag])) / squares + 2 / count
        if correlation <= 0:
            break
        weighted += (count - lag) * (count - lag - 1) * (count - lag - 2) * correlation
    return 1 + 2 * weighted / (count * (count - 1) * (count - 2))
