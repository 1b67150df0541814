"""`dequantize`: codes and scales in, numbers out."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roofline_model.formats.catalog import NumberFormat
from roofline_model.formats.codecs.arrays import back_from_rows, rows_along
from roofline_model.formats.codecs.elements.wide_floats import decode_wide
from roofline_model.formats.codecs.encode import quantize
from roofline_model.formats.codecs.layout import DEFAULTS, CodecOptions, is_wide_float, layout_of
from roofline_model.formats.codecs.quantized import Quantized
from roofline_model.formats.codecs.scales.blocks import from_blocks, to_blocks
from roofline_model.formats.codecs.scales.nvfp4 import combined_scales
from roofline_model.formats.codecs.scales.scaled import decode_blocks, dequantize_scales

Array = NDArray[Any]


def dequantize(quantized: Quantized) -> Array:
    """Return the numbers that the codes stand for: float32 in the tensor's shape, float64 for FP64.

    Rounded once per product, scales first (NVFP4: tensor scale · block scale, then the element), as torchao does.
    """
    fmt, shape, axis = quantized.format, quantized.shape, quantized.axis_index
    if is_wide_float(fmt):
        return decode_wide(quantized.codes, fmt)
    layout = layout_of(fmt)
    codes = rows_along(quantized.codes, axis)
    blocks = to_blocks(codes, layout.block_elems)
    scales = quantized.scales
    if scales is None:
        per_block = np.ones(len(blocks), np.float32)
    elif layout.scheme == "double":
        assert quantized.group_scales is not None
        assert quantized.mean_scale is not None
        groups = rows_along(quantized.group_scales, axis)
        per_block = dequantize_scales(rows_along(scales, axis), groups, quantized.mean_scale).reshape(-1)
    else:
        per_block = _flat(scales, axis)
        if quantized.tensor_scale is not None:
            per_block = combined_scales(quantized.tensor_scale, per_block)
    zero_points = None if quantized.zero_points is None else _flat(quantized.zero_points, axis)
    values = decode_blocks(blocks, layout.element, per_block, zero_points)
    return back_from_rows(from_blocks(values, math.prod(shape) // shape[axis], shape[axis]), shape, axis)


def round_trip(
    values: Any,
    format: str | NumberFormat,
    *,
    axis: int = -1,
    absmax: Any = None,
    options: CodecOptions = DEFAULTS,
    **changes: Any,
) -> Array:
    """Return the tensor as it is after quantising and dequantising (“fake quantisation”); arguments as of
    `quantize`.
    """
    return dequantize(quantize(values, format, axis=axis, absmax=absmax, options=options, **changes))


def _flat(per_block: Array, axis: int) -> Array:
    return rows_along(per_block, axis).reshape(-1)
