"""Beside a choice that loses much stands what loses little, with its cost in time and the limit that chooses it."""

from __future__ import annotations

import pytest

from reports.formats.model_advice import model_advice
from roofline_model.chips.hardware import get_hardware
from roofline_model.core.finding import has_code
from roofline_model.models.model_registry import get_model
from roofline_model.recommend.model import recommend_model
from roofline_model.recommend.ranking import LOWER_LOSS_PCT


@pytest.mark.parametrize("chip", ["a100", "gb10"])
@pytest.mark.parametrize(
    "asked", [{}, {"batch": 8}, {"phase": "prefill", "context": 2048}], ids=["decode", "decode8", "prefill"]
)
@pytest.mark.parametrize("model", ["llama-3.1-8b", "llama-3.1-70b"])
def test_the_alternative_is_what_its_limit_chooses(chip, asked, model):
    found = recommend_model(chip, model, **asked)
    strict = recommend_model(chip, model, max_loss_pct=LOWER_LOSS_PCT, **asked).choice
    if found.choice.loss.pct <= LOWER_LOSS_PCT:
        assert found.alternatives == ()
        assert strict.key == found.choice.key
    elif strict is None:
        assert found.alternatives == ()
    else:
        (alternative,) = found.alternatives
        assert (alternative.role, alternative.option.key) == ("lower-loss", strict.key)
        assert alternative.max_loss_pct == LOWER_LOSS_PCT
        ratio = strict.estimate.time_s / found.choice.estimate.time_s
        assert alternative.slowdown_ratio == pytest.approx(ratio)


def test_the_json_has_it():
    found = recommend_model("h100", "llama-3.1-70b")
    (alternative,) = found.alternatives
    answer = model_advice(found, get_hardware("h100"), get_model("llama-3.1-70b")).lower_loss_alternative
    assert (answer.plan, answer.max_loss_pct) == ("FP8_E4M3", 3.0)
    assert answer.slowdown_ratio == alternative.slowdown_ratio
    assert "FP8_E4M3" in answer.text
    low = model_advice(recommend_model("h100", "llama-3.1-8b"), get_hardware("h100"), get_model("llama-3.1-8b"))
    assert low.lower_loss_alternative is None


def test_a_plan_without_a_kernel_and_one_of_unknown_loss_are_no_alternative():
    found = recommend_model("a100", "llama-3.1-8b", formats=["INT4.BF16", "FP8", "MXFP8.BF16"], strategies=[])
    assert has_code(found.option("FP8_E4M3").findings, "kernel-gap")
    assert found.choice.key == "INT4.BF16"
    # FP8 operands have no kernel there, weight-only MXFP8 no published loss: what is left is 16 bit, which loses nothing.
    assert [alternative.option.key for alternative in found.alternatives] == ["BF16"]
    assert found.alternatives[0].option.loss.source == "reference"


def test_a_16_bit_that_does_not_fit_is_said_to_be_what_speed_ups_are_against():
    large, small = recommend_model("h100", "llama-3.1-70b"), recommend_model("h100", "llama-3.1-8b")
    assert has_code(large.choice.findings, "baseline-misses-limits")
    assert not has_code(small.choice.findings, "baseline-misses-limits")
    assert large.option("BF16") is None
    ratio = large.baseline.estimate.time_s / large.choice.estimate.time_s
    assert large.choice.speedup_ratio == pytest.approx(ratio)
