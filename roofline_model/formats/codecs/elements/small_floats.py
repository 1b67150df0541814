"""Floats of up to 8 bits as tables: the value of every code, and the code of every float32 by its upper half.

A float32 rounded to odd at 16 bits (`elements.upper_half_odd`) keeps 7 mantissa bits, the last one saying whether
anything was cut. Grid points and middles of a float with up to 5 mantissa bits have an even 16-bit pattern, so that
rounding the pattern equals rounding the number, and a table of 65,536 codes casts exactly.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from roofline_model.core.errors import UnsupportedError
from roofline_model.formats.catalog import NumberFormat

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

MAX_MANTISSA_BITS = 5
MAX_EXPONENT_BITS = 6
"""With more, float32's subnormals would become grid points of the small float."""


@cache
def decode_table(fmt: NumberFormat) -> Array:
    """Return the float32 value of every code of a small float, NaN and infinities included.

    From the element's ml_dtypes type where it is named. Otherwise from its bits: sign, exponent with the bias
    2^(e−1) − 1, mantissa; `max_value` tells which codes are numbers. Those above are an infinity and NaNs when the
    largest number ends the last but one exponent (IEEE), otherwise NaNs.
    """
    import numpy as np

    if fmt.element_dtype:
        import ml_dtypes

        dtype = np.dtype(getattr(ml_dtypes, fmt.element_dtype, fmt.element_dtype))
        if dtype.kind in "iub" or ml_dtypes.finfo(dtype).bits != fmt.element_bits:  # type: ignore[no-untyped-call]
            raise UnsupportedError(
                f"format {fmt.key}: element_dtype {fmt.element_dtype} is not a float of {fmt.element_bits} bits"
            )
        with np.errstate(invalid="ignore"):
            return np.arange(2**fmt.element_bits, dtype=np.uint8).view(dtype).astype(np.float32)
    return _described_values(fmt)


def _described_values(fmt: NumberFormat) -> Array:
    import numpy as np

    e, m = fmt.exponent_bits, fmt.mantissa_bits
    if e is None or m is None or 1 + e + m != fmt.element_bits or not e:
        raise UnsupportedError(
            f"format {fmt.key}: element_dtype is missing, or exponent_bits and mantissa_bits that give "
            f"{fmt.element_bits} "
            "bits together with one sign"
        )
    code = np.arange(2 ** (e + m))
    exponent, mantissa = code >> m, code & (2**m - 1)
    bias = 2 ** (e - 1) - 1
    significand = np.where(exponent == 0, mantissa, mantissa + 2**m) / 2**m
    values = significand * 2.0 ** (np.maximum(exponent, 1) - bias)
    if fmt.max_value is None or fmt.max_value not in values:
        ieee = values[(2**e - 1) * 2**m - 1]
        raise UnsupportedError(
            f"format {fmt.key}: max_value must say where the numbers end, got {fmt.max_value}: {values[-1]:g} when "
            "every "
            f"code is one, {values[-2]:g} when the last is NaN, {ieee:g} with infinities as in IEEE"
        )
    largest = int(np.nonzero(values == fmt.max_value)[0][0])
    values[largest + 1 :] = np.nan
    if largest + 1 == (2**e - 1) << m:
        values[largest + 1] = np.inf
    return np.concatenate([values, -values]).astype(np.float32)


@cache
def cast_table(fmt: NumberFormat, overflow: Literal["saturate", "ieee"]) -> Array:
    """Return the uint8 code of every upper half of a float32: nearest, ties to the even code, NaN where there is one.

    Beyond the largest value: that value, or as IEEE rounds (infinity; NaN in a format without). A format without NaN
    gives its largest value for NaN: callers refuse NaN before.
    """
    import numpy as np

    values = decode_table(fmt)
    _require_table_can_cast(fmt, values)
    finite = np.nonzero(np.isfinite(values) & ~np.signbit(values))[0]
    order = finite[np.argsort(values[finite], kind="stable")]
    grid = values[order].astype(np.float64)
    top = 2 * grid[-1] - grid[-2]  # where the next number would stand
    middles = np.append((grid[1:] + grid[:-1]) / 2, (grid[-1] + top) / 2)

    with np.errstate(invalid="ignore"):  # signalling NaNs among the patterns
        number = (np.arange(0x8000, dtype=np.uint32) << 16).view(np.float32).astype(np.float64)
    below, above = np.searchsorted(middles, number, "left"), np.searchsorted(middles, number, "right")
    is_odd = np.append(order & 1, (order[-1] + 1) & 1)[below]
    nearest = np.where(is_odd == 1, above, below)  # they differ on a tie only

    nan_codes = np.nonzero(np.isnan(values))[0]
    nan_code = nan_codes[0] if len(nan_codes) else order[-1]
    infinities = np.nonzero(np.isposinf(values))[0]
    beyond = order[-1] if overflow == "saturate" else infinities[0] if len(infinities) else nan_code
    positive = np.append(order, beyond)[nearest]
    positive[np.isnan(number)] = nan_code
    negative_of = _negative_codes(values)
    return np.concatenate([positive, negative_of[positive]]).astype(np.uint8)


def _negative_codes(values: Array) -> Array:
    """Return for every code the one of the opposite number; its own where there is none (a zero without sign, NaN)."""
    import numpy as np

    codes = np.arange(len(values))
    opposite = codes ^ (len(values) // 2)
    is_mirror = (values[opposite] == -values) & (np.signbit(values[opposite]) != np.signbit(values))
    is_nan_pair = np.isnan(values) & np.isnan(values[opposite])
    return np.where(is_mirror | is_nan_pair, opposite, codes)


def _require_table_can_cast(fmt: NumberFormat, values: Array) -> None:
    import numpy as np

    e, m = fmt.exponent_bits, fmt.mantissa_bits
    if e is None or m is None or e > MAX_EXPONENT_BITS or m > MAX_MANTISSA_BITS or not np.isfinite(values).any():
        raise UnsupportedError(
            f"format {fmt.key}: floats with 1 to {MAX_EXPONENT_BITS} exponent_bits and up to {MAX_MANTISSA_BITS} "
            f"mantissa_bits can be encoded, both given; here they are {e} and {m}"
        )
