"""A whole-model answer says of which kernel its weight-only times are, as the answer for one product does."""

from __future__ import annotations

from roofline_model.chips.hardware import get_hardware
from roofline_model.core.finding import has_code
from roofline_model.expected.predict import expected_times
from roofline_model.recommend.model import recommend_model
from roofline_model.recommend.shape import recommend_quantization

MODEL = "llama-3.1-8b"


def grouped_options(ranking):
    return [item.value("options") for item in ranking.findings if item.code == "reference-kernel"]


def test_a_weight_only_choice_and_one_within_reach_carry_the_caveat():
    chosen = recommend_model("a100", MODEL, max_loss_pct=16.0)
    assert chosen.choice.key == "INT4.BF16"
    assert has_code(chosen.choice.findings, "reference-kernel")  # although the kernel to deploy is Marlin's
    assert grouped_options(chosen)[0][0] == "INT4.BF16"
    beside = recommend_model("h100", MODEL, max_loss_pct=16.0)
    assert beside.choice.key == "FP8_E4M3"
    assert not has_code(beside.choice.findings, "reference-kernel")
    assert "INT4.BF16" in grouped_options(beside)[0]
    product = recommend_quantization(
        "h100", 1, 4096, 4096, formats=["BF16", "INT4"], times=expected_times(get_hardware("h100"))
    )
    assert has_code(product.option("INT4").findings, "reference-kernel")


def test_it_is_left_out_where_no_such_plan_is_near_or_the_times_are_not_the_fitted_ones():
    far = recommend_model(
        "h100", MODEL, phase="prefill", formats=["FP8_E4M3", "INT4.BF16"], strategies=[], max_loss_pct=16.0
    )
    assert far.option("INT4.BF16").estimate.low_s > far.choice.estimate.high_s
    assert grouped_options(far) == []
    assert grouped_options(recommend_model("h100", MODEL, formats=["FP8_E4M3"], strategies=[], max_loss_pct=16.0)) == []
    ideal = recommend_model(
        "h100", MODEL, formats=["INT4.BF16"], strategies=[], estimate=lambda prediction: None, max_loss_pct=16.0
    )
    assert (ideal.choice.key, grouped_options(ideal)) == ("INT4.BF16", [])
