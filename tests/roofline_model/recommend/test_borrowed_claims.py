"""What a plan is claimed to lose hangs on its formats, not on the strategies that were asked for or what they call
themselves.
"""

from __future__ import annotations

import dataclasses

import pytest

from roofline_model.core.finding import has_code
from roofline_model.models.strategies.config import StrategyClaims
from roofline_model.models.strategies.strategies import get_strategy
from roofline_model.recommend.model import recommend_model

MODEL = "llama-3-8b"


def test_what_a_plan_loses_does_not_depend_on_the_strategies_asked_for():
    def qualities(**arguments):
        ranking = recommend_model("h200", MODEL, formats=["FP8", "INT4.BF16", "BF16", "INT8"], **arguments)
        return {
            option.key: (option.loss.source, option.loss.pct) for option in ranking.options if option.kind == "uniform"
        }

    usual = qualities()
    assert usual["FP8_E4M3"] == ("claimed", 1.2)
    assert qualities(strategies=[get_strategy("w4a16_aggressive")]) == usual
    assert qualities(strategies=[]) == usual


def test_a_strategy_s_own_claim_counts_and_document_004_s_does_not():
    wide = get_strategy("w4a16_aggressive")
    unsaid = dataclasses.replace(wide, name="mine", claims=None)
    assert recommend_model("h200", MODEL, strategies=[unsaid], max_loss_pct=16.0).option("mine").loss.pct == 6.5
    own_strategy = dataclasses.replace(unsaid, claims=StrategyClaims(3.0, "0.4%", 0.7, "us", "our own evaluation"))
    loss = recommend_model("h200", MODEL, strategies=[own_strategy], max_loss_pct=16.0).option("mine").loss
    assert (loss.source, loss.pct, loss.citation) == ("claimed", 0.4, "our own evaluation")


def test_claims_are_those_of_the_published_table_whatever_a_strategy_is_called():
    on_gb10 = recommend_model("gb10", MODEL, max_loss_pct=16.0)
    balanced = on_gb10.option("fp8_balanced")
    assert (balanced.loss.source, balanced.loss.method) == ("claimed", "RTN + FP8_E4M3 cache")
    assert balanced.loss.pct == pytest.approx(1.2 + 1.0)
    # The design document's own claim has no source: it does not stand beside one that has.
    assert not has_code(balanced.findings, "loss-note", "claim")
    int4 = on_gb10.option("INT4.BF16").loss
    assert (int4.low_pct, int4.pct, int4.method) == (6.5, 6.5, "AWQ")
    assert "arXiv:2405.04532" in int4.citation
    mixed = on_gb10.option("layerwise_gradient").loss
    assert (mixed.low_pct, mixed.pct, mixed.method) == (None, 6.5, "NVFP4.BF16")
    nobody = recommend_model("gb10", MODEL, formats=["NF4.BF16"], max_loss_pct=16.0).option("NF4.BF16")
    assert nobody.loss.source == "unknown"
    assert nobody.findings[-1].value("formats") == ("NF4.BF16",)
