"""On a calibrated machine a plan whose kernels were timed never loses to one that rests on ceilings alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from roofline_model.chips.curve import CurvePoint, KernelCurve, work_size
from roofline_model.chips.hardware import Device, create_custom_asic
from roofline_model.chips.machine_constants import Calibration, Constant
from roofline_model.core.finding import has_code
from roofline_model.models.llm import predict_model
from roofline_model.models.model_shapes import ModelShape
from roofline_model.operators.attention import attention
from roofline_model.operators.product import Operator, gemm
from roofline_model.recommend.expected_passes import ExpectedPasses
from roofline_model.recommend.model import recommend_model
from roofline_model.recommend.search.losses_file import MeasuredLosses

SHAPE = ModelShape(
    name="small",
    source="this test",
    layer_count=2,
    hidden_size=1024,
    query_heads=8,
    kv_heads=2,
    head_dim=128,
    ffn_size=2816,
    vocab_size=8000,
    max_context_size=4096,
)


def constant(unit: str, value: float) -> Constant:
    return Constant(unit, value, value, value, 0.01, 9)


def curve(kernel: str, work: Operator, seconds: float) -> KernelCurve:
    size = work_size(work)
    return KernelCurve(
        size.family, kernel, size.formats, {size.regime: (CurvePoint(size.unit_count, (seconds,)),)}, 0.1
    )


@pytest.fixture(scope="module")
def cpu() -> Device:
    """A CPU that reads 20 GB/s; its BF16 kernels take ten times as long as that, its INT8 ones half as long as BF16."""
    bf16, int8 = gemm(1, 1024, 1024, a="BF16"), gemm(1, 1024, 1024, a="BF16", b="INT8", c="BF16")
    decode = attention(1, 8, 2, 1, 4096, 128, q="BF16", kv="BF16", o="BF16")
    slow_s = 10 * bf16.cost.total_bytes / 20e9
    measured = Calibration(
        measured_at="2026-11-21T10:00:00+00:00",
        subject="test CPU",
        kind="cpu",
        dram={"read": constant("B/s", 2e10), "copy": constant("B/s", 2e10)},
        peaks={"BF16": constant("FLOP/s", 1e11)},
        floors={"call": constant("s", 1e-6)},
        kernels=(
            curve("matmul", bf16, slow_s),
            curve("int8pack", int8, slow_s / 2),
            curve("sdpa", decode, 10 * decode.cost.total_bytes / 20e9),
        ),
    )
    return replace(create_custom_asic("cpu", 20.0, {"BF16": 0.1}), kind="cpu", calibration=measured)


def test_the_kind_of_an_expected_time_is_that_of_its_kernels(cpu):
    passes = ExpectedPasses(cpu)
    wide_parts = ("lm_head=BF16", "embedding=BF16")
    kinds = {
        formats: getattr(
            passes(predict_model(cpu, SHAPE, formats=formats, exceptions=wide_parts)), "source", "expected"
        )
        for formats in ("BF16", "INT8.BF16", "NVFP4.BF16", "BF16.BF16.NVFP4")
    }
    assert kinds == {
        "BF16": "expected",
        "INT8.BF16": "expected",
        "NVFP4.BF16": "ceilings",
        "BF16.BF16.NVFP4": "ceilings",
    }


def test_where_no_kernel_was_timed_the_ideals_rank_as_they_are_predicted(cpu):
    bare = replace(cpu, calibration=replace(cpu.calibration, kernels=()))
    ranking = recommend_model(bare, SHAPE)
    assert {option.estimate.source for option in ranking.options} == {"ideal"}
    assert (
        ranking.baseline.estimate.time_s
        == predict_model(bare, SHAPE, context=4096, formats=ranking.baseline.plan).time_s
    )
    assert has_code(ranking.findings, "ranked-by-bounds", "ideals")


def test_a_baseline_that_was_not_timed_ranks_by_ceilings_and_says_what_they_are(cpu):
    (attention_only,) = (kernel for kernel in cpu.calibration.kernels if kernel.kernel == "sdpa")
    ranking = recommend_model(replace(cpu, calibration=replace(cpu.calibration, kernels=(attention_only,))), SHAPE)
    assert ranking.baseline.estimate.source == "ceilings"
    assert has_code(ranking.findings, "ranked-by-bounds", "ceilings")


def test_a_plan_on_ceilings_stands_behind_and_is_not_chosen(cpu):
    ranking = recommend_model(cpu, SHAPE, formats=["NVFP4.BF16", "INT8.BF16"], max_loss_pct=16.0)
    ceilings = ranking.option("NVFP4.BF16")
    assert ceilings.estimate.source == "ceilings"
    assert ceilings.estimate.time_s < ranking.baseline.estimate.time_s / 2
    assert ranking.choice is ranking.options[0]
    assert ranking.choice.key == "INT8.BF16"
    assert ranking.options[-1] is ceilings
    assert ceilings.speedup_ratio == pytest.approx(ceilings.ideal_speedup_ratio)
    assert has_code(ceilings.findings, "ceilings-only")
    untimed = next(item for item in ranking.findings if item.code == "untimed-kernels")
    assert untimed.value("options") == ("NVFP4.BF16",)
    assert ranking.option("INT8.BF16").estimate.source == "expected"
    # Left out unless it is named: torch multiplies no NVFP4 weights on a CPU.
    usual = recommend_model(cpu, SHAPE, max_loss_pct=16.0)
    assert {exclusion.key: exclusion.finding.code for exclusion in usual.excluded}["NVFP4.BF16"] == "kernel-gap"


def test_the_search_takes_timed_formats_only(cpu):
    values = {
        (f"layers.{layer}.{part}", name): 1e-5
        for layer in range(2)
        for part in ("qkv_proj", "o_proj", "gate_up_proj", "down_proj")
        for name in ("INT8.BF16", "NVFP4.BF16")
    }
    values |= {(f"layers.{layer}.kv", "NVFP4"): 1e-6 for layer in range(2)}
    ranking = recommend_model(cpu, SHAPE, losses=MeasuredLosses(values, "small", "kl", tokens_count=64))
    (search,) = ranking.searches
    assert {reason.chosen.label for reason in search.choice.reasons} == {"INT8.BF16"}
    assert ranking.choice.key == "INT8.BF16"  # the search found nothing but this uniform plan
    assert "pareto-fastest" in ranking.choice.aliases
    left = [item.subject for item in ranking.findings if item.value("kind") == "skipped"]
    assert left == ["kv=NVFP4", "NVFP4.BF16"]
