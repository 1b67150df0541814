"""Measurements from what other programs report: all samples where they kept them, else the one figure they give."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from results.records.records import Measurement

STOP_REASON = "imported"
FLAGS = ("unchecked",)
"""Nobody told us whether the other program looked at its results."""


def from_samples(samples_s: Sequence[float], calls_per_sample: int, *, std_s: float | None = None) -> Measurement:
    """Return the statistics of samples in seconds per call; at least one. `std_s`: where the program gave its own."""
    ordered = sorted(samples_s)
    spread = statistics.stdev(ordered) if std_s is None and len(ordered) > 1 else std_s
    return Measurement(
        samples_s=tuple(samples_s),
        calls_per_sample=calls_per_sample,
        median_s=statistics.median(ordered),
        min_s=ordered[0],
        max_s=ordered[-1],
        mean_s=min(max(math.fsum(ordered) / len(ordered), ordered[0]), ordered[-1]),
        std_s=spread,
        q1_s=_quantile(ordered, 0.25),
        q3_s=_quantile(ordered, 0.75),
        sample_count=len(ordered),
        ci_low_s=None,
        ci_high_s=None,
        stop_reason=STOP_REASON,
        flags=FLAGS,
    )


def from_one_figure(time_s: float, calls_per_sample: int) -> Measurement:
    """Return a measurement of which only a mean or a median is known: one sample, and nothing about the spread."""
    return from_samples((time_s,), calls_per_sample)


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Return the quantile by linear interpolation between order statistics (type 7 of Hyndman and Fan, 1996)."""
    position = share * (len(ordered) - 1)
    low = math.floor(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)
