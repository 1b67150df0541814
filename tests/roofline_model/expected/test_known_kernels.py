"""An expected time is of a kernel that exists: on a calibrated machine one that was timed, on a GPU one that a library
has.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from roofline_model import create_custom_asic, get_hardware
from roofline_model.chips.curve import TimedCall, kernel_curves
from roofline_model.chips.hardware import ComputePath
from roofline_model.chips.machine_constants import Calibration, Constant
from roofline_model.core.finding import finding, has_code, short_text
from roofline_model.expected.calibrated import CALIBRATED_VERSION, KERNEL_VERSION
from roofline_model.expected.predict import predict_expected, why_no_expected
from roofline_model.models.step_expected import call_within_ceilings, expected_call
from roofline_model.operators.attention import attention
from roofline_model.operators.elementwise import softmax
from roofline_model.operators.product import gemm, product_of_pair
from roofline_model.sweep import GemmGrid, format_pairs, sweep_gemm

SHAPE = (1, 1024, 1024)


def constant(value, unit):
    return Constant(unit, value, value, value, 0.0, 5)


def timed_here():
    """Return a CPU with units for FP32, BF16 and INT8 that timed three kernels, as `roofline calibrate` leaves it."""
    calls = [
        TimedCall(gemm(1, N, 1024, a=a, b=b, c=c), kernel, seconds * N / 1024)
        for kernel, (a, b, c), seconds in (
            ("int_mm", ("INT8", "INT8", "FP32"), 1e-4),
            ("int4pack", ("BF16", "INT4", "BF16"), 5e-5),
            ("scaled_mm_emulated", ("FP8", "FP8", "BF16"), 4.6e-3),
        )
        for N in (512, 2048)
    ]
    calibration = Calibration(
        "2026-11-22T04:00:00+00:00",
        "Test CPU",
        "cpu",
        {"read": constant(4e10, "B/s")},
        peaks={key: constant(value, "FLOP/s") for key, value in (("FP32", 1e11), ("BF16", 4e11), ("INT8", 8e11))},
        floors={"call": constant(2e-6, "s")},
        kernels=kernel_curves(calls),
    )
    plain = create_custom_asic("test cpu", 40, {"FP32": 0.1, "BF16": 0.4, "INT8": 0.8})
    wide = plain.paths["BF16"].dense
    widened = {
        key: ComputePath(key, "dequantize", "BF16", wide, reason="no unit") for key in ("FP8_E4M3", "NVFP4", "INT4")
    }
    return replace(plain, kind="cpu", paths={**plain.paths, **widened}, calibration=calibration)


CPU = timed_here()


@pytest.mark.parametrize(
    ("weight", "activation"),
    [("NVFP4", "NVFP4"), ("INT4", "INT4"), ("FP8", "BF16"), ("INT8", "BF16"), ("NVFP4", "BF16")],
)
def test_a_pair_whose_kernel_was_never_timed_has_no_expected_time(weight, activation):
    work = product_of_pair(*SHAPE, weight=weight, activation=activation)
    assert predict_expected(work, CPU) is None
    assert predict_expected(work, CPU, cache="warm") is None
    assert why_no_expected(work, CPU).value("kind") == "formats-untimed"
    assert expected_call(work, CPU) is None
    # A name alone is no time; who knows what to make of it gets what the ceilings allow.
    assert predict_expected(work, CPU, kernel="mine") is None
    allowed = call_within_ceilings(work, CPU)
    assert allowed == predict_expected(work, CPU, allow_ceilings=True)
    assert allowed.model_version == CALIBRATED_VERSION


def test_the_reason_names_the_pair_and_what_to_do():
    reason = why_no_expected(product_of_pair(*SHAPE, weight="FP8", activation="BF16"), CPU)
    assert reason == finding("no-expected-time", kind="formats-untimed", hardware="test-cpu", formats="FP8_E4M3.BF16")
    assert "`roofline calibrate`" in short_text(reason)
    assert why_no_expected(gemm(*SHAPE, a="NVFP4"), CPU).value("formats") == "NVFP4"


@pytest.mark.parametrize(
    ("formats", "kernel", "seconds"),
    [("INT8.INT8", "int_mm", 1e-4), ("FP8", "scaled_mm_emulated", 4.6e-3), ("INT4.BF16", "int4pack", 5e-5)],
)
def test_a_kernel_that_was_timed_answers_whatever_format_its_result_has(formats, kernel, seconds):
    ((weight, activation),) = format_pairs([formats])
    prediction = predict_expected(product_of_pair(*SHAPE, weight=weight, activation=activation), CPU)
    assert (prediction.kernel, prediction.model_version) == (kernel, KERNEL_VERSION)
    assert prediction.time_s == pytest.approx(seconds)
    assert has_code(prediction.findings, "other-result-format") == (kernel != "int4pack")


def test_a_result_that_was_timed_comes_before_another_one():
    slower = TimedCall(gemm(*SHAPE, a="INT8", c="FP16"), "int_mm_16", 9e-4)
    both = kernel_curves([slower], CPU.calibration.kernels)
    chip = replace(CPU, calibration=replace(CPU.calibration, kernels=both))
    assert predict_expected(gemm(*SHAPE, a="INT8", c="FP16"), chip).kernel == "int_mm_16"
    assert predict_expected(gemm(*SHAPE, a="INT8", c="FP32"), chip).kernel == "int_mm"


WIDE = [gemm(*SHAPE, a="BF16"), gemm(*SHAPE, a="FP32"), attention(1, 8, 8, 64, 64, 64, q="BF16")]


@pytest.mark.parametrize("work", WIDE, ids=str)
def test_the_ceiling_of_a_unit_is_no_time_of_a_cpus_kernel_but_is_of_a_gpus(work):
    assert predict_expected(work, CPU) is None
    as_gpu = replace(CPU, calibration=replace(CPU.calibration, kind="cuda", kernels=()))
    prediction = predict_expected(work, as_gpu)
    assert (prediction.provenance, prediction.model_version) == ("measured-here", CALIBRATED_VERSION)
    assert predict_expected(attention(1, 8, 8, 1, 64, 64, q="BF16", kv="FP8"), as_gpu) is None


def test_one_rule_where_no_kernel_was_timed():
    ceilings = replace(CPU, calibration=replace(CPU.calibration, kernels=()))
    named = product_of_pair(*SHAPE, weight="INT4", activation="BF16")
    for work in (*WIDE, named, named.cost, softmax(64, 64), gemm(*SHAPE, a="INT8")):
        assert predict_expected(work, ceilings) is None
        assert predict_expected(work, ceilings, kernel="matmul") is None
        assert why_no_expected(work, ceilings).value("kind") == "no-kernel-timed"
    assert call_within_ceilings(named, ceilings).model_version == CALIBRATED_VERSION
    # Streams of a machine whose kernels were timed do as its memory does.
    assert predict_expected(softmax(64, 64), CPU) is not None


def test_a_sweep_leaves_out_what_one_call_leaves_out():
    grid = GemmGrid((1, 8), (1024,), (1024,), (CPU, get_hardware("h100")), format_pairs(["INT8.INT8", "INT4.INT4"]))
    table = sweep_gemm(grid)
    counts = table.groupby(["hardware", "weight_format"])["expected_s"].count().to_dict()
    assert counts == {
        ("test-cpu", "INT8"): 2,
        ("test-cpu", "INT4"): 0,
        ("h100-sxm", "INT8"): 2,
        ("h100-sxm", "INT4"): 0,
    }


# --- GPUs


@pytest.mark.parametrize("chip", ["h100", "b200", "gb10", "a100", "l40s", "orin"])
def test_no_library_multiplies_int4_by_int4(chip):
    work = gemm(512, 4096, 4096, a="INT4")
    assert predict_expected(work, chip) is None
    assert predict_expected(work, chip, cache="warm") is None
    assert why_no_expected(work, chip).value("kind") == "no-library-kernel"
    weight_only = product_of_pair(512, 4096, 4096, weight="INT4", activation="BF16")
    assert predict_expected(weight_only, chip).time_s > 0


@pytest.mark.parametrize("chip", ["h100", "a100"])
@pytest.mark.parametrize("rows", [1, 16, 512, 4096])
def test_two_operands_without_a_unit_are_never_faster_than_the_weight_only_kernel(chip, rows):
    both = predict_expected(gemm(rows, 4096, 4096, a="NVFP4"), chip)
    prediction = predict_expected(gemm(rows, 4096, 4096, a="BF16", b="NVFP4", c="FP16"), chip)
    assert both.time_s >= prediction.time_s
    assert has_code(both.findings, "pair-decoded")
