"""Element types: what a code of up to 16 bits stands for, and which code a number gets. Before any scale.

Sources: OCP 8-bit Floating Point Specification (OFP8) v1.0; OCP Microscaling Formats (MX) v1.0 §5.3 (FP6, FP4, INT8 as
n/64); Dettmers et al., QLoRA, arXiv 2305.14314, appendix E (NF4).
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from typing import Any, Protocol

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from roofline_model.core.errors import UnsupportedError
from roofline_model.formats.catalog import NumberFormat

Array = NDArray[Any]

NF4_VALUES = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
    -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
)  # fmt: skip
"""Quantiles of the normal distribution, exact in float32 (QLoRA, appendix E)."""

MAX_INTEGER_BITS = 16
"""float32 arithmetic holds every code of such an integer exactly."""


class Element(Protocol):
    """One element type. Arrays are float32; codes have `code_dtype`."""

    max_value: float
    """Largest magnitude an encoder uses."""
    mantissa_bits: int
    """Bits behind the leading one of the largest values (the MX rule `even` rounds to them)."""
    code_dtype: str

    def encode(self, values: Array, out: Array, zero_points: Array | None = None) -> None:
        """Write the code of the nearest element into `out`; too large values saturate. May overwrite `values`."""

    def decode(self, codes: Array, out: Array) -> None:
        """Write the float32 values of codes into `out`."""


class FloatElement:
    """A float of up to 8 bits that ml_dtypes has: one table lookup each way."""

    code_dtype = "uint8"

    def __init__(self, fmt: NumberFormat) -> None:
        self.dtype = _small_float(fmt)
        info = ml_dtypes.finfo(self.dtype)  # type: ignore[no-untyped-call]
        self.max_value, self.mantissa_bits = float(info.max), int(info.nmant)
        codes = np.arange(2**fmt.element_bits, dtype=np.uint8)
        with np.errstate(invalid="ignore"):  # signalling NaNs among the codes
            self.decode_table = codes.view(self.dtype).astype(np.float32)
        self.has_nan = bool(np.isnan(self.decode_table).any())
        self.encode_table = _cast_table(self.dtype, self.max_value)
        """Code of every upper half of a float32; beyond the largest value, that value."""
        self.ieee_table = _cast_table(self.dtype, math.inf)
        """The same with what IEEE rounding gives beyond it: infinity, NaN in a type without, else the value itself."""

    def encode(self, values: Array, out: Array, zero_points: Array | None = None) -> None:
        """Look up the code by the upper half of the float32 (see `upper_half_odd`)."""
        np.take(self.encode_table, upper_half_odd(values), out=out, mode="clip")

    def decode(self, codes: Array, out: Array) -> None:
        """Look up the value."""
        np.take(self.decode_table, codes, out=out, mode="clip")


class IntElement:
    """A signed integer times a constant step (1; 1/64 for MXINT8); the most negative code is left unused."""

    def __init__(self, bits: int, max_value: float) -> None:
        self.largest_code = 2 ** (bits - 1) - 1 if bits > 1 else 1
        self.max_value = max_value
        self.step = max_value / self.largest_code
        self.mantissa_bits = max(bits - 2, 0)
        self.code_dtype = "int8" if bits <= 8 else "int16"

    def encode(self, values: Array, out: Array, zero_points: Array | None = None) -> None:
        """Round half to even. With zero points the whole range is used: −2^(bits−1) … 2^(bits−1) − 1."""
        if self.step != 1:
            values = np.divide(values, np.float32(self.step), out=values)
        np.rint(values, out=values)
        smallest = -self.largest_code
        if zero_points is not None:
            values += zero_points
            smallest -= 1
        np.clip(values, smallest, self.largest_code, out=values)
        np.copyto(out, values, casting="unsafe")

    def decode(self, codes: Array, out: Array) -> None:
        """Widen and multiply by the step."""
        np.copyto(out, codes)
        if self.step != 1:
            out *= np.float32(self.step)


class TableElement:
    """A table of ascending values: the nearest one, the lower of two that are equally near (as bitsandbytes)."""

    code_dtype = "uint8"

    def __init__(self, values: tuple[float, ...]) -> None:
        self.values = np.array(values, np.float32)
        # Middles in float32, as kernels hold them.
        self.middles = (self.values[1:] + self.values[:-1]) * np.float32(0.5)
        self.max_value = max(abs(value) for value in values)
        self.mantissa_bits = 0

    def encode(self, values: Array, out: Array, zero_points: Array | None = None) -> None:
        """Search the middles between neighbours."""
        np.copyto(out, np.searchsorted(self.middles, values, side="left"), casting="unsafe")

    def decode(self, codes: Array, out: Array) -> None:
        """Look up the value."""
        np.take(self.values, codes, out=out, mode="clip")


def element_of(fmt: NumberFormat) -> Element:
    """Return the element type of a format that takes scales.

    Raises `UnsupportedError` naming what the description lacks.
    """
    if fmt.kind == "table":
        if fmt.key != "NF4":
            raise UnsupportedError(
                f"format {fmt.key} is a table, and a description has no field for the values of its codes: only NF4 "
                "can be encoded"
            )
        return _table(NF4_VALUES)
    if fmt.kind == "int":
        if not 2 <= fmt.element_bits <= MAX_INTEGER_BITS:
            raise UnsupportedError(
                f"format {fmt.key}: integers of 2 to {MAX_INTEGER_BITS} bits can be encoded, not of {fmt.element_bits}"
            )
        return IntElement(fmt.element_bits, fmt.max_value or float(2 ** (fmt.element_bits - 1) - 1))
    if fmt.element_bits > 8:
        raise UnsupportedError(
            f"format {fmt.key}: a float of {fmt.element_bits} bits is rounded without scales; its description has some"
        )
    return _float(replace(fmt, scales=()))


@cache
def _float(fmt: NumberFormat) -> FloatElement:
    return FloatElement(fmt)


def _small_float(fmt: NumberFormat) -> np.dtype[Any]:
    """Return the ml_dtypes type of a float of up to 8 bits with a sign; raises `UnsupportedError` where none is
    named.
    """
    name = fmt.element_dtype
    if name.startswith(("float8_", "float6_", "float4_")) and name != "float8_e8m0fnu":
        dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        if ml_dtypes.finfo(dtype).bits == fmt.element_bits:  # type: ignore[no-untyped-call]
            return dtype
    raise UnsupportedError(
        f"format {fmt.key}: element_dtype must name a float of {fmt.element_bits} bits of ml_dtypes, for example "
        f"float8_e4m3fn, float6_e3m2fn or float4_e2m1fn; here it is {name or 'missing'}"
    )


@cache
def _table(values: tuple[float, ...]) -> TableElement:
    return TableElement(values)


def _cast_table(dtype: np.dtype[Any], largest: float) -> Array:
    """Return the code of every upper half of a float32, clipped at `largest`: nearest, ties to even, NaN where the type
    has one (else zero: callers refuse NaN before).
    """
    numbers = (np.arange(1 << 16, dtype=np.uint32) << 16).view(np.float32)
    with np.errstate(invalid="ignore", over="ignore"):
        return np.clip(numbers, -largest, largest).astype(dtype).view(np.uint8)


def upper_half_odd(values: Array) -> Array:
    """Return the upper 16 bits of each float32 (as uint32), the last of them set where the lower 16 are not all zero.

    That is rounding to odd, which keeps 7 mantissa bits, the last one saying whether anything was cut. Grid points and
    middles of a float with up to 5 mantissa bits have an even pattern, so that rounding the pattern equals rounding the
    number.
    """
    bits = np.ascontiguousarray(values).view(np.uint32)
    upper = bits & np.uint32(0xFFFF)
    upper += np.uint32(0xFFFF)  # carries into bit 16 unless the lower half is zero
    upper |= bits
    upper >>= np.uint32(16)
    return upper


def largest_exponent(max_value: float) -> int:
    """Return floor(log2(max_value)): emax of the MX standard (E4M3 8, E2M1 2, INT8 0)."""
    return math.frexp(max_value)[1] - 1
