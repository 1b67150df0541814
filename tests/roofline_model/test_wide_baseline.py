"""The 16-bit baseline of a CPU is the faster of both kernels, shape by shape, as measured comparisons have it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from roofline_model import create_custom_asic, get_hardware
from roofline_model.auto_quantize import TimeEstimate, recommend_quantization
from roofline_model.case import Case
from roofline_model.expected import case_times
from roofline_model.wide_baseline import baseline_of, fastest_wide, product_baseline

CPU = replace(create_custom_asic("test cpu", 40, {"FP16": 0.1, "BF16": 0.4, "INT8": 0.8}), kind="cpu")
SHAPE = (1, 4096, 4096)


def times(**seconds: float):
    def one(case: Case) -> TimeEstimate | None:
        formats = dict(case.formats)
        found = seconds.get(formats["b"])
        return None if found is None else TimeEstimate(found, "expected")

    return one


@pytest.mark.parametrize(
    ("fp16_s", "bf16_s", "key"), [(1e-3, 3e-3, "FP16"), (3e-3, 1e-3, "BF16"), (1e-3, 1e-3, "FP16")]
)
def test_the_faster_kernel_is_the_baseline_although_the_other_unit_is_faster(fp16_s, bf16_s, key):
    found = recommend_quantization(
        CPU, *SHAPE, formats=["INT8", "INT4"], times=times(FP16=fp16_s, BF16=bf16_s, INT8=5e-4, INT4=4e-4)
    )
    assert found.baseline.precision == key
    assert found.best.precision == "INT4"
    assert found.best.speedup == pytest.approx(min(fp16_s, bf16_s) / 4e-4)
    # The kernels of weight-only formats are for BF16 activations, whichever product is the baseline.
    assert found.best.activation_format == "BF16"
    assert "(weight-only, BF16 activations)" in found.reason


def test_a_named_baseline_stays_and_so_does_one_without_both_times():
    named = recommend_quantization(CPU, *SHAPE, formats=["BF16", "INT8"], times=times(FP16=1e-3, BF16=3e-3, INT8=5e-4))
    assert named.baseline.precision == "BF16"
    assert fastest_wide(CPU, *SHAPE, times(BF16=1e-3)) is None
    assert recommend_quantization(CPU, *SHAPE, times=times(BF16=1e-3, INT8=5e-4)).baseline.precision == "BF16"


def test_gpus_are_not_asked():
    def never(case: Case) -> TimeEstimate | None:
        raise AssertionError("asked for a GPU")

    assert fastest_wide(get_hardware("gb10"), *SHAPE, never) is None


def test_the_baseline_of_a_product_on_a_cpu_is_the_one_of_its_recommendation(monkeypatch):
    cpu = replace(create_custom_asic("test cpu", 40, {"FP16": 0.1, "BF16": 0.4}), kind="cpu")
    seconds = {"FP16": 1e-3, "BF16": 3e-3}
    monkeypatch.setattr(
        case_times,
        "expected_times",
        lambda chip: lambda case: TimeEstimate(seconds[dict(case.formats)["b"]], "expected"),
    )
    assert baseline_of(cpu) == "BF16"
    assert product_baseline(cpu, (1, 4096, 4096)) == "FP16"
    assert product_baseline(get_hardware("gb10"), (1, 4096, 4096)) == "FP16"
