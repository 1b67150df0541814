"""NF4: blocks of 64 with their absmax, and the scales quantised again."""

from __future__ import annotations

import numpy as np
import pytest

from roofline_model.formats.catalog import FORMATS
from roofline_model.formats.codecs import dequantize, format_error, quantize
from roofline_model.formats.codecs.elements.elements import NF4_VALUES
from roofline_model.formats.codecs.scales.scaled import dequantize_scales, quantize_scales


def test_the_largest_of_a_block_is_exact():
    x = np.random.default_rng(8).standard_normal((4, 192)).astype(np.float16).astype(np.float32)
    q = quantize(x, "NF4")
    assert q.format == FORMATS["NF4"]
    assert q.scales.dtype == np.float16
    values = dequantize(q).reshape(4, 3, 64)
    blocks = x.reshape(4, 3, 64)
    where = np.abs(blocks).argmax(axis=2)[..., None]
    assert np.array_equal(np.take_along_axis(values, where, 2), np.take_along_axis(blocks, where, 2))
    assert set(np.unique(q.codes)) <= set(range(16))


def test_codes_by_hand():
    x = np.zeros((1, 64), np.float32)
    x[0, :4] = [8, -8, 8 * np.float32(NF4_VALUES[10]), 0.1]
    q = quantize(x, "NF4")
    assert q.codes[0, :5].tolist() == [15, 0, 10, 7, 7]  # 0.0125 is nearer to 0 than to 0.0796
    assert q.scales.tolist() == [[8]]


def test_double_quantised_scales_cost_an_eighth_bit_and_little_error():
    x = np.random.default_rng(9).standard_normal((16, 64 * 256)).astype(np.float32)
    plain, double = format_error(x, "NF4", scale_dtype="float32"), format_error(x, "NF4", double_scales=True)
    assert plain.bits_per_element == 4 + 32 / 64
    # QLoRA §3: 8/64 + 32/(64·256) = 0.127 bits; one more FP32 for the mean of the tensor
    assert double.bits_per_element == pytest.approx(4 + 8 / 64 + 32 / (64 * 256) + 32 / x.size)
    assert plain.sqnr_db - 0.05 < double.sqnr_db
    q = quantize(x, "NF4", double_scales=True)
    assert q.scales.dtype == np.int8
    assert q.group_scales.shape == (16, 1)
    assert q.packed_bytes == x.size // 2 + 16 * 256 + 16 * 4 + 4


def test_scales_by_hand():
    scales = np.array([[1.0, 3.0, 2.0, 2.0]], np.float32)  # mean 2, largest deviation 1
    codes, groups, mean = quantize_scales(scales)
    assert (codes.tolist(), mean) == ([[-127, 127, 0, 0]], 2.0)
    assert groups[0, 0] == np.float32(1) / np.float32(127)
    assert np.allclose(dequantize_scales(codes, groups, mean), scales, atol=1e-6)


def test_groups_of_scales_stay_in_their_row():
    scales = np.random.default_rng(10).uniform(0.1, 2, (3, 300)).astype(np.float32)
    codes, groups, mean = quantize_scales(scales)
    assert groups.shape == (3, 2)
    back = dequantize_scales(codes, groups, mean)
    assert (np.abs(back - scales) <= np.repeat(groups, 256, axis=1)[:, :300] * 0.5001).all()
