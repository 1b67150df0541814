"""Who wins a shape, what to take, and against what: hand numbers. `tests/wording` holds the sentences."""

from __future__ import annotations

from dataclasses import replace

import pytest
from shape_records import attention_record, record

from results.cases import shape_verdict
from results.cases.case_result import case_results
from results.cases.gain import DISTURBING_FLAGS
from results.cases.shape_verdict import are_level, groups, ranked_options, shape_verdicts
from results.records.flags import DOUBTFUL_FLAGS, FLAGS
from results.records.records import ProcessInfo
from results.statistics.replication import TotalInterval


def contests(cases):
    """The shapes that something is compared with a baseline at."""
    return [each for each in shape_verdicts(cases) if each.baseline is not None and each.is_contest]


def judge(records, **more):
    """Return the verdict over the cases of the records."""
    return shape_verdict.judge(case_results(records), **more)


def test_predicted_and_measured_speedup_by_hand():
    verdict = judge([record("BF16", median_s=46e-6), record("INT4", "BF16", "tinygemm", 20e-6)])
    # ideal: (4096²·2 + 2·2·4096) B against (4096²/2 + 2·2·4096) B at one bandwidth; measured: 46 / 20
    assert verdict.predicted_speedup == pytest.approx(33_570_816 / 8_404_992)
    assert verdict.measured_speedup == pytest.approx(2.3)
    assert verdict.is_win
    # INT4 may lose more than 3 %: it is the fastest, and nobody is told to take it.
    assert (verdict.choice, verdict.riskier) == (verdict.baseline, verdict.best)


def test_the_first_within_the_limit_of_the_loss_is_taken_and_what_is_faster_is_riskier():
    records = [
        record("BF16", median_s=46e-6),
        record("INT4", "BF16", "tinygemm", 20e-6),
        record("INT8", "INT8", "int_mm", 30e-6),
    ]
    verdict = judge(records)
    assert [each.precision for each in (verdict.best, verdict.choice, verdict.riskier)] == [
        "INT4 (W4A16)",
        "INT8 (W8A8)",
        "INT4 (W4A16)",
    ]
    # Without a baseline, too.
    assert judge(records[1:]).choice.precision == "INT8 (W8A8)"
    assert judge(records[1:2]).choice is None


def test_the_fastest_sixteen_bit_kernel_is_the_baseline_even_when_fp32_is_faster():
    verdict = judge(
        [
            record("BF16", median_s=40e-6),
            record("FP16", median_s=30e-6),
            record("FP32", median_s=25e-6),
            record("INT8", "INT8", "int_mm", 15e-6),
        ]
    )
    assert (verdict.baseline.label, verdict.best.label) == ("FP16 · matmul", "INT8 (W8A8) · int_mm")
    assert verdict.measured_speedup == pytest.approx(2.0)
    assert [option.precision for option in verdict.options] == ["INT8 (W8A8)", "FP32", "FP16", "BF16"]


def test_the_baseline_of_attention_is_its_fastest_sixteen_bit_kernel_and_loses_nothing():
    """The times that an H200 took."""
    flash, cudnn = (
        attention_record("BF16", "BF16", "flash", 25.09e-6),
        attention_record("BF16", "BF16", "cudnn", 16.72e-6),
    )
    narrow = attention_record("BF16", "FP8_E4M3", "widened", 160.6e-6)
    verdict = judge([flash, cudnn, narrow])
    assert [each.kernel for each in (verdict.baseline, verdict.best, verdict.choice)] == ["cudnn"] * 3
    assert verdict.choice.loss.pct == 0
    # A cache in FP8 is narrow, although its query is not, and nobody knows its loss.
    assert (verdict.rival.kernel, verdict.rival.loss.pct) == ("widened", None)


def test_a_narrow_cache_that_is_tied_with_sixteen_bit_is_not_taken():
    cudnn = attention_record("BF16", "BF16", "cudnn", 82.34e-6)
    flex = attention_record("FP8_E4M3", "FP8_E4M3", "flex", 82.26e-6)
    verdict = judge([cudnn, flex])
    assert (verdict.choice.kernel, verdict.riskier) == ("cudnn", None)
    assert [each.kernel for each in verdict.level_pair] == ["flex", "cudnn"]
    fast = judge([cudnn, attention_record("FP8_E4M3", "FP8_E4M3", "flex", 40e-6)])
    assert (fast.choice.kernel, fast.riskier.kernel) == ("cudnn", "flex")


@pytest.mark.parametrize("flag", ["quarantined", "capped", "contended", "above-roof"])
def test_an_undisturbed_sixteen_bit_kernel_is_the_baseline_before_a_disturbed_one(flag):
    int8 = record("INT8", "INT8", "int_mm", 50e-6)
    # BF16 is 3 % faster, and tied with FP16 it would name the baseline.
    disturbed, clear = record("BF16", median_s=97e-6, flags=(flag,)), record("FP16", median_s=100e-6)
    verdict = judge([disturbed, clear, int8])
    assert (verdict.baseline.precision, verdict.doubts) == ("FP16", ())
    assert verdict.measured_speedup == pytest.approx(2.0)
    # A clean process of the same kernel stands for it: the disturbed one is left out.
    again = record("BF16", median_s=97e-6, process=1)
    verdict = judge([disturbed, again, clear, int8])
    assert (verdict.baseline.precision, verdict.doubts) == ("BF16", ())
    # All are: the doubt is told instead.
    both = judge([disturbed, record("FP16", median_s=100e-6, flags=("stolen",)), int8])
    expected = ("FP16", ("stolen",)) if flag == "above-roof" else ("BF16", (flag,))
    assert (both.baseline.precision, both.doubts) == expected
    # Traits of a kernel come back in every run: they choose no baseline.
    assert judge([record("BF16", median_s=97e-6, flags=("noisy", "bimodal")), clear, int8]).baseline.precision == "BF16"


def test_a_disturbed_kernel_far_faster_than_the_undisturbed_one_stays_the_baseline():
    """FP16 takes ten times as long here: a speed-up over it would flatter more than the disturbance does."""
    fp16, int8 = record("FP16", median_s=1000e-6), record("INT8", "INT8", "int_mm", 50e-6)
    slow = judge([record("BF16", median_s=100e-6, flags=("quarantined",)), fp16, int8])
    assert (slow.baseline.precision, slow.doubts) == ("BF16", ("quarantined",))
    # A time above the roof is too short instead: it tells nothing of which kernel is faster.
    above = judge([record("BF16", median_s=100e-6, flags=("above-roof",)), fp16, int8])
    assert (above.baseline.precision, above.measured_speedup) == ("FP16", pytest.approx(20.0))


@pytest.mark.parametrize(("fp16_s", "name"), [(99e-6, "BF16"), (96e-6, "BF16"), (94e-6, "FP16")])
def test_noise_between_sixteen_bit_kernels_does_not_change_the_baseline(fp16_s, name):
    verdict = judge(
        [record("BF16", median_s=100e-6), record("FP16", median_s=fp16_s), record("INT8", "INT8", "int_mm", 50e-6)]
    )
    assert verdict.baseline.precision == name


def test_fp32_is_the_baseline_where_nothing_narrower_is_uniform():
    fp32 = record("FP32", median_s=80e-6)
    verdict = judge([fp32, record("INT8", "INT8", "int_mm", 20e-6)])
    assert (verdict.baseline.precision, verdict.measured_speedup) == ("FP32", pytest.approx(4.0))
    # A predicted BF16 does not displace a measured FP32: measured is compared with measured.
    assert judge([fp32, record("BF16"), record("INT8", "INT8", "int_mm", 20e-6)]).baseline.precision == "FP32"


def test_without_any_baseline_no_speedup_is_invented():
    verdict = judge([record("INT4", "BF16", "tinygemm", 20e-6), record("INT8", "BF16", "int8pack", 30e-6)])
    assert (verdict.baseline, verdict.predicted_speedup, verdict.measured_speedup) == (None, None, None)
    assert contests(verdict.cases.values()) == []


def test_intervals_that_overlap_the_baselines_are_no_win():
    # [97, 103] µs and [94.5, 100.5] µs share [97, 100.5]
    near = judge(
        [
            record("BF16", median_s=100e-6, low=0.97, high=1.03),
            record("INT8", "INT8", "int_mm", 97.5e-6, low=0.97, high=1.03),
        ]
    )
    assert near.is_level
    assert not near.is_win
    assert near.choice is near.baseline
    # the same medians with intervals of ±1 %: [99, 101] and [96.5, 98.5]
    clear = judge([record("BF16", median_s=100e-6), record("INT8", "INT8", "int_mm", 97.5e-6)])
    assert clear.is_win
    assert not clear.is_level


def test_a_noisy_kernel_does_not_hide_the_clear_gain_of_another():
    bf16 = record("BF16", median_s=100e-6)
    noisy = record("INT4", "BF16", "tinygemm", 80e-6, low=0.7, high=1.3)
    assert not judge([bf16, noisy]).is_win
    verdict = judge([bf16, noisy, record("INT8", "INT8", "int_mm", 85e-6)])
    assert (verdict.best.precision, verdict.is_win) == ("INT8 (W8A8)", True)
    assert (verdict.choice, verdict.riskier) == (verdict.best, None)
    assert [each.precision for each in verdict.equals] == ["INT4 (W4A16)"]


def test_a_narrow_format_level_behind_the_baseline_is_said_to_be_level():
    verdict = judge([record("BF16", median_s=100e-6), record("INT8", "INT8", "int_mm", 101e-6)])
    assert (verdict.is_level, verdict.choice) == (True, verdict.baseline)
    wide = judge([record("BF16", median_s=35e-6), record("INT8", "INT8", "int_mm", 100e-6, low=0.3, high=2)])
    other = judge([record("BF16", median_s=100e-6, low=0.3, high=2), record("INT8", "INT8", "int_mm", 40e-6)])
    for judged in (wide, other):
        assert (judged.is_level, judged.choice) == (True, judged.baseline)


def test_what_is_level_with_any_sixteen_bit_kernel_wins_nothing():
    # BF16 names the baseline although FP16 is 4 % faster; FP32's interval meets that of FP16 and not that of BF16.
    bf16, fp16 = record("BF16", median_s=100e-6, low=0.999, high=1.001), record("FP16", median_s=96e-6)
    judged = judge([bf16, fp16, record("FP32", median_s=94.5e-6)])
    assert (judged.baseline.precision, judged.best.precision) == ("BF16", "FP16")
    assert (judged.is_win, judged.is_level) == (False, True)
    assert [each.precision for each in judged.level_pair] == ["FP16", "FP32"]
    assert judge([bf16, fp16, record("FP32", median_s=90e-6)]).is_win


def test_a_doubt_about_the_kernel_it_is_level_with_counts():
    records = [
        record("BF16", median_s=100e-6, low=0.999, high=1.001),
        record("FP16", median_s=96e-6, flags=("drift",)),
        record("FP32", median_s=94.5e-6),
    ]
    assert judge(records).doubts == ("drift",)


def test_sixteen_bit_kernels_level_with_the_fastest_are_named_and_a_loser_still_loses():
    judged = judge(
        [record("BF16", median_s=100e-6), record("FP16", median_s=101e-6), record("INT8", "INT8", "int_mm", 200e-6)]
    )
    assert judged.is_level
    assert [each.precision for each in judged.equals] == ["FP16"]
    assert (judged.rival.precision, judged.choice) == ("INT8 (W8A8)", judged.baseline)


@pytest.mark.parametrize("b", ["FP32", "INT8"])
def test_two_kernels_of_one_format_are_level_or_their_ratio_is_given(b):
    """What `roofline.compare` of two kernels asks, with a baseline format and without one."""
    mine, theirs = record(b, kernel="mine", median_s=100e-6), record(b, kernel="theirs", median_s=101e-6)
    assert [each.kernel for each in judge([mine, theirs]).equals] == ["theirs"]
    slower = judge([mine, record(b, kernel="theirs", median_s=160e-6)])
    assert (slower.best.kernel, slower.runner_up.kernel, slower.equals) == ("mine", "theirs", ())
    third = record(b, kernel="third", median_s=100.5e-6)
    assert len(judge([mine, theirs, third]).equals) == 2


def test_equal_predictions_have_no_winner_by_name():
    judged = judge([record("FP32", kernel="a"), record("FP32", kernel="b")])
    assert (judged.is_win, judged.is_level) == (False, True)
    assert len(judged.equals) == 1


def test_a_narrow_format_that_loses_is_said_to_lose():
    shape = (512, 4096, 4096)
    judged = judge([record("BF16", median_s=1e-3, shape=shape), record("INT4", "BF16", "tinygemm", 10e-3, shape=shape)])
    assert (judged.best, judged.choice, judged.riskier) == (judged.baseline, judged.baseline, None)
    assert judged.rival.precision == "INT4 (W4A16)"
    wide = judge([record("BF16", median_s=1e-3), record("FP16", median_s=2e-3)])
    assert (wide.best.precision, wide.rival, wide.runner_up.precision) == ("BF16", None, "FP16")


def test_too_few_samples_for_an_interval_use_their_range():
    # range [90, 130] µs meets [99, 101] µs although the medians are 100 and 140 · 0.8
    slow = record("BF16", median_s=100e-6, has_interval=False)
    assert (judge([slow]).best.estimate.low_s, judge([slow]).best.estimate.high_s) == pytest.approx((90e-6, 130e-6))
    assert judge([slow, record("INT8", "INT8", "int_mm", 92e-6)]).is_level
    assert judge([slow, record("INT8", "INT8", "int_mm", 80e-6)]).is_win


def test_too_few_samples_never_tell_a_difference_of_a_few_percent():
    def one_sample(b, kernel, median_s):
        made = record(b, kernel=kernel, median_s=median_s, has_interval=False, flags=("few-samples",))
        return replace(made, measurement=replace(made.measurement, min_s=median_s, max_s=median_s, sample_count=1))

    base, near, far = (
        one_sample("BF16", "matmul", 1.0),
        one_sample("INT8", "int_mm", 0.96),
        one_sample("INT8", "int_mm", 0.9),
    )
    level = judge([base, near])
    assert (level.is_level, level.is_win) == (True, False)
    assert judge([base, far]).is_win
    # One side with an interval changes nothing: the other side's time is as little known.
    assert judge([base, record("INT8", "INT8", "int_mm", 0.96, low=0.999, high=1.001)]).is_level
    # Processes do: their spread is an interval, and 4 % are then far outside it.
    many = [replace(member, process=ProcessInfo(at)) for member in (base, near) for at in range(4)]
    assert judge(many).is_win


def test_winners_level_with_each_other_are_named_together():
    verdict = judge(
        [
            record("BF16", median_s=100e-6),
            record("INT8", "INT8", "int_mm", 50e-6),
            record("INT8", "BF16", "int8pack", 50.5e-6),
            record("INT4", "BF16", "tinygemm", 50.7e-6),
        ]
    )
    assert verdict.is_win
    # Level by their times: what is published to lose least goes first.
    assert [each.precision for each in (verdict.best, *verdict.equals)] == [
        "INT8 (W8A16)",
        "INT8 (W8A8)",
        "INT4 (W4A16)",
    ]


def test_exact_ties_go_to_the_baseline_and_never_to_the_order_of_the_records():
    tied = [
        record("INT8", "INT8", "int_mm", 50e-6),
        record("BF16", kernel="b", median_s=50e-6),
        record("BF16", kernel="a", median_s=50e-6),
    ]
    verdicts = [judge(order) for order in (tied, tied[::-1])]
    assert all(verdict.best is verdict.baseline for verdict in verdicts)
    assert len({verdict.best.kernel for verdict in verdicts}) == 1


def test_predictions_only():
    verdict = judge([record("BF16"), record("INT8", "INT8", "int_mm")])
    assert verdict.measured_speedup is None
    assert verdict.is_win
    assert verdict.choice is verdict.best
    # Two kernels of one format have one prediction; the model cannot choose between them.
    two = judge([record("BF16"), record("INT8", "INT8", "int_mm"), record("INT8", "INT8", "padded")])
    assert two.is_win
    assert {two.best.kernel, *(each.kernel for each in two.equals)} == {"int_mm", "padded"}


def test_predictions_that_every_ranking_takes_for_level_win_nothing():
    base = record("BF16", ideal_s=100e-6)
    near = judge([base, record("INT4", "BF16", "tinygemm", ideal_s=96e-6)])
    assert (near.is_level, near.is_win, near.best) == (True, False, near.baseline)
    assert judge([base, record("INT4", "BF16", "tinygemm", ideal_s=90e-6)]).is_win


@pytest.mark.parametrize("marked", [{"kernel": "scaled_mm_emulated"}, {"kernel": "k", "path": "emulated"}])
def test_an_emulated_kernel_never_wins_by_prediction(marked):
    emulated = record("FP8_E4M3", "FP8_E4M3", ideal_s=1e-6, **marked)
    verdict = judge([record("BF16"), emulated])
    assert (verdict.best.precision, verdict.is_win) == ("BF16", False)
    assert (verdict.choice, verdict.rival.kernel) == (verdict.baseline, marked["kernel"])
    assert judge([record("BF16"), emulated, record("INT8", "INT8", "int_mm")]).best.kernel == "int_mm"
    alone = judge([emulated])
    assert (alone.best, alone.choice) == (None, None)
    # Measured, its real cost is in the time: then it may win.
    assert judge([record("BF16", median_s=50e-6), record("FP8_E4M3", median_s=20e-6, **marked)]).is_win


def test_measured_evidence_outranks_a_faster_prediction():
    verdict = judge([record("BF16", median_s=70e-6), record("INT4", "BF16", "tinygemm")])
    assert verdict.best.precision == "BF16"
    assert not verdict.is_contest
    assert contests(case_results([record("BF16", median_s=70e-6), record("INT4", "BF16", "tinygemm")])) == []


@pytest.mark.parametrize("flag", sorted(DOUBTFUL_FLAGS))
@pytest.mark.parametrize("side", ["baseline", "best"])
def test_doubts_on_either_side_count(flag, side):
    flags = {"baseline": (), "best": (), side: (flag, "unchecked")}
    verdict = judge(
        [
            record("BF16", median_s=40e-6, flags=flags["baseline"]),
            record("INT8", "INT8", "int_mm", 20e-6, flags=flags["best"]),
        ]
    )
    assert verdict.doubts == (flag,)
    if flag in DISTURBING_FLAGS:  # something else took the time: the speed-up means nothing
        assert verdict.gap.code == "disturbed-result"
    else:
        assert verdict.gap is None


def test_a_slow_state_a_held_clock_and_two_modes_are_doubts_and_mere_facts_are_not():
    assert {"quarantined", "capped", "bimodal"} <= DOUBTFUL_FLAGS
    facts = sorted(set(FLAGS) - DOUBTFUL_FLAGS - {"forced", "simulated"})
    assert facts == [
        *("autocorrelated", "energy-disagrees", "energy-pace", "few-samples", "not-attributed", "outliers", "unchecked")
    ]
    judged = judge([record("BF16", median_s=40e-6, flags=facts), record("INT8", "INT8", "int_mm", 20e-6, flags=facts)])
    assert judged.doubts == ()


def test_a_disturbed_process_is_left_out_and_where_most_are_the_pooled_case_is_in_doubt():
    slow = [
        replace(record("INT8", "INT8", "int_mm", 30e-6, flags=("quarantined",)), process=ProcessInfo(place))
        for place in (1, 2)
    ]
    clean = [record("BF16", median_s=40e-6), record("INT8", "INT8", "int_mm", 20e-6)]
    judged = judge([*clean, slow[0]])
    assert (judged.doubts, judged.best.estimate.time_s) == ((), 20e-6)
    judged = judge([*clean, *slow])
    assert (judged.doubts, judged.best.estimate.time_s) == (("quarantined",), 20e-6)


def test_doubts_about_the_rival_count_and_about_bystanders_do_not():
    fast, slow = record("BF16", median_s=20e-6), record("INT8", "INT8", "int_mm", 40e-6, flags=("drift",))
    assert judge([fast, slow]).doubts == ("drift",)
    bystander = record("FP32", median_s=90e-6, flags=("noisy",))
    assert judge([record("BF16", median_s=40e-6), record("INT8", "INT8", "int_mm", 20e-6), bystander]).doubts == ()
    second = record("INT8", "BF16", "int8pack", 30e-6, flags=("drift",))  # not named: it is nobody's comparison
    assert judge([record("BF16", median_s=40e-6), record("INT8", "INT8", "int_mm", 20e-6), second]).doubts == ()
    assert judge([record("INT8", "INT8", "int_mm", 20e-6), second]).doubts == ("drift",)  # here it is


def test_forced_measurements_never_meet_the_prediction_of_another_chip():
    verdict = judge(
        [
            record("BF16", median_s=40e-6, flags=("forced",)),
            record("INT8", "INT8", "int_mm", 20e-6, flags=("forced", "drift")),
        ]
    )
    assert verdict.predicted_speedup is None
    assert verdict.measured_speedup == pytest.approx(2.0)
    assert {"forced", "drift"} <= verdict.flags


def test_processes_are_pooled_and_what_they_differ_by_widens_the_interval():
    runs = [record("BF16", median_s=time_s, process=i) for i, time_s in enumerate((10e-6, 50e-6, 20e-6))]
    (option,) = ranked_options(case_results(runs))
    assert option.estimate.time_s == pytest.approx(10e-6 ** (1 / 3) * 50e-6 ** (1 / 3) * 20e-6 ** (1 / 3))
    total = case_results(runs)[0].total
    assert option.estimate.interval_s == (total.low_s, total.high_s)
    assert option.estimate.low_s < 9.9e-6 < 50.5e-6 < option.estimate.high_s
    assert are_level(option, ranked_options(case_results([record("INT8", "INT8", "int_mm", 12e-6)]))[0])


def test_failed_skipped_and_timeless_cases_never_compete():
    lost = [
        record("BF16", median_s=1e-9, status="failed", reason="out of memory"),
        record("INT8", "INT8", "int_mm", status="skipped", reason="no unit"),
        record("FP16", median_s=0.0),
    ]
    verdict = judge(lost)
    assert (verdict.best, verdict.options, len(verdict.lost)) == (None, (), 3)
    assert len(judge([*lost, record("INT8", "INT8", "padded", 1e-3)]).options) == 1


def test_shapes_and_cache_states_are_never_mixed():
    records = [
        record("BF16", median_s=40e-6),
        record("INT8", "INT8", "int_mm", 20e-6),
        record("BF16", median_s=10e-6, cache="warm"),
        record("INT8", "INT8", "int_mm", 2e-6, cache="warm"),
        record("BF16", median_s=1e-6, shape=(1, 64, 64)),
    ]
    assert len(groups(case_results(records))) == 3
    assert [
        (verdict.question.cache, round(verdict.measured_speedup, 6)) for verdict in contests(case_results(records))
    ] == [
        ("cold", 2.0),
        ("warm", 5.0),
    ]


def test_operators_without_a_and_b_have_a_baseline_when_all_inputs_share_its_format():
    def attention(formats, time_s):
        bf16_record = record("BF16", median_s=time_s)
        return replace(bf16_record, case=replace(bf16_record.case, op="attention", formats=formats))

    plain = attention((("q", "BF16"), ("k", "BF16"), ("v", "BF16")), 40e-6)
    narrow = attention((("q", "BF16"), ("k", "FP8_E4M3"), ("v", "FP8_E4M3")), 20e-6)
    verdict = judge([plain, narrow])
    assert verdict.baseline.precision == "BF16"
    assert verdict.is_win


def replicated(b, medians_s, **more):
    return [record(b, median_s=median_s, process=number, **more) for number, median_s in enumerate(medians_s)]


def test_processes_that_differ_more_than_their_samples_decide_what_is_level():
    # Inside each process ±0.1 %; from process to process ±20 %: 9 % between the means is nothing.
    tight = {"low": 0.999, "high": 1.001}
    records = [
        *replicated("BF16", [1.0e-3, 1.2e-3, 0.9e-3], **tight),
        *replicated("INT8", [0.9e-3, 1.1e-3, 0.8e-3], **tight),
    ]
    assert judge(records).is_level
    alone = [member for member in records if member.process.ordinal == 2]
    assert not judge(alone).is_level  # one process knows no better


def test_the_intervals_of_the_whole_run_are_used_where_they_are_given():
    records = [record("BF16", median_s=46e-6), record("INT4", "BF16", "tinygemm", 40e-6)]
    assert not judge(records).is_level
    wide = {
        member.case.case_key: TotalInterval(member.measurement.median_s, 30e-6, 60e-6, 1, "floor", 0.2)
        for member in records
    }
    cases = [replace(case, total=wide[case.case_key]) for case in case_results(records)]
    (verdict,) = shape_verdicts(cases)
    assert verdict.is_level
