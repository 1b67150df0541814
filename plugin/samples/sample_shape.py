"""What a median cannot say: whether the times drifted, fall into two groups, have a heavy tail, or follow each other.

Pure; nothing is dropped or repaired here. Thresholds are set so that plain noise (log-normal, heavy-tailed) raises a flag
in at most 2 % of series, and what a reader must know in at least 95 % (tests/plugin/timing/test_sample_shape.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from plugin.samples.stats import MAD_TO_STD, correlation_time, outlier_mask, rank_autocorrelation

if TYPE_CHECKING:
    import numpy as np

MIN_DRIFT_COUNT = 12
DRIFT_RATIO = 0.03
"""A drift smaller than this between the first and the last third is not worth a flag."""
DRIFT_SIGMAS = 3.3
MIN_SHAPE_COUNT = 20
"""Fewer samples cannot tell a tail or autocorrelation from chance."""
MIN_BIMODAL_COUNT = 40
"""Found in 95 % of series from about 100 samples on (70/30, 1.3 times apart, 5 % noise); fewer than 40 look lumpy by chance."""
BIMODAL_RATIO = 1.05
"""Two groups closer than this (their medians' ratio) are one for our purpose, or the ticks of the clock."""
BIMODAL_SEPARATION = 3.0
"""Distance of the groups' medians over the wider of their spreads (scaled MAD). Halves of a normal series have 2.2."""
BIMODAL_SHARE = 0.1
"""The smaller group holds at least this share; a smaller one is a tail."""
OUTLIER_SHARE = 0.05
AUTOCORRELATED_SIGMAS = 2.7
AUTOCORRELATION_TIME = 1.5
"""Below this the interval is widened by less than a quarter: not worth a flag."""


def shape_flags(samples_s: Sequence[float]) -> tuple[str, ...]:
    """Return those of drift, bimodal, outliers, autocorrelated that apply to a series in the order it was taken.

    The samples of a second group are not called outliers as well. None of them applies to fewer than 12 samples.
    """
    import numpy as np

    series = np.asarray(samples_s, dtype=np.float64)
    if len(series) < MIN_DRIFT_COUNT or series.min() <= 0 or series.min() == series.max():
        return ()
    flags = []
    if is_drifting(series):
        flags.append("drift")
    if is_bimodal(series):
        flags.append("bimodal")
    elif has_outliers(series):
        flags.append("outliers")
    if is_autocorrelated(series):
        flags.append("autocorrelated")
    return tuple(flags)


def drift_ratio(series: np.ndarray[Any, Any]) -> float:
    """Return how far the last third's median is from the first third's, relative to the first."""
    import numpy as np

    third = len(series) // 3
    first, last = float(np.median(series[:third])), float(np.median(series[-third:]))
    return (last - first) / first


def is_drifting(series: np.ndarray[Any, Any]) -> bool:
    """Whether the times rose or fell by more than 3 %, and more than noise of their kind would by chance.

    The correlation of ranks with time (Spearman), so that outliers weigh no more than others. Its variance 1/(n−1) is
    multiplied by the correlation time of what is left when the trend (a line or a step) is taken out, after Hamed and Rao, *A modified
    Mann-Kendall trend test for autocorrelated data* (1998).
    """
    import numpy as np

    count = len(series)
    if count < MIN_DRIFT_COUNT or abs(drift_ratio(series)) <= DRIFT_RATIO:
        return False
    ranks = _ranks(series)
    times = np.arange(count) - (count - 1) / 2
    trend = float(ranks @ times) / math.sqrt(float(ranks @ ranks) * float(times @ times))
    # Correlations of ranks exceed those of signs, which correlation_time sums, by up to a half.
    inflation = 1 + 1.5 * (correlation_time(_without_trend(ranks, times)) - 1)
    return abs(trend) * math.sqrt((count - 1) / inflation) > DRIFT_SIGMAS


def _without_trend(ranks: np.ndarray[Any, Any], times: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the ranks less a line or less one step, whichever leaves less: a clock that stepped did not glide."""
    import numpy as np

    line = ranks - times * (float(ranks @ times) / float(times @ times))
    count = len(ranks)
    sizes = np.arange(count // 10 + 1, count - count // 10)
    sums = np.cumsum(ranks)
    at = int(sizes[np.argmax(sums[sizes - 1] ** 2 / (sizes * (count - sizes)))])
    step = np.concatenate((ranks[:at] - ranks[:at].mean(), ranks[at:] - ranks[at:].mean()))
    return step if float(step @ step) < float(line @ line) else line


def is_bimodal(series: np.ndarray[Any, Any]) -> bool:
    """Whether the times fall into two groups with a valley between them, each of a tenth of the samples or more.

    The split of the logarithms with the least variance inside both groups (Otsu), then three conditions: medians 5 %
    apart, 3 spreads apart, and clearly fewer samples around their middle than around the median of either group. A tail
    fails the last: it thins out. Order plays no part, so modes that alternate in runs are found like mixed ones.
    """
    import numpy as np

    if len(series) < MIN_BIMODAL_COUNT:
        return False
    ordered = np.sort(np.log(series))
    split = _otsu_split(ordered)
    low, high = ordered[:split], ordered[split:]
    low_centre, high_centre = float(np.median(low)), float(np.median(high))
    distance = high_centre - low_centre
    if distance < math.log(BIMODAL_RATIO):
        return False
    if distance < BIMODAL_SEPARATION * max(_spread(low, low_centre), _spread(high, high_centre)):
        return False
    middle = (low_centre + high_centre) / 2
    fewest = min(_count_near(ordered, centre, 0.2 * distance) for centre in (low_centre, high_centre))
    # Half as wide, counted twice: a wider look at the middle would reach into both groups.
    between = 2 * _count_near(ordered, middle, 0.1 * distance)
    return 2 * between < fewest and fewest - between > 1.5 * math.sqrt(fewest + between)


def has_outliers(series: np.ndarray[Any, Any]) -> bool:
    """Whether more than 5 % of the samples lie beyond median ± 5 scaled MAD (`stats.outlier_mask`), by more than chance.

    Their number less its standard error is what counts: three far samples of 25 are no proof of a tail of 5 %.
    """
    import numpy as np

    outlier_count = int(np.count_nonzero(outlier_mask(series)))
    return len(series) >= MIN_SHAPE_COUNT and outlier_count - math.sqrt(outlier_count) > OUTLIER_SHARE * len(series)


def is_autocorrelated(series: np.ndarray[Any, Any]) -> bool:
    """Whether successive samples resemble each other beyond chance, and enough to widen the interval."""
    count = len(series)
    if count < MIN_SHAPE_COUNT or rank_autocorrelation(series, 1) < AUTOCORRELATED_SIGMAS / math.sqrt(count):
        return False
    return correlation_time(series) >= AUTOCORRELATION_TIME


def _ranks(series: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return centred ranks; equal samples share one."""
    import numpy as np

    ordered = np.sort(series)
    left = np.searchsorted(ordered, series, "left")
    right = np.searchsorted(ordered, series, "right")
    return np.asarray((left + right - len(series)) / 2, dtype=np.float64)


def _otsu_split(ordered: np.ndarray[Any, Any]) -> int:
    """Return how many of the sorted values go into the lower of two groups, both of `BIMODAL_SHARE` at least."""
    import numpy as np

    count = len(ordered)
    centre = float(np.median(ordered))
    spread = MAD_TO_STD * float(np.median(np.abs(ordered - centre)))
    tame = np.clip(ordered, centre - 10 * spread, centre + 10 * spread) if spread > 0 else ordered
    fewest = max(2, math.ceil(BIMODAL_SHARE * count))
    sizes = np.arange(fewest, count - fewest + 1)
    sums = np.cumsum(tame - tame.mean())
    # Between-group variance of a split at k of centred values: S(k)² · n / (k (n − k)).
    return int(sizes[np.argmax(sums[sizes - 1] ** 2 / (sizes * (count - sizes)))])


def _count_near(ordered: np.ndarray[Any, Any], centre: float, reach: float) -> int:
    import numpy as np

    first, last = np.searchsorted(ordered, (centre - reach, centre + reach))
    return int(last - first)


def _spread(values: np.ndarray[Any, Any], centre: float) -> float:
    import numpy as np

    return MAD_TO_STD * float(np.median(np.abs(values - centre)))
