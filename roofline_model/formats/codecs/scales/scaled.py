"""One scale per block that maps its limit to the element's largest value: FP8, integers, NF4, and formats of one's own.

scale = limit / largest element, rounded to the type it is stored in and never below that type's smallest normal number;
code = nearest element of value / scale. An integer with zero point: scale = (high − low) / (2^bits − 1),
zero = round(−low / scale) + smallest code, so that 0 keeps an exact code. Source: Jacob et al., arXiv 1712.05877 §2.1.

The rules take numpy arrays and torch tensors alike, and a tensor stays on its device: bench_cases quantises operands of
gigabytes on a GPU by the same rules. Only one number per block passes through them. torch is never imported: whoever
hands in a tensor has imported it.

Double quantisation of NF4's scales: 8 bits each, in groups of 256 that share one FP32 number. The mean of all scales is
taken off first, so that the rest is centred and small (QLoRA §3). The paper stores “8-bit floats” without naming them;
we store INT8, as torchao does. Groups do not cross rows, so that a row stays readable alone. Elements are encoded with
the scales as they will be decoded.
"""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roofline_model.core.errors import InvalidValueError
from roofline_model.formats.codecs.elements.elements import Element, IntElement
from roofline_model.formats.codecs.layout import DOUBLE_GROUP_SCALES, float_limits, numpy_dtype
from roofline_model.formats.codecs.scales.blocks import from_blocks, pieces, to_blocks

Array = NDArray[Any]

Numbers = Any
"""A numpy array (or scalar) or a torch tensor; what a rule returns is of the kind it was given."""


def dtype_for(numbers: Numbers, name: str) -> Any:
    """Return the element type of that numpy or ml_dtypes name in the library of `numbers`."""
    return getattr(sys.modules["torch"], name) if _is_tensor(numbers) else numpy_dtype(name)


def cast(numbers: Numbers, name: str) -> Numbers:
    """Return the numbers in another element type, rounded to nearest even."""
    dtype = dtype_for(numbers, name)
    return numbers.to(dtype) if _is_tensor(numbers) else numbers.astype(dtype)


def number_for(numbers: Numbers, value: float) -> Numbers:
    """Return one number of the type of `numbers`, on their device.

    Divide by this, never by a Python number: torch multiplies by the reciprocal of a number from the host on CUDA.
    """
    return numbers.new_tensor(value) if _is_tensor(numbers) else numbers.dtype.type(value)


def _is_tensor(numbers: Numbers) -> bool:
    return hasattr(numbers, "new_tensor")


_FLOAT32_MAX = (2 - 2.0**-23) * 2.0**127
_SEARCH_ELEMS = 1 << 20
"""Elements whose trial codes and errors are held at a time by a search."""


def stored_scales(wanted: Numbers, dtype_name: str, bound: float = math.inf) -> Numbers:
    """Return float32 scales in the type they are stored in: rounded to nearest even, at least its smallest normal
    number.

    Below that a scale would lose bits (or become zero), and quantising a dequantised tensor would not give its codes
    back. bound: what no wanted scale exceeds; where the type holds that much, the scales are not searched for larger
    ones (a search would make the caller wait for a GPU). Takes torch tensors, too. Raises `InvalidValueError` when a
    scale is beyond the type.
    """
    smallest, largest = float_limits(dtype_name)
    if bound > largest and (wanted > largest).any():
        raise InvalidValueError(
            f"a block needs the scale {float(wanted.max()):.6g}, more than {dtype_name} holds ({largest:g}): "
            "pass scale_dtype='float32', or 'bfloat16', where the format leaves the choice"
        )
    return cast(wanted.clip(min=number_for(wanted, smallest)), dtype_name)


def encode_blocks(
    blocks: Array, element: Element, scales: Array, zero_points: Array | None = None, *, is_factor: bool = False
) -> Array:
    """Return the codes of (blocks, n) float32 values, divided by one scale per block; `is_factor`: multiplied."""
    apply = np.multiply if is_factor else np.divide
    codes = np.empty(blocks.shape, element.code_dtype)
    per_block = scales.astype(np.float32)[:, None]
    zeros = None if zero_points is None else zero_points.astype(np.float32)[:, None]
    with np.errstate(
        over="ignore", under="ignore", invalid="ignore"
    ):  # beyond float32 is beyond the element: saturates
        for some, part in pieces(*blocks.shape):
            scaled = apply(blocks[some, part], per_block[some])
            element.encode(scaled, codes[some, part], None if zeros is None else zeros[some])
    return codes


def decode_blocks(codes: Array, element: Element, scales: Array, zero_points: Array | None = None) -> Array:
    """Return the float32 values of (blocks, n) codes times one scale per block."""
    values = np.empty(codes.shape, np.float32)
    per_block = scales.astype(np.float32)[:, None]
    zeros = None if zero_points is None else zero_points.astype(np.float32)[:, None]
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        for some, part in pieces(*codes.shape):
            piece = values[some, part]
            element.decode(codes[some, part], piece)
            if zeros is not None:
                piece -= zeros[some]
            piece *= per_block[some]
    return values


def squared_errors(
    blocks: Array, codes: Array, element: Element, scales: Array, zero_points: Array | None = None
) -> Array:
    """Return the summed squared error of every block (float64) that was quantised to these codes."""
    difference = decode_blocks(codes, element, scales, zero_points) - blocks
    return np.asarray(np.einsum("ij,ij->i", difference, difference, dtype=np.float64))


def block_errors(blocks: Array, element: Element, scales: Array, zero_points: Array | None = None) -> Array:
    """Return the summed squared error of every block when it is quantised with these scales."""
    errors = np.zeros(len(blocks))
    step = max(1, _SEARCH_ELEMS // blocks.shape[1])
    for first in range(0, len(blocks), step):
        some = slice(first, first + step)
        zeros = None if zero_points is None else zero_points[some]
        codes = encode_blocks(blocks[some], element, scales[some], zeros)
        errors[some] = squared_errors(blocks[some], codes, element, scales[some], zeros)
    return errors


def symmetric_scales(limits: Numbers, element: Element, dtype_name: str) -> Numbers:
    """Return the stored scales that map ± `limits` (finite float32) to the element's largest value. Takes torch
    tensors, too.
    """
    wanted = limits / number_for(limits, element.max_value)
    return stored_scales(wanted, dtype_name, bound=_FLOAT32_MAX / element.max_value)


def range_scales(low: Numbers, high: Numbers, steps: float, dtype_name: str) -> Numbers:
    """Return the stored scales that cut the finite ranges [low, high] into this many steps.

    Takes torch tensors, too.
    """
    span = cast(high, "float64") - low  # 2·3.4e38 is beyond float32, its share of one code is not
    wanted = cast(span / number_for(span, steps), "float32")
    return stored_scales(wanted, dtype_name, bound=2 * _FLOAT32_MAX / steps)


def affine_scales(low: Array, high: Array, element: IntElement, dtype_name: str) -> tuple[Array, Array]:
    """Return stored scales and zero points of the ranges [low, high] (blocks,), which include 0."""
    largest = element.largest_code
    scales = range_scales(low, high, (2 * largest + 1) * element.step, dtype_name)
    with np.errstate(over="ignore"):
        zero_points = np.rint(-low / (scales.astype(np.float32) * np.float32(element.step))) - (largest + 1)
    return scales, np.clip(zero_points, -largest - 1, largest).astype(element.code_dtype)


_INT8 = IntElement(8, 127.0)


def quantize_scales(scales: Array) -> tuple[Array, Array, float]:
    """Return INT8 codes (rows, blocks), FP32 group scales (rows, groups) and the FP32 mean of scales (rows, blocks)."""
    mean = np.float32(scales.mean(dtype=np.float64))
    groups = to_blocks(scales - mean, DOUBLE_GROUP_SCALES)
    group_scales = symmetric_scales(np.abs(groups).max(axis=1), _INT8, "float32")
    codes = from_blocks(encode_blocks(groups, _INT8, group_scales), *scales.shape)
    return codes, group_scales.reshape(len(scales), -1), float(mean)


def dequantize_scales(codes: Array, group_scales: Array, mean_scale: float) -> Array:
    """Return the FP32 scales (rows, blocks); what rounding pushed below zero is zero."""
    centred = decode_blocks(to_blocks(codes, DOUBLE_GROUP_SCALES), _INT8, group_scales.reshape(-1))
    return np.maximum(from_blocks(centred, *codes.shape) + np.float32(mean_scale), np.float32(0))
