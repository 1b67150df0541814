"""A whole-model answer says of which kernel its weight-only times are, as the answer for one product does."""

from __future__ import annotations

from roofline_model.auto_quantize import recommend_quantization
from roofline_model.expected.case_times import expected_times
from roofline_model.expected.reference_kernel import WEIGHT_ONLY_KERNEL
from roofline_model.hardware import get_hardware
from roofline_model.model_recommendation import recommend_model

MODEL = "llama-3.1-8b"


def told(found):
    return [note for note in found.notes if WEIGHT_ONLY_KERNEL in note]


def test_a_weight_only_choice_and_one_within_reach_carry_the_caveat():
    chosen = recommend_model("a100", MODEL)
    assert chosen.chosen.label == "INT4.BF16"
    assert "TensorRT-LLM" in chosen.chosen.stands_for  # although the kernel to deploy is Marlin's
    (note,) = told(chosen)
    assert note.startswith("expected times of weight-only products (INT4.BF16, ")
    beside = recommend_model("h100", MODEL)
    assert beside.chosen.label == "FP8_E4M3"
    assert beside.chosen.stands_for == ""
    (note,) = told(beside)
    assert "INT4.BF16" in note
    product = recommend_quantization(
        "h100", 1, 4096, 4096, formats=["BF16", "INT4"], times=expected_times(get_hardware("h100"))
    )
    assert WEIGHT_ONLY_KERNEL in next(one for one in product.candidates if one.precision == "INT4").reason


def test_it_is_left_out_where_no_such_plan_is_near_or_the_times_are_not_the_fitted_ones():
    far = recommend_model("h100", MODEL, phase="prefill", formats=["FP8_E4M3", "INT4.BF16"], strategies=[])
    assert far.candidate("INT4.BF16").low_s > far.chosen.high_s
    assert told(far) == []
    assert told(recommend_model("h100", MODEL, formats=["FP8_E4M3"], strategies=[])) == []
    ideal = recommend_model("h100", MODEL, formats=["INT4.BF16"], strategies=[], estimate=lambda found: None)
    assert (ideal.chosen.label, told(ideal)) == ("INT4.BF16", [])
