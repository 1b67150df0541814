"""The tile of one product on one chip as an answer: what was asked, and the tiling or why there is none."""

from __future__ import annotations

from dataclasses import dataclass

from roofline_model.chips.hardware import Device
from roofline_model.core.finding import Finding, finding
from roofline_model.formats.catalog import Pair
from roofline_model.operators.product import MAX_DIMENSION, product_of_pair
from roofline_model.predictions.product import Shape
from roofline_model.tiling.waves import EfficiencyCurve, Tiling, efficiency_curve, gemm_tiling

CURVE_STEP_COUNT = 32
"""Columns between the points of a curve, where it is not long."""
CURVE_POINTS_COUNT = 1_024


@dataclass(frozen=True, slots=True)
class TilingAnswer:
    """The tiling, or that the library runs its GEMV kernel, which has no tiles."""

    hardware: str
    """Key of the chip."""
    M: int
    """Rows of A and C, count."""
    N: int
    """Columns of B and C, count."""
    K: int
    """Columns of A, rows of B, count."""
    weight_format: str
    """Format key of B."""
    activation_format: str
    """Format key of A."""
    cache: str
    """cold: operands come from DRAM; warm: they are still in the last-level cache."""
    tiling: Tiling | None
    """Null where a GEMV kernel runs: it has no tiles."""
    tiling_reason: Finding | None
    """Why tiling is null; null where it is not."""


def product_tiling(chip: Device, shape: Shape, pair: Pair, *, cache: str = "cold") -> TilingAnswer:
    """Return the tile that a product gets in a pair of formats.

    Raises `UnsupportedError` for a chip without constants or without the limits of an SM in its file.
    """
    weight, activation = pair
    work = product_of_pair(*shape, weight=weight, activation=activation)
    tiling = gemm_tiling(work, chip, cache=cache)
    formats = dict(work.formats)
    reason = finding("gemv-has-no-tiles") if tiling is None else None
    return TilingAnswer(chip.key, *shape, formats["b"], formats["a"], cache, tiling, reason)


def product_curve(chip: Device, shape: Shape, pair: Pair, *, cache: str = "cold") -> EfficiencyCurve:
    """Return the share of the tensor peak over N, up to twice the N that is asked for, which is one of its points, or
    to the largest size.

    Raises `UnsupportedError` for a chip without constants or without the limits of an SM in its file.
    """
    rows, asked_columns, inner = shape
    formats = dict(product_of_pair(*shape, weight=pair[0], activation=pair[1]).formats)
    last = min(2 * asked_columns, MAX_DIMENSION)
    step = max(CURVE_STEP_COUNT, -(-last // CURVE_POINTS_COUNT // CURVE_STEP_COUNT) * CURVE_STEP_COUNT)
    columns = sorted({*range(step, last + 1, step), asked_columns})
    return efficiency_curve(rows, inner, columns, chip, a=formats["a"], b=formats["b"], c=formats["c"], cache=cache)
