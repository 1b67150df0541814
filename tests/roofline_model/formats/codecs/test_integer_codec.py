"""INT8, INT4, INT2 and scaled FP8: scope, zero points, clipping and calibration, by hand."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from roofline_model.core.errors import InvalidValueError
from roofline_model.formats.catalog import get_format
from roofline_model.formats.codecs import dequantize, format_error, quantize, round_trip
from roofline_model.formats.codecs.encode import MSE_FACTORS


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(7).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(
    ("key", "options", "scale_shape", "bits", "block"),
    [
        ("INT8", {}, (6, 1), 32, 300),
        ("INT8", {"scale": "tensor"}, (1, 1), 32, None),
        ("INT8", {"scale": "block"}, (6, 3), 32, 128),
        ("INT8", {"symmetric": False, "scale_dtype": "float16"}, (6, 1), 24, 300),
        ("INT4", {}, (6, 3), 16, 128),
        ("INT4", {"block_elems": 32, "symmetric": False}, (6, 10), 20, 32),
        ("INT2", {}, (6, 5), 16, 64),
        ("FP8_E4M3", {}, (6, 1), 32, 300),
        ("FP8_E5M2", {"scale": "block", "scale_dtype": "bfloat16"}, (6, 3), 16, 128),
    ],
)
def test_the_stored_format_counts_the_scales_that_were_added(key, options, scale_shape, bits, block):
    q = quantize(normal(6, 300), key, **options)
    assert q.scales.shape == scale_shape
    (level,) = q.format.scales
    assert (level.bits, level.block_elems) == (bits, block)
    count = scale_shape[0] * scale_shape[1]
    codes = -(-6 * 300 * get_format(key).element_bits // 8)
    assert q.packed_bytes == codes + -(-count * bits // 8)
    assert (q.zero_points is not None) == (options.get("symmetric") is False)
    assert q.format.key == key


def test_symmetric_codes_by_hand():
    x = np.array([[127, -64, 63.5, 0.4], [-12.7, 0.05, 0.15, 0]], np.float32)
    q = quantize(x, "INT8")
    assert q.scales[:, 0].tolist() == [1, pytest.approx(0.1)]
    assert q.codes[0].tolist() == [127, -64, 64, 0]
    assert q.codes[1].tolist()[:1] == [-127]
    assert q.codes.min() == -127
    assert quantize(x[:1] / 127 * 7, "INT4", scale_dtype="float32").codes.tolist() == [[7, -4, 4, 0]]
    assert quantize(x[:1], "INT2", scale_dtype="float32").codes.tolist() == [[1, -1, 0, 0]]  # 64/127 is above a half


def test_without_a_scale_integers_are_rounded_values():
    q = quantize([[1.5, 2.5, -300.0, 126.9]], "INT8", scale="none")
    assert q.codes.tolist() == [[2, 2, -127, 127]]
    assert q.scales is None
    assert q.packed_bytes == 4
    assert dequantize(q).tolist() == [[2, 2, -127, 127]]


def test_zero_points_by_hand():
    # 0…15 in 4 bits: step 1, zero point −8, codes −8…7, all exact
    q = quantize(np.arange(16, dtype=np.float32)[None], "INT4", symmetric=False)
    assert q.scales.astype(float).tolist() == [[1]]
    assert q.zero_points.tolist() == [[-8]]
    assert q.codes.tolist() == [list(range(-8, 8))]
    assert np.array_equal(dequantize(q), np.arange(16)[None])
    # negative values only: 0 is the end of the range all the same, so that it stays exact
    q = quantize(-np.arange(5, 21, dtype=np.float32)[None], "INT4", symmetric=False, scale_dtype="float32")
    assert q.zero_points.tolist() == [[7]]
    assert q.scales[0, 0] == np.float32(20 / 15)
    # nothing but zeros
    assert not dequantize(quantize(np.zeros((2, 8)), "INT8", symmetric=False)).any()


def test_scales_in_16_bits_are_the_ones_that_encode():
    x = normal(4, 128)
    for dtype in ("bfloat16", "float16"):
        q = quantize(x, "INT4", scale_dtype=dtype)
        assert q.scales.dtype == np.dtype(getattr(ml_dtypes, dtype, dtype))
        expected = np.clip(np.rint(x / q.scales.astype(np.float32)), -7, 7)
        assert np.array_equal(q.codes, expected)
    with pytest.raises(InvalidValueError, match=r"needs the scale 1\.4\d+e\+29, more than float16 holds"):
        quantize(np.full((1, 8), 1e30), "INT4", scale_dtype="float16")


def test_percentile_clips_what_lies_beyond():
    x = np.linspace(-1, 1, 2001, dtype=np.float32)[None].copy()
    x[0, 0] = -100
    q = quantize(x, "INT8", clip="percentile", clip_quantile_ratio=0.99)
    assert q.scales[0, 0] * 127 == pytest.approx(np.quantile(np.abs(x), 0.99), rel=1e-6)
    assert q.codes[0, 0] == -127
    # A ragged block is judged by its own values, and one of nearly nothing but zeros keeps its maximum.
    y = np.zeros((1, 40), np.float32)
    y[0, 0], y[0, 32:] = 5, 2
    q = quantize(y, "INT8", block_elems=32, clip="percentile", clip_quantile_ratio=0.5)
    assert (q.scales * 127).tolist() == [pytest.approx([5, 2])]
    tensor = quantize(x, "INT8", scale="tensor", clip="percentile", clip_quantile_ratio=0.99)
    assert tensor.scales[0, 0] == q.scales.dtype.type(np.quantile(np.abs(x), 0.99) / 127)


@pytest.mark.parametrize(("options", "gain_db"), [({}, 3), ({"symmetric": False}, 1)])
def test_the_searched_clip_is_best_among_its_choices(options, gain_db):
    x = normal(4, 256)
    options = options | {"block_elems": 256, "scale_dtype": "float32"}
    # Two bits cannot afford a step as wide as the largest of 256 normal values.
    plain, searched = (format_error(x, "INT2", clip=clip, **options) for clip in ("absmax", "mse"))
    assert searched.sqnr_db > plain.sqnr_db + gain_db
    errors = ((round_trip(x, "INT2", clip="mse", **options) - x) ** 2).sum(axis=1)
    assert (errors <= ((round_trip(x, "INT2", **options) - x) ** 2).sum(axis=1)).all()
    if "symmetric" not in options:
        largest = np.abs(x).max(axis=1, keepdims=True)
        tried = [((round_trip(x, "INT2", absmax=largest * f, **options) - x) ** 2).sum(axis=1) for f in MSE_FACTORS]
        assert np.allclose(errors, np.min(tried, axis=0), rtol=1e-4)


def test_calibrated_magnitudes_saturate_what_is_beyond():
    x = np.array([[4.0, 2.0], [1.0, -8.0]], np.float32)
    q = quantize(x, "INT8", absmax=[[2.0], [8.0]])
    assert q.codes.tolist() == [[127, 127], [16, -127]]
    assert quantize(x, "INT8", scale="tensor", absmax=8).scales.tolist() == [[np.float32(8) / np.float32(127)]]
    # one per scale, in the tensor's own order of axes
    wide, limits = normal(3, 4, 8), np.arange(1.0, 13).reshape(3, 1, 4).repeat(2, axis=2)
    scales = quantize(wide, "INT8", axis=1, absmax=limits).scales
    assert np.allclose(scales * 127, limits)
    fp8 = quantize(x, "FP8_E4M3", absmax=2.0)
    assert dequantize(fp8)[0].tolist() == [2, 2]


def test_blocks_run_along_the_named_axis():
    x = normal(6, 5, 64)
    for axis in (0, 1, 2, -2):
        q = quantize(x, "INT8", axis=axis)
        moved = quantize(np.moveaxis(x, axis, -1), "INT8")
        assert np.array_equal(np.moveaxis(q.codes, axis, -1), moved.codes)
        assert q.scales.shape[axis] == 1
        assert np.array_equal(np.moveaxis(dequantize(q), axis, -1), dequantize(moved))
        assert q.codes.shape == x.shape
    assert quantize(x, "MXFP4", axis=0).scales.shape == (1, 5, 64)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scale": "column"}, "scale='column' is not a choice; known: none, tensor, row, block"),
        ({"group_size": 32}, "'group_size' is not an option of a codec; known: scale, block_elems"),
        ({"block_elems": 0}, "block_elems must be a whole number"),
        ({"block_elems": 32, "scale": "row"}, "needs scale='block'"),
        ({"scale_dtype": "float8_e4m3fn"}, "scales of INT8 can be float32, float16, bfloat16"),
        ({"clip_quantile_ratio": 1.5}, "clip_quantile_ratio must be in"),
        ({"scale": "none", "clip": "mse"}, "clip='mse' means nothing for INT8 here; it takes: scale"),
        ({"scale": "none", "absmax": 1.0}, "absmax means nothing for INT8"),
        ({"axis": 2}, r"axis=2 is not an axis of shape \(2, 4\)"),
        ({"scale_rule": "floor"}, "means nothing for INT8"),
        ({"scale": "block", "ragged": "refuse"}, "4 elements along the axis are no multiple of the block of 128"),
    ],
)
def test_choices_that_make_no_sense(options, message):
    with pytest.raises(InvalidValueError, match=message):
        quantize(np.ones((2, 4)), "INT8", **options)
