"""The time of one kernel as a curve over sizes: the curve, its form in a chip file, and how it grows from timed calls.

Between measured sizes ln(time) is linear in ln(units), so that a curve may bend where a cache ends or a buffer becomes
too large to be kept; beyond them the time grows with the units. `units` is the amount that the time grows with:

    products, feed-forward   N·K (hidden · intermediate), one regime per row count M; between two row counts ln(time) is
                             linear in ln M, beyond the last one the time grows with the rows
    attention                FLOPs; decode is a family of its own, regime of a prefill = its mask
    everything else          bytes read and written, one regime

Interpolating measured tables is how the most accurate public predictors of GPU kernels work, too (aiconfigurator); here
the table is of the very machine, so a kernel's odd corners are in it.

`[calibration.kernels]` of a chip file holds curves as plain values, regime → [units, seconds of each look, the newest
last]:

    "product int4pack BF16.INT4.BF16" = { sd_ratio = 0.06, points = { 1 = [[819200, 2.7e-05], [4177920, 0.000138,
    0.000141]] } }

Between its points a curve is off by its own scatter, or by that of all kernels of the machine where it has few points.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from roofline_model.core.definition_text import shown
from roofline_model.core.errors import DefinitionError, InvalidValueError
from roofline_model.core.typed_fields import Limits, read_as, value_as

if TYPE_CHECKING:
    from roofline_model.operators.product import Operator


PRODUCT = "product"
"""Family of gemv and gemm: a kernel library does not ask which of the two a product is called."""
BLOCKS = ("ffn",)
"""Operators made of products above all: sized by rows, too."""
ONLY = "any"
"""Regime of a family that has just one."""
Z80 = 1.2816
"""80 % of a normal distribution lie within so many standard deviations."""


@dataclass(frozen=True, slots=True)
class WorkSize:
    """One operator call as a curve sees it."""

    family: str
    """product, or the operator's name; `attention-decode` and `attention-prefill` are two."""
    formats: tuple[str, ...]
    """Format keys of the operands, in the operator's order."""
    regime: str
    """Row count of a product, mask of a prefill, else `any`."""
    unit_count: float


def work_size(work: Operator) -> WorkSize:
    """Return the size of an operator call in the terms of this module."""
    shape, formats = dict(work.shape), tuple(key for _, key in work.formats)
    if {"M", "N", "K"} <= shape.keys():
        return WorkSize(PRODUCT, formats, str(shape["M"]), float(shape["N"]) * shape["K"])
    if work.op in BLOCKS:
        return WorkSize(work.op, formats, str(shape["rows"]), float(shape["hidden"]) * shape["intermediate"])
    if "Sq" in shape:
        if shape["Sq"] == 1:
            return WorkSize(f"{work.op}-decode", formats, ONLY, work.cost.total_flops)
        mask = "window" if shape.get("window") else "causal" if shape.get("causal") else "full"
        return WorkSize(f"{work.op}-prefill", formats, mask, work.cost.total_flops)
    return WorkSize(work.op, formats, ONLY, work.cost.total_bytes)


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """One measured size: the median of each look at it, the newest last."""

    unit_count: float
    """Size of the call in what its family grows with: N·K, FLOP or bytes."""
    looks_s: tuple[float, ...]
    """Median of each look, seconds, the newest last."""

    @property
    def time_s(self) -> float:
        """The median of the looks."""
        return statistics.median(self.looks_s)


@dataclass(frozen=True)
class KernelCurve:
    """The measured times of one kernel with one set of formats."""

    family: str
    """Kind of kernel: what its cases have in common, and what their size is counted in."""
    kernel: str
    """Name of the kernel."""
    formats: tuple[str, ...]
    """Format keys of the operands."""
    points: Mapping[str, tuple[CurvePoint, ...]]
    """Regime → points by rising units; at least one regime with one point."""
    sd_ratio: float
    """Standard deviation of ln(measured / curve) at a size that was not measured."""

    @property
    def point_count(self) -> int:
        """Measured sizes behind the curve."""
        return sum(len(points_of_regime) for points_of_regime in self.points.values())

    @property
    def interval_ratio(self) -> float:
        """Factor by which one measured time in ten is longer than the curve; as much shorter, one in ten."""
        return math.exp(Z80 * self.sd_ratio)

    @cached_property
    def row_counts(self) -> tuple[int, ...]:
        """Measured row counts, rising; empty for a family that is not sized by rows."""
        return tuple(sorted(int(regime) for regime in self.points if regime.isdecimal()))

    def fits(self, size: WorkSize) -> bool:
        """Return whether the curve is one of this work and knows its regime."""
        same = (self.family, self.formats) == (size.family, size.formats)
        return same and size.unit_count > 0 and (size.regime in self.points or bool(self.row_counts))

    def time_s(self, size: WorkSize) -> float:
        """Return the seconds of a size that `fits`."""
        if size.regime in self.points:
            return self._at(size.regime, size.unit_count)
        return self._between_rows(int(size.regime), size.unit_count)

    def _between_rows(self, rows: int, units: float) -> float:
        below = [row_count for row_count in self.row_counts if row_count < rows]
        above = [row_count for row_count in self.row_counts if row_count > rows]
        if not below:  # fewer rows than were measured: no dearer than the fewest
            return self._at(str(above[0]), units)
        low_s = self._at(str(below[-1]), units)
        if not above:
            return low_s * rows / below[-1]
        high_s = self._at(str(above[0]), units)
        return _power(rows, below[-1], low_s, above[0], high_s)

    def _at(self, regime: str, units: float) -> float:
        points = self.points[regime]
        if units <= points[0].unit_count or len(points) == 1:
            return _before(points, units)
        for low, high in pairwise(points):
            if units <= high.unit_count:
                return _power(units, low.unit_count, low.time_s, high.unit_count, high.time_s)
        return points[-1].time_s * units / points[-1].unit_count


def _before(points: tuple[CurvePoint, ...], units: float) -> float:
    """Return the seconds left of the first point, or by a single one: less, but what a call costs in any case stays.

    The straight line through the first two points tells that cost; a line that would start below zero has none.
    """
    first, first_s = points[0].unit_count, points[0].time_s
    if len(points) == 1 or units >= first:
        return first_s * units / first
    second, second_s = points[1].unit_count, points[1].time_s
    fixed_s = min(max((first_s * second - second_s * first) / (second - first), 0.0), first_s)
    return fixed_s + (first_s - fixed_s) * units / first


def _power(x: float, low: float, low_s: float, high: float, high_s: float) -> float:
    """Return the value at x of the power law through (low, low_s) and (high, high_s)."""
    share = math.log(x / low) / math.log(high / low)
    return math.exp((1 - share) * math.log(low_s) + share * math.log(high_s))


_SECONDS: Limits = (1e-12, 1e6)
_UNITS: Limits = (1.0, 1e20)
"""Least and most that is not taken for a slip."""


def curves_to_dict(curves: Iterable[KernelCurve]) -> dict[str, Any]:
    """Return {`family kernel formats`: scatter and points}."""
    return {
        f"{curve.family} {curve.kernel} {'.'.join(curve.formats)}": {
            "sd_ratio": curve.sd_ratio,
            "points": {
                regime: [[point.unit_count, *point.looks_s] for point in points]
                for regime, points in curve.points.items()
            },
        }
        for curve in curves
    }


@dataclass(frozen=True, slots=True)
class _CurveTable:
    sd_ratio: float
    points: Mapping[str, tuple[tuple[float, ...], ...]]


def curves_from_dict(table: Any, where: str) -> tuple[KernelCurve, ...]:
    """Return the curves that `curves_to_dict` wrote; raises `DefinitionError` naming `where` and the kernel that is
    wrong.
    """
    place = f"{where}: [calibration.kernels]"
    curves = value_as(Mapping[str, Any], table, place)
    return tuple(_curve(str(name), data, f"{place} {shown(name)}") for name, data in curves.items())


def _curve(name: str, data: Any, where: str) -> KernelCurve:
    words = name.split(" ")
    if len(words) != 3 or not all(words):
        raise DefinitionError(f"{where} must be named `family kernel formats`, e.g. product matmul BF16.BF16.BF16")
    table = read_as(_CurveTable, data, f"{where} ")
    if not table.points:
        raise DefinitionError(f"{where} points must have at least one regime")
    for regime in table.points:
        _check_regime(regime, words[0], where)
    _check_number(table.sd_ratio, f"{where} sd_ratio", (1e-6, 10.0))
    points = {regime: _points(looks, f"{where} points.{regime[:40]}") for regime, looks in table.points.items()}
    return KernelCurve(words[0], words[1], tuple(words[2].split(".")), points, table.sd_ratio)


def _check_regime(regime: str, family: str, where: str) -> None:
    """Refuse a regime nobody would look up: row counts belong to products and blocks, words to everything else."""
    if family in (PRODUCT, *BLOCKS):
        is_count = regime.isascii() and regime.isdecimal() and len(regime) < 13 and not regime.startswith("0")
        if not is_count:
            raise DefinitionError(f"{where} points must be keyed by row counts, got {shown(regime)}")
    elif not (regime.isascii() and regime.isalpha()):
        raise DefinitionError(f"{where} points must be keyed by a word such as any or causal, got {shown(regime)}")


def _points(rows: Sequence[tuple[float, ...]], where: str) -> tuple[CurvePoint, ...]:
    if not rows or any(len(row) < 2 for row in rows):
        raise DefinitionError(f"{where} must be a list of lists [units, seconds, …], got {shown(rows)}")
    for units, *looks in rows:
        _check_number(units, f"{where} units", _UNITS)
        for seconds in looks:
            _check_number(seconds, f"{where} seconds", _SECONDS)
    if any(later[0] <= earlier[0] for earlier, later in pairwise(rows)):
        raise DefinitionError(f"{where} must go by rising units, got {', '.join(f'{row[0]:g}' for row in rows)}")
    return tuple(CurvePoint(float(units), tuple(map(float, looks))) for units, *looks in rows)


def _check_number(value: float, where: str, limits: Limits) -> None:
    if not limits[0] <= value <= limits[1]:
        raise DefinitionError(f"{where} must be a number from {limits[0]:g} to {limits[1]:g}, got {shown(value)}")


MOST_LOOKS = 5
"""Looks at a size that are kept: their median outlives a busy minute, and a machine that changed is followed."""
PRIOR_POINTS = 4.0
"""Weight of all kernels' scatter in one kernel's own, in points: two or three of its own say little."""
LOOK_SD_RATIO, PRIOR_LOOKS = 0.12, 10.0
"""Scatter from look to look until a machine has shown its own, and its weight in looks: on the development machine
medians of fresh processes of twelve kernels differed by 3 to 29 % (measured 2026-11).
"""

Key = tuple[str, str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class TimedCall:
    """One kernel at one size: what was called, and the median of its times."""

    work: Operator
    kernel: str
    time_s: float


def kernel_curves(calls: Iterable[TimedCall], curves_before: Iterable[KernelCurve] = ()) -> tuple[KernelCurve, ...]:
    """Return one curve per kernel, family and formats, sorted by name: the new look beside those that `curves_before`
    holds.

    A curve that no call belongs to is kept as it is. Raises `InvalidValueError` for a time that is not positive and
    finite.
    """
    looks: dict[Key, dict[str, dict[float, tuple[float, ...]]]] = defaultdict(lambda: defaultdict(dict))
    for curve in curves_before:
        for regime, points in curve.points.items():
            looks[curve.family, curve.kernel, curve.formats][regime] = {
                point.unit_count: point.looks_s for point in points
            }
    for call in calls:
        if not (0 < call.time_s < math.inf):
            raise InvalidValueError(f"{call.kernel}: a measured time must be positive, got {call.time_s}")
        size = work_size(call.work)
        at = looks[size.family, call.kernel, size.formats][size.regime]
        at[size.unit_count] = (*at.get(size.unit_count, ()), _short(call.time_s))[-MOST_LOOKS:]
    curves = [_curve_of(key, regimes) for key, regimes in sorted(looks.items())]
    errors = [_Errors(_misses(curve), _look_errors(curve)) for curve in curves]
    pooled = _Errors(
        [square for each in errors for square in each.misses], [square for each in errors for square in each.of_looks]
    )
    return tuple(
        replace(curve, sd_ratio=_short(_scatter(error, pooled, _look_count(curve))))
        for curve, error in zip(curves, errors, strict=True)
    )


def _curve_of(key: Key, regimes: Mapping[str, Mapping[float, tuple[float, ...]]]) -> KernelCurve:
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
    squares = []
    for regime, points in curve.points.items():
        for i in range(1, len(points) - 1):
            rest = replace(curve, points={regime: (*points[:i], *points[i + 1 :])})
            size = WorkSize(curve.family, curve.formats, regime, points[i].unit_count)
            squares.append(math.log(points[i].time_s / rest.time_s(size)) ** 2)
    return squares


def _look_errors(curve: KernelCurve) -> list[float]:
    """Return an unbiased variance of ln(time) for every size with several looks, once per degree of freedom."""
    variances = []
    for points in curve.points.values():
        for point in points:
            if len(point.looks_s) > 1:
                variance = statistics.variance([math.log(look_s) for look_s in point.looks_s])
                variances += [variance] * (len(point.looks_s) - 1)
    return variances


def _scatter(errors: _Errors, pooled: _Errors, look_count: float) -> float:
    """Return the standard deviation of a new measurement around the curve: the curve's own error, and another hour's.

    Sizes left out of one look were timed in the same minute, so they say nothing about the hour; looks do.
    """
    machine = (PRIOR_LOOKS * LOOK_SD_RATIO**2 + sum(pooled.of_looks)) / (PRIOR_LOOKS + len(pooled.of_looks))
    hour = (PRIOR_POINTS * machine + sum(errors.of_looks)) / (PRIOR_POINTS + len(errors.of_looks))
    return math.sqrt(_moderated(errors.misses, pooled.misses) + hour * (1 + 1 / look_count))


def _moderated(spreads: list[float], pooled: list[float]) -> float:
    return (PRIOR_POINTS * _trimmed_mean(pooled) + sum(spreads)) / (PRIOR_POINTS + len(spreads))


def _trimmed_mean(squares: list[float]) -> float:
    """Return the mean without the largest tenth: one odd kernel must not widen all intervals; 0 of none."""
    middle = sorted(squares)[: math.ceil(0.9 * len(squares))]
    return sum(middle) / len(middle) if middle else 0.0


def _short(value: float) -> float:
    """Six digits are more than any repetition agrees on, and a file stays readable."""
    return float(f"{value:.6g}")
