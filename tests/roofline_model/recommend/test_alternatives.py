"""Beside the choice stand what is faster for more loss, and what loses least, each with its time and its loss."""

from __future__ import annotations

import pytest

from roofline_model.core.finding import has_code, short_text
from roofline_model.recommend.model import recommend_model
from roofline_model.recommend.ranking import MAX_LOSS_PCT, alternative_finding


def by_role(ranking):
    return {alternative.role: alternative for alternative in ranking.alternatives}


@pytest.mark.parametrize("chip", ["a100", "gb10", "h100"])
@pytest.mark.parametrize(
    "requested", [{}, {"batch": 8}, {"phase": "prefill", "context": 2048}], ids=["decode", "decode8", "prefill"]
)
@pytest.mark.parametrize("model", ["llama-3.1-8b", "llama-3.1-70b"])
def test_what_is_riskier_is_faster_and_loses_more_than_the_limit(chip, requested, model):
    ranking = recommend_model(chip, model, **requested)
    roles = by_role(ranking)
    assert len(roles) == len(ranking.alternatives) <= 2
    if (riskier := roles.get("riskier")) is not None:
        assert riskier.option.loss.pct > MAX_LOSS_PCT
        assert riskier.option.key in {each.key for each in ranking.excluded}
        if ranking.choice is not None:
            assert riskier.slowdown_ratio < 1 / 1.05
    if ranking.choice is not None and ranking.choice.loss.pct > 0:
        least_pct = min(option.loss.pct for option in ranking.options if option.loss.pct is not None)
        assert ("safest" in roles) == (least_pct <= 0 or least_pct < ranking.choice.loss.pct - 0.5)
        assert "safest" not in roles or roles["safest"].option.loss.pct == least_pct


def test_a_caller_who_allows_more_is_told_what_the_default_would_take():
    allowed = recommend_model("h100", "llama-3.1-70b", max_loss_pct=16)
    default = recommend_model("h100", "llama-3.1-70b")
    assert allowed.choice.loss.pct > MAX_LOSS_PCT
    lower = by_role(allowed)["lower-loss"]
    assert lower.option.key == default.choice.key
    assert lower.slowdown_ratio == pytest.approx(default.choice.estimate.time_s / allowed.choice.estimate.time_s)


def test_the_original_is_the_safest_and_nothing_stands_beside_it():
    ranking = recommend_model("gb10", "llama-3.1-8b", max_loss_pct=0)
    assert ranking.choice is ranking.baseline
    assert "safest" not in by_role(ranking)
    assert by_role(recommend_model("gb10", "llama-3.1-8b"))["safest"].option.loss.source == "reference"


def test_a_plan_without_a_kernel_and_one_of_unknown_loss_are_no_alternative():
    ranking = recommend_model(
        "a100", "llama-3.1-8b", formats=["INT4.BF16", "FP8", "MXFP8.BF16"], strategies=[], max_loss_pct=16
    )
    assert has_code(ranking.option("FP8_E4M3").findings, "kernel-gap")
    assert ranking.choice.key == "INT4.BF16"
    # FP8 operands have no kernel there, weight-only MXFP8 no published loss: what is left is 16 bit, which loses
    # nothing.
    assert [alternative.option.key for alternative in ranking.alternatives] == ["BF16"]
    assert ranking.alternatives[0].option.loss.source == "reference"


def test_an_alternative_is_a_finding_with_its_figures():
    ranking = recommend_model("gb10", "llama-3.1-8b")
    for alternative in ranking.alternatives:
        item = alternative_finding(alternative, ranking)
        assert (item.code, item.value("kind")) == ("alternative", alternative.role)
        assert item.subject == alternative.option.key
        assert item.value("time_s") == alternative.option.estimate.time_s
        assert item.value("loss_pct") == alternative.option.loss.pct
        assert alternative.option.key in short_text(item)
    nothing = recommend_model("orin", "llama-3.1-70b")
    (riskier,) = nothing.alternatives
    assert alternative_finding(riskier, nothing).value("speedup_ratio") is None


def test_a_16_bit_that_does_not_fit_is_said_to_be_what_speed_ups_are_against():
    large, small = recommend_model("h100", "llama-3.1-70b"), recommend_model("h100", "llama-3.1-8b")
    assert has_code(large.choice.findings, "baseline-misses-limits", "speedups")
    assert not has_code(small.choice.findings, "baseline-misses-limits", "speedups")
    assert large.option("BF16") is None
    ratio = large.baseline.estimate.time_s / large.choice.estimate.time_s
    assert large.choice.speedup_ratio == pytest.approx(ratio)
