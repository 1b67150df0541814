"""A model's step with a named attention kernel: its attention is that kernel's, everything else stays."""

from __future__ import annotations

import pytest

from roofline_model import (
    expected_step,
    predict_expected,
    predict_model,
    time_to_first_token_s,
)
from roofline_model.models.llm import first_token_pass
from roofline_model.models.step_expected import why_no_step
from roofline_model.models.strategies.strategy_gain import strategy_gain

INSIDE = ("rope", "kv_write")


def predicted(chip: str, kernel: str | None, model: str = "llama-3-8b", **options: object):
    return predict_model(chip, model, batch=4, context=4096, attention_kernel=kernel, **options)


@pytest.mark.parametrize(("chip", "kernel"), [("gb10", "fa2"), ("h100", "FA3"), ("b200", "fa4"), ("h100", "cudnn")])
def test_only_attention_and_what_it_covered_change(chip: str, kernel: str) -> None:
    prediction = predicted(chip, kernel)
    default, named = expected_step(predicted(chip, None), chip), expected_step(prediction, chip)
    assert prediction.attention_kernel == kernel.lower()
    for before, after in zip(default.kernels, named.kernels, strict=True):
        name = before.kernel.name
        if name == "attention":
            alone = predict_expected(after.kernel.work, chip, attention_kernel=kernel)
            assert (after.time_s, after.low_s, after.high_s) == (alone.time_s, alone.low_s, alone.high_s)
            assert after.provenance == "derived"
        elif name in INSIDE:
            assert before.time_s == 0 < after.time_s
        else:
            assert before == after
    assert named.time_s == pytest.approx(sum(seconds for _, seconds in named.parts))


def test_a_kernel_that_does_not_run_there_leaves_no_expected_time() -> None:
    prediction = predicted("gb10", "fa3")
    assert expected_step(prediction, "gb10") is None
    assert why_no_step(prediction, "gb10").subject == "attention"
    assert prediction.time_s == predicted("gb10", None).time_s  # the ideal knows no kernel


def test_latent_attention_in_decode_has_no_flashattention() -> None:
    decode = predicted("h100", "fa3", "deepseek-v3")
    assert expected_step(decode, "h100") is None
    assert why_no_step(decode, "h100").subject == "attention"
    prefill = predict_model("h100", "deepseek-v3", "prefill", context=1024, attention_kernel="fa3")
    assert expected_step(prefill, "h100").time_s > 0


def test_the_name_stays_with_the_passes_that_follow() -> None:
    prediction = predicted("h100", "fa3")
    first = first_token_pass(prediction, "h100")
    assert first.attention_kernel == "fa3"
    assert time_to_first_token_s(prediction, "h100") == first.time_s
    same = strategy_gain(predicted("h100", "fa3", formats="FP16"), "h100")
    assert same.expected_speedup == pytest.approx(1.0)
