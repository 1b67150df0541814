"""The ideal prediction: numbers by hand, then the laws every roofline obeys on every chip of the registry."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline_model import (
    DualRooflinePoint,
    InvalidValueError,
    OpCost,
    UnsupportedError,
    create_custom_asic,
    error_ratio,
    gemm,
    get_hardware,
    list_hardware,
    predict,
    predict_gemm,
    predict_gemv,
)
from roofline_model.chips.hardware import Device, MemoryLevel, Quantity
from roofline_model.core.finding import finding, has_code

CHIPS = st.sampled_from([device.key for device in list_hardware()])
KEYS = st.sampled_from(["FP32", "BF16", "FP16", "FP8_E4M3", "INT8", "NVFP4", "INT4", "NF4"])
SIZES = st.integers(min_value=1, max_value=20_000)


def chip(bandwidth_gb_s: float = 1000, **rates: float) -> Device:
    return create_custom_asic("chip", bandwidth_gb_s, rates or {"FP16": 100.0, "INT8": 200.0})


def test_a_memory_bound_product_by_hand() -> None:
    prediction = predict_gemv(chip(), 1000, 1000)
    # x 1000, W 1,000,000, y 1000 elements of 2 bytes at 1e12 B/s; 2e6 FLOPs at 1e14
    assert prediction.memory_time_s == 2_004_000 / 1e12
    assert prediction.compute_time_s == 2e6 / 1e14
    assert (prediction.time_s, prediction.bound) == (prediction.memory_time_s, "memory")
    assert (prediction.read_bytes, prediction.write_bytes, prediction.flops) == (2_002_000, 2000, 2e6)
    assert prediction.intensity_flop_per_byte == 2e6 / 2_004_000
    assert prediction.critical_intensity_flop_per_byte == 100
    assert prediction.rate_flops_per_s == pytest.approx(2e6 / 2.004e-6)
    assert (prediction.path, prediction.compute_format, prediction.memory_level, prediction.provenance) == (
        "native",
        "FP16",
        "DRAM",
        "declared",
    )


def test_a_compute_bound_product_by_hand() -> None:
    prediction = predict_gemm(chip(), 1000, 1000, 1000, "INT8")
    assert prediction.time_s == prediction.compute_time_s == 2e9 / 2e14
    assert prediction.memory_time_s == (1e6 + 1e6 + 2e6) / 1e12
    assert prediction.bound == "compute"


@given(CHIPS, SIZES, SIZES, SIZES, KEYS)
def test_time_is_the_larger_term_and_the_bound_follows_the_ridge(
    key: str, m: int, n: int, k: int, precision: str
) -> None:
    prediction = predict_gemm(key, m, n, k, precision)
    assert prediction.time_s == max(prediction.memory_time_s, prediction.compute_time_s)
    ratio = prediction.intensity_flop_per_byte / prediction.critical_intensity_flop_per_byte
    if not math.isclose(ratio, 1, rel_tol=1e-9):
        assert (prediction.bound == "compute") == (ratio > 1)
    assert prediction.rate_flops_per_s <= prediction.peak_flops_per_s * (1 + 1e-12)
    assert (prediction.read_bytes + prediction.write_bytes) / prediction.time_s <= prediction.bandwidth_bytes_per_s * (
        1 + 1e-12
    )


@given(CHIPS, SIZES, SIZES, KEYS)
def test_gemv_equals_gemm_at_one_row(key: str, n: int, k: int, precision: str) -> None:
    assert predict_gemv(key, n, k, precision) == predict_gemm(key, 1, n, k, precision)


# --- the path that really exists


def test_weight_only_computes_in_the_activation_format_and_says_so() -> None:
    prediction = predict_gemm("gb10", 1, 4096, 4096, "BF16", weight_precision="INT4")
    assert (prediction.compute_format, prediction.path) == ("BF16", "dequantize")
    assert prediction.peak_flops_per_s == pytest.approx(get_hardware("gb10").peak_flops_per_s("BF16"), rel=1e-12)
    assert finding("operands-widened", operand="weights", format="INT4", compute_format="BF16") in prediction.findings


@pytest.mark.parametrize(
    ("key", "precision", "path", "computes_in"),
    [("gb10", "INT4", "emulated", "INT8"), ("a100", "FP8", "dequantize", "BF16"), ("h200", "NVFP4", "dequantize", "BF16"),
     ("gb10", "NF4", "dequantize", "BF16"), ("gb10", "NVFP4", "native", "NVFP4"), ("h100", "FP8_E5M2", "native", "FP8_E5M2")],
)  # fmt: skip
def test_a_format_without_a_unit_takes_the_rate_of_its_path(
    key: str, precision: str, path: str, computes_in: str
) -> None:
    prediction = predict_gemm(key, 4096, 4096, 4096, precision)
    device = get_hardware(key)
    assert (prediction.path, prediction.compute_format) == (path, computes_in)
    assert prediction.peak_flops_per_s == pytest.approx(device.path(computes_in).dense.value, rel=1e-12)
    assert (path == "native") == (not prediction.findings)


def test_an_undeclared_narrow_format_is_dequantised_and_an_undeclared_wide_one_refused() -> None:
    prediction = predict_gemm(chip(FP16=100.0), 4096, 4096, 4096, "FP8")
    assert (prediction.path, prediction.compute_format) == ("dequantize", "FP16")
    with pytest.raises(UnsupportedError, match="no rate for FP32"):
        predict_gemm(chip(FP16=100.0), 8, 8, 8, "FP32")


def test_several_compute_formats_add_their_times() -> None:
    prediction = predict(OpCost({"FP16": 1e12, "INT8": 4e12}, read_bytes=1), chip())
    assert prediction.compute_time_s == pytest.approx(1e12 / 1e14 + 4e12 / 2e14)
    assert prediction.compute_format == "FP16+INT8"
    assert prediction.peak_flops_per_s == pytest.approx(5e12 / 0.03)


def test_provenance_is_that_of_the_weakest_number() -> None:
    assert predict_gemm("h200", 1, 64, 64).provenance == "datasheet"
    assert predict_gemm("gb10", 1, 64, 64).provenance == "derived"
    assert predict_gemm("orin", 1, 64, 64).provenance == "unconfirmed"  # its bandwidth
    assert predict_gemm("b10", 1, 64, 64).provenance == "placeholder"


# --- a copy, caches, and work that is none


def test_a_warm_case_uses_the_cache_only_when_it_fits_and_is_known() -> None:
    h200 = get_hardware("h200")
    small, large = gemm(1, 2048, 2048), gemm(1, 16384, 16384)
    warm = predict(small, h200, cache="warm")
    assert (warm.memory_level, warm.bandwidth_bytes_per_s) == ("L2", 9.8e12)
    assert warm.time_s < predict(small, h200).time_s
    assert predict(large, h200, cache="warm").memory_level == "DRAM"
    unknown = predict(small, "gb10", cache="warm")
    assert unknown.memory_level == "DRAM"
    assert has_code(unknown.findings, "cache-bandwidth-unknown")


def test_operands_that_nearly_fill_the_cache_are_not_predicted_at_its_speed() -> None:
    fast = Quantity(5e12, "B/s", "declared", "test")
    device = replace(chip(), levels=(MemoryLevel("L2", 1e6, fast),))
    full = predict(OpCost({"FP16": 1}, 750_000), device, cache="warm")
    assert (full.memory_level, full.findings) == ("L2", ())
    partly = predict(OpCost({"FP16": 1}, 800_000), device, cache="warm")
    assert partly.memory_level == "DRAM"
    assert partly.time_s == predict(OpCost({"FP16": 1}, 800_000), device).time_s
    assert partly.findings == (finding("cached-in-part", kind="share", cache_share_ratio=0.8, level="L2"),)
    assert predict(OpCost({"FP16": 1}, 1_000_001), device, cache="warm").findings == ()


@pytest.mark.parametrize("work", [OpCost(), OpCost(flops=5), OpCost(flops={"": 5}, read_bytes=5)])
def test_work_without_bytes_or_without_a_format_is_refused(work: OpCost) -> None:
    with pytest.raises(InvalidValueError):
        predict(work, "gb10")


# --- errors and the seeds' names


def test_the_sign_of_the_error() -> None:
    assert error_ratio(90e-6, 100e-6) == pytest.approx(-0.1)  # the prediction was too fast
    assert error_ratio(None, 1.0) is None
    assert error_ratio(1.0, None) is None
    assert error_ratio(1.0, 0.0) is None


def test_dual_points_and_the_old_names() -> None:
    prediction = predict_gemv("b10", 4096, 4096)
    assert prediction.predicted_time_us == prediction.time_s * 1e6
    assert prediction.predicted_tflops == prediction.rate_flops_per_s / 1e12
    assert (prediction.bottleneck, prediction.critical_ai) == (
        prediction.bound,
        prediction.critical_intensity_flop_per_byte,
    )
    assert prediction.arithmetic_intensity == prediction.intensity_flop_per_byte
    point = DualRooflinePoint("here", "FP16", prediction, measured_time_s=2 * prediction.time_s)
    assert point.error_pct == pytest.approx(-50)
    assert point.measured_time_us == pytest.approx(2 * point.predicted_time_us)
    assert DualRooflinePoint("here", "FP16", prediction).error_pct is None
    assert DualRooflinePoint("here", "FP16", prediction).measured_time_us is None
