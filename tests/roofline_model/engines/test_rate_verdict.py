"""Is a measured rate good: where it lies, why it may be low, what a higher one takes; and claims in one line."""

from __future__ import annotations

import pytest

from roofline_model.chips.hardware import get_hardware
from roofline_model.core.errors import InvalidValueError
from roofline_model.engines.claims import MAX_CLAIM_CHARS, read_claim, sized
from roofline_model.engines.serving import Demand, serve
from roofline_model.engines.verdict import rate_verdict
from roofline_model.models.decoders import find_checkpoint


def judged(rate, *, model="qwen3-32b", chip="gb10", weights="NVFP4", count=1, first_token_s=None):
    checkpoint, demand = find_checkpoint(model), Demand(1024, 512, (count,))
    first = serve(checkpoint, get_hardware(chip), demand, formats=(weights,)).ranked[0]
    return first, rate_verdict(checkpoint, first, demand, rate, first_token_s)


def kinds(verdict):
    return [item.value("kind") for item in verdict.explanations]


def test_a_rate_is_placed_by_the_interval_and_by_what_the_bytes_allow():
    _, at = judged(10.6)
    places = [
        judged(rate)[1].place
        for rate in (
            at.low_tokens_per_s * 0.99,
            at.low_tokens_per_s * 1.01,
            at.high_tokens_per_s * 0.99,
            at.high_tokens_per_s * 1.01,
            at.most_tokens_per_s * 1.01,
        )
    ]
    assert places == ["slower", "within", "within", "faster", "impossible"]
    assert at.explanations == ()


def test_no_expected_rate_is_beyond_what_the_bytes_allow():
    for model, weights, count in (("qwen3-32b", "NVFP4", 1), ("gpt-oss-120b", "MXFP4", 8), ("qwen3.5-27b", "BF16", 16)):
        _, verdict = judged(1.0, model=model, weights=weights, count=count)
        assert verdict.high_tokens_per_s < verdict.most_tokens_per_s


def test_weights_in_a_wider_format_are_the_first_cause_of_a_rate_that_is_too_low():
    _, verdict = judged(6.4)
    assert verdict.place == "slower"
    assert kinds(verdict) == ["format", "kernel", "clock-gb10", "memory"]
    assert verdict.explanations[0].value("weight_format") == "FP8_E4M3"


def test_several_requests_may_be_capped_or_their_prompts_cut_otherwise():
    _, verdict = judged(10.0, count=16)
    assert verdict.place == "slower"
    assert kinds(verdict)[-5:] == ["clock-gb10", "memory", "chunk", "cap", "each"]


def test_a_rate_beyond_the_bytes_needs_as_many_tokens_a_step():
    first, verdict = judged(47.0)
    assert verdict.place == "impossible"
    factor = verdict.explanations[kinds(verdict).index("speculation")].value("tokens_factor")
    assert factor == pytest.approx(47.0 * first.steps.least_step_s(1, 1280))
    batch = verdict.explanations[kinds(verdict).index("batch")].value("request_count")
    assert batch == 8


def test_a_first_token_is_judged_beside_the_rate():
    assert [judged(10.6, first_token_s=time)[1].first_token.value("kind") for time in (0.1, 0.95, 3.0)] == [
        "faster",
        "within",
        "slower",
    ]
    assert judged(9.5, weights="Q4_K_M", first_token_s=1.0)[1].first_token is None  # prompts were never measured


def test_a_claim_is_read_from_one_line():
    claim = read_claim("70B Q4_K_M gb10 47 tok/s")
    assert claim.tokens_per_s == 47
    assert claim.weights == "Q4_K_M"
    assert claim.device.key == "gb10"
    assert claim.checkpoint.decoder.parameter_count == pytest.approx(70e9, rel=0.02)
    named = read_claim("qwen3-32b, FP8, h200, 60.5 t/s sglang")
    assert (named.checkpoint.decoder.name, named.engine, named.weights) == ("qwen3-32b", "sglang", "FP8_E4M3")
    assert named.tokens_per_s == 60.5
    assert read_claim("llama.cpp").engine == "llama-cpp"
    assert read_claim("8B gb10 1,234.5 tok/s").tokens_per_s == 1234.5


@pytest.mark.parametrize("size", ["8B", "14B", "30B-A3B", "120B-A5B", "405B", "671B-A37B"])
def test_a_size_stands_for_a_shipped_model_with_other_layers(size):
    decoder = sized(size).decoder
    total, _, active = size.replace("B", "").partition("-A")
    assert decoder.parameter_count == pytest.approx(float(total) * 1e9, rel=0.06)
    if active:
        assert decoder.active_parameter_count == pytest.approx(float(active) * 1e9, rel=0.25)
    else:
        assert decoder.experts is None


@pytest.mark.parametrize(
    "text",
    [
        "70B 8B gb10 5 t/s",
        "8B FP8 BF16 gb10",
        "8B gb10 h100",
        "8B gb10 -5 tok/s",
        "gb10 5 t/s nonsense",
        "8B gb10 0 t/s",
        f"8B gb10 {10**12} t/s",
        "0B gb10",
        "8B-A9B",
        "x" * (MAX_CLAIM_CHARS + 1),
    ],
)
def test_what_cannot_be_read_is_refused(text):
    with pytest.raises(InvalidValueError):
        read_claim(text)


def test_launches_one_by_one_explain_only_what_they_can_and_only_where_steps_are_captured():
    eager = [judged(rate, model="llama-3.1-8b", weights="BF16", chip="h100-sxm")[1] for rate in (60.0, 5.0)]
    assert ["host" in kinds(verdict) for verdict in eager] == [True, False]
    assert "host" not in kinds(judged(3.0, weights="Q4_K_M")[1])
    assert "clock" not in kinds(judged(10.0, model="qwen3.6-35b-a3b", weights="4BIT", chip="apple-m4-pro")[1])
