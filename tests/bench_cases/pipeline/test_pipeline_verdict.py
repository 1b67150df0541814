"""The verdict of a pipeline: who wins, when nothing helps, and what is said about predictions and quality."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pipeline_runs import ON_RANDOM_TOKENS, ON_TEXT, baseline, measured, predicted

from bench_cases.pipeline.measure import MeasuredPair
from bench_cases.pipeline.recommend import PipelineRecommendation, predicted_option
from bench_cases.pipeline.settings import PipelineLimits
from bench_cases.pipeline.verdict import judge, measured_speedup
from bench_cases.pipeline.words import (
    how_it_misses,
    issue_sentence,
    prediction_sentence,
    quality_sentence,
    verdict_sentence,
)
from results.cases.case_result import CaseResult
from roofline_model.core.answer import Estimate, Option
from roofline_model.core.finding import finding

NO_LIMITS = PipelineLimits()


def candidate(
    precision: str,
    memory_bytes: float | None = 350,
    *,
    ideal_s: float | None = 0.001,
    expected_s: float | None = 0.004,
    host_s: float | None = 0.002,
) -> Option:
    expected = None if expected_s is None else Estimate(expected_s)
    predictions = {"ideal_s": ideal_s, "expected": expected, "host_s": host_s, "memory_bytes": memory_bytes}
    return predicted_option(precision, "round-to-nearest", "a kernel", **predictions)


def recommended(*precisions: str, too_large=()) -> PipelineRecommendation:
    base = replace(candidate("BF16", 1050, ideal_s=0.004, expected_s=0.01), method="")
    return PipelineRecommendation(base, tuple(candidate(precision) for precision in precisions), (), tuple(too_large))


def verdict_of(limits=NO_LIMITS, *, base=None, too_large=(), **cases: CaseResult):
    base = base or baseline(0.01, 0.01, 0.01)
    pairs = [MeasuredPair(base, case) for case in cases.values()]
    return judge(recommended(*cases, too_large=too_large), pairs, limits)


def three(time_s: float, **given) -> CaseResult:
    return measured("INT4", time_s, time_s * 1.001, time_s * 0.999, **given)


def quality_of(limits=NO_LIMITS, *, is_seeded: bool = False, **given) -> str:
    return quality_sentence(three(1.0, **given).model, limits, is_seeded=is_seeded)


# --- speed-up


def test_the_speedup_pairs_processes_and_its_interval_holds_their_spread():
    base, option = measured("BF16", 1.0, 2.0, 4.0), measured("INT4", 0.5, 1.0, 2.0)
    speedup = measured_speedup(base, option)
    assert speedup.value == pytest.approx(2.0)  # the machine doubled its time twice, the ratio stayed
    inside = math.exp(math.hypot(*[math.hypot(*[math.log(1 / 0.99)] * 2)] * 3) / 3)
    assert speedup.high_value == pytest.approx(2 * inside)
    ratios = measured_speedup(measured("BF16", 1.0, 1.0, 1.0), measured("INT4", 0.5, 0.4, 0.6))
    logs = [math.log(1 / ratio) for ratio in (0.5, 0.4, 0.6)]
    mean = sum(logs) / 3
    sd = math.sqrt(sum((log - mean) ** 2 for log in logs) / 2)
    assert math.log(ratios.high_value) == pytest.approx(mean + 4.302653 * sd / math.sqrt(3))  # t, 2 degrees of freedom


def test_only_processes_that_measured_both_count():
    base, option = measured("BF16", 1.0, 1.0), measured("INT4", 0.5, 0.5, 99.0)
    assert measured_speedup(base, option).processes_count == 2
    assert measured_speedup(base, measured("INT4", reason="out of memory")) is None
    assert measured_speedup(base, None) is None


def test_one_process_has_the_intervals_of_its_medians_and_few_samples_have_none():
    speedup = measured_speedup(measured("BF16", 1.0, spread=0.1), measured("INT4", 0.5, spread=0.1))
    assert speedup.low_value == pytest.approx(2 / math.exp(math.hypot(math.log(1 / 0.9), math.log(1 / 0.9))))
    few = measured_speedup(measured("BF16", 1.0, spread=None), measured("INT4", 0.1, spread=None))
    assert (few.low_value, few.is_faster) == (None, False)
    assert "too few samples" in str(few)


@given(st.lists(st.tuples(st.floats(1e-5, 10), st.floats(1e-5, 10)), min_size=1, max_size=5), st.floats(1e-4, 0.5))
def test_laws_of_the_speedup(pairs, spread):
    base, option = (measured("INT8", *[pair[side] for pair in pairs], spread=spread) for side in (0, 1))
    there, back = measured_speedup(base, option), measured_speedup(option, base)
    assert there.value * back.value == pytest.approx(1)
    assert there.low_value * back.high_value == pytest.approx(1)
    assert there.low_value <= there.value <= there.high_value
    assert not (there.is_faster and there.is_slower)
    slower = measured("INT8", *[pair[1] * 3 for pair in pairs], spread=spread)
    assert measured_speedup(base, slower).value == pytest.approx(there.value / 3)


# --- who wins


def test_the_fastest_measured_candidate_wins_whatever_was_predicted():
    verdict = verdict_of(INT8=three(0.006), INT4=three(0.005), FP8=three(0.02))
    assert (verdict.outcome, verdict.winner.key) == ("faster", "INT4")
    assert [option.key for option in verdict.judged] == ["INT4", "INT8", "FP8"]
    assert verdict.winner.speedup.value == pytest.approx(2)


@pytest.mark.parametrize(
    ("times", "words"),
    [
        ((0.0125,), "measured 0.80× ["),
        ((0.0099,), "the interval reaches down to 0.9"),
        ((0.0101,), "no gain, within the noise"),
    ],
)
def test_nothing_helps_and_by_how_much_the_nearest_misses(times, words):
    verdict = verdict_of(
        INT4=three(
            *times,
        ),
        INT8=three(0.05),
        base=baseline(0.01, 0.0102, 0.0098),
    )
    assert (verdict.outcome, verdict.winner, verdict.is_within_limits) == ("nothing-helps", None, True)
    assert verdict.judged[0].key == "INT4"
    assert words in how_it_misses(verdict.judged[0])


def test_slower_beyond_the_noise_is_said_in_percent():
    verdict = verdict_of(INT4=three(0.0125))
    assert "measured 0.80× [0.79, 0.81] as fast: 25 % slower" in how_it_misses(verdict.judged[0])


def test_a_candidate_that_loses_too_much_does_not_win():
    limits = PipelineLimits(loss_pct=1.0)  # the text of `measured` costs 1.5 %
    judged = verdict_of(limits, INT4=three(0.005), INT8=three(0.008, quality={"source": "none"}))
    assert judged.outcome == "nothing-helps"
    assert judged.judged[0].speedup.is_faster
    assert [miss.finding for miss in judged.judged[0].misses] == [
        finding("misses-loss-limit", value_pct=pytest.approx(1.5), limit_pct=1.0)
    ]
    assert judged.judged[1].misses[0].finding.code == "loss-unknown-for-limit"
    verdict = verdict_of(PipelineLimits(loss_pct=2.0), INT4=three(0.005))
    assert verdict.winner.key == "INT4"


def test_a_model_that_does_not_fit_is_replaced_by_one_that_does_though_it_is_slower():
    limits = PipelineLimits(memory_bytes=500)
    verdict = verdict_of(limits, INT4=three(0.02), INT8=three(0.012, held_bytes=900))
    assert (verdict.outcome, verdict.winner.key) == ("fits", "INT4")
    assert verdict.winner.speedup.value == pytest.approx(0.5)
    assert [miss.limit for miss in verdict.baseline_misses] == ["memory"]


def test_a_budget_that_nothing_keeps_says_by_how_much_the_nearest_misses():
    verdict = verdict_of(PipelineLimits(latency_s=0.004), INT4=three(0.005), INT8=three(0.008))
    assert (verdict.outcome, verdict.winner, verdict.is_within_limits) == ("nothing-fits", None, False)
    assert [miss.finding.value("excess_s") for option in verdict.judged for miss in option.misses] == pytest.approx(
        [0.001, 0.004], rel=1e-5
    )
    assert [miss.excess_ratio for miss in verdict.baseline_misses] == [pytest.approx(1.5)]
    alone = judge(recommended(too_large=[candidate("INT4", 350e9)]), [], PipelineLimits(memory_bytes=300e9))
    assert alone.outcome == "nothing-helps"  # the 16-bit model of this recommendation needs 1050 bytes
    large = replace(recommended(too_large=[candidate("INT4", 350e9)]), baseline=candidate("BF16", 1e12))
    none = judge(large, [], PipelineLimits(memory_bytes=300e9))
    assert none.outcome == "nothing-fits"
    assert none.baseline_misses[0].finding.value("excess_bytes") == pytest.approx(700e9)
    text = verdict_sentence(none, large, PipelineLimits(memory_bytes=300e9), "BF16")
    assert "nearest: INT4" in text


def test_candidates_that_could_not_be_measured_are_named():
    failed = measured("INT4", reason="timeout after 180 s")
    verdict = verdict_of(INT4=failed)
    assert verdict.outcome == "nothing-helps"
    assert "INT4 (W4A16): timeout after 180 s" in verdict_sentence(verdict, recommended("INT4"), NO_LIMITS, "BF16")


# --- what is said


def promised(ideal_ms: float | None, expected_ms: float | None, host_ms: float | None) -> Option:
    times = [None if time_ms is None else time_ms * 1e-3 for time_ms in (ideal_ms, expected_ms, host_ms)]
    return candidate("INT4", ideal_s=times[0], expected_s=times[1], host_s=times[2])


def said_of(option: Option, base: Option, case: CaseResult, wide: CaseResult | None = None) -> str:
    (judged,) = verdict_of(INT4=case, base=wide).judged
    return prediction_sentence(replace(judged, option=option), base, "BF16")


def test_both_speedups_stand_in_one_sentence_with_where_the_difference_went():
    text = said_of(promised(1, 4, 2.25), promised(4, 10, 3), three(0.005))
    assert "the formats alone allow 4.00×" in text
    assert "the kernels that run here 4.00×" in text  # 7 ms over 1.75 ms
    assert "2.50× was expected with the framework's own time (3 ms of a BF16 pass, 2.25 ms of this)" in text
    assert "the clock says 2.00× [" in text
    assert text.endswith("which the expectation overstates by 25 %")
    assert ". " not in text


def test_a_prediction_that_holds_or_is_absent_is_said_so():
    holds = said_of(promised(1, 5, None), promised(4, 10, None), three(0.005))
    assert "2.00× was expected, without the framework's own time" in holds
    assert holds.endswith("as expected")
    unknown = promised(None, None, None)
    assert "nothing was predicted; the clock says 2.00×" in said_of(unknown, unknown, three(0.005))
    only_ideal = said_of(promised(1, None, None), promised(4, 10, 3), three(0.005))
    assert "the formats alone allow 4.00×, no time of these kernels could be predicted; the clock says" in only_ideal


def test_a_model_of_unknown_shape_is_told_what_was_predicted_when_it_was_loaded():
    unknown = promised(None, None, None)
    base = baseline(0.01, 0.01, 0.01, predictions=(predicted("ideal", 4), predicted("expected", 10, 3)))
    own = three(0.005, predictions=(predicted("ideal", 1), predicted("expected", 4, 2.25)))
    text = said_of(unknown, unknown, own, base)
    assert "the formats alone allow 4.00×, the kernels that run here 4.00×, 2.50× was expected" in text


def test_times_of_a_gpu_say_what_the_host_takes_where_it_takes_longer():
    int4 = three(0.001, issue_s=0.008)
    verdict = verdict_of(base=baseline(0.003, 0.003, 0.003, issue_s=0.005), INT4=int4)
    text = issue_sentence(verdict, "decode", "BF16")
    assert text.startswith(
        "times are the GPU's alone; issuing a decode step from Python took 5 ms (BF16) to 8 ms (INT4 (W4A16))"
    )
    assert issue_sentence(verdict_of(base=baseline(0.003), INT4=three(0.001)), "decode", "BF16") == ""


def test_quality_is_told_with_text_interval_and_limit():
    sentence = quality_of(PipelineLimits(loss_pct=3))
    assert "KL 0.02 [0.018, 0.022] nats per token, 93 % of the first choices unchanged" in sentence
    assert "perplexity × 1.01 [1, 1.02] on 1,016 tokens of a text" in sentence
    assert sentence.endswith("quality kept: 1.5 [0.5, 2.5] % lost, 3 % allowed")
    assert "kept, but not surely" in quality_of(PipelineLimits(loss_pct=2))
    assert "quality not kept" in quality_of(PipelineLimits(loss_pct=1))
    random = quality_of(quality=ON_RANDOM_TOKENS, is_seeded=True)
    assert "untrained" in random
    assert "perplexity ×" not in random
    assert "a loss of 2.02 [1.82, 2.22] %" in random  # exp(KL) − 1
    silent = {"source": "none", "reason": "the two models know other tokens"}
    assert quality_of(quality=silent) == "loss not measured: the two models know other tokens"


def test_an_encoder_loses_ranks_and_no_perplexity():
    encoder = {
        **{name: ON_TEXT[name] for name in ("source", "text", "is_language")},
        "tokens_count": 2048,
        "embedding_cosine_ratio": {"value": 0.99, "low": 0.98, "high": 0.995},
        "rank_agreement_ratio": {"value": 0.97, "low": 0.96, "high": 0.98},
        "nearest_kept_ratio": {"value": 0.875, "low": 0.8, "high": 0.9},
    }
    loss = three(1.0, quality=encoder).model.loss
    assert (loss.value, loss.low_value, loss.high_value) == pytest.approx((3, 2, 4))
    sentence = quality_of(PipelineLimits(loss_pct=2), quality=encoder)
    assert "embeddings' cosine 0.99 [0.98, 0.995]" in sentence
    assert "87.5 % keep their nearest neighbour on 2,048 tokens of a text" in sentence
    assert sentence.endswith("quality not kept: 3 [2, 4] % lost, 2 % allowed")
    assert "KL" not in sentence
