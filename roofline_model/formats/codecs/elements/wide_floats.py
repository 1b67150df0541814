"""FP64, FP32, TF32, BF16 and FP16: rounding to nearest even, no scales.

The upper bits of a float32 are a float of their own (BF16 keeps 7 mantissa bits, TF32 10): adding half a unit of the
last kept bit, less one where that bit is even, and cutting rounds to nearest even. Source: IEEE 754-2019 §4.3.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofline_model.core.errors import UnsupportedError
from roofline_model.formats.catalog import NumberFormat
from roofline_model.formats.codecs.arrays import to_float32, to_float32_odd

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


def encode_wide(array: Array, fmt: NumberFormat, *, saturate: bool) -> Array:
    """Return the bit patterns (uint16…uint64) of an array rounded to a float of more than 8 bits.

    TF32 keeps its 32-bit container, the lower 13 bits zero. Float64 input is rounded once.
    """
    import numpy as np

    name, mantissa_bits = _kind_of(fmt)
    if name == "float64":
        return array.astype(np.float64).view(np.uint64)
    if saturate:
        largest = np.asarray(_largest(fmt, name, mantissa_bits), array.dtype)
        array = np.where(np.isnan(array), array, np.clip(array, -largest, largest))
    if name == "float32" and mantissa_bits == 23:
        return np.ascontiguousarray(to_float32(array)).view(np.uint32)
    narrow = np.ascontiguousarray(to_float32_odd(array))
    if name == "float16":
        with np.errstate(over="ignore"):
            return narrow.astype(np.float16).view(np.uint16)
    cut = round_upper_bits(narrow, mantissa_bits)
    return (cut >> np.uint32(16)).astype(np.uint16) if _is_half_word(fmt) else cut


def decode_wide(codes: Array, fmt: NumberFormat) -> Array:
    """Return float32, float64 for FP64."""
    import numpy as np

    name, _ = _kind_of(fmt)
    if name == "float64":
        return codes.view(np.float64)
    if name == "float16":
        return codes.view(np.float16).astype(np.float32)
    wide = codes.astype(np.uint32) << np.uint32(16) if _is_half_word(fmt) else codes
    return np.ascontiguousarray(wide).view(np.float32)


def round_upper_bits(values: Array, mantissa_bits: int) -> Array:
    """Return the bits of float32 values rounded to `mantissa_bits` (≤ 22), the lower bits zero; NaN stays a quiet
    NaN.
    """
    import numpy as np

    dropped = np.uint32(23 - mantissa_bits)
    bits = values.view(np.uint32)
    last = (bits >> dropped) & np.uint32(1)
    rounded = bits + (np.uint32((1 << int(dropped)) // 2 - 1) + last)
    rounded = np.where(np.isnan(values), bits | np.uint32(0x0040_0000), rounded)
    return (rounded >> dropped) << dropped


def _kind_of(fmt: NumberFormat) -> tuple[str, int]:
    """Return the numpy type that holds the arithmetic and the mantissa bits that are kept of it."""
    if fmt.element_dtype == "bfloat16":
        return "float32", 7
    if fmt.element_dtype in ("float64", "float16") or (
        fmt.element_dtype == "float32" and fmt.mantissa_bits in (None, 23)
    ):
        return fmt.element_dtype, fmt.mantissa_bits or 23
    m = fmt.mantissa_bits
    if fmt.exponent_bits == 8 and m is not None and m < 23 and (fmt.element_bits == 16 or fmt.container_bits == 32):
        return "float32", m
    raise UnsupportedError(
        f"format {fmt.key}: a float of {fmt.element_bits} bits needs element_dtype float64, float32, float16 or "
        "bfloat16, "
        "or 8 exponent_bits with mantissa_bits in a container of 16 or 32 bits"
    )


def _is_half_word(fmt: NumberFormat) -> bool:
    return (fmt.container_bits or fmt.element_bits) == 16


def _largest(fmt: NumberFormat, name: str, mantissa_bits: int) -> float:
    import numpy as np

    if name == "float16" or mantissa_bits == 23:
        return float(np.finfo(np.dtype(name)).max)
    return float((2.0 - 2.0**-mantissa_bits) * 2.0**127)
