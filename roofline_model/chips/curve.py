"""The time of one kernel as a curve over sizes, through times that were measured on one machine.

Between measured sizes ln(time) is linear in ln(units), so that a curve may bend where a cache ends or a buffer becomes too
large to be kept; beyond them the time grows with the units. `units` is the amount that the time grows with:

    products, feed-forward   N·K (hidden · intermediate), one regime per row count M; between two row counts ln(time) is
                             linear in ln M, beyond the last one the time grows with the rows
    attention                FLOPs; decode is a family of its own, regime of a prefill = its mask
    everything else          bytes read and written, one regime

Interpolating measured tables is how the most accurate public predictors of GPU kernels work, too (aiconfigurator); here
the table is of the very machine, so a kernel's odd corners are in it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

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
    looks_s: tuple[float, ...]

    @property
    def time_s(self) -> float:
        """The median of the looks."""
        return statistics.median(self.looks_s)


@dataclass(frozen=True)
class KernelCurve:
    """The measured times of one kernel with one set of formats."""

    family: str
    kernel: str
    formats: tuple[str, ...]
    points: Mapping[str, tuple[CurvePoint, ...]]
    """Regime → points by rising units; at least one regime with one point."""
    sd_ratio: float
    """Standard deviation of ln(measured / curve) at a size that was not measured."""

    @property
    def point_count(self) -> int:
        """Measured sizes behind the curve."""
        return sum(len(one) for one in self.points.values())

    @property
    def interval_ratio(self) -> float:
        """Factor by which one measured time in ten is longer than the curve; as much shorter, one in ten."""
        return math.exp(Z80 * self.sd_ratio)

    @cached_property
    def row_counts(self) -> tuple[int, ...]:
        """Measured row counts, rising; empty for a family that is not sized by rows."""
        return tuple(sorted(int(one) for one in self.points if one.isdecimal()))

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
        below = [one for one in self.row_counts if one < rows]
        above = [one for one in self.row_counts if one > rows]
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
