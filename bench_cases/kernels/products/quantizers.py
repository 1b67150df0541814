"""Quantisers: an FP32 matrix (rows × K) in, codes and scales out, on the device where it is. The scales are those a
kernel reads.

Which scale a block gets and which code a number gets is `roofline_model.formats.codecs`' to say: its scale rules take
tensors, its tables of codes are looked up here. This file cuts blocks and walks through large matrices in pieces. The
codes are the codecs', bit for bit, on every device. Values must be finite.

`affine_groups` alone has no codec: what it holds (a BF16 offset beside each scale) is the way two kernels of torch read
INT4.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

from bench_cases.kernels.reference import HeldMatrix
from roofline_model.formats.catalog import NumberFormat, get_format
from roofline_model.formats.codecs.elements.elements import FloatElement, IntElement, TableElement, element_of
from roofline_model.formats.codecs.layout import Layout, layout_of
from roofline_model.formats.codecs.scales.microscaling import e8m0_codes, reciprocals
from roofline_model.formats.codecs.scales.nvfp4 import block_scales, element_factors, tensor_scale_for, wanted_scales
from roofline_model.formats.codecs.scales.scaled import number_for, range_scales, symmetric_scales

PIECE_ELEMS = {"cpu": 1 << 18, "cuda": 1 << 24}
"""Elements that are scaled and rounded at a time: on a CPU 1 MiB of float32 with its copies near the cache."""

_CASTS = {"float8_e4m3fn": torch.float8_e4m3fn, "float8_e5m2": torch.float8_e5m2}
"""Elements that torch casts to itself, with the codecs' bits once the numbers are within the range."""


@cache
def rounding(fmt: NumberFormat) -> Callable[[Tensor], Tensor]:
    """Return the function from scaled FP32 numbers to the codes of the nearest elements; too large numbers saturate.

    Codes are int8 for integers, float8 where torch has the type, else uint8: indices into `element_values`.
    """
    element = element_of(fmt)
    if isinstance(element, IntElement):
        return _to_integer(element)
    if isinstance(element, TableElement):
        return _to_table(element)
    assert isinstance(element, FloatElement)
    largest, dtype = element.max_value, _CASTS.get(fmt.element_dtype)
    if dtype is not None:
        return lambda scaled: scaled.clamp(-largest, largest).to(dtype)
    return _to_small_float(element)


def element_values(fmt: NumberFormat) -> Tensor | None:
    """Return the value of every code (float64, on the CPU) where codes are indices; None: the codes are numbers."""
    element = element_of(fmt)
    if isinstance(element, TableElement):
        return torch.from_numpy(element.values).double()
    if isinstance(element, FloatElement) and fmt.element_dtype not in _CASTS:
        return torch.from_numpy(element.decode_table).double()
    return None


def absmax(blocks: Tensor) -> Tensor:
    """Return the largest magnitude along the last axis, in FP32."""
    low, high = torch.aminmax(blocks.float(), dim=-1)
    return torch.maximum(high.abs(), low.abs())


def int8_rows(matrix: Tensor, scale_dtype: str = "bfloat16") -> HeldMatrix:
    """Quantise to symmetric INT8 with one scale per row."""
    return scaled_rows(matrix, "INT8", scale_dtype)


def fp8_rows(matrix: Tensor) -> HeldMatrix:
    """Quantise to E4M3 with one FP32 scale per row."""
    return scaled_rows(matrix, "FP8_E4M3")


def fp8_tensor(matrix: Tensor) -> HeldMatrix:
    """Quantise to E4M3 with one FP32 scale for the whole matrix (repeated in `scales`, shape (rows, 1))."""
    return scaled_rows(matrix, "FP8_E4M3", scale_count=1)


def scaled_rows(
    matrix: Tensor, format_key: str, scale_dtype: str = "float32", *, scale_count: int | None = None
) -> HeldMatrix:
    """Quantise to a symmetric integer or FP8 with one scale per row, or `scale_count` scales for equal runs of rows.

    `scales` has one number per row in either case.
    """
    fmt, rows = get_format(format_key), matrix.shape[0]
    count = rows if scale_count is None else scale_count
    scales = symmetric_scales(absmax(matrix.reshape(count, -1)), element_of(fmt), scale_dtype).unsqueeze(1)
    if count != rows:
        scales = scales.repeat_interleave(rows // count, dim=0)
    return HeldMatrix(_encoded(matrix, fmt, scales, torch.div), scales)


def mx_blocks(matrix: Tensor, format_key: str) -> HeldMatrix:
    """Quantise to a microscaling format: blocks of 32 share a power of two (E8M0)."""
    fmt = get_format(format_key)
    layout = layout_of(fmt)
    codes8 = e8m0_codes(absmax(_blocks(matrix, layout)), layout.element, "floor")
    codes = _encoded(matrix, fmt, reciprocals(codes8), torch.mul)
    step = layout.element.step if isinstance(layout.element, IntElement) else 1.0
    return HeldMatrix(codes, codes8.view(torch.float8_e8m0fnu), table=element_values(fmt), tensor_scale=step)


def nvfp4_blocks(matrix: Tensor) -> HeldMatrix:
    """Quantise to NVFP4: E2M1 elements, one E4M3 scale per 16, one FP32 scale for the matrix."""
    fmt = get_format("NVFP4")
    layout = layout_of(fmt)
    largest = absmax(_blocks(matrix, layout))
    tensor_scale = tensor_scale_for(largest.max(), layout)
    codes, scales = nvfp4_within(matrix, largest, tensor_scale)
    return HeldMatrix(codes, scales, table=element_values(fmt), tensor_scale=float(tensor_scale))


def nvfp4_within(matrix: Tensor, largest: Tensor, tensor_scale: Tensor) -> tuple[Tensor, Tensor]:
    """Return NVFP4 codes and block scales below a given FP32 scale; blocks beyond it saturate.

    largest: the largest magnitude of every block of 16 (rows, K / 16).
    """
    fmt = get_format("NVFP4")
    layout = layout_of(fmt)
    scales = block_scales(wanted_scales(largest, tensor_scale, layout), layout)
    return _encoded(matrix, fmt, element_factors(tensor_scale, scales), torch.mul), scales


def nf4_blocks(matrix: Tensor) -> HeldMatrix:
    """Quantise to NF4: the nearest of 16 table values, one FP16 absmax per 64 elements.

    Raises `InvalidValueError` for a value that FP16 cannot hold.
    """
    fmt = get_format("NF4")
    layout = layout_of(fmt)
    scales = symmetric_scales(absmax(_blocks(matrix, layout)), layout.element, layout.scale_dtype)
    return HeldMatrix(_encoded(matrix, fmt, scales, torch.div), scales, table=element_values(fmt))


def affine_groups(matrix: Tensor, bits: int, group: int, *, centred: bool) -> HeldMatrix:
    """Quantise to `bits`-bit unsigned codes with a BF16 scale and offset per `group` elements (smallest to largest).

    centred: the offset belongs to the middle code (tinygemm's convention: weight = (code − 8)·scale + offset for
    INT4); otherwise to code 0.
    """
    rows, columns = matrix.shape
    blocks = matrix.view(rows, columns // group, group)
    low, high = torch.aminmax(blocks, dim=2)
    largest_code = 2**bits - 1
    scales = range_scales(low, high, largest_code, "bfloat16")
    code_zero = 2 ** (bits - 1) if centred else 0
    offsets = (low + code_zero * scales.float()).to(torch.bfloat16)
    codes = torch.empty(blocks.shape, dtype=torch.uint8, device=matrix.device)
    for piece in _pieces(matrix):
        shifted = (blocks[piece] - offsets[piece].float().unsqueeze(2)) / scales[piece].float().unsqueeze(2) + code_zero
        codes[piece] = shifted.round_().clamp_(0, largest_code).to(torch.uint8)
    return HeldMatrix(codes.view(rows, columns), scales, offsets, code_zero=float(code_zero))


def _blocks(matrix: Tensor, layout: Layout) -> Tensor:
    """Return (rows, K / block, block)."""
    assert layout.block_elems is not None
    return matrix.view(matrix.shape[0], -1, layout.block_elems)


def _encoded(matrix: Tensor, fmt: NumberFormat, per_block: Tensor, scale: Callable[..., Tensor]) -> Tensor:
    """Return the codes (rows, K) of values that `scale` divides or multiplies by their block's number (rows,
    blocks).
    """
    to_codes = rounding(fmt)
    blocks, numbers = matrix.view(*per_block.shape, -1), per_block.float().unsqueeze(2)
    codes: Tensor | None = None
    for chunk in _pieces(matrix):
        piece = to_codes(scale(blocks[chunk], numbers[chunk]))
        if codes is None:
            codes = torch.empty(blocks.shape, dtype=piece.dtype, device=matrix.device)
        codes[chunk] = piece
    assert codes is not None
    return codes.view(matrix.shape)


def _pieces(matrix: Tensor) -> list[slice]:
    """Return slices of rows that hold at most `PIECE_ELEMS` elements, or one row."""
    rows, columns = matrix.shape
    step = max(1, PIECE_ELEMS.get(matrix.device.type, PIECE_ELEMS["cuda"]) // columns)
    return [slice(first, first + step) for first in range(0, rows, step)]


def _to_integer(element: IntElement) -> Callable[[Tensor], Tensor]:
    largest, dtype = element.largest_code, getattr(torch, element.code_dtype)

    def rounded(scaled: Tensor) -> Tensor:
        steps = scaled if element.step == 1 else scaled / number_for(scaled, element.step)
        return steps.round().clamp(-largest, largest).to(dtype)

    return rounded


def _to_small_float(element: FloatElement) -> Callable[[Tensor], Tensor]:
    table = torch.from_numpy(element.encode_table)

    def rounded(scaled: Tensor) -> Tensor:
        bits = scaled.view(torch.int32)
        # The upper half, its last bit set where the lower half is not zero, as `elements.upper_half_odd` does it.
        upper = ((((bits & 0xFFFF) + 0xFFFF) | bits) >> 16) & 0xFFFF
        return table.to(scaled.device).index_select(0, upper.flatten()).view(scaled.shape)

    return rounded


def _to_table(element: TableElement) -> Callable[[Tensor], Tensor]:
    middles = torch.from_numpy(element.middles)
    return lambda scaled: torch.bucketize(scaled, middles.to(scaled.device), out_int32=True).to(torch.uint8)
