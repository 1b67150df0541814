"""BF16, FP16, TF32, FP32 and FP64: one correct rounding, whatever the input."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from roofline_model.core.errors import InvalidValueError
from roofline_model.formats.codecs import dequantize, quantize

PASS = {"nonfinite": "propagate"}


def random_float32(count: int = 100_000) -> np.ndarray:
    bits = np.random.default_rng(3).integers(0, 1 << 32, count, dtype=np.uint64).astype(np.uint32)
    edges = (np.arange(1 << 16, dtype=np.uint32) << 16) + 0x8000  # all ties of BF16
    return np.concatenate([bits, edges, edges - 1, edges + 1]).astype(np.uint32).view(np.float32)


@pytest.mark.parametrize(("key", "dtype"), [("BF16", ml_dtypes.bfloat16), ("FP16", np.float16)])
def test_halves_equal_their_numpy_types(key, dtype):
    x = random_float32()
    q = quantize(x, key, **PASS)
    with np.errstate(over="ignore", invalid="ignore"):
        theirs = x.astype(dtype)
        expected = theirs.astype(np.float32)
    is_number = ~np.isnan(x)
    assert np.array_equal(q.codes[is_number], theirs.view(np.uint16)[is_number])
    assert np.array_equal(dequantize(q), expected, equal_nan=True)
    assert q.packed_bytes == 2 * x.size


def test_tf32_keeps_ten_bits():
    unit = 1.0
    x = np.array(
        [unit + 2.0**-11, unit + 3 * 2.0**-11, unit + 2.0**-11 + 2.0**-23, -unit - 2.0**-10, 2.0**-149], np.float32
    )
    q = quantize(x, "TF32")
    # a tie goes to the even mantissa, down and up; just above it goes up
    assert dequantize(q).tolist() == [unit, unit + 2 * 2.0**-10, unit + 2.0**-10, -unit - 2.0**-10, 0.0]
    assert not (q.codes & 0x1FFF).any()
    assert q.packed_bytes == 4 * 5  # the container


def test_double_rounding_does_not_happen():
    # 1 + 2^-8 is a tie of BF16 (to 1); 2^-40 above it goes up. Rounded to float32 first, 2^-40 would be lost.
    x = np.array([1 + 2.0**-8, 1 + 2.0**-8 + 2.0**-40, -(1 + 2.0**-8 + 2.0**-40), 1 + 3 * 2.0**-8 - 2.0**-40])
    assert dequantize(quantize(x, "BF16")).tolist() == [1, 1 + 2.0**-7, -(1 + 2.0**-7), 1 + 2.0**-7]
    half = np.array([1 + 2.0**-11 + 2.0**-40, 2.0**-25 + 2.0**-60, 1e-300])
    assert dequantize(quantize(half, "FP16")).tolist() == [1 + 2.0**-10, 2.0**-24, 0]
    e4m3 = np.array([1 + 2.0**-4, 1 + 2.0**-4 + 2.0**-40])
    assert dequantize(quantize(e4m3, "FP8_E4M3", scale="none")).tolist() == [1, 1 + 2.0**-3]


def test_float64_casts_equal_ml_dtypes():
    rng = np.random.default_rng(4)
    x = rng.standard_normal(50_000) * 2.0 ** rng.integers(-12, 9, 50_000)
    for key, dtype in (
        ("FP8_E4M3", ml_dtypes.float8_e4m3fn),
        ("FP8_E5M2", ml_dtypes.float8_e5m2),
        ("BF16", ml_dtypes.bfloat16),
    ):
        options = {"overflow": "ieee"} | ({"scale": "none"} if key.startswith("FP8") else {})
        expected = x.astype(dtype)
        assert np.array_equal(
            quantize(x, key, **options).codes, expected.view(np.uint8 if key != "BF16" else np.uint16)
        )


def test_not_a_number_and_infinity_pass_on_request_only():
    x = np.array([[1.0, np.nan], [np.inf, -np.inf]], np.float32)
    for key in ("FP64", "FP32", "TF32", "BF16", "FP16"):
        assert np.array_equal(dequantize(quantize(x, key, **PASS)), x, equal_nan=True)
        with pytest.raises(
            InvalidValueError,
            match=rf"{key}: 1 values are NaN and 2 infinite .* row 0 at position 1 .* nonfinite='prop",
        ):
            quantize(x, key)
