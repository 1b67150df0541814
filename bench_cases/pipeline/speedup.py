"""How many times faster a candidate was measured than the 16-bit model, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from bench_cases.pipeline.records import MeasuredCase, ProcessTime

CONFIDENCE_RATIO = 0.95


@dataclass(frozen=True, slots=True)
class MeasuredSpeedup:
    """Time of the 16-bit model over that of the candidate, both of the same processes, with a 95 % interval."""

    value: float
    low_value: float | None
    """None: too few samples to say."""
    high_value: float | None
    processes_count: int

    @property
    def is_faster(self) -> bool:
        """Whether the candidate is faster beyond the noise."""
        return self.low_value is not None and self.low_value > 1

    @property
    def is_slower(self) -> bool:
        """Whether the candidate is slower beyond the noise."""
        return self.high_value is not None and self.high_value < 1

    def __str__(self) -> str:
        if self.low_value is None or self.high_value is None:
            return f"{_times(self.value)}× (too few samples)"
        return f"{_times(self.value)}× [{_times(self.low_value)}, {_times(self.high_value)}]"


def measured_speedup(baseline: MeasuredCase, candidate: MeasuredCase) -> MeasuredSpeedup | None:
    """Return the geometric mean over processes of the ratios of medians; None when no process measured both.

    The interval is the wider of two: what the ratios of fresh processes differ by (Student's t on their logarithms, from
    two processes on), and what the medians' own intervals inside the processes allow.
    """
    base, own = _by_process(baseline.times), _by_process(candidate.times)
    shared = [process for process in base if process in own]
    if not shared:
        return None
    logs = [math.log(base[one].median_s / own[one].median_s) for one in shared]
    count = len(logs)
    mean = math.fsum(logs) / count
    inside = _inside([(base[one], own[one]) for one in shared])
    between = None if count < 2 else _between(logs, mean)
    known = [half for half in (inside, between) if half is not None]
    if not known:
        return MeasuredSpeedup(math.exp(mean), None, None, count)
    half = max(known)
    return MeasuredSpeedup(math.exp(mean), math.exp(mean - half), math.exp(mean + half), count)


def _by_process(times: Iterable[ProcessTime]) -> dict[int, ProcessTime]:
    return {time.process: time for time in times}


def _between(logs: list[float], mean: float) -> float:
    """Return the half-width of the mean's interval from the spread of the processes."""
    from scipy.special import stdtrit

    count = len(logs)
    sd = math.sqrt(math.fsum((log - mean) ** 2 for log in logs) / (count - 1))
    return float(stdtrit(count - 1, (1 + CONFIDENCE_RATIO) / 2)) * sd / math.sqrt(count)


def _inside(pairs: list[tuple[ProcessTime, ProcessTime]]) -> float | None:
    """Return the half-width of the mean's interval from those of the medians, taken as independent."""
    halves = []
    for pair in pairs:
        widths = [_log_half(one) for one in pair]
        known = [width for width in widths if width is not None]
        if len(known) < len(widths):
            return None
        halves.append(math.hypot(*known))
    return math.hypot(*halves) / len(halves)


def _log_half(one: ProcessTime) -> float | None:
    if one.low_s is None or one.high_s is None or not 0 < one.low_s <= one.median_s <= one.high_s:
        return None
    # The farther end: the interval of a median is not symmetric, and neither side may be told too narrow.
    return max(math.log(one.high_s / one.median_s), math.log(one.median_s / one.low_s))


def _times(value: float) -> str:
    return f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"
