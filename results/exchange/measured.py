"""Measurements from what other programs report: all samples where they kept them, else the one figure they give."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from results.records.records import Measurement

STOP_REASON = "imported"
FLAGS = ("unchecked",)
"""Nobody told us whether the other program looked at its results."""


class SampleStatistics(NamedTuple):
    """Statistics of samples in seconds per call, named as the fields of a `Measurement`."""

    median_s: float
    mean_s: float
    std_s: float | None
    """Of the sample; None of a single one."""
    min_s: float
    q1_s: float
    q3_s: float
    max_s: float

    @classmethod
    def of(cls, samples_s: Sequence[float]) -> SampleStatistics:
        """Return the statistics of one sample or more."""
        ordered, count = sorted(samples_s), len(samples_s)
        mean_s = min(max(math.fsum(ordered) / count, ordered[0]), ordered[-1])
        return cls(
            median_s=statistics.median(ordered),
            mean_s=mean_s,
            std_s=math.dist(ordered, [mean_s] * count) / math.sqrt(count - 1) if count > 1 else None,
            min_s=ordered[0],
            q1_s=_quantile(ordered, 0.25),
            q3_s=_quantile(ordered, 0.75),
            max_s=ordered[-1],
        )


def from_samples(samples_s: Sequence[float], calls_per_sample: int) -> Measurement:
    """Return the measurement of samples in seconds per call; at least one."""
    of_samples = SampleStatistics.of(samples_s)
    return Measurement(
        samples_s=tuple(samples_s),
        calls_per_sample=calls_per_sample,
        median_s=of_samples.median_s,
        min_s=of_samples.min_s,
        max_s=of_samples.max_s,
        mean_s=of_samples.mean_s,
        std_s=of_samples.std_s,
        q1_s=of_samples.q1_s,
        q3_s=of_samples.q3_s,
        sample_count=len(samples_s),
        ci_low_s=None,
        ci_high_s=None,
        stop_reason=STOP_REASON,
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
