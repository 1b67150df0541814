"""One operand of a dynamically quantised product: codes, scales, and the exact real numbers that they stand for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from bench_cases.kernels.products.quantizers import mx_blocks, nf4_blocks, nvfp4_blocks, rounding
from bench_cases.kernels.reference import HeldMatrix
from roofline_model.core.errors import InvalidValueError, UnsupportedError
from roofline_model.formats.catalog import get_format, split_precision
from roofline_model.formats.codecs.elements.elements import element_of
from roofline_model.formats.codecs.scales.scaled import symmetric_scales
from roofline_model.models.format_plan import PartFormats
from roofline_model.models.strategies.operator_type import OperatorType
from roofline_model.models.strategies.precision_text import canonical_precision
from roofline_model.operators.operand_formats import is_wide_float

WIDE_DTYPES = {"FP16": torch.float16, "BF16": torch.bfloat16, "FP32": torch.float32}
_FLOAT8 = ("FP8_E4M3", "FP8_E5M2")
_INTEGERS = ("INT8", "INT4", "INT2")
_BLOCKS: dict[str, Callable[[Tensor], HeldMatrix]] = {
    "NVFP4": nvfp4_blocks,
    "NF4": nf4_blocks,
    **{key: partial(mx_blocks, format_key=key) for key in ("MXFP8_E4M3", "MXFP6_E3M2", "MXFP6_E2M3", "MXFP4")},
}
DYNAMIC_FORMATS = (*_INTEGERS, *_FLOAT8, *_BLOCKS, *WIDE_DTYPES)
"""Formats an operand can have here."""

_LEAST_THRESHOLD = 2.0**-100
"""Keeps a scale a normal FP32 number; values below it are far under anything a model computes."""


@dataclass(frozen=True, slots=True)
class Operand:
    """A quantised matrix (rows × K). Value = code value · block scale · scale."""

    format: str
    codes: Tensor
    """(rows, K): int8 for integers, float8 or a wide float; uint8 indices or float8 where `blocks` is set."""
    scale: Tensor
    """(rows, 1) or (1, 1) FP32; 1 for a wide float."""
    blocks: HeldMatrix | None = None
    """Block scales and code table of a block-scaled format."""

    @property
    def is_integer(self) -> bool:
        """Whether the codes are plain integers in int8."""
        return self.format in _INTEGERS

    @property
    def is_wide(self) -> bool:
        """Whether the operand is a 16- or 32-bit float, not quantised."""
        return self.format in WIDE_DTYPES

    def decoded(self) -> Tensor:
        """Return the exact values in FP32: (rows, K)."""
        if self.blocks is None:
            return self.codes.float() * self.scale
        return self.blocks.decoded() * self.scale


def formats_of(precision: str) -> PartFormats:
    """Return weight and activation format of a precision, `INT8` or `INT4.FP8_E4M3`; raises for a pair nothing
    multiplies.
    """
    weight, activation = split_precision(canonical_precision(OperatorType.FFN_UP, precision))
    return PartFormats(weight.key, (activation or weight).key)


def check_format(format_key: str, inner_size: int) -> None:
    """Raise `UnsupportedError` for a format no operand can have here, or whose blocks do not divide K."""
    fmt = get_format(format_key)
    if fmt.key not in DYNAMIC_FORMATS:
        raise UnsupportedError(f"dynamic quantisation knows no {fmt.key}. Known: {', '.join(DYNAMIC_FORMATS)}.")
    block = fmt.block_elems
    if block is not None and inner_size % block:
        raise UnsupportedError(
            f"{fmt.key} has blocks of {block} elements, and K = {inner_size} is not a multiple of {block}; choose a "
            "format without "
            "blocks (FP8_E4M3, INT8) or pad the layer"
        )


def quantize_operand(values: Tensor, format_key: str, thresholds: Tensor) -> Operand:
    """Quantise an FP32 matrix (rows × K); magnitudes above their threshold (rows or 1, 1) are clipped to it.

    Integers and FP8 are symmetric with one scale per threshold, NVFP4 takes the threshold as its FP32 scale, NF4 and MX
    formats choose their block scales after clipping. A wide float is only rounded, never clipped. Raises
    `InvalidValueError` for a value that FP16 (or NF4's block maxima, which are FP16) cannot hold.
    """
    fmt = get_format(format_key)
    if is_wide_float(fmt):
        check_range(values, fmt.key)
        return Operand(fmt.key, values.to(WIDE_DTYPES[fmt.key]), torch.ones(1, 1, device=values.device))
    limit = thresholds.clamp_min(_LEAST_THRESHOLD)
    clipped = torch.clamp(values, -limit, limit)
    if fmt.key == "NVFP4":
        # Inside a row everything is relative to the threshold: rows of any size keep the full range of the block
        # scales.
        return Operand(fmt.key, *_held(nvfp4_blocks(clipped / limit), limit))
    if fmt.key == "NF4":
        check_range(clipped, "FP16", "NF4 keeps its block maxima in FP16, which")
    if fmt.key in _BLOCKS:
        return Operand(fmt.key, *_held(_BLOCKS[fmt.key](clipped), torch.ones(1, 1, device=values.device)))
    scale = symmetric_scales(limit, element_of(fmt), "float32")
    return Operand(fmt.key, rounding(fmt)(clipped / scale), scale)


def is_beyond(largest: float, wide_key: str) -> bool:
    """Return whether a magnitude is beyond the range of a wide float."""
    return largest > torch.finfo(WIDE_DTYPES[wide_key]).max


def check_range(values: Tensor, wide_key: str, who: str = "") -> None:
    """Raise `InvalidValueError` when a value is beyond the range of a wide float; `who` begins the message."""
    largest = float(values.abs().max())
    if is_beyond(largest, wide_key):
        limit = torch.finfo(WIDE_DTYPES[wide_key]).max
        raise InvalidValueError(
            f"{who or wide_key} ends at {limit:g}, and a value is {largest:.3g}; choose BF16 or FP32"
        )


def quantize_rows(values: Tensor, format_key: str) -> Operand:
    """Quantise an FP32 weight (N × K), nothing clipped: one scale per output feature, NVFP4's FP32 scale for the whole
    weight.
    """
    largest = values.abs()
    limit = largest.max().view(1, 1) if get_format(format_key).key == "NVFP4" else largest.amax(dim=1, keepdim=True)
    return quantize_operand(values, format_key, limit)


def _held(held: HeldMatrix, scale: Tensor) -> tuple[Tensor, Tensor, HeldMatrix]:
    return held.codes, scale, held
