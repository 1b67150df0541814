"""The whole-model answer is one that somebody who serves models would give: kernels that exist, certain times, stated
losses.
"""

from __future__ import annotations

import pytest

from roofline_model.core.finding import has_code
from roofline_model.recommend.model import recommend_model
from roofline_model.recommend.ranking import MAX_LOSS_PCT

CHIPS = ("gb10", "h100", "h200", "b200", "a100", "orin")


@pytest.fixture(scope="module")
def answers():
    return {
        (chip, phase): recommend_model(chip, "llama-3.1-8b", phase=phase)
        for chip in CHIPS
        for phase in ("decode", "prefill")
    }


@pytest.mark.parametrize(
    ("chip", "decode", "prefill"),
    [
        ("h100", {"FP8_E4M3", "fp8_balanced"}, {"FP8_E4M3", "fp8_balanced"}),
        ("h200", {"FP8_E4M3", "fp8_balanced"}, {"FP8_E4M3", "fp8_balanced"}),
        ("b200", {"FP8_E4M3", "fp8_balanced"}, {"FP8_E4M3", "fp8_balanced"}),
        ("gb10", {"FP8_E4M3", "fp8_balanced"}, {"FP8_E4M3", "fp8_balanced"}),
        ("a100", {"INT8.INT8"}, {"INT8.INT8"}),
        ("orin", {"INT8.BF16"}, {"INT8.INT8"}),
    ],
)
def test_what_an_expert_would_take(answers, chip, decode, prefill):
    assert answers[chip, "decode"].choice.key in decode
    assert answers[chip, "prefill"].choice.key in prefill


@pytest.mark.parametrize(
    ("chip", "decode", "prefill"),
    [
        ("h100", None, None),
        ("b200", None, {"NVFP4"}),
        ("gb10", {"INT4.BF16", "NVFP4"}, {"NVFP4"}),
        ("a100", {"INT4.BF16"}, None),
        ("orin", {"INT4.BF16"}, None),
    ],
)
def test_what_an_expert_would_try_where_the_loss_matters_less(answers, chip, decode, prefill):
    for phase, keys in (("decode", decode), ("prefill", prefill)):
        riskier = [each.option for each in answers[chip, phase].alternatives if each.role == "riskier"]
        assert [option.key in (keys or ()) for option in riskier] == [True] * bool(keys), (chip, phase)
        assert all(option.loss.pct > MAX_LOSS_PCT for option in riskier)


def test_no_ranked_plan_lacks_a_kernel_and_each_narrow_one_names_its_own(answers):
    for (chip, _), ranking in answers.items():
        for option in ranking.options:
            assert not has_code(option.findings, "kernel-gap"), (chip, option.key)
            assert (option.kernel is None) == (option.kind == "baseline"), (chip, option.key)
    excluded = {exclusion.key: exclusion.finding for exclusion in answers["h100", "decode"].excluded}
    assert (excluded["nvfp4_blackwell"].code, excluded["nvfp4_blackwell"].subject) == ("kernel-gap", "kv NVFP4")
    lossy = recommend_model("b200", "llama-3.1-8b", max_loss_pct=16.0)
    assert lossy.option("nvfp4_blackwell").kernel.endswith("NVFP4 KV attention (trtllm-gen)")


def test_a_slower_plan_is_never_taken_without_a_reason(answers):
    for answer in answers.values():
        faster = [
            option
            for option in answer.options
            if option.estimate.time_s < answer.choice.estimate.time_s and option.loss.pct is not None
        ]
        for faster_option in faster:
            assert (
                faster_option.estimate.prudent_s > answer.choice.estimate.prudent_s
                or faster_option.loss.pct >= answer.choice.loss.pct
            )
        reasons = {item.code for item in answer.choice.findings}
        assert not faster or reasons & {"faster-not-first", "level-preferred-for-quality"}


def test_the_limit_holds_for_claims_and_the_options_beside_the_choice_state_theirs(answers):
    answer = answers["a100", "decode"]
    assert (answer.choice.loss.source, answer.choice.loss.pct, answer.choice.loss.method) == ("claimed", 1.6, "PTQ")
    assert [(each.role, each.option.key, each.option.loss.pct) for each in answer.alternatives] == [
        ("riskier", "INT4.BF16", 5.8),
        ("safest", "BF16", 0.0),
    ]
    strict = recommend_model("a100", "llama-3.1-8b", max_loss_pct=1)
    assert strict.choice.key == "INT8.BF16"


def fits_but_loses(exclusion):
    return [item.code for item in exclusion.findings] == ["misses-loss-limit"]


def test_where_only_what_loses_more_fits_it_is_named_and_not_taken():
    big = recommend_model("orin", "llama-3.1-70b")
    assert big.choice is None
    (riskier,) = big.alternatives
    assert (riskier.role, riskier.option.key) == ("riskier", "NVFP4.BF16")
    assert riskier.option.loss.pct == 6.5 == min(each.option.loss.pct for each in big.excluded if fits_but_loses(each))
    int4 = next(each.option for each in big.excluded if each.key == "INT4.BF16")
    assert (int4.loss.low_pct, int4.loss.pct) == (12.3, 14.6)
    assert has_code(int4.findings, "loss-in-other-metric")
    assert big.nearest is riskier.option
    allowed = recommend_model("orin", "llama-3.1-70b", max_loss_pct=16)
    assert allowed.choice.key == "INT4.BF16"


def test_a_slowdown_is_called_one():
    ranking = recommend_model("h100", "llama-3.1-8b", phase="prefill", memory_limit_bytes=7.5e9, max_loss_pct=16.0)
    assert ranking.choice.speedup_ratio < 1
    assert ranking.headline.value("kind") == "slower-than-missing"
    assert has_code(ranking.choice.findings, "baseline-misses-limits", "slower")


def test_a_published_checkpoint_stays_unless_clearly_slower_and_its_own_format_has_no_loss():
    ranking = recommend_model("gb10", "gpt-oss-20b", max_loss_pct=16.0)
    assert ranking.choice.key == "checkpoint"
    assert has_code(ranking.choice.findings, "faster-not-first", "published")
    narrower = ranking.option("MXFP4.BF16")  # its experts are as published, its attention is not
    assert (narrower.loss.low_pct, narrower.loss.pct, narrower.loss.method) == (None, 13.7, "MXFP4.BF16")


def test_an_interval_that_ends_with_another_goes_by_the_expected_time():
    ranking = recommend_model("h100", "llama-3.1-70b", max_loss_pct=16.0)
    int4, fp8 = ranking.option("INT4.BF16"), ranking.option("FP8_E4M3")
    assert int4.estimate.prudent_s < fp8.estimate.prudent_s
    assert ranking.options.index(int4) < ranking.options.index(fp8)


def test_a_checkpoint_that_was_published_narrow_is_taken_where_nothing_is_faster():
    ranking = recommend_model("h100", "gpt-oss-20b")
    assert (ranking.choice.key, ranking.choice.loss.pct) == ("checkpoint", 0.0)
    assert ranking.choice.kernel == "Marlin FP4 W4A16"
    assert ranking.choice.estimate.time_s <= 1.05 * min(option.estimate.time_s for option in ranking.options)
