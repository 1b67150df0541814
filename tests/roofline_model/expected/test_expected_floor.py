"""Cold operands: no expected time below the ideal one, neither one by one nor in a sweep; warm ones may be."""

from __future__ import annotations

import pytest

from roofline_model.chips.hardware import get_hardware
from roofline_model.core.finding import has_code
from roofline_model.expected.predict import predict_expected
from roofline_model.ideal.roofline import predict
from roofline_model.operators.product import gemm, product_of_pair
from roofline_model.sweep import GemmGrid, format_pairs, sweep_gemm

WIDE = gemm(8192, 128, 2048, a="NVFP4")  # activations and output are 30 times the weight


def test_a_wide_shallow_product_takes_its_ideal_time_at_least():
    ideal, expected = predict(WIDE, "gb10"), predict_expected(WIDE, "gb10")
    assert expected.low_s == expected.time_s == ideal.time_s < expected.high_s
    assert expected.binding == "dram"
    assert has_code(expected.findings, "product-held", "ideal")
    assert sum(seconds for _, seconds in expected.parts) == pytest.approx(expected.time_s)
    assert dict(expected.terms)["dram"] == ideal.time_s


def test_others_are_left_as_they_are():
    work = gemm(1, 4096, 4096, a="BF16")
    prediction = predict_expected(work, "gb10")
    assert prediction.time_s > predict(work, "gb10").time_s
    assert not has_code(prediction.findings, "product-held", "ideal")
    assert not has_code(predict_expected(WIDE, "gb10", cache="warm").findings, "product-held", "ideal")


def test_a_sweep_says_the_same():
    grid = GemmGrid(
        M=(64, 1024, 8192),
        N=(128, 2048),
        K=(128, 2048),
        devices=(get_hardware("gb10"), get_hardware("l40s")),
        pairs=format_pairs(["NVFP4", "BF16", "INT4.BF16"]),
    )
    frame = sweep_gemm(grid).dropna(subset=["expected_s"])
    assert (frame.expected_s >= frame.ideal_s).all()
    assert (frame.expected_high_s >= frame.expected_s).all()
    assert (frame.expected_low_s <= frame.expected_s).all()
    assert (frame.expected_low_s >= frame.ideal_s).all()
    for row in frame.sample(6, random_state=0).itertuples():
        pair = {"weight": row.weight_format, "activation": row.activation_format}
        prediction = predict_expected(product_of_pair(row.M, row.N, row.K, **pair), row.hardware)
        times = (prediction.time_s, prediction.low_s, prediction.high_s)
        assert times == pytest.approx((row.expected_s, row.expected_low_s, row.expected_high_s), rel=1e-9)
        assert prediction.binding == row.binding
