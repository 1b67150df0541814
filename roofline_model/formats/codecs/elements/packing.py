"""Real bytes of a quantised tensor: codes without gaps, then its scales, level by level.

Elements follow each other along the blocked axis (moved last), each with its low bit first, so that element 0 of a
4-bit format sits in the low nibble; only the last byte of a part is filled up, with zero bits. A zero point follows the
scales of its level with the bits of an element. Numbers of several bytes are little-endian. The size is
`Quantized.format.storage_bytes(stored_shape)`, to the byte. A kernel's own order of tiles and scales is another layout.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roofline_model.core.errors import InvalidValueError
from roofline_model.formats.catalog import NumberFormat
from roofline_model.formats.codecs.arrays import axis_index, rows_along
from roofline_model.formats.codecs.layout import Layout, is_wide_float, layout_of, numpy_dtype
from roofline_model.formats.codecs.quantized import Parts, Quantized, assemble
from roofline_model.formats.codecs.scales.blocks import block_count

Array = NDArray[Any]

_CHUNK_ELEMS = 1 << 16
"""A multiple of 8, so that every chunk ends at a byte."""


def pack(quantized: Quantized) -> Array:
    """Return the bytes of a quantised tensor (uint8, one dimension); `unpack` reads them again."""
    fmt, axis = quantized.format, quantized.axis_index
    parts = [pack_bits(rows_along(quantized.codes, axis).reshape(-1), fmt.container_bits or fmt.element_bits)]
    for level in (quantized.scales, quantized.zero_points, quantized.group_scales):
        if level is not None:
            flat = rows_along(level, axis).reshape(-1)
            is_zero = level is quantized.zero_points
            parts.append(pack_bits(flat, fmt.element_bits) if is_zero else _as_bytes(flat))
    singles = [single for single in (quantized.tensor_scale, quantized.mean_scale) if single is not None]
    return np.concatenate([*parts, _as_bytes(np.array(singles, np.float32))])


def unpack(data: Any, format: NumberFormat, shape: Sequence[int], *, axis: int = -1) -> Quantized:
    """Return the tensor that `pack` wrote; `format` is its `Quantized.format`, which names every scale.

    data: bytes or a uint8 array. Raises `InvalidValueError` when the number of bytes is not that of format and shape.
    """
    shape = tuple(int(n) for n in shape)
    at = axis_index(axis, shape)
    stored = (*(n for i, n in enumerate(shape) if i != at), shape[at])
    raw = (
        np.frombuffer(data, np.uint8)
        if isinstance(data, bytes | bytearray | memoryview)
        else np.asarray(data, np.uint8)
    )
    if raw.size != format.storage_bytes(stored):
        raise InvalidValueError(
            f"{raw.size:,} bytes are not a {format.key} tensor of shape {shape}: that has "
            f"{format.storage_bytes(stored):,}"
        )
    reader = _Reader(raw.reshape(-1))
    bits, rows = format.container_bits or format.element_bits, math.prod(stored[:-1])
    if is_wide_float(format):
        return assemble(Parts(reader.codes(math.prod(shape), bits, f"uint{bits}")), format, shape, at)
    return assemble(_read_parts(reader, format, layout_of(format), rows, stored[-1]), format, shape, at)


def _read_parts(reader: _Reader, fmt: NumberFormat, layout: Layout, rows: int, axis_elems: int) -> Parts:
    """Read codes and scales in the order `pack` wrote them."""
    codes = reader.codes(rows * axis_elems, fmt.container_bits or fmt.element_bits, layout.element.code_dtype)
    if not fmt.scales:
        return Parts(codes)
    count = 1 if layout.block_elems is None else rows * block_count(axis_elems, layout.block_elems)
    scales = reader.numbers(count, layout.scale_dtype)
    zero_points = group_scales = tensor_scale = mean_scale = None
    if not layout.is_symmetric:
        zero_points = reader.codes(count, fmt.element_bits, layout.element.code_dtype)
    if layout.scheme == "double":
        group_scales = reader.numbers(rows * block_count(axis_elems, fmt.scales[1].block_elems), "float32")
        mean_scale = float(reader.numbers(1, "float32")[0])
    if layout.scheme == "two_level":
        tensor_scale = float(reader.numbers(1, "float32")[0])
    return Parts(codes, scales, zero_points, tensor_scale, group_scales, mean_scale)


class _Reader:
    """Walks through packed bytes."""

    def __init__(self, data: Array) -> None:
        self._data, self._at = data, 0

    def numbers(self, count: int, dtype_name: str) -> Array:
        dtype = numpy_dtype(dtype_name)
        return self._next(count * dtype.itemsize).view(dtype)

    def codes(self, count: int, bits: int, dtype_name: str) -> Array:
        return unpack_bits(self._next(-(-count * bits // 8)), count, bits, dtype_name)

    def _next(self, size: int) -> Array:
        self._at += size
        return self._data[self._at - size : self._at].copy()


def pack_bits(codes: Array, bits: int) -> Array:
    """Return the lowest `bits` of each code without gaps, low bits first, as uint8."""
    if bits == 8 * codes.itemsize:
        return _as_bytes(codes)
    packed = np.empty(-(-len(codes) * bits // 8), np.uint8)
    for first in range(0, len(codes), _CHUNK_ELEMS):
        chunk = _as_bytes(codes[first : first + _CHUNK_ELEMS]).reshape(-1, codes.itemsize)
        some = np.packbits(np.unpackbits(chunk, axis=1, bitorder="little")[:, :bits].reshape(-1), bitorder="little")
        start = first * bits // 8
        packed[start : start + len(some)] = some
    return packed


def unpack_bits(packed: Array, count: int, bits: int, dtype_name: str) -> Array:
    """Undo `pack_bits`; signed types get their sign back."""
    dtype = np.dtype(dtype_name)
    if bits == 8 * dtype.itemsize:
        return np.ascontiguousarray(packed).view(dtype)
    codes = np.empty((count, dtype.itemsize), np.uint8)
    for first in range(0, count, _CHUNK_ELEMS):
        some = min(_CHUNK_ELEMS, count - first)
        chunk = packed[first * bits // 8 : -(-(first + some) * bits // 8)]
        lines = np.unpackbits(chunk, bitorder="little")[: some * bits].reshape(some, bits)
        wide = np.zeros((some, 8 * dtype.itemsize), np.uint8)
        wide[:, :bits] = lines
        if dtype.kind == "i":
            wide[:, bits:] = lines[:, -1:]
        codes[first : first + some] = np.packbits(wide, axis=1, bitorder="little")
    return codes.view(dtype).reshape(-1)


def _as_bytes(numbers: Array) -> Array:
    return np.ascontiguousarray(numbers).reshape(-1).view(np.uint8)
