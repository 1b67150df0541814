"""NVFP4: both levels of scales by hand, 4/6, calibration, and blocks at the ends of the range."""

from __future__ import annotations

import numpy as np
import pytest

from roofline_model.core.errors import InvalidValueError
from roofline_model.formats.codecs import dequantize, quantize


def blocks(*maxima: float) -> np.ndarray:
    """Rows of 16 whose first value is the maximum and whose others are a third of it."""
    x = np.repeat(np.float32(maxima)[:, None], 16, axis=1)
    x[:, 1:] /= 3
    return x


def test_both_scales_by_hand():
    # The tensor's maximum 2688 = 448 · 6 gives tensor scale 1; block maxima / 6 are the block scales.
    q = quantize(blocks(2688, 6, 12.6), "NVFP4")
    assert q.tensor_scale == 1
    assert q.scales.astype(float).tolist() == [[448], [1], [2]]  # 2.1 rounds to 2 in E4M3
    assert q.codes[:, 0].tolist() == [7, 7, 7]  # 6.3 saturates
    assert q.codes[:2, 1].tolist() == [4, 4]  # 6/3 = 2
    assert dequantize(q)[:, 0].tolist() == [2688, 6, 12]
    assert q.packed_bytes == 3 * 8 + 3 + 4


def test_small_blocks_keep_the_smallest_normal_scale():
    q = quantize(blocks(2688, 6 * 2.0**-8, 0), "NVFP4")
    assert q.scales.astype(float)[:, 0].tolist() == [448, 2.0**-6, 2.0**-6]
    values = dequantize(q)
    assert values[1, 0] == 6 * 2.0**-8  # 1.5 of the scale
    assert not values[2].any()


@pytest.mark.parametrize("rule", ["six", "four_over_six"])
def test_zero_tiny_and_huge_tensors(rule):
    for size in (0.0, 1e-45, 1e-38, 1e-30, 3e38):
        x = np.full((2, 16), size, np.float32)
        values = dequantize(quantize(x, "NVFP4", scale_rule=rule))
        assert np.isfinite(values).all()
        assert (values >= 0).all()
        if size >= 1e-30:
            assert np.allclose(values, x, rtol=0.01)


def test_four_over_six_puts_a_block_at_four_where_that_is_closer():
    # 6 and 5: with the maximum at 6, 5 is the middle between 4 and 6 and ends 1 away. With it at 4 the scale is 1.5:
    # 6 → 4 and 5 → 3.33 → 3, half a unit of 1.5 away. 6 and 3 are exact the first way.
    x = np.zeros((3, 16), np.float32)
    x[0, 0], x[1, :2], x[2, :2] = 1536, (6, 5), (6, 3)
    q = quantize(x, "NVFP4", scale_rule="four_over_six")
    assert q.tensor_scale == 1  # 1536 = 256 · 6: room for a scale 1.5 times larger
    assert q.scales.astype(float)[:, 0].tolist() == [256, 1.5, 1]
    assert dequantize(q)[1, :2].tolist() == [6, 4.5]
    assert dequantize(q)[2, :2].tolist() == [6, 3]


def test_a_calibrated_maximum_replaces_the_tensors_own():
    x = blocks(2688, 6)
    q = quantize(x, "NVFP4", absmax=5376)
    assert q.tensor_scale == 2
    assert q.scales.astype(float)[:, 0].tolist() == [224, 0.5]
    below = quantize(x, "NVFP4", absmax=1344)  # smaller than the data: the first block saturates
    assert below.scales.astype(float)[:, 0].tolist() == [448, 2]
    assert dequantize(below)[0, 0] == 1344
    with pytest.raises(InvalidValueError, match="absmax holds 2 numbers for 1 scales"):
        quantize(x, "NVFP4", absmax=[1, 2])
    for bad in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(InvalidValueError, match="positive finite"):
            quantize(x, "NVFP4", absmax=bad)


def test_nan_has_no_place_here():
    x = blocks(1, 1)
    x[1, 2] = np.nan
    for nonfinite in ("refuse", "propagate"):
        with pytest.raises(InvalidValueError, match=r"NVFP4: 1.*NaN.*1.*2"):
            quantize(x, "NVFP4", nonfinite=nonfinite)
