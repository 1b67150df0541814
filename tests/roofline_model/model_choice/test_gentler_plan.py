"""Beside a choice that loses much stands what loses little, with its cost in time and the option that chooses it."""

from __future__ import annotations

import pytest

from reports.model_advice_json import model_recommendation_json
from roofline_model.hardware import get_hardware
from roofline_model.model_choice.gentler import GENTLE_PCT
from roofline_model.recommend.model import recommend_model


@pytest.mark.parametrize("chip", ["a100", "gb10"])
@pytest.mark.parametrize(
    "asked", [{}, {"batch": 8}, {"phase": "prefill", "context": 2048}], ids=["decode", "decode8", "prefill"]
)
@pytest.mark.parametrize("model", ["llama-3.1-8b", "llama-3.1-70b"])
def test_the_gentler_plan_is_what_its_limit_chooses(chip, asked, model):
    found = recommend_model(chip, model, **asked)
    strict = recommend_model(chip, model, max_loss_pct=GENTLE_PCT, **asked).chosen
    if found.chosen.quality.loss_pct <= GENTLE_PCT:
        assert found.gentler is None
        assert strict.label == found.chosen.label
    elif strict is None:
        assert found.gentler is None
    else:
        assert (found.gentler.candidate.label, found.gentler.max_loss_pct) == (strict.label, GENTLE_PCT)
        assert found.gentler.slowdown_ratio == pytest.approx(strict.time_s / found.chosen.time_s)


def test_the_line_says_plan_loss_time_and_option_and_the_json_has_it():
    found = recommend_model("h100", "llama-3.1-70b")
    text, option = found.gentler.text, found.gentler.option
    assert text.startswith(
        "gentler than INT4.BF16: FP8_E4M3, loss claimed: 0.8-1.2 % (RTN); tasks up to 0.3 % (RTN), in "
    )
    assert text.endswith(f", {found.gentler.slowdown_ratio:.2f} times the time of INT4.BF16")
    assert option == "--max-quality-loss 3 (max_loss_pct in Python and the API)"
    answer = model_recommendation_json(found, get_hardware("h100"))
    assert answer["gentler"]["plan"] == "FP8_E4M3"
    assert (answer["gentler"]["text"], answer["gentler"]["option"]) == (text, option)
    assert model_recommendation_json(recommend_model("h100", "llama-3.1-8b"), get_hardware("h100"))["gentler"] is None


def test_a_plan_without_a_kernel_and_one_of_unknown_loss_are_no_gentler_choice():
    found = recommend_model("a100", "llama-3.1-8b", formats=["INT4.BF16", "FP8", "MXFP8.BF16"], strategies=[])
    assert found.candidate("FP8_E4M3").kernel_gap
    assert found.chosen.label == "INT4.BF16"
    # FP8 operands have no kernel there, weight-only MXFP8 no published loss: what is left is 16 bit, which loses nothing.
    assert found.gentler.candidate is found.candidate("BF16")
    assert "BF16, which loses nothing, in " in found.gentler.text


def test_a_16_bit_that_does_not_fit_is_said_to_be_what_speed_ups_are_against():
    large, small = recommend_model("h100", "llama-3.1-70b"), recommend_model("h100", "llama-3.1-8b")
    assert (large.is_baseline_fitting, small.is_baseline_fitting) == (False, True)
    assert any(note.startswith("BF16 needs 142.5 GB, ") and "it cannot run here" in note for note in large.notes)
    assert not any("cannot run here" in note for note in small.notes)
    assert large.chosen.speedup == pytest.approx(large.baseline.time_s / large.chosen.time_s)
