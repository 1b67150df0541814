"""`quantize`: numbers in, codes and scales out, for every format of the catalog and for formats of one's own.

Scaled formats compute in float32, as kernels do; a float64 tensor is rounded to float32 first. Casts without a scale
round once, whatever the input.

A block is clipped at its largest magnitude, at a percentile of its magnitudes, or at the limit of least squared error.
Clipping trades a large error of a few outliers for a finer step of all others. Sources: Wu et al., Integer Quantization
for Deep Learning Inference, arXiv 2004.09602 (maximum and percentile calibration); Banner et al., arXiv 1810.05723
(the clip of least squared error).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roofline_model.core.errors import InvalidValueError
from roofline_model.formats.catalog import NumberFormat, get_format
from roofline_model.formats.codecs.arrays import (
    as_array,
    as_floats,
    axis_index,
    require_finite,
    rows_along,
    to_float32,
    to_float32_odd,
)
from roofline_model.formats.codecs.elements.elements import FloatElement, IntElement, upper_half_odd
from roofline_model.formats.codecs.elements.wide_floats import encode_wide
from roofline_model.formats.codecs.layout import (
    DEFAULTS,
    CodecOptions,
    Layout,
    is_wide_float,
    layout_of,
    numpy_dtype,
    stored_format,
    with_changes,
)
from roofline_model.formats.codecs.quantized import Parts, Quantized, assemble
from roofline_model.formats.codecs.scales.blocks import block_absmax, block_count, block_range, pieces, to_blocks
from roofline_model.formats.codecs.scales.microscaling import NAN_CODE, e8m0_codes, reciprocals
from roofline_model.formats.codecs.scales.nvfp4 import encode_two_level
from roofline_model.formats.codecs.scales.scaled import (
    affine_scales,
    block_errors,
    dequantize_scales,
    encode_blocks,
    quantize_scales,
    symmetric_scales,
)

Array = NDArray[Any]

MSE_FACTORS = tuple(round(1 - 0.02 * i, 2) for i in range(41))
"""Shares of the full range that the search tries, 1.00 down to 0.20. The full range is first: it wins ties."""


def percentile_limits(rows: Array, block_elems: int | None, quantile_ratio: float) -> Array:
    """Return per block (blocks,) the magnitude below which `quantile_ratio` of its elements lie, interpolated linearly.

    A short last block is judged by its own elements. A block whose percentile is zero (nearly all zeros) keeps its
    maximum: clipped to nothing it would lose everything it holds.
    """
    magnitudes = np.abs(rows)
    if block_elems is None:
        magnitudes, block_elems = magnitudes.reshape(1, -1), rows.size
    full = magnitudes.shape[1] // block_elems
    limits = np.empty((len(magnitudes), block_count(magnitudes.shape[1], block_elems)), np.float32)
    parts = [(slice(0, full), magnitudes[:, : full * block_elems].reshape(len(magnitudes), full, block_elems))]
    if magnitudes.shape[1] % block_elems:
        parts.append((slice(full, full + 1), magnitudes[:, None, full * block_elems :]))
    for some, part in parts:
        if part.size:
            quantiles = np.quantile(part, quantile_ratio, axis=2)
            limits[:, some] = np.where(quantiles > 0, quantiles, part.max(axis=2))
    return limits.reshape(-1)


def least_error_factor(errors_of: Callable[[float], Array]) -> Array:
    """Return per block the factor of `MSE_FACTORS` whose squared error `errors_of(factor)` is least."""
    best_error = errors_of(MSE_FACTORS[0])
    best = np.full(len(best_error), MSE_FACTORS[0], np.float32)
    for factor in MSE_FACTORS[1:]:
        error = errors_of(factor)
        is_better = error < best_error
        best[is_better], best_error[is_better] = factor, error[is_better]
    return best


def quantize(
    values: Any,
    format: str | NumberFormat,
    *,
    axis: int = -1,
    absmax: Any = None,
    options: CodecOptions = DEFAULTS,
    **changes: Any,
) -> Quantized:
    """Quantise a tensor to a format; blocks and rows run along `axis`.

    values: anything `arrays.as_floats` reads, torch tensors included. absmax: calibrated magnitudes instead of the
    tensor's own, one number or one per scale (NVFP4: one, for the tensor); larger values saturate. options: a
    `CodecOptions`; its fields can be given by name instead, e.g. `block_elems=64`.
    Raises `InvalidValueError` for values, shapes and options that make no sense, `UnsupportedError` for a description
    that does not say how to write a code.
    """
    options = with_changes(options, changes)
    asked_format = get_format(format)
    array = as_floats(values)
    axis = axis_index(axis, array.shape)
    rows = rows_along(array, axis)
    fmt = stored_format(asked_format, options, rows.shape[1])
    if is_wide_float(fmt):
        _require_no_absmax(fmt, absmax)
        return Quantized(fmt, array.shape, axis, _encode_wide(array, fmt, options))
    layout = layout_of(fmt)
    if options.symmetric not in (None, layout.is_symmetric):
        raise InvalidValueError(f"symmetric={options.symmetric}: the scales of {fmt.key} say otherwise here")
    _require_full_blocks(fmt, layout, rows.shape[1], options)
    parts = _SCHEMES[layout.scheme](rows, fmt, layout, options, _limits_along(absmax, array, axis))
    return assemble(parts, fmt, array.shape, axis)


def _encode_wide(array: Array, fmt: NumberFormat, options: CodecOptions) -> Array:
    if options.nonfinite == "refuse":
        require_finite(array.reshape(-1, array.shape[-1]), fmt.key, may_propagate=True)
    return encode_wide(array, fmt, saturate=options.overflow == "saturate")


def _plain(rows: Array, fmt: NumberFormat, layout: Layout, options: CodecOptions, given: Array | None) -> Parts:
    """Round every value on its own: FP8 and integers without a scale."""
    _require_no_absmax(fmt, given)
    element = layout.element
    has_nan = isinstance(element, FloatElement) and element.has_nan
    if options.nonfinite == "refuse" or not has_nan:
        require_finite(rows, fmt.key, may_propagate=has_nan)
    if not isinstance(element, FloatElement):
        return Parts(encode_blocks(to_float32_odd(rows), element, np.ones(len(rows), np.float32)))
    codes = np.empty(rows.shape, element.code_dtype)
    table = element.ieee_table if options.overflow == "ieee" else element.encode_table
    for some, part in pieces(*rows.shape):
        upper = upper_half_odd(to_float32_odd(rows[some, part]))
        np.take(table, upper, out=codes[some, part], mode="clip")
    return Parts(codes)


def _scaled(rows: Array, fmt: NumberFormat, layout: Layout, options: CodecOptions, given: Array | None) -> Parts:
    """One scale per block, from the block's limit; with zero points from its range."""
    rows, blocks, largest = _finite_blocks(rows, fmt, layout)
    given = _one_each(given, len(blocks))
    limits = largest if given is None else given
    if given is None and options.clip == "percentile":
        limits = percentile_limits(rows, layout.block_elems, options.clip_quantile_ratio)
    is_search = given is None and options.clip == "mse"
    if not layout.is_symmetric:
        return _affine(blocks, layout, limits, is_search)

    def scales_of(factor: Any) -> Array:
        return np.asarray(symmetric_scales(limits * np.float32(factor), layout.element, layout.scale_dtype))

    factor = least_error_factor(lambda f: block_errors(blocks, layout.element, scales_of(f))) if is_search else 1.0
    scales = scales_of(factor)
    return Parts(encode_blocks(blocks, layout.element, scales), scales)


def _affine(blocks: Array, layout: Layout, limits: Array, is_search: bool) -> Parts:
    element = layout.element
    assert isinstance(element, IntElement)
    low, high = block_range(blocks)
    low, high = np.maximum(low, -limits), np.minimum(high, limits)

    def scaled_by(factor: Any) -> tuple[Array, Array]:
        return affine_scales(low * np.float32(factor), high * np.float32(factor), element, layout.scale_dtype)

    factor = least_error_factor(lambda f: block_errors(blocks, element, *scaled_by(f))) if is_search else 1.0
    scales, zero_points = scaled_by(factor)
    return Parts(encode_blocks(blocks, element, scales, zero_points), scales, zero_points)


def _microscaling(rows: Array, fmt: NumberFormat, layout: Layout, options: CodecOptions, given: Array | None) -> Parts:
    """A power of two per block; a block that holds NaN or an infinity becomes NaN as a whole when they may pass."""
    _require_no_absmax(fmt, given)
    rows = to_float32(rows)
    blocks = to_blocks(rows, layout.block_elems)
    codes8 = e8m0_codes(block_absmax(blocks), layout.element, options.scale_rule or "floor")
    is_bad = codes8 == NAN_CODE
    if is_bad.any() and options.nonfinite == "refuse":
        require_finite(rows, fmt.key, may_propagate=True)
    codes = encode_blocks(blocks, layout.element, reciprocals(codes8), is_factor=True)
    codes[is_bad] = 0
    return Parts(codes, codes8.view(numpy_dtype(layout.scale_dtype)))


def _two_level(rows: Array, fmt: NumberFormat, layout: Layout, options: CodecOptions, given: Array | None) -> Parts:
    _, blocks, largest = _finite_blocks(rows, fmt, layout)
    calibrated = _one_each(given, 1)
    peak = None if calibrated is None else float(calibrated[0])
    codes, scales, tensor_scale = encode_two_level(blocks, largest, layout, options.scale_rule or "six", peak)
    return Parts(codes, scales, tensor_scale=tensor_scale)


def _double(rows: Array, fmt: NumberFormat, layout: Layout, options: CodecOptions, given: Array | None) -> Parts:
    _require_no_absmax(fmt, given)
    _, blocks, largest = _finite_blocks(rows, fmt, layout)
    scale_codes, group_scales, mean_scale = quantize_scales(largest.reshape(len(rows), -1))
    scales = dequantize_scales(scale_codes, group_scales, mean_scale).reshape(-1)
    divisors = np.maximum(scales, np.finfo(np.float32).smallest_normal)
    codes = encode_blocks(blocks, layout.element, divisors)
    return Parts(codes, scale_codes, group_scales=group_scales, mean_scale=mean_scale)


_SCHEMES = {
    "plain": _plain,
    "scaled": _scaled,
    "microscaling": _microscaling,
    "two_level": _two_level,
    "double": _double,
}


def _finite_blocks(rows: Array, fmt: NumberFormat, layout: Layout) -> tuple[Array, Array, Array]:
    """Return the rows as float32, their blocks and the largest magnitude of each; refuse what is not finite."""
    rows = to_float32(rows)
    blocks = to_blocks(rows, layout.block_elems)
    largest = block_absmax(blocks)
    if not np.isfinite(largest).all():
        require_finite(rows, fmt.key, may_propagate=False)
    return rows, blocks, largest


def _limits_along(absmax: Any, array: Array, axis: int) -> Array | None:
    """Return calibrated magnitudes as float32 in the order of the blocks, or None when none were given."""
    if absmax is None:
        return None
    given = np.atleast_1d(as_array(absmax)).astype(np.float32)
    if not (np.isfinite(given).all() and (given > 0).all()):
        raise InvalidValueError("absmax must hold positive finite numbers")
    return (rows_along(given, axis) if given.ndim == array.ndim else given).reshape(-1)


def _one_each(limits: Array | None, count: int) -> Array | None:
    if limits is None:
        return None
    if limits.size not in (1, count):
        raise InvalidValueError(f"absmax holds {limits.size} numbers for {count} scales: give one, or one per scale")
    return np.broadcast_to(limits, (count,))


def _require_no_absmax(fmt: NumberFormat, given: Any) -> None:
    if given is not None:
        raise InvalidValueError(
            f"absmax means nothing for {fmt.key} here: its scales come from the values, or it has none"
        )


def _require_full_blocks(fmt: NumberFormat, layout: Layout, axis_elems: int, options: CodecOptions) -> None:
    block = layout.block_elems
    if options.ragged == "refuse" and block is not None and axis_elems % block:
        raise InvalidValueError(
            f"{fmt.key}: {axis_elems} elements along the axis are no multiple of the block of {block} "
            f"({block_count(axis_elems, block)} blocks, the last of {axis_elems % block}): pad the tensor, choose "
            "another "
            "block_elems, or pass ragged='keep'"
        )
