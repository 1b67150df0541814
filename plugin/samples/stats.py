"""Statistics of samples: pure functions of a list of seconds. The interval of the median knows autocorrelation.

Successive timings resemble each other (clocks, heat, neighbours), so n samples are worth n/τ independent ones. τ is
read from the series itself; the order statistics that bracket the median move apart by √τ.

The shape of a sample says what a median cannot: whether the times drifted, fall into two groups, have a heavy tail, or
follow each other. Nothing is dropped or repaired here. Thresholds are set so that plain noise (log-normal,
heavy-tailed) raises a flag in at most 2 % of series, and what a reader must know in at least 95 %
(tests/plugin/samples/test_sample_shape.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from results.records.records import Measurement
from roofline_model.core.units import counted

if TYPE_CHECKING:
    import numpy as np


CONFIDENCE = 0.95
NORMAL_QUANTILE = 1.959963984540054
"""Standard normal quantile of (1 + CONFIDENCE) / 2."""
MIN_INTERVAL_COUNT = 6
"""Five samples bracket the median with 1 − 2/2⁵ = 93.75 % only."""
OUTLIER_MADS = 5.0
"""An outlier is farther from the median than this many scaled median absolute deviations …"""
OUTLIER_FLOOR_RATIO = 0.01
"""… and than this share of the median: in a series of equal times the first odd nanosecond is no outlier."""
MAD_TO_STD = 1.4826
"""Standard deviation of normal noise over its median absolute deviation."""
_MIN_CORRELATION_COUNT = 8
_DIRECT_LAGS = 31
"""Autocorrelations up to here are dot products; beyond, one FFT gives all of them."""


@dataclass(frozen=True, slots=True)
class MedianEstimate:
    """The median, its 95 % interval and what the samples are worth."""

    median_s: float
    low_s: float | None
    high_s: float | None
    effective_count: float
    """Independent samples that would give as narrow an interval: count / τ."""

    @property
    def half_width_ratio(self) -> float | None:
        """Half the interval over the median; None while the samples do not span an interval."""
        if self.low_s is None or self.high_s is None or self.median_s <= 0:
            return None
        return (self.high_s - self.low_s) / 2 / self.median_s


def summarize(samples_s: Sequence[float]) -> Measurement:
    """Return the statistics of at least one sample, of one call each; every sample counts. Raises `ValueError` for
    none.
    """
    import numpy as np

    if not len(samples_s):
        raise ValueError("no samples to summarize")
    series = np.asarray(samples_s, dtype=np.float64)
    estimate = estimate_median(series)
    ordered = np.sort(series)
    mean = math.fsum(series) / len(series)
    return Measurement(
        samples_s=tuple(samples_s),
        calls_per_sample=1,
        median_s=estimate.median_s,
        min_s=float(ordered[0]),
        max_s=float(ordered[-1]),
        mean_s=mean,
        std_s=math.sqrt(float(np.sum((series - mean) ** 2)) / (len(series) - 1)) if len(series) > 1 else None,
        q1_s=quantile(ordered, 0.25),
        q3_s=quantile(ordered, 0.75),
        sample_count=len(series),
        ci_low_s=estimate.low_s,
        ci_high_s=estimate.high_s,
        stop_reason="",
        effective_sample_count=estimate.effective_count,
        outlier_count=int(np.count_nonzero(outlier_mask(series))),
    )


def estimate_median(samples_s: Sequence[float] | np.ndarray[Any, Any]) -> MedianEstimate:
    """Return the median with its interval at `CONFIDENCE`, in the order the samples were taken; one sample at least.

    The interval is None below six samples, and where the series is so autocorrelated that its samples do not span one.
    The half width in ranks is that of independent samples × √τ × t/z: Student's t in place of the normal quantile, with
    half the effective count as degrees of freedom, because τ itself is estimated. About 0.6 ms for 10,000 samples.
    """
    import numpy as np

    series = np.asarray(samples_s, dtype=np.float64)
    count = len(series)
    order = np.argsort(series)
    ordered = series[order]
    centre = (count - 1) / 2
    median = _at_rank(ordered, centre)
    if count < MIN_INTERVAL_COUNT:
        return MedianEstimate(median, None, None, float(count))
    inflation = _correlation_time(_centred_ranks(order, ordered))
    half = independent_half_rank(count) * math.sqrt(inflation)
    if inflation > 1:
        half *= _student_over_normal(count / inflation / 2)
    if half > centre:
        return MedianEstimate(median, None, None, count / inflation)
    return MedianEstimate(median, _at_rank(ordered, centre - half), _at_rank(ordered, centre + half), count / inflation)


def quantile(ordered: Sequence[float] | np.ndarray[Any, Any], share: float) -> float:
    """Return a quantile of sorted values with linear interpolation (R's type 7, numpy's default)."""
    return _at_rank(ordered, share * (len(ordered) - 1))


def outlier_mask(series: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return which samples are outliers: beyond median ± 5 scaled MAD, and beyond 1 % of the median.

    The MAD, not the standard deviation: a tail must not hide itself by widening the measure it is held against.
    """
    import numpy as np

    centre = float(np.median(series))
    distance = np.abs(series - centre)
    spread = MAD_TO_STD * float(np.median(distance))
    mask: np.ndarray[Any, Any] = distance > max(OUTLIER_MADS * spread, OUTLIER_FLOOR_RATIO * abs(centre))
    return mask


@lru_cache(maxsize=4096)
def independent_half_rank(count: int) -> float:
    """Return the half width, in ranks, of the median's interval for `count` ≥ 6 independent samples.

    The number of samples below the median is Binomial(n, ½), so the interval between the order statistics l and n−1−l
    (from 0) covers with 1 − 2·P(B ≤ l). Coverage jumps from rank to rank; between the last that holds and the next it
    is interpolated as in Hettmansperger and Sheather, *Confidence intervals based on interpolated order statistics*
    (1986), so that a few samples do not buy width. Beyond 400 samples the normal approximation is within 0.1 rank.
    """
    if count < MIN_INTERVAL_COUNT:
        raise ValueError(f"no interval of the median from {counted(count, 'sample')}; {MIN_INTERVAL_COUNT} are needed")
    if count > 400:
        return NORMAL_QUANTILE * math.sqrt(count) / 2
    below = math.ldexp(1.0, -count)  # P(B ≤ 0)
    low, covered = 0, 1 - 2 * below
    while True:
        below += math.comb(count, low + 1) / 2**count
        narrower = 1 - 2 * below
        if narrower < CONFIDENCE:
            break
        low, covered = low + 1, narrower
    share = (covered - CONFIDENCE) / (covered - narrower)
    inner = low + 1
    weight = (count - inner) * share / (inner + (count - 2 * inner) * share)
    return (count - 1) / 2 - (low + weight)


def rank_autocorrelation(series: np.ndarray[Any, Any], lag: int) -> float:
    """Return the autocorrelation of the ranks at one lag: what one wild sample cannot hide or fake.

    0 for equal values.
    """
    return _Autocorrelation(_ranks(series)).at(lag, lag + 1)[0]


def correlation_time(samples: Sequence[float] | np.ndarray[Any, Any]) -> float:
    """Return τ of a series: how many successive samples are worth one independent one; 1 for independent samples."""
    import numpy as np

    return _correlation_time(_ranks(np.asarray(samples, dtype=np.float64)))


def _at_rank(ordered: Sequence[float] | np.ndarray[Any, Any], position: float) -> float:
    low = math.floor(position)
    high = min(low + 1, len(ordered) - 1)
    return float(ordered[low] + (ordered[high] - ordered[low]) * (position - low))


def _ranks(series: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    order = series.argsort()
    return _centred_ranks(order, series[order])


def _centred_ranks(order: np.ndarray[Any, Any], ordered: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return each sample's rank minus the mean rank; equal samples share one (else their order would look like a
    trend).
    """
    import numpy as np

    count = len(order)
    shared = np.arange(count, dtype=np.float64)
    edges = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    if len(edges) < count - 1:
        bounds = np.concatenate(([0], edges, [count]))
        shared = np.repeat((bounds[:-1] + bounds[1:] - 1) / 2, np.diff(bounds))
    ranks = np.empty(count)
    ranks[order] = shared - (count - 1) / 2
    return ranks


class _Autocorrelation:
    """Autocorrelations of a centred series, computed as far as they are asked for."""

    def __init__(self, centred: np.ndarray[Any, Any]) -> None:
        self._centred = centred
        self._power = float(centred @ centred)
        self._all: np.ndarray[Any, Any] | None = None

    @property
    def is_constant(self) -> bool:
        """Whether all values are equal: nothing to correlate."""
        return self._power <= 0

    def at(self, first: int, last: int) -> np.ndarray[Any, Any]:
        """Return the coefficients of the lags first … last−1, each over the pairs that it has."""
        import numpy as np

        count = len(self._centred)
        if self.is_constant:
            return np.zeros(last - first)
        if last - 1 <= _DIRECT_LAGS:
            sums = np.array([float(self._centred[:-lag] @ self._centred[lag:]) for lag in range(first, last)])
        else:
            if self._all is None:
                size = _smooth_size(count + count // 2)
                spectrum = np.fft.rfft(self._centred, size)
                self._all = np.fft.irfft(spectrum.real**2 + spectrum.imag**2, size)
            sums = self._all[first:last]
        pairs: np.ndarray[Any, Any] = count - np.arange(first, last)
        return np.asarray(sums / self._power * (count / pairs))


def _correlation_time(centred_ranks: np.ndarray[Any, Any]) -> float:
    """Return τ = 1 + 2 Σ ρ(k) of the sign series around the median, which is what widens the median's interval.

    Lags are taken in blocks 1, 2–3, 4–7, … that are summed while their mean stays positive (the first: above its
    standard error), none counting more than the one before: Geyer's initial monotone sequence (*Practical Markov chain
    Monte Carlo*, 1992) with blocks that grow, so that slow noise under fast noise is found. Rank correlation ρs becomes
    sign correlation by 2/π · asin(2 sin(π ρs / 6)), exact for a Gaussian copula and less noisy than the signs
    themselves. An AR(1) process with the same first lag is a lower bound: its tail drowns in noise when samples are
    few. Estimating the mean makes every coefficient too small by about τ/n, which is put back, three rounds.
    """
    count = len(centred_ranks)
    correlation = _Autocorrelation(centred_ranks)
    if count < _MIN_CORRELATION_COUNT or correlation.is_constant:
        return 1.0
    blocks: list[np.ndarray[Any, Any]] = []
    factor = 1.0
    for _ in range(3):
        old_factor = factor
        factor = min(1 + 2 * _summed_blocks(correlation, blocks, count, min(factor / count, 0.4)), count / 2)
        if factor <= 1 or abs(factor - old_factor) < 0.02 * old_factor:
            break
    return max(1.0, factor)


def _summed_blocks(correlation: _Autocorrelation, blocks: list[np.ndarray[Any, Any]], count: int, lift: float) -> float:
    import numpy as np

    total, at_least, ceiling = 0.0, 0.0, math.inf
    number = 0
    while (1 << number) <= count // 3:
        if len(blocks) == number:
            blocks.append(correlation.at(1 << number, min(2 << number, count // 2 + 1)))
        values = np.minimum(blocks[number] * (1 - lift) + lift, 1.0)
        mean = float(values.mean())
        if mean <= (0.0 if number else 1 / math.sqrt(count)):
            break
        if mean > ceiling:
            values *= ceiling / mean
        ceiling = min(mean, ceiling)
        if not number:
            at_least = _ar1_sum(2 * math.sin(math.pi * mean / 6))
        total += float(np.sum(_sign_correlation(2 * np.sin(np.pi * values / 6))))
        number += 1
    return max(total, at_least) if number else 0.0


def _ar1_sum(coefficient: float) -> float:
    """Return Σ of the sign correlations of an AR(1) process over all lags."""
    import numpy as np

    coefficient = min(coefficient, 0.99)
    lags = int(7 / -math.log(coefficient)) + 2
    return float(np.sum(_sign_correlation(coefficient ** np.arange(1, lags))))


def _sign_correlation(latent: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    import numpy as np

    return np.asarray(2 / np.pi * np.arcsin(np.clip(latent, -1, 1)))


def _student_over_normal(freedom: float) -> float:
    """Return the quantile of Student's t over the normal one, by its expansion (Abramowitz and Stegun 26.7.5)."""
    z, v = NORMAL_QUANTILE, max(freedom, 1.5)
    t = z + (z**3 + z) / (4 * v) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * v**2)
    t += (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * v**3)
    return t / z


def _smooth_size(least: int) -> int:
    """Return the next length that an FFT is fast at: 2ᵃ, 3·2ᵃ or 5·2ᵃ."""
    power = 1 << (least - 1).bit_length()
    return min(size for size in (power, power * 3 // 4, power * 5 // 8) if size >= least)


MIN_DRIFT_COUNT = 12
DRIFT_RATIO = 0.03
"""A drift smaller than this between the first and the last third is not worth a flag."""
DRIFT_SIGMAS = 3.3
MIN_SHAPE_COUNT = 20
"""Fewer samples cannot tell a tail or autocorrelation from chance."""
MIN_BIMODAL_COUNT = 40
"""Found in 95 % of series from about 100 samples on (70/30, 1.3 times apart, 5 % noise); fewer than 40 look lumpy by
chance.
"""
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
    """Return the flags (drift, bimodal, outliers, autocorrelated) of a series in the order of its samples.

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


def is_drifting(series: np.ndarray[Any, Any]) -> bool:
    """Whether the times rose or fell by more than 3 %, and more than noise of their kind would by chance.

    The correlation of ranks with time (Spearman), so that outliers weigh no more than others. Its variance 1/(n−1) is
    multiplied by the correlation time of what is left when the trend (a line or a step) is taken out, after Hamed and
    Rao, *A modified Mann-Kendall trend test for autocorrelated data* (1998).
    """
    import numpy as np

    count, third = len(series), len(series) // 3
    first, last = np.median(series[:third]), np.median(series[-third:])
    if abs(last - first) <= DRIFT_RATIO * first:
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
    """Whether more than 5 % of the samples lie beyond median ± 5 scaled MAD (`stats.outlier_mask`), by more than
    chance.

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
