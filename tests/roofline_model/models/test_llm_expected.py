"""The expected time of a pass is the sum of its kernels'; what has no model of its own is built from what has."""

from __future__ import annotations

from dataclasses import replace

import pytest

from roofline_model import create_custom_asic, gemm, get_hardware
from roofline_model.chips.hardware import Device
from roofline_model.chips.machine_constants import Calibration, Constant
from roofline_model.core.finding import reason_text
from roofline_model.expected.predict import cold_limits
from roofline_model.expected.prediction import ExpectedPrediction
from roofline_model.models.llm import ModelPrediction, predict_model
from roofline_model.models.step_expected import ExpectedStep, call_within_ceilings, expected_step, why_no_step
from roofline_model.operators.attention import attention
from roofline_model.operators.product import Operator

H100 = get_hardware("h100-sxm")
LAUNCH_S = 2e-6
RATE = 1e12


def streaming(work: Operator, device: Device) -> ExpectedPrediction | None:
    """Answer for products and attention only: 2 µs and 1 TB/s, −10 % to +20 %."""
    if work.op not in ("gemv", "gemm", "attention"):
        return None
    moved_s = work.cost.total_bytes / RATE
    time_s = LAUNCH_S + moved_s
    parts = (("launch", LAUNCH_S), ("dram", moved_s))
    return ExpectedPrediction(device.key, time_s, 0.9 * time_s, 1.2 * time_s, parts, "dram", "gemv", "fitted")


def step(prediction: ModelPrediction) -> ExpectedStep:
    result = expected_step(prediction, H100, estimate=streaming)
    assert result is not None
    return result


def test_a_pass_is_a_launch_and_the_bytes_of_every_kernel() -> None:
    prediction = predict_model(H100, "llama-3-8b", context=2048)
    result = step(prediction)
    assert result.time_s == pytest.approx(prediction.launch_count * LAUNCH_S + prediction.moved_bytes / RATE, rel=1e-9)
    assert result.low_s == pytest.approx(0.9 * result.time_s)
    assert result.high_s == pytest.approx(1.2 * result.time_s)
    assert result.provenance == "fitted"
    assert [kernel.kernel for kernel in result.kernels] == [kernel.kernel for kernel in prediction.kernels]
    assert {kernel.kernel.name: kernel.binding for kernel in result.kernels}["input_norm"] == "launch"


def test_experts_and_absorbed_products_stand_beside_each_other() -> None:
    prediction = predict_model(H100, "deepseek-v3", context=64)
    kernels = {kernel.kernel.name: kernel for kernel in step(prediction).kernels}
    experts = dict(kernels["experts_down"].kernel.work.shape)
    assert experts["groups"] == 8
    same = gemm(1, 8 * 7168, 2048, a="FP8_E4M3", b="FP8_E4M3", c="BF16")
    assert kernels["experts_down"].time_s == pytest.approx(LAUNCH_S + same.cost.total_bytes / RATE)
    absorb = gemm(1, 128 * 512, 128, a="BF16", b="FP8_E4M3", c="BF16")
    assert kernels["absorb_k"].time_s == pytest.approx(LAUNCH_S + absorb.cost.total_bytes / RATE)


def test_rotation_and_append_are_inside_the_attention_that_says_so() -> None:
    def including(work: Operator, device: Device) -> ExpectedPrediction | None:
        prediction = streaming(work, device)
        return prediction and replace(prediction, covered_ops=("rope", "kv_write") if work.op == "attention" else ())

    step_prediction = predict_model(H100, "llama-3-8b", context=2048)
    apart, inside = step(step_prediction), expected_step(step_prediction, H100, estimate=including)
    assert inside is not None
    kernels = {kernel.kernel.name: kernel for kernel in inside.kernels}
    assert kernels["rope"].time_s == kernels["kv_write"].time_s == 0
    dropped = [kernel for kernel in apart.kernels if kernel.kernel.name in ("rope", "kv_write")]
    assert apart.time_s - inside.time_s == pytest.approx(
        sum(kernel_row.kernel.calls_count * kernel_row.time_s for kernel_row in dropped)
    )


def test_latent_attention_is_built_from_bytes_flops_and_wider_attention() -> None:
    def plain(work: Operator, device: Device) -> ExpectedPrediction | None:
        if "Dv" in dict(work.shape):
            return None  # as the fitted model answers
        prediction = streaming(work, device)
        # Products of many rows run at 100 TFLOP/s.
        return prediction and replace(prediction, time_s=max(prediction.time_s, work.cost.total_flops / 1e14))

    decode = predict_model(H100, "deepseek-v3", context=4096)
    result = expected_step(decode, H100, estimate=plain)
    assert result is not None
    attention_row = next(kernel for kernel in result.kernels if kernel.kernel.name == "attention")
    assert attention_row.binding == "tensor"  # 228 FLOP per byte: 10 µs at 100 TFLOP/s against 5 µs of bytes
    assert attention_row.time_s == pytest.approx(LAUNCH_S + attention_row.kernel.work.cost.total_flops / 1e14, rel=0.01)
    assert (attention_row.low_s, attention_row.high_s) == (
        pytest.approx(0.8 * attention_row.time_s),
        pytest.approx(2 * attention_row.time_s),
    )
    prefill = predict_model(H100, "deepseek-v3", "prefill", context=2048)
    result = expected_step(prefill, H100, estimate=plain)
    assert result is not None
    attention_row = next(kernel for kernel in result.kernels if kernel.kernel.name == "attention")
    wide = attention(1, 128, 128, 2048, 2048, 192, q="BF16", causal=True)
    unpadded = plain(wide, H100)
    assert unpadded is not None
    assert attention_row.time_s == pytest.approx(unpadded.time_s * (192 + 128) / (192 + 192))


def test_a_product_without_a_model_gives_no_time_and_a_reason() -> None:
    prediction = predict_model("b10", "llama-3-8b")
    assert expected_step(prediction, "b10") is None
    reason = reason_text(why_no_step(prediction, "b10"))
    assert reason.startswith("qkv_proj: no expected-time constants")
    assert why_no_step(predict_model(H100, "llama-3-8b"), H100) is None


def test_the_weakest_provenance_of_what_takes_the_time() -> None:
    def mixed(work: Operator, device: Device) -> ExpectedPrediction | None:
        prediction = streaming(work, device)
        is_large = dict(work.shape).get("N", 0) > 20_000
        return prediction and replace(prediction, provenance="transferred-class" if is_large else "fitted")

    step_prediction = predict_model(H100, "llama-3-8b", context=128)
    result = expected_step(step_prediction, H100, estimate=mixed)
    assert result is not None
    assert result.provenance == "transferred-class"


def test_a_calibrated_cpu_predicts_every_kernel_from_its_own_numbers() -> None:
    def speed(value: float, unit: str = "B/s") -> Constant:
        return Constant(unit, value, value, value, 0.0, 5)

    calibration = Calibration(
        measured_at="2026-11-21T12:00:00+00:00",
        subject="Test CPU",
        kind="cpu",
        dram={"read": speed(50e9), "copy": speed(30e9)},
        peaks={"BF16": speed(400e9, "FLOP/s"), "FP32": speed(200e9, "FLOP/s")},
        floors={"call": speed(2e-6, "s")},
    )
    chip = create_custom_asic("test cpu", 50, {"FP32": 0.2, "BF16": 0.4})
    chip = replace(chip, calibration=calibration, kind="cpu")
    prediction = predict_model(chip, "tinyllama", context=128)
    assert expected_step(prediction, chip) is None  # its ceilings alone are no expected time
    result = expected_step(prediction, chip, estimate=call_within_ceilings)
    assert result is not None
    assert result.provenance == "measured-here"
    assert result.stream_time_s == result.time_s  # nothing is launched
    assert result.time_s == pytest.approx(prediction.time_s + prediction.launch_count * 2e-6, rel=0.02)


@pytest.mark.parametrize("chip", ["gb10", "h100-sxm", "rtx-5090", "orin-agx-64gb"])
def test_no_kernel_of_a_pass_nor_the_pass_begins_below_its_ideal(chip) -> None:
    device, seen_count = get_hardware(chip), 0
    for model in ("llama-3.1-8b", "deepseek-v2-lite", "mixtral-8x7b"):
        for formats in ("BF16", "INT8.BF16", "NVFP4", "INT4.BF16"):
            for phase in ("decode", "prefill"):
                prediction = predict_model(device, model, phase, context=2048, formats=formats)
                whole = expected_step(prediction, device)
                if whole is None:
                    continue
                seen_count += 1
                for kernel in whole.kernels:
                    assert kernel.low_s <= kernel.time_s <= kernel.high_s
                    # What the attention's own time has in it takes nothing beside it.
                    limit_s = 0.0 if kernel.binding == "attention" else max(cold_limits(kernel.kernel.work, device))
                    assert kernel.low_s >= limit_s * (1 - 1e-9), (model, formats, kernel)
                if chip != "rtx-5090":  # the one whose rated peak was beaten
                    assert whole.low_s >= prediction.time_s * (1 - 1e-9), (model, formats, phase)
    assert seen_count >= 12
