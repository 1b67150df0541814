"""FP64, FP32, TF32, BF16 and FP16: rounding to nearest even, no scales.

numpy and ml_dtypes round all but TF32. The upper bits of a float32 are a float of their own (TF32 keeps 10 mantissa
bits): adding half a unit of the last kept bit, less one where that bit is even, and cutting rounds to nearest even.
Source: IEEE 754-2019 §4.3.1.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from roofline_model.core.errors import UnsupportedError
from roofline_model.formats.catalog import NumberFormat
from roofline_model.formats.codecs.arrays import to_float32_odd

Array = NDArray[Any]


def encode_wide(array: Array, fmt: NumberFormat, *, saturate: bool) -> Array:
    """Return the bit patterns (uint16…uint64) of an array rounded to a float of more than 8 bits.

    TF32 keeps its 32-bit container, the lower 13 bits zero. Float64 input is rounded once.
    """
    dtype, mantissa_bits = _type_of(fmt)
    if saturate and dtype.itemsize < 8:
        info = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
        largest = float(info.max) if mantissa_bits is None else (2.0 - 2.0**-mantissa_bits) * 2.0**127
        array = np.clip(array, -largest, largest)
    if mantissa_bits is not None:
        return round_upper_bits(np.ascontiguousarray(to_float32_odd(array)), mantissa_bits)
    if dtype.itemsize == 2:
        array = to_float32_odd(array)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.ascontiguousarray(array.astype(dtype)).view(f"uint{8 * dtype.itemsize}")


def decode_wide(codes: Array, fmt: NumberFormat) -> Array:
    """Return float32, float64 for FP64."""
    values = np.ascontiguousarray(codes).view(_type_of(fmt)[0])
    return values if values.itemsize == 8 else values.astype(np.float32)


def round_upper_bits(values: Array, mantissa_bits: int) -> Array:
    """Return the bits of float32 values rounded to `mantissa_bits` (≤ 22), the lower bits zero; NaN stays a quiet
    NaN.
    """
    dropped = np.uint32(23 - mantissa_bits)
    bits = values.view(np.uint32)
    last = (bits >> dropped) & np.uint32(1)
    rounded = bits + (np.uint32((1 << int(dropped)) // 2 - 1) + last)
    rounded = np.where(np.isnan(values), bits | np.uint32(0x0040_0000), rounded)
    return (rounded >> dropped) << dropped


def _type_of(fmt: NumberFormat) -> tuple[np.dtype[Any], int | None]:
    """Return the numpy or ml_dtypes type of the container, and the mantissa bits that are kept of it; None: all."""
    name, mantissa_bits = fmt.element_dtype, fmt.mantissa_bits
    if name in ("float64", "float16", "bfloat16") or (name == "float32" and mantissa_bits in (None, 23)):
        return np.dtype(getattr(ml_dtypes, name, name)), None
    if fmt.exponent_bits == 8 and mantissa_bits is not None and mantissa_bits < 23 and fmt.container_bits == 32:
        return np.dtype(np.float32), mantissa_bits
    raise UnsupportedError(
        f"format {fmt.key}: a float of {fmt.element_bits} bits needs element_dtype float64, float32, float16 or "
        "bfloat16, or 8 exponent_bits with mantissa_bits in a container of 32 bits"
    )
