"""What can be quantised, what cannot, and that nothing is changed on the way."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from roofline_model.core.errors import InvalidValueError, UnknownNameError
from roofline_model.formats.catalog import FORMATS
from roofline_model.formats.codecs import dequantize, quantize, round_trip

ROOT = Path(__file__).resolve().parents[4]
EVERY = pytest.mark.parametrize("key", FORMATS)


@EVERY
def test_one_element_zeros_and_subnormals(key):
    for value in (1.0, 0.0, -0.0, 1e-40, -3.5):
        y = round_trip(np.array([value], np.float32), key)
        assert y.shape == (1,)
        assert np.isfinite(y).all()
        if value in (0.0, 1.0):
            assert y[0] == pytest.approx(value, rel=2e-3)
    assert not round_trip(np.zeros((3, 70)), key).any()


@EVERY
def test_order_in_memory_does_not_matter_and_the_input_stays(key):
    x = np.random.default_rng(13).standard_normal((48, 80)).astype(np.float32)
    original = x.copy()
    plain = round_trip(x, key)
    assert np.array_equal(round_trip(np.asfortranarray(x), key), plain)
    assert np.array_equal(round_trip(np.ascontiguousarray(x.T), key, axis=0).T, plain)
    assert np.array_equal(round_trip(np.repeat(x, 2, axis=0)[::2], key), plain)
    reversed_rows = round_trip(x[::-1], key)
    assert np.array_equal(reversed_rows[::-1], plain)
    x.flags.writeable = False
    round_trip(x, key)
    assert np.array_equal(x, original)


@EVERY
def test_pieces_do_not_show(key):
    """A tensor larger than a piece of the cache equals its rows one by one."""
    x = np.random.default_rng(14).standard_normal((3, 50_000)).astype(np.float32)
    absmax = {"absmax": float(np.abs(x).max())} if key == "NVFP4" else {}  # its tensor scale couples the rows
    whole = round_trip(x, key, **absmax)
    for row in range(3):
        assert np.array_equal(round_trip(x[row], key, **absmax), whole[row])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.zeros((0, 4)), r"shape \(0, 4\) is empty"),
        (np.float32(1), "a single number has no axis"),
        (["a"], "cannot be quantised: give real numbers"),
        (np.ones(3, np.complex64), "complex64 cannot be quantised"),
        (np.ones(3, bool), "bool cannot be quantised"),
        ([[1, 2], [3]], "list cannot be read as an array of numbers"),
        ([Fraction(1, 2)], "object cannot be quantised"),
    ],
)
def test_what_cannot_be_quantised(values, message):
    for key in FORMATS:
        with pytest.raises(InvalidValueError, match=message):
            quantize(values, key)


def test_an_unknown_format_is_named():
    with pytest.raises(UnknownNameError, match="unknown format 'FP3'"):
        quantize([1.0], "FP3")
    assert quantize([1.0], "nvfp4_kv").format.key == "NVFP4"


@pytest.mark.parametrize("key", [key for key in FORMATS if not key.startswith(("FP", "TF", "BF"))])
def test_beyond_float32_is_refused_with_its_place(key):
    with pytest.raises(
        InvalidValueError,
        match=rf"{key}: 0 values are NaN and 1 infinite or beyond float32, the first in row 1 at position 2",
    ):
        quantize(np.array([[1.0, 2, 3], [4, 5, 1e300]]), key)


def test_other_types_are_read_exactly():
    numbers = [[0.5, -1.5, 2.0, 3.0]]
    expected = quantize(np.array(numbers, np.float32), "MXFP4").codes
    for dtype in (
        np.float16,
        np.float64,
        np.longdouble,
        ml_dtypes.bfloat16,
        ml_dtypes.float8_e4m3fn,
        ml_dtypes.float4_e2m1fn,
    ):
        assert np.array_equal(quantize(np.array(numbers, dtype), "MXFP4").codes, expected)
    assert np.array_equal(quantize(numbers, "MXFP4").codes, expected)
    assert dequantize(quantize(np.arange(-8, 8, dtype=np.int64), "INT8", scale="none")).tolist() == list(range(-8, 8))


def test_what_offers_dlpack_or_an_array():
    class OnlyDlpack:
        def __init__(self, array):
            self._array = array

        def __dlpack__(self, **more):
            return self._array.__dlpack__(**more)

        def __dlpack_device__(self):
            return self._array.__dlpack_device__()

    class OnlyArray:
        def __array__(self, dtype=None, copy=None):
            return np.array([1.0, 2.0])

    assert round_trip(OnlyDlpack(np.array([1.0, 2.0], np.float32)), "FP8").tolist() == [1, 2]
    assert round_trip(OnlyArray(), "FP8").tolist() == [1, 2]


def test_the_codecs_need_no_torch():
    code = (
        "import sys\nimport roofline_model.formats.codecs as c\n"
        "c.quantize([1.0, 2.0], 'NVFP4')\nassert not {'torch', 'scipy', 'pandas'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
