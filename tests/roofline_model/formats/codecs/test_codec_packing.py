"""Packed bytes: as many as the catalog says, in a stated order, and read back to the same tensor."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline_model.core.errors import InvalidValueError
from roofline_model.formats.catalog import FORMATS
from roofline_model.formats.codecs import Quantized, dequantize, pack, quantize, unpack
from roofline_model.formats.codecs.elements.packing import pack_bits, unpack_bits

SHAPES = [(1,), (7,), (1, 31), (3, 33), (5, 64), (2, 3, 17), (4, 4096)]
UNSCALED = {"FP8_E4M3", "FP8_E5M2", "INT8", "INT4", "INT2"}
"""The catalog counts no scales for these; a codec that adds none writes the catalog's bytes."""
OPTIONS = [
    ("INT8", {"symmetric": False}), ("INT4", {"symmetric": False, "block_elems": 32}), ("INT2", {"symmetric": False, "block_elems": 5}),
    ("INT4", {"scale": "tensor"}), ("FP8_E4M3", {"scale": "block", "scale_dtype": "float16"}), ("NF4", {"double_scales": True}),
    ("NF4", {"scale_dtype": "float32", "block_elems": 48}), ("NVFP4", {"scale_rule": "four_over_six"}),
]  # fmt: skip


def sample(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(11).standard_normal(shape).astype(np.float32)


def require_same(a: Quantized, b: Quantized) -> None:
    for name in ("codes", "scales", "zero_points", "group_scales"):
        mine, theirs = getattr(a, name), getattr(b, name)
        assert (mine is None) == (theirs is None), name
        if mine is not None:
            assert mine.dtype == theirs.dtype
            assert mine.shape == theirs.shape
            assert mine.tobytes() == theirs.tobytes(), name
    assert (a.format, a.shape, a.axis_index) == (b.format, b.shape, b.axis_index)
    assert a.tensor_scale == b.tensor_scale
    assert a.mean_scale == b.mean_scale


@pytest.mark.parametrize("key", FORMATS)
def test_every_format_has_the_catalogs_bytes(key):
    for shape, axis in [(each, axis) for each in SHAPES for axis in range(len(each))]:
        q = quantize(sample(shape), key, axis=axis, **({"scale": "none"} if key in UNSCALED else {}))
        data = pack(q)
        stored = (*shape[:axis], *shape[axis + 1 :], shape[axis])
        assert data.dtype == np.uint8
        assert data.nbytes == FORMATS[key].storage_bytes(stored) == q.packed_bytes
        assert q.format == FORMATS[key]
        require_same(unpack(data, q.format, shape, axis=axis), q)


@pytest.mark.parametrize(("key", "options"), OPTIONS + [(key, {}) for key in sorted(UNSCALED)], ids=str)
def test_added_scales_are_packed_too(key, options):
    for shape in SHAPES:
        for axis in (0, -1):
            q = quantize(sample(shape), key, axis=axis, **options)
            data = pack(q)
            assert data.nbytes == q.packed_bytes
            back = unpack(data.tobytes(), q.format, shape, axis=axis)
            require_same(back, q)
            assert np.array_equal(dequantize(back), dequantize(q))


def test_where_the_bits_are():
    assert pack_bits(np.array([1, 2, 15], np.uint8), 4).tolist() == [0x21, 0x0F]  # first in the low nibble
    assert pack_bits(np.array([1, -1, -2, 0, 1], np.int8), 2).tolist() == [0b00_10_11_01, 1]
    # four 6-bit codes in three bytes: 000001, 000010, 000011, 111111
    assert pack_bits(np.array([1, 2, 3, 63], np.uint8), 6).tolist() == [0b10_000001, 0b0011_0000, 0b111111_00]
    assert pack_bits(np.array([0x1234], np.uint16), 16).tolist() == [0x34, 0x12]
    # NVFP4: 16 codes in 8 bytes, one E4M3 scale (448 = 0x7E), one FP32 (1.0 = 0x3F800000)
    x = np.zeros((1, 16), np.float32)
    x[0, 0], x[0, 15] = 2688, -2688
    assert pack(quantize(x, "NVFP4")).tobytes() == bytes([0x07, 0, 0, 0, 0, 0, 0, 0xF0, 0x7E, 0, 0, 0x80, 0x3F])


@given(bits=st.integers(1, 16), count=st.integers(1, 300), signed=st.booleans())
def test_any_width_comes_back(bits, count, signed):
    width = 8 if bits <= 8 else 16
    codes = np.random.default_rng(bits * count).integers(0, 1 << bits, count)
    if signed:
        codes = np.where(codes >= 1 << (bits - 1), codes - (1 << bits), codes)
    codes = codes.astype(f"{'' if signed else 'u'}int{width}")
    packed = pack_bits(codes, bits)
    assert packed.size == -(-count * bits // 8)
    assert np.array_equal(unpack_bits(packed, count, bits, codes.dtype.name), codes)


def test_a_wrong_number_of_bytes_is_refused():
    q = quantize(sample((3, 33)), "MXFP4")
    with pytest.raises(InvalidValueError, match=r"5.*MXFP4.*\(3, 33\).*56"):
        unpack(pack(q)[:5], q.format, (3, 33))
