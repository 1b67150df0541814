"""What a plan is claimed to lose hangs on its formats, not on the strategies that were asked for or what they call themselves."""

from __future__ import annotations

import dataclasses

import pytest

from roofline_model.mixed_precision.config import StrategyClaims
from roofline_model.mixed_precision.strategies import get_strategy
from roofline_model.recommend.model import recommend_model

MODEL = "llama-3-8b"


def test_what_a_plan_loses_does_not_depend_on_the_strategies_asked_for():
    def qualities(**asked):
        found = recommend_model("h200", MODEL, formats=["FP8", "INT4.BF16", "BF16", "INT8"], **asked)
        return {
            one.label: (one.quality.source, one.quality.loss_pct) for one in found.candidates if one.kind == "uniform"
        }

    usual = qualities()
    assert usual["FP8_E4M3"] == ("claimed", 1.2)
    assert qualities(strategies=[get_strategy("w4a16_aggressive")]) == usual
    assert qualities(strategies=[]) == usual


def test_a_strategy_s_own_claim_counts_and_document_004_s_does_not():
    wide = get_strategy("w4a16_aggressive")
    unsaid = dataclasses.replace(wide, name="mine", claims=None)
    assert recommend_model("h200", MODEL, strategies=[unsaid]).candidate("mine").quality.loss_pct == 6.5
    own = dataclasses.replace(unsaid, claims=StrategyClaims(3.0, "0.4%", 0.7, "us", "our own evaluation"))
    quality = recommend_model("h200", MODEL, strategies=[own]).candidate("mine").quality
    assert (quality.source, quality.loss_pct, quality.note) == ("claimed", 0.4, "claimed by our own evaluation")


def test_claims_are_those_of_the_published_table_whatever_a_strategy_is_called():
    on_gb10 = recommend_model("gb10", MODEL)
    quality = on_gb10.candidate("fp8_balanced").quality
    assert (quality.source, quality.text) == (
        "claimed",
        "claimed: 0.8-1.2 % (RTN) + cache under 1 % of task accuracy",
    )
    assert quality.loss_pct == pytest.approx(1.2 + 1.0)
    assert "document" not in quality.note  # the design document's own claim has no source: not beside one that has
    assert on_gb10.candidate("INT4.BF16").quality.text == "claimed: 6.5 % (AWQ)"
    assert "arXiv:2405.04532" in on_gb10.candidate("INT4.BF16").quality.note
    assert on_gb10.candidate("layerwise_gradient").quality.text == "claimed: at most 6.5 % (NVFP4.BF16)"
    nobody = recommend_model("gb10", MODEL, formats=["NF4.BF16"]).candidate("NF4.BF16").quality
    assert (nobody.text, nobody.note) == ("unknown", "no published loss was found of NF4.BF16")
