"""Arithmetic of sensor readings: update period, power integral, and energy between the steps of a counter. Pure.

Times are seconds of one clock, in order; a reading that failed is None and left out.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

DROPPED_READINGS = 10
"""The first readings after a pause come late (zeus, `monitor/power.py`)."""
MIN_STEPS = 10
"""A source that changed less often within a window is too slow for it."""
EDGE_STEPS = 3
"""How many steps the first and last change may lie from the window's ends before the counter counts as standing
still.
"""
MAX_HOLE_S = 0.5
"""Longest stretch without a power reading that an integral may bridge."""


@dataclass(frozen=True, slots=True)
class Edge:
    """One step of a counter: when it happened, known to ± half the time between the readings around it."""

    time_s: float
    energy_j: float
    uncertainty_s: float


def change_times_s(times_s: Sequence[float], values: Sequence[float | None], drop: int = 0) -> list[float]:
    """Return when a reading first differed from the one before it."""
    points = [(time_s, value) for time_s, value in zip(times_s, values, strict=True) if value is not None][drop:]
    return [after[0] for before, after in itertools.pairwise(points) if after[1] != before[1]]


def infer_period_s(
    times_s: Sequence[float], values: Sequence[float | None], drop: int = DROPPED_READINGS
) -> float | None:
    """Return how often a sensor updates: the shortest interval between changes, or None below three changes.

    An interval below half the median is no update but a late reading that saw its change with the next one's, and is
    left out. Source: zeus `monitor/power.py` (1000 fast reads, drop 10, minimum), with that guard added.
    """
    changes = change_times_s(times_s, values, drop)
    intervals = sorted(after - before for before, after in itertools.pairwise(changes))
    if len(intervals) < 2:
        return None
    median = intervals[len(intervals) // 2]
    return min(interval for interval in intervals if interval >= median / 2)


def integrate_j(
    times_s: Sequence[float], powers_w: Sequence[float | None], begin_s: float, end_s: float
) -> float | None:
    """Return the trapezoidal integral of power over a window, or None where more than `MAX_HOLE_S` of it is unknown.

    Power at the window's ends is interpolated from the readings around them, or held where there is none outside.
    """
    finite = [(t, p) for t, p in zip(times_s, powers_w, strict=True) if p is not None and math.isfinite(p)]
    inside = [(t, p) for t, p in finite if begin_s < t < end_s]
    if end_s <= begin_s or not inside:
        return None
    before = next((point for point in reversed(finite) if point[0] <= begin_s), None)
    after = next((point for point in finite if point[0] >= end_s), None)
    points = [_at(begin_s, before, inside[0]), *inside, _at(end_s, inside[-1], after)]
    if max(right[0] - left[0] for left, right in itertools.pairwise(points)) > MAX_HOLE_S:
        return None
    return math.fsum((right[0] - left[0]) * (left[1] + right[1]) / 2 for left, right in itertools.pairwise(points))


def _at(time_s: float, left: tuple[float, float] | None, right: tuple[float, float] | None) -> tuple[float, float]:
    """Return the point at `time_s` between two readings, at least one of which is given."""
    if left is None or right is None or right[0] - left[0] > MAX_HOLE_S:
        near = [point for point in (left, right) if point is not None]
        return time_s, min(near, key=lambda point: abs(point[0] - time_s))[1]
    share = 0.0 if right[0] == left[0] else (time_s - left[0]) / (right[0] - left[0])
    return time_s, left[1] + share * (right[1] - left[1])


def counter_edges(times_s: Sequence[float], counters_j: Sequence[float | None]) -> list[Edge] | None:
    """Return the steps of an energy counter, or None when it ran backwards (the driver was reloaded)."""
    points = [(t, value) for t, value in zip(times_s, counters_j, strict=True) if value is not None]
    edges = []
    for (before_s, before_j), (now_s, now_j) in itertools.pairwise(points):
        if now_j < before_j:
            return None
        if now_j > before_j:
            half_gap_s = (now_s - before_s) / 2
            edges.append(Edge(now_s - half_gap_s, now_j, half_gap_s))
    return edges


def counter_power_w(
    times_s: Sequence[float], counters_j: Sequence[float | None], begin_s: float, end_s: float
) -> float | None:
    """Return the mean power in a window from a stepping counter, or None where it cannot be told.

    A counter of 20–100 ms steps read at the window's ends is wrong by up to a step at each. Between two *steps* it is
    exact: what remains is when they happened, known to half the reading interval. None when the counter ran backwards,
    stepped less than `MIN_STEPS` times, or stood still at either end of the window.
    """
    inside = [(t, value) for t, value in zip(times_s, counters_j, strict=True) if begin_s <= t <= end_s]
    edges = counter_edges([t for t, _ in inside], [value for _, value in inside])
    if edges is None or len(edges) < MIN_STEPS:
        return None
    first, last = edges[0], edges[-1]
    span_s = last.time_s - first.time_s
    intervals = sorted(after.time_s - before.time_s for before, after in itertools.pairwise(edges))
    step_s = intervals[len(intervals) // 2]
    slack_s = EDGE_STEPS * step_s + first.uncertainty_s + last.uncertainty_s
    if span_s <= 0 or first.time_s - begin_s > slack_s or end_s - last.time_s > slack_s:
        return None
    return (last.energy_j - first.energy_j) / span_s
