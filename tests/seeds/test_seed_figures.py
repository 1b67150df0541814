"""Every figure of the original documents that their own formulas give: formats, the placeholder chip, GEMV, GEMM,
advice.

What the documents say and their formulas do not give is in docs/theory/math.md, "Where the original documents differ".
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from roofline_model import (
    BLACKWELL_B10,
    bytes_per_element,
    create_custom_asic,
    get_format,
    get_hardware,
    predict_gemm,
    predict_gemv,
    recommend_quantization,
)


def shown(value: float, digits: int) -> str:
    return f"{value:.{digits}f}"


# --- 001 "Numbers": GEMV 1x4096x4096 and GEMM 2048x4096x4096 on the placeholder


@pytest.mark.parametrize(
    ("precision", "time_us", "intensity", "speedup"),
    [("FP16", "33.57", "1.00", "1.0"), ("FP8_E4M3", "16.79", "2.00", "2.0"), ("INT8", "16.79", "2.00", "2.0"),
     ("NVFP4", "9.51", "3.53", "3.5"), ("INT4", "8.40", "4.00", "4.0")],
)  # fmt: skip
def test_the_decode_table(precision: str, time_us: str, intensity: str, speedup: str) -> None:
    prediction = predict_gemv("b10", 4096, 4096, precision)
    assert shown(prediction.predicted_time_us, 2) == time_us
    assert shown(prediction.arithmetic_intensity, 2) == intensity
    assert shown(predict_gemv("b10", 4096, 4096, "FP16").time_s / prediction.time_s, 1) == speedup
    assert prediction.bottleneck == "memory"


@pytest.mark.parametrize(
    ("precision", "time_us", "same_format_output", "fp16_output", "speedup"),
    [("FP16", "343.6", "1024", "1024", "1.0"), ("FP8_E4M3", "171.8", "2048", "1638", "2.0"), ("INT8", "171.8", "2048", "1638", "2.0"),
     ("NVFP4", "85.9", "3616", "2215", "4.0"), ("INT4", "85.9", "4096", "2341", "4.0")],
)  # fmt: skip
def test_the_prefill_table(
    precision: str, time_us: str, same_format_output: str, fp16_output: str, speedup: str
) -> None:
    prediction = predict_gemm("b10", 2048, 4096, 4096, precision)
    assert shown(prediction.predicted_time_us, 1) == time_us
    assert shown(prediction.arithmetic_intensity, 0) == fp16_output  # the formula's text, and our default
    same = predict_gemm("b10", 2048, 4096, 4096, precision, output_precision=precision)
    assert shown(same.arithmetic_intensity, 0) == same_format_output  # the table of 001
    assert same.predicted_time_us == prediction.predicted_time_us
    assert shown(predict_gemm("b10", 2048, 4096, 4096).time_s / prediction.time_s, 1) == speedup
    assert prediction.bottleneck == "compute"


def test_b10_under_its_old_names() -> None:
    assert BLACKWELL_B10 is get_hardware("b10")
    assert BLACKWELL_B10.peak_bandwidth_gb_s == 1000
    rates = BLACKWELL_B10.flops_by_precision
    assert [rates[key] for key in ("FP16", "FP8_E4M3", "INT8", "INT4", "NVFP4")] == [200, 400, 400, 800, 800]


# --- 003: the rates its own times give (it prints half of them)


@pytest.mark.parametrize(("precision", "tflops"), [("FP16", "1.00"), ("FP8", "2.00"), ("NVFP4", "3.53")])
def test_rates_of_the_decode_table(precision: str, tflops: str) -> None:
    assert shown(predict_gemv("b10", 4096, 4096, precision).predicted_tflops, 2) == tflops


# --- formats


@pytest.mark.parametrize(
    ("name", "effective"),
    [("MXFP4", "0.531"), ("NVFP4", "0.566"), ("MXFP8", "1.031"), ("NF4", "0.531"), ("FP16", "2.000"), ("TF32", "2.375"), ("FP64", "8.000")],
)  # fmt: skip
def test_effective_bytes(name: str, effective: str) -> None:
    assert shown(bytes_per_element(name), 3) == effective


@pytest.mark.parametrize(
    ("name", "percent"),
    [("MXFP8", "3.0"), ("MXFP8_E5M2", "3.0"), ("MXFP6_E3M2", "4.0"), ("MXFP6_E2M3", "4.0"), ("MXFP4", "5.9"), ("MXINT8", "3.0"),
     ("NVFP4", "11.7"), ("NF4", "5.9"), ("FP16", "0.0")],
)  # fmt: skip
def test_scale_overheads(name: str, percent: str) -> None:
    assert shown(100 * get_format(name).scale_overhead_ratio, 1) == percent


@pytest.mark.parametrize(
    ("name", "bits"),
    [("MXFP8", 8.25), ("MXFP6", 6.25), ("MXFP4", 4.25), ("MXINT8", 8.25), ("NVFP4", 4.53125), ("TF32", 19)],
)
def test_effective_bits(name: str, bits: float) -> None:
    assert get_format(name).nominal_bits == bits


def test_nvfp4_nominal_and_stored() -> None:
    nvfp4 = get_format("NVFP4")
    assert nvfp4.nominal_bits == 4 + 8 / 16 + 32 / 1024
    assert nvfp4.storage_bytes((4096, 4096)) * 8 == 4096 * 4096 * 4.5 + 32
    assert shown(100 * (nvfp4.nominal_bits / get_format("MXFP4").nominal_bits - 1), 1) == "6.6"


def test_tf32_nominal_and_stored() -> None:
    tf32 = get_format("TF32")
    assert (tf32.nominal_bits, tf32.bytes_per_element) == (19, 2.375)
    assert tf32.storage_bytes((1,)) == 4
    assert tf32.traffic_bytes_per_element == 4


def test_fp4_codes() -> None:
    codes = np.arange(8, dtype=np.uint8).view(ml_dtypes.float4_e2m1fn).astype(np.float32)
    assert codes.tolist() == [0, 0.5, 1, 1.5, 2, 3, 4, 6]
    assert get_format("NVFP4").element_dtype == get_format("MXFP4").element_dtype == "float4_e2m1fn"
    assert get_format("NVFP4").max_value == codes.max()


@pytest.mark.parametrize(("name", "largest"), [("FP8_E4M3", 448), ("FP8_E5M2", 57344), ("FP16", 65504)])
def test_largest_values(name: str, largest: float) -> None:
    assert get_format(name).max_value == largest


@pytest.mark.parametrize(
    ("name", "speedup"), [("FP16", "2.00"), ("BF16", "2.00"), ("FP8", "4.00"), ("INT8", "4.00"), ("INT4", "8.00"), ("NVFP4", "7.06"), ("MXFP4", "7.53")]
)  # fmt: skip
def test_speedups_against_fp32_by_bytes(name: str, speedup: str) -> None:
    assert shown(bytes_per_element("FP32") / bytes_per_element(name), 2) == speedup


# --- 002: the compatibility profile at 287 GB/s (not the GB10 that we ship)


def test_the_old_gb10_profile() -> None:
    rates = {
        "FP32": 31.0,
        "FP16": 62.0,
        "BF16": 62.0,
        "FP8": 124.0,
        "INT8": 124.0,
        "INT4": 248.0,
        "NVFP4": 1000.0,
        "MXFP4": 1000.0,
    }
    old = create_custom_asic("GB10 of the original documents", 287, rates)
    critical = [shown(old.critical_intensity(name), 0) for name in ("FP32", "FP16", "FP8", "INT4", "NVFP4")]
    assert critical == ["108", "216", "432", "864", "3484"]
    assert get_hardware("gb10").bandwidth.value != old.bandwidth.value


# --- the auto-quantizer


@pytest.mark.parametrize(
    ("shape", "precision", "method", "saved"),
    [((1, 4096, 4096), "INT4", "AWQ", "75"), ((2048, 4096, 4096), "NVFP4", "native_fp4", "72"), ((4096, 4096, 4096), "NVFP4", "native_fp4", "72")],
)  # fmt: skip
def test_decisions_on_b10(shape: tuple[int, int, int], precision: str, method: str, saved: str) -> None:
    ranking = recommend_quantization("b10", *shape)
    assert (ranking.precision, ranking.method) == (precision, method)
    assert shown(ranking.speedup, 1) == "4.0"
    assert shown(ranking.memory_savings_pct, 0) == saved
    assert ranking.reason


def test_int4_ties_with_native_fp4_in_prefill_and_loses_on_quality() -> None:
    ranking = recommend_quantization("b10", 2048, 4096, 4096)
    times = {option.key: option.estimate.time_s for option in ranking.options}
    assert times["INT4"] == pytest.approx(times["NVFP4"])
    level = next(item for item in ranking.choice.findings if item.code == "level-preferred-for-quality")
    assert "INT4" in level.value("others")


def test_the_custom_chip() -> None:
    chip = create_custom_asic("MyASIC", bandwidth_gb_s=500, flops_by_precision={"FP16": 50.0, "INT8": 100.0})
    ranking = recommend_quantization(hardware=chip, M=1, N=4096, K=4096)
    assert str(ranking) == "INT8 (PTQ) 2.0x speedup"
    assert shown(ranking.memory_savings_pct, 0) == "50"
