"""One expected prediction from operators and chips: what it holds, where it comes from, why there is none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from roofline_model import OpCost, create_custom_asic, gemm, gemv, get_hardware
from roofline_model.chips.machine_constants import Calibration, Constant
from roofline_model.core.finding import reason_text
from roofline_model.expected.predict import predict_expected, why_no_expected
from roofline_model.expected.prediction import EXPECTED_VERSION
from roofline_model.ideal.roofline import predict
from roofline_model.operators.product import Operator


def rate(unit: str, best: float, median: float, slow: float) -> Constant:
    return Constant(unit, best, median, slow, 0.01, 9)


MEASURED = Calibration(
    measured_at="2026-11-21T10:00:00+00:00",
    subject="test CPU",
    kind="cpu",
    dram={"read": rate("B/s", 2e10, 1.8e10, 1.5e10), "copy": rate("B/s", 1.8e10, 1.6e10, 1.4e10)},
    peaks={"FP32": rate("FLOP/s", 1e11, 9e10, 8e10)},
    floors={"call": rate("s", 1e-6, 2e-6, 4e-6)},
)


def test_a_prediction_has_time_interval_parts_and_provenance():
    prediction = predict_expected(gemv(4096, 4096, a="BF16"), "h100-sxm")
    assert prediction is not None
    assert prediction.hardware == "h100-sxm"
    assert prediction.low_s < prediction.time_s < prediction.high_s
    assert sum(seconds for _, seconds in prediction.parts) == pytest.approx(prediction.time_s)
    assert prediction.binding in dict(prediction.terms)
    assert (prediction.provenance, prediction.model_version) == ("fitted", EXPECTED_VERSION)
    assert prediction.time_s > predict(gemv(4096, 4096, a="BF16"), "h100-sxm").time_s


@pytest.mark.parametrize(
    "key", ["gb10", "h200-sxm", "gb200", "b300", "l4", "rtx-4090", "rtx-5090", "orin-agx-64gb", "thor-t5000"]
)
@pytest.mark.parametrize(("a", "b"), [("BF16", "BF16"), ("FP16", "INT4"), ("INT8", "INT8"), ("NVFP4", "NVFP4")])
@pytest.mark.parametrize("m", [1, 512])
def test_chips_that_were_never_measured_have_an_expected_time_too(key, a, b, m):
    work = gemm(m, 4096, 4096, a=a, b=b)
    prediction = predict_expected(work, key)
    assert prediction.provenance.startswith("transferred")
    assert prediction.findings
    # never faster than light, nor than half of a tenth of it
    ideal_s = predict(work, key).time_s
    assert 0.95 * ideal_s < prediction.time_s < 20 * ideal_s + 3e-5


def test_warm_weights_are_faster_than_cold_ones():
    work = gemv(4096, 4096, a="BF16")  # 34 MB in 128 MB
    cold, warm = (predict_expected(work, "rtx-pro-6000", cache=state) for state in ("cold", "warm"))
    assert warm.time_s < 0.7 * cold.time_s
    assert predict_expected(work, "rtx-pro-6000", cache="flushed").time_s == cold.time_s


def test_the_cast_is_part_of_the_call_only_when_asked():
    work = gemm(16, 4096, 4096, a="FP8")
    without, with_cast = (
        predict_expected(work, "h100-sxm", dynamic_activation_quantization=casts) for casts in (False, True)
    )
    assert "cast" not in dict(without.parts)
    assert dict(with_cast.parts)["cast"] > 0
    assert with_cast.time_s > without.time_s


def test_a_format_without_a_unit_runs_on_the_weight_only_kernels():
    prediction = predict_expected(gemm(1, 8192, 8192, a="NVFP4"), "l40s")
    assert "INT4 weight-only" in [item.value("family") for item in prediction.findings]
    assert prediction.provenance == "transferred-format"


@pytest.mark.parametrize(("key", "message"), [("mi300x", "CDNA3"), ("b10", "placeholder")])
def test_another_architecture_has_none_and_says_why(key, message):
    work = gemv(4096, 4096)
    assert predict_expected(work, key) is None
    assert message in reason_text(why_no_expected(work, key))


def test_a_custom_chip_has_none_and_says_why():
    asic = create_custom_asic("mine", 1000, {"BF16": 100})
    assert predict_expected(gemv(64, 64, a="BF16"), asic) is None
    assert "architecture" in reason_text(why_no_expected(gemv(64, 64, a="BF16"), asic))


@pytest.mark.parametrize(
    "work", [Operator("rope", (("rows", 4),), (("x", "BF16"),), OpCost(read_bytes=8)), OpCost(flops={"BF16": 8})]
)
def test_other_operators_have_none_and_say_why(work):
    assert predict_expected(work, "gb10") is None
    assert why_no_expected(work, "gb10").value("kind") == "operation"


def test_there_is_no_reason_where_there_is_a_prediction():
    assert why_no_expected(gemv(64, 64, a="BF16"), "gb10") is None


def test_the_ceilings_of_a_cpu_answer_from_its_own_constants_where_they_are_asked_for():
    cpu = replace(create_custom_asic("cpu", 20, {"FP32": 0.1}), kind="cpu", calibration=MEASURED)
    work = gemm(64, 512, 512, a="FP32")
    prediction = predict_expected(work, cpu, allow_ceilings=True)
    assert (prediction.provenance, prediction.binding) == ("measured-here", "tensor")
    # 2 · 64 · 512 · 512 FLOP at 90 GFLOP/s and one call of 2 µs
    assert prediction.time_s == pytest.approx(2 * 64 * 512 * 512 / 9e10 + 2e-6)
    assert sum(seconds for _, seconds in prediction.parts) == pytest.approx(prediction.time_s)
    plain = predict_expected(OpCost(flops={"FP32": 9e10}), cpu, allow_ceilings=True)
    assert plain.time_s == pytest.approx(1 + 2e-6)


def test_a_cpu_that_was_never_calibrated_says_so():
    cpu = replace(create_custom_asic("cpu", 20, {"FP32": 0.1}), kind="cpu")
    assert predict_expected(gemv(64, 64, a="FP32"), cpu) is None
    assert "roofline calibrate" in reason_text(why_no_expected(gemv(64, 64, a="FP32"), cpu))


def test_a_machines_own_bandwidth_replaces_a_transferred_one():
    slow = replace(MEASURED, kind="cuda", dram={"read": rate("B/s", 1.4e11, 1.365e11, 1.2e11)})
    chip = replace(get_hardware("gb10"), calibration=slow)
    work = gemv(16384, 16384, a="BF16")
    expected, registry = predict_expected(work, chip), predict_expected(work, "gb10")
    assert expected.provenance == "measured-here"
    # its own read is half of the specified 273 GB/s; fitted siblings reach about 0.8
    assert expected.time_s > 1.3 * registry.time_s


def test_a_weight_that_is_decoded_first_pays_for_the_pass_and_the_wide_product():
    from bench_cases.kernels.products.catalog import KERNELS
    from bench_cases.shapes.products import Shape

    kernel = next(
        candidate for candidate in KERNELS if candidate.name == "dequant_emulated" and candidate.weight == "NVFP4"
    )
    work, chip = kernel.work(Shape(1, 4096, 4096, "")), get_hardware("gb10")
    expected, wide = predict_expected(work, chip), predict_expected(gemm(1, 4096, 4096, a="BF16"), chip)
    parts = dict(expected.parts)
    assert expected.time_s == pytest.approx(wide.time_s + parts["dequantize"])
    # narrow weight read, BF16 weight written, at the chip's best below its datasheet rate
    moved = dict(work.cost.read_bytes)["B"] + 2 * 4096 * 4096
    assert moved / 273.06e9 < parts["dequantize"] < 2 * moved / 273.06e9
    assert expected.time_s > predict(work, chip).time_s * 0.9
    assert expected.low_s < expected.time_s < expected.high_s
