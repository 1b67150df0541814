"""A calibrated machine predicts a kernel it has timed by that kernel's curve, everything else by its ceilings."""

from __future__ import annotations

from dataclasses import replace

import pytest

from roofline_model.chips.curve import TimedCall, kernel_curves
from roofline_model.chips.device_text import device_text
from roofline_model.chips.hardware import create_custom_asic, get_hardware, read_device_text
from roofline_model.chips.machine_constants import Calibration, Constant
from roofline_model.core.finding import finding, has_code
from roofline_model.expected.calibrated import CALIBRATED_VERSION, KERNEL_VERSION, predict_kernel
from roofline_model.expected.gap import explain_gap
from roofline_model.expected.predict import predict_expected
from roofline_model.operators.product import gemm


def constant(value, unit):
    return Constant(unit, value, value, value, 0.0, 5)


CALLS = [
    TimedCall(gemm(1, N, 1024, a="BF16"), kernel, seconds * N / 1024)
    for kernel, seconds in (("good", 1e-4), ("slow", 5e-4))
    for N in (512, 2048)
]
CEILINGS = Calibration(
    measured_at="2026-11-21T12:00:00+00:00",
    subject="Test CPU",
    kind="cpu",
    dram={"read": constant(4e10, "B/s")},
    peaks={"FP32": constant(1e11, "FLOP/s"), "BF16": constant(4e11, "FLOP/s")},
    floors={"call": constant(2e-6, "s")},
)
PLAIN = replace(create_custom_asic("test cpu", 40, {"FP32": 0.1, "BF16": 0.4}), kind="cpu", calibration=CEILINGS)
CHIP = replace(PLAIN, calibration=replace(CEILINGS, kernels=kernel_curves(CALLS)))
WORK = gemm(1, 1024, 1024, a="BF16")


@pytest.mark.parametrize(("kernel", "seconds"), [("good", 1e-4), ("slow", 5e-4), (None, 1e-4), ("mine", 1e-4)])
def test_the_named_kernel_or_the_fastest_one(kernel, seconds):
    prediction = predict_expected(WORK, CHIP, kernel=kernel)
    assert prediction.time_s == pytest.approx(seconds)
    assert prediction.kernel == ("slow" if kernel == "slow" else "good")
    assert prediction.low_s < prediction.time_s < prediction.high_s
    assert prediction.low_s * prediction.high_s == pytest.approx(prediction.time_s**2)
    assert (prediction.provenance, prediction.model_version) == ("measured-here", KERNEL_VERSION)
    assert has_code(prediction.findings, "calibration-stands-in", "kernel") == (kernel == "mine")


def test_its_parts_are_the_call_what_the_ceilings_explain_and_the_kernel_itself():
    prediction = predict_expected(WORK, CHIP, kernel="slow")
    parts = dict(prediction.parts)
    assert sum(parts.values()) == pytest.approx(prediction.time_s)
    assert parts["launch"] == pytest.approx(2e-6)
    assert parts["dram"] == pytest.approx(WORK.cost.total_bytes / 4e10)
    assert prediction.binding == "kernel"
    split = explain_gap(
        measured_s=6e-4,
        ideal_memory_s=5e-5,
        ideal_compute_s=1e-6,
        expected_s=prediction.time_s,
        terms_s=dict(prediction.terms),
    )
    named = dict(split.parts)
    assert sum(named.values()) == pytest.approx(6e-4)
    assert named["kernel"] == pytest.approx(parts["kernel"])
    assert named["unexplained"] == pytest.approx(1e-4)


def test_a_kernel_that_beats_the_ceilings_has_no_part_of_its_own():
    fast = kernel_curves([TimedCall(WORK, "fast", 3e-5)])
    prediction = predict_expected(WORK, replace(PLAIN, calibration=replace(CEILINGS, kernels=fast)), kernel="fast")
    assert dict(prediction.parts).keys() == {"launch", "dram"}
    assert sum(seconds for _, seconds in prediction.parts) == pytest.approx(3e-5)


@pytest.mark.parametrize(
    ("work", "cache"),
    [(WORK, "warm"), (WORK.cost, "cold")],
)
def test_warm_operands_and_plain_costs_fall_back_to_the_ceilings(work, cache):
    prediction = predict_expected(work, CHIP, cache=cache, kernel="good")
    assert prediction == predict_expected(work, PLAIN, cache=cache, allow_ceilings=True)
    assert predict_expected(work, PLAIN, cache=cache) is None
    assert prediction.model_version == CALIBRATED_VERSION


def test_without_curves_there_is_no_kernel_time():
    assert predict_kernel(WORK, PLAIN) is None
    assert predict_kernel(WORK, get_hardware("gb10")) is None


def test_rows_beyond_the_calibrated_ones_are_said():
    prediction = predict_expected(gemm(64, 1024, 1024, a="BF16"), CHIP, kernel="good")
    assert prediction.time_s == pytest.approx(64e-4)
    assert finding("calibration-stands-in", kind="rows", row_count=1) in prediction.findings


def test_a_chip_file_carries_the_curves():
    assert read_device_text(device_text(CHIP), "x.toml").calibration == CHIP.calibration
