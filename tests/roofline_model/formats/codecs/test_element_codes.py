"""Every code of every small element, both ways, bit for bit against ml_dtypes."""

from __future__ import annotations

from statistics import NormalDist

import ml_dtypes
import numpy as np
import pytest

from roofline_model.core.errors import UnsupportedError
from roofline_model.formats.catalog import FORMATS, NumberFormat
from roofline_model.formats.codecs.elements.elements import (
    NF4_VALUES,
    FloatElement,
    element_of,
    upper_half_odd,
)

SMALL_FLOATS = {fmt.element_dtype: fmt for fmt in FORMATS.values() if fmt.kind == "float" and fmt.element_bits <= 8}
# Not in the catalog: IEEE-like, finite-only and without negative zero, some with a bias of their own.
OTHER_FLOATS = {
    name: NumberFormat(f"MY_{name}", "float", 8, name, e, m)
    for name, e, m in (
        ("float8_e4m3", 4, 3),
        ("float8_e3m4", 3, 4),
        ("float8_e4m3b11fnuz", 4, 3),
        ("float8_e4m3fnuz", 4, 3),
        ("float8_e5m2fnuz", 5, 2),
    )
}
ALL = SMALL_FLOATS | OTHER_FLOATS
each_float = pytest.mark.parametrize("name", ALL)


def ml_type(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name))


def all_upper_halves() -> np.ndarray:
    """Every float32 that needs 16 bits only: all exponents, all middles, infinities and NaNs."""
    return (np.arange(1 << 16, dtype=np.uint32) << 16).view(np.float32)


def hard_numbers() -> np.ndarray:
    """Float32 numbers around the grid points and middles of small floats, and random ones of every size."""
    with np.errstate(invalid="ignore"):
        exact = all_upper_halves()
        around = [np.nextafter(exact, np.float32(limit)) for limit in (np.inf, -np.inf)]
    bits = np.random.default_rng(1).integers(0, 1 << 32, 200_000, dtype=np.uint64).astype(np.uint32)
    return np.concatenate([exact, *around, bits.view(np.float32)])


def element(fmt: NumberFormat) -> FloatElement:
    codec = element_of(fmt)
    assert isinstance(codec, FloatElement)
    return codec


@each_float
def test_every_code_decodes_as_in_ml_dtypes(name):
    fmt = ALL[name]
    codes = np.arange(2**fmt.element_bits, dtype=np.uint8)
    with np.errstate(invalid="ignore"):
        expected = codes.view(ml_type(name)).astype(np.float32)
    values = np.empty(len(codes), np.float32)
    element(fmt).decode(codes, values)
    assert np.array_equal(values, expected, equal_nan=True)
    assert np.array_equal(np.signbit(values), np.signbit(expected))


@each_float
def test_casts_equal_ml_dtypes(name):
    fmt, numbers = ALL[name], hard_numbers()
    with np.errstate(invalid="ignore", over="ignore"):
        theirs = numbers.astype(ml_type(name))
    ours = element(fmt).ieee_table[upper_half_odd(numbers)]
    # FP6 and FP4 have no NaN: what a cast makes of one is nobody's rule, and `quantize` refuses it.
    is_nan = np.isnan(numbers)
    comparable = ~is_nan if name in ("float6_e3m2fn", "float6_e2m3fn", "float4_e2m1fn") else np.ones(len(numbers), bool)
    values = element(fmt).decode_table[ours]
    with np.errstate(invalid="ignore"):
        expected = theirs.astype(np.float32)
    assert np.array_equal(values[comparable], expected[comparable], equal_nan=True)
    same = comparable & ~np.isnan(expected)  # NaN has several codes
    assert np.array_equal(ours[same], theirs.view(np.uint8)[same])


@each_float
def test_saturating_casts_end_at_the_largest_value(name):
    fmt, numbers = ALL[name], hard_numbers()
    numbers = numbers[~np.isnan(numbers)]
    largest = np.float32(element(fmt).max_value)
    clipped = np.clip(numbers, -largest, largest).astype(ml_type(name))
    codes = np.empty(len(numbers), np.uint8)
    element(fmt).encode(numbers, codes)
    assert np.array_equal(codes, clipped.view(np.uint8))
    if fmt.max_value is not None:
        assert largest == fmt.max_value


@pytest.mark.parametrize(
    ("bits", "name"),
    [(8, ""), (8, "bfloat16"), (6, "float8_e5m2"), (8, "uint8"), (4, "int4"), (8, "float8_e8m0fnu")],
)
def test_a_description_must_name_a_small_float(bits, name):
    with pytest.raises(UnsupportedError, match=f"element_dtype must name a float of {bits} bits.*{name or 'missing'}"):
        element_of(NumberFormat("MINE", "float", bits, name, 4, 3))


def test_e8m0_codes_are_powers_of_two():
    codes = np.arange(256, dtype=np.uint8)
    values = codes.view(ml_dtypes.float8_e8m0fnu).astype(np.float64)
    assert np.array_equal(values[:255], 2.0 ** (np.arange(255) - 127))
    assert np.isnan(values[255])


def test_nf4_is_the_table_of_the_paper():
    # Appendix E: quantiles of 8 negative and 9 positive parts of a normal distribution, scaled to ±1, one zero between.
    offset = (1 - 1 / (2 * 15) + 1 - 1 / (2 * 16)) / 2  # 0.9677…
    quantile = np.vectorize(NormalDist().inv_cdf)
    positive = quantile(np.linspace(offset, 0.5, 9)[:-1])
    negative = -quantile(np.linspace(offset, 0.5, 8)[:-1])
    values = np.sort(np.concatenate([positive, [0], negative])) / positive.max()
    assert np.allclose(values, NF4_VALUES, atol=2e-5)
