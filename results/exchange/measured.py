"""Measurements from what other programs report: all samples where they kept them, else the one figure they give."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace

from results.records.records import Measurement

FLAGS = ("unchecked",)
"""Nobody told us whether the other program looked at its results."""


def from_samples(samples_s: Sequence[float], calls_per_sample: int) -> Measurement:
    """Return the measurement of samples in seconds per call; at least one. Of a single one no deviation is known."""
    ordered, count = sorted(samples_s), len(samples_s)
    mean_s = min(max(math.fsum(ordered) / count, ordered[0]), ordered[-1])
    return Measurement(
        samples_s=tuple(samples_s),
        calls_per_sample=calls_per_sample,
        median_s=statistics.median(ordered),
        min_s=ordered[0],
        max_s=ordered[-1],
        mean_s=mean_s,
        std_s=math.dist(ordered, [mean_s] * count) / math.sqrt(count - 1) if count > 1 else None,
        q1_s=_quantile(ordered, 0.25),
        q3_s=_quantile(ordered, 0.75),
        sample_count=count,
        ci_low_s=None,
        ci_high_s=None,
        stop_reason="imported",
        flags=FLAGS,
    )


def from_one_figure(time_s: float, calls_per_sample: int) -> Measurement:
    """Return a measurement of which only a mean or a median is known: one sample, and nothing about the spread."""
    return from_samples((time_s,), calls_per_sample)


def doubted(measurement: Measurement, least_s: float) -> Measurement:
    """Return a measurement, flagged `above-roof` where it is shorter than what its chip allows."""
    if measurement.median_s >= least_s:
        return measurement
    return replace(measurement, flags=(*measurement.flags, "above-roof"))


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Return the quantile by linear interpolation between order statistics (type 7 of Hyndman and Fan, 1996)."""
    position = share * (len(ordered) - 1)
    low = math.floor(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)
