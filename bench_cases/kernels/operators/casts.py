"""Quantise and dequantise kernels in eager torch: what dynamic activation quantisation costs beside a product."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from bench_cases.dtypes import DTYPES
from bench_cases.kernels.inputs import uniform
from bench_cases.kernels.operators.plain import sampled
from bench_cases.kernels.operators.prepare import BuiltOperator, Sizes
from bench_cases.kernels.operators.spec import OperatorKernel
from bench_cases.kernels.products.quantizers import rounding
from bench_cases.kernels.reference import Expected
from roofline_model.formats.catalog import get_format
from roofline_model.formats.codecs.elements.elements import element_of
from roofline_model.formats.rounding import unit_roundoff

_TINY = 2.0**-100
"""Keeps the scale of an all-zero row finite."""
STORED = {"INT8": torch.int8, "FP8_E4M3": torch.float8_e4m3fn}
_LARGEST = {key: element_of(get_format(key)).max_value for key in STORED}
_ROUNDED = {key: rounding(get_format(key)) for key in STORED}

TIE_RATIO = 4 * unit_roundoff("FP32")
"""How far a number over its scale may be off before it is rounded to a code: the scale and the quotient are FP32."""


def quantize_row(kernel: OperatorKernel, sizes: Sizes, device: str) -> BuiltOperator:
    """Build quantisation with one scale per row: maximum, division, rounding."""
    return _quantize(kernel, sizes, device, lambda x: x.abs().amax(dim=1, keepdim=True))


def quantize_tensor(kernel: OperatorKernel, sizes: Sizes, device: str) -> BuiltOperator:
    """Build quantisation with one scale for the tensor: the input is read twice."""
    return _quantize(kernel, sizes, device, lambda x: x.abs().amax().view(1, 1))


def dequantize_row(kernel: OperatorKernel, sizes: Sizes, device: str) -> BuiltOperator:
    """Build the widening of codes with one scale per row."""
    source = uniform("x", sizes["rows"], sizes["width"], device)
    codes, scales = _codes(source, source.abs().amax(dim=1, keepdim=True), kernel.x)
    rows = sampled(sizes)
    expected = _picked(codes, rows).double() * _picked(scales, rows).double()
    target = DTYPES[kernel.o]

    def call(codes: Tensor, scales: Tensor) -> Tensor:
        return (codes.float() * scales).to(target)

    size, nothing = expected.abs(), torch.zeros_like(expected)
    bound = (unit_roundoff(kernel.o) + unit_roundoff("FP32")) * size
    # Equal codes of a row round alike: what all of them together may be off has so much more room.
    like_count = _like_count(size)
    whole = Expected(expected, size, nothing, bound, nothing, shared=bound, shared_count=like_count)
    return BuiltOperator(call, (codes, scales), (sizes["rows"], sizes["width"]), rows, whole)


def _like_count(sizes: Tensor) -> int:
    """Return how many numbers of a row have the same size, at most."""
    return max(int(row.unique(return_counts=True)[1].max()) for row in sizes)


def _quantize(kernel: OperatorKernel, sizes: Sizes, device: str, largest: Callable[[Tensor], Tensor]) -> BuiltOperator:
    x = uniform("x", sizes["rows"], sizes["width"], device).to(DTYPES[kernel.x])
    rows, target = sampled(sizes), kernel.o

    def call(x: Tensor) -> tuple[Tensor, Tensor]:
        return _codes(x, largest(x), target)

    def decoded(output: Any) -> Tensor:
        codes, scales = output
        if codes.dtype != STORED[target] or scales.dtype != torch.float32:
            raise TypeError(f"codes {codes.dtype} and scales {scales.dtype}")
        return codes.float() * scales

    exact = _picked(x, rows).double()
    scale = _picked(largest(x.double()).expand(sizes["rows"], 1), rows).clamp_min(_TINY) / _LARGEST[target]
    expected = _ROUNDED[target](exact / scale).double() * scale
    # A number next to the middle of two codes may get either of them; all others must get the reference's.
    low, high = (_ROUNDED[target](exact / scale * (1 + side * TIE_RATIO)).double() * scale for side in (-1, 1))
    size, nothing = expected.abs(), torch.zeros_like(expected)
    whole = Expected(expected, size, nothing, (high - low).abs(), TIE_RATIO * size)
    return BuiltOperator(call, (x,), (sizes["rows"], sizes["width"]), rows, whole, decoded=decoded)


def _codes(x: Tensor, largest: Tensor, target: str) -> tuple[Tensor, Tensor]:
    """Return the codes of x and the FP32 scales (rows or 1, 1) that they belong to; divides in FP32."""
    scales = largest.float().clamp_min(_TINY) / _LARGEST[target]
    return _ROUNDED[target](x / scales), scales


def _picked(matrix: Tensor, rows: Tensor) -> Tensor:
    """Return rows on the CPU. FP8 is indexed as bytes: torch indexes few 8-bit types."""
    index = rows.to(matrix.device)
    if matrix.dtype == torch.float8_e4m3fn:
        return matrix.view(torch.uint8)[index].cpu().view(matrix.dtype)
    return matrix[index].cpu()
