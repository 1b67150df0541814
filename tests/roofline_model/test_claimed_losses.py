"""The table of published losses: every number has a source, methods differ, and every ranking reads this one table."""

from __future__ import annotations

import doctest

import pytest

from reports.stored.quality import product_quality
from roofline_model import claimed_losses
from roofline_model.auto_quantize import recommend_quantization
from roofline_model.claimed_losses import CACHE_LOSSES, CLAIMED_LOSSES, UNKNOWN, claimed_loss_of, claimed_quality
from roofline_model.formats import FORMATS
from roofline_model.model_choice.limits import MAX_CLAIMED_LOSS_PCT
from roofline_model.model_recommendation import recommend_model


def test_every_row_has_a_source_a_range_and_a_known_format():
    for one in (*CLAIMED_LOSSES, *CACHE_LOSSES):
        assert one.weights in FORMATS
        assert 0 <= one.low_pct <= one.high_pct
        assert len(one.source) > 30, one
        assert any(
            sign in one.source for sign in ("arXiv", "pytorch/ao", "RaZeR", "vllm-project", "auto-round", "NVIDIA")
        ), one
    rows = [(one.weights, one.is_both, one.method, one.models) for one in CLAIMED_LOSSES]
    assert len(set(rows)) == len(rows)
    assert doctest.testmod(claimed_losses).failed == 0


@pytest.mark.parametrize(
    ("low", "high", "pairs"),
    [
        ("INT4", "AWQ", [(5.60, 5.47), (4.97, 4.88), (3.41, 3.32), (6.54, 6.14), (6.60, 6.24), (4.67, 4.60)]),
        ("INT4", "GPTQ", [(5.63, 5.47), (3.43, 3.32), (6.56, 6.14), (4.68, 4.60)]),
        ("NVFP4", "RTN", [(7.56, 7.21), (11.73, 11.05), (9.12, 8.56), (7.73, 7.46), (6.05, 5.69)]),
        ("MXFP4", "RTN", [(8.14, 7.21), (12.31, 11.05), (9.44, 8.56), (8.48, 7.46), (6.41, 5.69)]),
        ("INT8", "RTN", [(7.34, 7.33), (9.28, 9.26)]),
        ("FP8_E4M3", "RTN", [(7.37, 7.33), (9.31, 9.26)]),
    ],
)
def test_ranges_are_those_of_the_perplexities_in_the_sources(low, high, pairs):
    one = claimed_loss_of(low, is_both=False, method=high)
    rises = [100 * (narrow / wide - 1) for narrow, wide in pairs]
    assert (one.low_pct, one.high_pct) == (round(min(rises), 1), round(max(rises), 1))


def test_methods_schemes_and_models_are_told_apart():
    assert claimed_quality("INT4") == "claimed: 1.5-6.5 % loss (AWQ)"
    assert (
        claimed_loss_of("INT4", is_both=False, method="RTN").low_pct > claimed_loss_of("INT4", is_both=False).high_pct
    )
    assert claimed_loss_of("INT8", is_both=True).method == "PTQ"
    assert claimed_loss_of("INT8", is_both=True, method="SmoothQuant").high_pct == 3.2
    assert claimed_loss_of("INT8", is_both=False).high_pct < claimed_loss_of("INT8", is_both=True).low_pct
    assert claimed_loss_of("INT4", is_both=False, model="Llama-3.1-70B").text == "claimed: 12.3-14.6 % loss (AWQ)"
    assert claimed_loss_of("INT4", is_both=False, model="llama-2-70b").high_pct == 6.5
    assert claimed_quality("NVFP4", is_both=True) == "claimed: 1.1-6.2 % loss of task accuracy (PTQ)"
    assert claimed_quality("MXFP8_E4M3", is_both=True) == UNKNOWN


def test_deployed_schemes_keep_the_default_limit():
    for key, is_both in (("INT4", False), ("NVFP4", False), ("FP8_E4M3", True), ("INT8", True), ("NVFP4", True)):
        for model in ("", "llama-3.1-70b"):
            assert claimed_loss_of(key, is_both=is_both, model=model).high_pct <= MAX_CLAIMED_LOSS_PCT
    assert claimed_loss_of("INT4", is_both=True).high_pct > MAX_CLAIMED_LOSS_PCT


@pytest.mark.parametrize("chip", ["a100", "h100"])
def test_shape_model_and_stored_rankings_say_the_same_of_a_format(chip):
    shape = {
        (one.weight_format, one.activation_format): one.quality
        for one in recommend_quantization(chip, 1, 4096, 4096, formats=["BF16", "INT8", "INT4"]).candidates
    }
    model = {one.label: one.quality for one in recommend_model(chip, "mistral-7b").candidates}
    for weight, activation, label in (("INT8", "INT8", "INT8.INT8"), ("INT4", "BF16", "INT4.BF16")):
        expected = claimed_loss_of(weight, is_both=weight == activation)
        assert shape[weight, activation] == expected.text == product_quality(weight, activation).text
        assert model[label].loss_pct == product_quality(weight, activation).loss_pct == expected.high_pct
        assert expected.range_text in model[label].text
