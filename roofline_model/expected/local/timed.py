"""Curves of kernels from timed calls on one machine, and how far such a curve is off between its points."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from roofline_model.chips.curve import CurvePoint, KernelCurve, WorkSize, work_size
from roofline_model.core.errors import InvalidValueError
from roofline_model.operators.product import Operator

MOST_LOOKS = 5
"""Looks at a size that are kept: their median outlives a busy minute, and a machine that changed is followed."""
PRIOR_POINTS = 4.0
"""Weight of all kernels' scatter in one kernel's own, in points: two or three of its own say little."""
LOOK_SD_RATIO, PRIOR_LOOKS = 0.12, 10.0
"""Scatter from look to look until a machine has shown its own, and its weight in looks: on the development machine medians
of fresh processes of twelve kernels differed by 3 to 29 % (measured 2026-11)."""

Key = tuple[str, str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class TimedCall:
    """One kernel at one size: what was called, and the median of its times."""

    work: Operator
    kernel: str
    time_s: float


def kernel_curves(calls: Iterable[TimedCall], known: Iterable[KernelCurve] = ()) -> tuple[KernelCurve, ...]:
    """Return one curve per kernel, family and formats, sorted by name: the new look beside those that `known` holds.

    A curve that no call belongs to is kept as it is. Raises `InvalidValueError` for a time that is not positive and finite.
    """
    looks: dict[Key, dict[str, dict[float, tuple[float, ...]]]] = defaultdict(lambda: defaultdict(dict))
    for curve in known:
        for regime, points in curve.points.items():
            looks[curve.family, curve.kernel, curve.formats][regime] = {one.unit_count: one.looks_s for one in points}
    for call in calls:
        if not (0 < call.time_s < math.inf):
            raise InvalidValueError(f"{call.kernel}: a measured time must be positive, got {call.time_s}")
        size = work_size(call.work)
        at = looks[size.family, call.kernel, size.formats][size.regime]
        at[size.unit_count] = (*at.get(size.unit_count, ()), _short(call.time_s))[-MOST_LOOKS:]
    curves = [_curve(key, regimes) for key, regimes in sorted(looks.items())]
    errors = [_Errors(_misses(curve), _look_errors(curve)) for curve in curves]
    pooled = _Errors([one for each in errors for one in each.misses], [one for each in errors for one in each.of_looks])
    return tuple(
        replace(curve, sd_ratio=_short(_scatter(own, pooled, _look_count(curve))))
        for curve, own in zip(curves, errors, strict=True)
    )


def _curve(key: Key, regimes: Mapping[str, Mapping[float, tuple[float, ...]]]) -> KernelCurve:
    points = {
        regime: tuple(CurvePoint(units, times) for units, times in sorted(of_units.items()))
        for regime, of_units in regimes.items()
    }
    return KernelCurve(*key, points, LOOK_SD_RATIO)


def _look_count(curve: KernelCurve) -> float:
    """Return how many looks a point of the curve has, on average."""
    counts = [len(point.looks_s) for points in curve.points.values() for point in points]
    return sum(counts) / len(counts)


@dataclass(frozen=True, slots=True)
class _Errors:
    """Squared log errors of two kinds; either may be unknown (empty)."""

    misses: list[float]
    """Of the curve without a point, at that point: how wrong the curve is between its points."""
    of_looks: list[float]
    """Of one look around the others of its size: how far the machine is from itself."""


def _misses(curve: KernelCurve) -> list[float]:
    """Return the squares of ln(measured / curve without it) of every point between two others of its regime."""
    found = []
    for regime, points in curve.points.items():
        for i in range(1, len(points) - 1):
            rest = replace(curve, points={regime: (*points[:i], *points[i + 1 :])})
            size = WorkSize(curve.family, curve.formats, regime, points[i].unit_count)
            found.append(math.log(points[i].time_s / rest.time_s(size)) ** 2)
    return found


def _look_errors(curve: KernelCurve) -> list[float]:
    """Return an unbiased variance of ln(time) for every size with several looks, once per degree of freedom."""
    found = []
    for points in curve.points.values():
        for point in points:
            if len(point.looks_s) > 1:
                variance = statistics.variance([math.log(one) for one in point.looks_s])
                found += [variance] * (len(point.looks_s) - 1)
    return found


def _scatter(own: _Errors, pooled: _Errors, look_count: float) -> float:
    """Return the standard deviation of a new measurement around the curve: the curve's own error, and another hour's.

    Sizes left out of one look were timed in the same minute, so they say nothing about the hour; looks do.
    """
    machine = (PRIOR_LOOKS * LOOK_SD_RATIO**2 + sum(pooled.of_looks)) / (PRIOR_LOOKS + len(pooled.of_looks))
    hour = (PRIOR_POINTS * machine + sum(own.of_looks)) / (PRIOR_POINTS + len(own.of_looks))
    return math.sqrt(_moderated(own.misses, pooled.misses) + hour * (1 + 1 / look_count))


def _moderated(own: list[float], pooled: list[float]) -> float:
    return (PRIOR_POINTS * _trimmed_mean(pooled) + sum(own)) / (PRIOR_POINTS + len(own))


def _trimmed_mean(squares: list[float]) -> float:
    """Return the mean without the largest tenth: one odd kernel must not widen all intervals; 0 of none."""
    kept = sorted(squares)[: math.ceil(0.9 * len(squares))]
    return sum(kept) / len(kept) if kept else 0.0


def _short(value: float) -> float:
    """Six digits are more than any repetition agrees on, and a file stays readable."""
    return float(f"{value:.6g}")
