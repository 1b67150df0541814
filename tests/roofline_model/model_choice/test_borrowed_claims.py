"""Claims of the six named strategies are there for every plan that may borrow them, whichever strategies take part."""

from __future__ import annotations

import dataclasses

from roofline_model.mixed_precision.strategies import get_strategy
from roofline_model.model_recommendation import recommend_model

MODEL = "llama-3-8b"


def test_what_a_plan_loses_does_not_depend_on_the_strategies_asked_for():
    def qualities(**asked):
        found = recommend_model("h200", MODEL, formats=["FP8", "INT4.BF16", "BF16", "INT8"], max_loss_pct=5, **asked)
        return {
            one.label: (one.quality.source, one.quality.loss_pct) for one in found.candidates if one.kind == "uniform"
        }

    usual = qualities()
    assert usual["FP8_E4M3"] == ("claimed", 1.0)
    assert qualities(strategies=[get_strategy("w4a16_aggressive")]) == usual
    assert qualities(strategies=[]) == usual


def test_claims_of_the_same_plan_are_told_to_be_such():
    mine = dataclasses.replace(get_strategy("w4a16_aggressive"), name="mine", claims=None)
    one = recommend_model("h200", MODEL, strategies=[mine], max_loss_pct=5).candidate("mine")
    assert one.quality.source == "claimed"
    assert one.quality.note == "claimed of w4a16_aggressive, the same plan"
