"""MX: the scale of each rule by hand, blocks that cannot be scaled, and what saturates."""

from __future__ import annotations

import numpy as np
import pytest

from roofline_model.core.errors import InvalidValueError
from roofline_model.formats.catalog import FORMATS
from roofline_model.formats.codecs import dequantize, quantize

MX = [key for key in FORMATS if key.startswith("MX")]


def block(*values: float, length: int = 32) -> np.ndarray:
    x = np.zeros(length, np.float32)
    x[: len(values)] = values
    return x


def scale_of(x: np.ndarray, key: str, **options: str) -> float:
    (scale,) = quantize(x, key, **options).scales.astype(np.float64).reshape(-1)
    return float(scale)


@pytest.mark.parametrize(
    ("key", "largest", "floor", "ceil", "rceil", "even"),
    [
        # 2^floor(log2 7) / 2^emax = 4 / 4; 8 / 4; 7/6 → 2; 7 = 1.75·4 rounds up to 8 with one mantissa bit → 8 / 4
        ("MXFP4", 7.0, 1.0, 2.0, 2.0, 2.0),
        # 6.9 = 1.725·4 lies below 1.75: even stays at 4
        ("MXFP4", 6.9, 1.0, 2.0, 2.0, 1.0),
        ("MXFP4", 4.0, 1.0, 1.0, 1.0, 1.0),  # a power of two: only 4/6 is rounded, up to 1
        ("MXFP4", 3.0, 0.5, 1.0, 0.5, 0.5),  # 3/6 is a power of two
        ("MXFP8_E4M3", 500.0, 1.0, 2.0, 2.0, 2.0),  # 500 = 1.953·256 rounds up with three bits: ≥ 1.9375
        ("MXFP8_E4M3", 449.0, 1.0, 2.0, 2.0, 1.0),
        (
            "MXFP8_E5M2",
            57344.0,
            1.0,
            2.0,
            1.0,
            1.0,
        ),  # 1.75·2^15; with two mantissa bits 1.875 is the middle to the next
        ("MXINT8", 1.5, 1.0, 2.0, 1.0, 1.0),
    ],
)
def test_the_rules_by_hand(key, largest, floor, ceil, rceil, even):
    x = block(largest, -1e-3)
    scales = [scale_of(x, key, scale_rule=rule) for rule in ("floor", "ceil", "rceil", "even")]
    assert scales == [floor, ceil, rceil, even]
    assert scale_of(x, key) == floor


@pytest.mark.parametrize("key", MX)
@pytest.mark.parametrize("rule", ["floor", "ceil", "rceil", "even"])
def test_blocks_at_the_ends_of_the_range(key, rule):
    x = np.stack([np.zeros(32), np.full(32, 1e-45), np.full(32, 2.5e38), np.full(32, -(2.0**-126))]).astype(np.float32)
    q = quantize(x, key, scale_rule=rule)
    scales = q.scales.astype(np.float64)[:, 0]
    assert scales[0] == scales[1] == 2.0**-127
    values = dequantize(q)
    assert np.isfinite(values).all()
    assert not values[0].any()
    assert abs(values[2] / x[2] - 1).max() <= 0.5  # saturated, still of its size
    assert (values[3] <= 0).all()


def test_a_bad_value_makes_its_block_nan_and_no_other():
    x = np.ones((2, 64), np.float32)
    x[0, 3], x[1, 40] = np.nan, np.inf
    for key in MX:
        q = quantize(x, key, nonfinite="propagate")
        values = dequantize(q)
        assert not q.codes[0, :32].any()  # what a cast makes of NaN is nobody's rule: the scale says it
        assert np.isnan(values[0, :32]).all()
        assert np.isnan(values[1, 32:]).all()
        assert (values[0, 32:] == 1).all()
        assert (values[1, :32] == 1).all()
        with pytest.raises(InvalidValueError, match=r"NaN.*infinite"):
            quantize(x, key)


def test_mxint8_is_sixty_fourths():
    q = quantize(block(1.0, 1 / 64, -1 / 64, 0.5 / 64, 1.5 / 64, -1.999), "MXINT8")
    assert q.codes[:6].tolist() == [64, 1, -1, 0, 2, -127]  # ties to even; −128 is left unused
    assert q.codes.dtype == np.int8


def test_a_short_last_block_has_its_own_scale():
    x = np.concatenate([np.full(32, 100.0), [1.0, 0.5, 0.25]]).astype(np.float32)
    q = quantize(x, "MXFP4")
    assert q.scales.astype(float).tolist() == [16.0, 0.25]
    assert dequantize(q)[32:].tolist() == [1.0, 0.5, 0.25]
    assert q.packed_bytes == FORMATS["MXFP4"].storage_bytes((35,)) == 18 + 2
    with pytest.raises(InvalidValueError, match=r"35.*32 \(2.*3\)"):
        quantize(x, "MXFP4", ragged="refuse")


@pytest.mark.parametrize("option", [{"scale": "row"}, {"block_elems": 16}, {"clip": "mse"}, {"scale_rule": "six"}, {"symmetric": True}, {"double_scales": True}, {"overflow": "ieee"}, {"absmax": 1.0}])  # fmt: skip
def test_what_means_nothing_is_refused(option):
    with pytest.raises(InvalidValueError, match="means nothing for MXFP4"):
        quantize(block(1.0), "MXFP4", **option)
