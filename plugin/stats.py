"""Statistics of samples: pure functions of a list of seconds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class SampleStats:
    """Robust summary of one series of samples, seconds per call."""

    count: int
    median_s: float
    min_s: float
    max_s: float
    mean_s: float
    std_s: float | None
    q1_s: float
    q3_s: float
    ci_low_s: float | None
    ci_high_s: float | None

    @property
    def half_width_ratio(self) -> float | None:
        """Half the interval of the median over the median; None while there are too few samples for an interval."""
        if self.ci_low_s is None or self.ci_high_s is None or self.median_s <= 0:
            return None
        return (self.ci_high_s - self.ci_low_s) / 2 / self.median_s


def summarize(samples_s: Sequence[float]) -> SampleStats:
    """Return the summary of at least one sample; raises `ValueError` for none."""
    if not samples_s:
        raise ValueError("no samples to summarize")
    ordered = sorted(samples_s)
    count = len(ordered)
    mean = math.fsum(ordered) / count
    ranks = median_interval_ranks(count)
    return SampleStats(
        count=count,
        median_s=quantile(ordered, 0.5),
        min_s=ordered[0],
        max_s=ordered[-1],
        mean_s=mean,
        std_s=math.sqrt(math.fsum((x - mean) ** 2 for x in ordered) / (count - 1)) if count > 1 else None,
        q1_s=quantile(ordered, 0.25),
        q3_s=quantile(ordered, 0.75),
        ci_low_s=None if ranks is None else ordered[ranks[0]],
        ci_high_s=None if ranks is None else ordered[ranks[1]],
    )


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return a quantile of sorted values with linear interpolation (R's type 7, numpy's default)."""
    position = share * (len(ordered) - 1)
    low = math.floor(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


@lru_cache(maxsize=4096)
def median_interval_ranks(count: int, confidence: float = CONFIDENCE) -> tuple[int, int] | None:
    """Return the 0-based order statistics that bracket the median with at least `confidence`, or None below 6 samples.

    Distribution-free: the number of samples below the median is Binomial(n, ½), so [x(l), x(u)] covers it with
    P(l < B ≤ u). Symmetric ranks, the narrowest that hold. Source: H. A. David, H. N. Nagaraja, *Order Statistics*, §7.1.
    """
    tail = (1 - confidence) / 2
    low = -1
    cumulative = 0.0
    for k in range(count // 2 + 1):
        log_term = math.lgamma(count + 1) - math.lgamma(k + 1) - math.lgamma(count - k + 1) - count * math.log(2)
        cumulative += math.exp(log_term)
        if cumulative > tail:
            break
        low = k
    return None if low < 0 else (low, count - 1 - low)


def drift_ratio(samples_s: Sequence[float]) -> float | None:
    """Return how far the last third's median is from the first third's, relative to the first; None below 12 samples."""
    third = len(samples_s) // 3
    if third < 4:
        return None
    first = quantile(sorted(samples_s[:third]), 0.5)
    last = quantile(sorted(samples_s[-third:]), 0.5)
    return (last - first) / first if first > 0 else None
