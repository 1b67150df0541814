"""A plan is excluded for a unit that the chip has not, never for one that is slow: what a slow one costs is in its
time.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from roofline_model.chips.hardware import Device, create_custom_asic
from roofline_model.models.model_shapes import ModelShape
from roofline_model.models.strategies.strategies import get_strategy
from roofline_model.recommend.model import recommend_model

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


@pytest.fixture(scope="module")
def cpu() -> Device:
    """A CPU whose INT8 unit has half the rate of its BF16 unit, and which has none for FP8."""
    return replace(create_custom_asic("cpu", 20.0, {"BF16": 0.4, "FP16": 0.4, "INT8": 0.2}), kind="cpu")


def exclusions(ranking):
    return {exclusion.key: exclusion.finding for exclusion in ranking.excluded}


def test_a_slow_unit_excludes_nothing_and_counts_in_the_time(cpu):
    decode, prefill = (recommend_model(cpu, SHAPE, phase=phase) for phase in ("decode", "prefill"))
    for ranking in (decode, prefill):
        assert "INT8.INT8" not in exclusions(ranking)
    # Decode waits for memory: fewer bytes are less time, whatever the unit's rate. Prefill waits for the unit.
    assert decode.option("INT8.INT8").speedup_ratio > 1.4
    assert decode.option("INT8.INT8").bound == "memory"
    assert prefill.option("INT8.INT8").speedup_ratio < 0.7
    assert prefill.choice.key == "BF16"


def test_a_strategy_and_a_uniform_plan_are_excluded_for_the_same_missing_unit(cpu):
    excluded = exclusions(recommend_model(cpu, SHAPE))
    assert excluded["fp8_balanced"] == excluded["FP8_E4M3"]
    # The way out is named only where a kernel is known to run it.
    assert (excluded["FP8_E4M3"].code, excluded["FP8_E4M3"].value("unit")) == ("no-unit", "FP8_E4M3")
    a100 = exclusions(recommend_model("a100", "llama-3.1-8b"))["FP8_E4M3"]
    assert (a100.code, a100.value("instead")) == ("no-unit", "FP8_E4M3.BF16")
    ranking = recommend_model(cpu, SHAPE, strategies=[get_strategy("fp8_balanced")], formats=["FP8_E4M3.FP8_E4M3"])
    assert {"fp8_balanced", "FP8_E4M3"} <= {option.key for option in ranking.options}
