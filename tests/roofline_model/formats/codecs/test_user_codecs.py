"""Formats of one's own: encoded where the description suffices, otherwise told what is missing."""

from __future__ import annotations

import numpy as np
import pytest

from roofline_model.core.errors import InvalidValueError, RooflineError, UnsupportedError
from roofline_model.formats.catalog import NumberFormat, get_format, load_formats
from roofline_model.formats.codecs import dequantize, pack, quantize, round_trip, unpack

ENOUGH = """
[INT3G32]
kind = "int"
element_bits = 3
scales = [{bits = 16, block_elems = 32, dtype = "float16"}]

[INT5Z]
kind = "int"
element_bits = 5
scales = [{bits = 21, block_elems = 64, dtype = "bfloat16"}]

[INT12]
kind = "int"
element_bits = 12

[MXE3M4]
kind = "float"
element_bits = 8
element_dtype = "float8_e3m4"
scales = [{bits = 8, block_elems = 16, dtype = "float8_e8m0fnu"}]

[NVINT4]
kind = "int"
element_bits = 4
scales = [{bits = 8, block_elems = 16, dtype = "float8_e4m3fn"}, {bits = 32, dtype = "float32"}]

[FP8ROW]
kind = "float"
element_bits = 8
element_dtype = "float8_e3m4"
exponent_bits = 3
mantissa_bits = 4
scales = [{bits = 32, dtype = "float32"}]

[PXR24IN32]
kind = "float"
element_bits = 24
exponent_bits = 8
mantissa_bits = 15
container_bits = 32
"""


@pytest.fixture
def load(tmp_path, monkeypatch):
    monkeypatch.setattr("roofline_model.formats.catalog._USER_FORMATS", {})

    def from_text(text: str) -> dict[str, NumberFormat]:
        file = tmp_path / "formats.toml"
        file.write_text(text, encoding="utf-8")
        return {fmt.key: fmt for fmt in load_formats(file)}

    return from_text


def test_what_is_described_in_full_is_encoded_and_packed(load):
    x = np.random.default_rng(16).standard_normal((5, 100)).astype(np.float32)
    # Half a step of the largest magnitude bounds the error: of 3, 15, 2047 steps, of 1/31 for E3M4, and so on.
    bounds = {
        "INT3G32": 1 / 6,
        "INT5Z": 1 / 30,
        "INT12": 0.5,
        "MXE3M4": 1 / 31,
        "NVINT4": 1 / 13,
        "FP8ROW": 1 / 60,
        "PXR24IN32": 2.0**-16,
    }
    for key, fmt in load(ENOUGH).items():
        options = {"scale": "none"} if key == "INT12" else {}
        q = quantize(x, key.lower(), **options)
        assert q.format == fmt
        data = pack(q)
        assert data.nbytes == fmt.storage_bytes(x.shape) == q.packed_bytes
        y = dequantize(unpack(data, fmt, x.shape))
        assert np.array_equal(y, dequantize(q))
        assert np.abs(y - x).max() <= bounds[key] * max(1.0, np.abs(x).max()) * 1.01
    assert quantize(x, "INT5Z").zero_points is not None  # 21 bits: a scale of 16 and a zero point of 5
    assert quantize(x, "INT12", scale="none").codes.dtype == np.int16


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ('kind = "table"\nelement_bits = 4', "FORMAT is a table, and a description has no field for the values"),
        (
            'kind = "int"\nelement_bits = 4\nscales = [{bits = 12, block_elems = 32}, {bits = 32, block_elems = 256}]',
            r"scales\[0\] \(12 bits\) has no dtype",
        ),
        (
            'kind = "int"\nelement_bits = 4\nscales = [{bits = 24, block_elems = 32, dtype = "float16"}]',
            "what the other 8 bits hold is not described",
        ),
        (
            'kind = "int"\nelement_bits = 4\nscales = [{bits = 16, block_elems = 32, dtype = "int16"}]',
            "scales of type int16 cannot be written",
        ),
        (
            (
                'kind = "int"\nelement_bits = 4\nscales = [{bits = 16, block_elems = 32, dtype = "float16"}, {bits = 32, '
                'block_elems = 256, dtype = "float32"}]'
            ),
            "2 levels of scales; known are",
        ),
        (
            (
                'kind = "int"\nelement_bits = 4\nscales = [{bits = 16, block_elems = 32, dtype = "float16"}, {bits = 32, '
                'dtype = "float32"}]'
            ),
            "can be float8_e4m3fn or float8_e5m2, not float16",
        ),
        ('kind = "int"\nelement_bits = 24', "integers of 2 to 16 bits"),
        ('kind = "int"\nelement_bits = 1', "integers of 2 to 16 bits"),
        ('kind = "float"\nelement_bits = 6', "element_dtype must name a float of 6 bits"),
        (
            'kind = "float"\nelement_bits = 6\nexponent_bits = 3\nmantissa_bits = 2\nmax_value = 28.0',
            "here it is missing",
        ),
        ('kind = "float"\nelement_bits = 12', "a float of 12 bits needs element_dtype"),
        (
            'kind = "float"\nelement_bits = 16\nelement_dtype = "bfloat16"\nscales = [{bits = 32, dtype = "float32"}]',
            "rounded without scales",
        ),
    ],
)
def test_what_is_missing_is_said(load, fields, message):
    load(f"[FORMAT]\n{fields}")
    with pytest.raises(UnsupportedError, match=message) as raised:
        quantize(np.ones((2, 64)), "FORMAT")
    assert "\n" not in str(raised.value)


def test_the_documented_example_says_what_it_lacks(load):
    load(
        '[Q4_K]\nkind = "int"\nelement_bits = 4\nscales = [{bits = 12, block_elems = 32}, {bits = 32, block_elems = '
        "256}]"
    )
    with pytest.raises(RooflineError, match="format Q4_K: scales"):
        round_trip(np.ones((1, 256)), "Q4_K")


def test_a_grouped_integer_takes_the_type_of_its_scales():
    grouped = get_format("INT4").grouped(32, zero_bits=4)
    with pytest.raises(UnsupportedError, match="takes scale_dtype="):
        quantize(np.ones((2, 64)), grouped)
    q = quantize(np.arange(64.0).reshape(1, 64), grouped, scale_dtype="bfloat16")
    assert q.packed_bytes == grouped.storage_bytes((1, 64)) == 32 + 2 * 2 + 1
    assert q.zero_points is not None
    with pytest.raises(InvalidValueError, match=r"symmetric=True.*INT4"):
        quantize(np.ones((1, 64)), grouped, scale_dtype="bfloat16", symmetric=True)
    with pytest.raises(InvalidValueError, match="scale_dtype='float32': INT4 has bfloat16 scales"):
        quantize(np.ones((1, 64)), q.format, scale_dtype="float32")
    # 16 bits of zero point, as tinygemm has them, are a float that a code cannot be subtracted from
    with pytest.raises(UnsupportedError, match="what the other 16 bits hold"):
        quantize(np.ones((1, 64)), get_format("INT4").grouped(32, zero_bits=16), scale_dtype="bfloat16")
