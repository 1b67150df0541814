"""The ranking from a stored run: evidence first, like with like, marked."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from reports.present.words.ranking_text import excluded_texts, shape_reason, shape_summary
from results.cases.case_result import case_results
from results.cases.gain import gain_over_baseline
from results.cases.saved_bytes import saved_ratio
from results.rankings.shape import recommend_from_run
from roofline_model.chips.hardware import get_hardware
from roofline_model.expected.predict import predict_expected
from roofline_model.operators.product import gemm
from roofline_model.recommend.loss import formats_loss
from roofline_model.recommend.ranking import tied_with

DECODE = (1, 4096, 4096)


def labels(ranking):
    return [(row.label, row.estimate.source) for row in ranking.options]


def test_measured_rows_come_first_by_time_and_unmeasured_formats_follow(make):
    records = [
        make.record(DECODE, "BF16", "BF16", "matmul", 2e-3, number=1),
        make.record(DECODE, "INT4", "BF16", "tinygemm", 1e-3, number=2),
        make.record(DECODE, "INT8", "INT8", "int_mm", 1.5e-3, number=3),
    ]
    (ranking,) = recommend_from_run(case_results(records), make.CPU)
    assert labels(ranking)[:3] == [
        ("INT4 (W4A16) · tinygemm", "measured"),
        ("INT8 (W8A8) · int_mm", "measured"),
        ("BF16 · matmul", "measured"),
    ]
    assert {row.estimate.source for row in ranking.options[3:]} <= {"ideal"}
    assert [ranking.rank_of(row) for row in ranking.options] == list(range(1, len(ranking.options) + 1))
    assert ranking.first.speedup_ratio == pytest.approx(2.0)
    assert ranking.first.memory.saved_ratio == 0.75
    assert ranking.first.record_ids == (f"{2:032x}",)
    assert ranking.question.phase == "decode"
    assert ranking.baseline_label == "BF16 · matmul"
    assert ranking.roles == {
        ranking.options[1].key: "take",
        ranking.first.key: "riskier",
        ranking.baseline.key: "safest",
    }
    assert gain_over_baseline(ranking.choice, ranking).ratio == pytest.approx(4 / 3)
    assert shape_reason(ranking.first, ranking).startswith("measured 2.0× BF16 (ideal 4.0×)")
    assert "widened to BF16 first" in shape_reason(ranking.first, ranking)


def test_what_was_measured_is_not_proposed_again_whatever_the_sixteen_bit_activation(make):
    # The model weighs INT4 with FP16 activations; the run measured it with BF16: one choice, one row.
    records = [
        make.record(DECODE, "BF16", "BF16", "matmul", 2e-3),
        make.record(DECODE, "INT4", "BF16", "tinygemm", 1e-3),
    ]
    (ranking,) = recommend_from_run(case_results(records), make.CPU)
    assert sum(row.weight_format == "INT4" for row in ranking.options) == 1
    assert ranking.first.method == "AWQ"  # the model's method and quality for the format are carried over
    assert ranking.first.loss.source == "claimed"


def test_predicted_speedups_are_ideal_against_ideal(make):
    # Measured far below the roof: mixing the sources would make INT8's prediction look 8 times faster.
    records = [make.record(DECODE, "BF16", "BF16", "matmul", 4 * 33_570_816 / 76e9)]
    (ranking,) = recommend_from_run(case_results(records), make.CPU)
    int8 = next(row for row in ranking.options if row.weight_format == "INT8")
    assert int8.estimate.source == "ideal"
    assert int8.record_ids == ()
    assert int8.speedup_ratio == pytest.approx(2.0, rel=0.01)
    assert ranking.first.label == "BF16 · matmul"
    # INT4 promises more, beyond the limit of the loss.
    assert ranking.options[1].weight_format == "INT4"
    assert "worth trying: INT8 (W8A8)" in shape_summary(ranking)


def test_predictions_only_are_ranked_and_marked(make):
    records = [make.record(DECODE, b, a, "k") for b, a in (("BF16", "BF16"), ("INT4", "BF16"), ("INT8", "INT8"))]
    (ranking,) = recommend_from_run(case_results(records), make.CPU)
    assert {row.estimate.source for row in ranking.options} == {"ideal"}
    assert ranking.first.weight_format == "INT4"
    assert ranking.choice.weight_format == "INT8"


def test_skips_and_failures_are_excluded_with_their_reason_and_not_proposed(make):
    records = [
        make.record(DECODE, "BF16", "BF16", "matmul", 2e-3),
        make.record(DECODE, "INT8", "INT8", "int_mm", status="failed", reason="relative error 3"),
        make.record(DECODE, "INT4", "BF16", "tinygemm", status="skipped", reason="no package", device=None),
    ]
    (ranking,) = recommend_from_run(case_results(records), make.CPU)
    assert ("INT8 (W8A8) · int_mm", "failed: relative error 3") in excluded_texts(ranking)
    assert ("INT4 (W4A16) · tinygemm", "skipped: no package") in excluded_texts(ranking)
    assert not {row.weight_format for row in ranking.options} & {"INT8", "INT4"}


def test_without_a_chip_only_the_run_is_ranked(make):
    records = [make.record(DECODE, "BF16", "BF16", "matmul", 2e-3), make.record(DECODE, "INT8", "INT8", "int_mm", 1e-3)]
    (ranking,) = recommend_from_run(case_results(records), None)
    assert labels(ranking) == [("INT8 (W8A8) · int_mm", "measured"), ("BF16 · matmul", "measured")]
    assert ranking.first.loss == formats_loss([("a", "INT8"), ("b", "INT8")])


def test_a_chip_is_not_used_for_another_chips_records(make):
    records = [make.record(DECODE, "BF16", "BF16", "matmul", 2e-3, device=make.GPU)]
    (ranking,) = recommend_from_run(case_results(records), make.CPU)
    assert labels(ranking) == [("BF16 · matmul", "measured")]


def test_cold_is_preferred_and_warm_used_when_it_is_all_there_is(make):
    cold, warm = (
        make.record(DECODE, "BF16", "BF16", "matmul", 2e-3),
        make.record(DECODE, "BF16", "BF16", "matmul", 1e-3, cache="warm"),
    )
    (both,) = recommend_from_run(case_results([warm, cold]), None)
    assert (both.question.cache, both.first.estimate.time_s) == ("cold", 2e-3)
    (only,) = recommend_from_run(case_results([warm]), None)
    assert (only.question.cache, only.first.estimate.time_s) == ("warm", 1e-3)


def test_a_lead_inside_the_intervals_is_called_level(make):
    near = [
        make.record(DECODE, "BF16", "BF16", "matmul", 1.01e-3),
        make.record(DECODE, "INT8", "INT8", "int_mm", 1.0e-3),
    ]
    far = [make.record(DECODE, "BF16", "BF16", "matmul", 1.5e-3), make.record(DECODE, "INT8", "INT8", "int_mm", 1.0e-3)]
    (ranking,) = recommend_from_run(case_results(near), None)
    assert tied_with(ranking.choice, ranking.options) == ranking.options[1:]
    assert [row.label for row in ranking.options] == [
        "BF16 · matmul",
        "INT8 (W8A8) · int_mm",
    ]  # level: the smaller loss
    (apart,) = recommend_from_run(case_results(far), None)
    assert tied_with(apart.choice, apart.options) == ()


def test_operators_that_are_no_products_are_ranked_from_the_run_alone(make):
    record = make.record(DECODE, "BF16", "BF16", "mine", 2e-3)
    odd = replace(
        record,
        case=replace(record.case, op="softmax", shape=(("rows", 8), ("columns", 4096)), formats=(("x", "BF16"),)),
    )
    (ranking,) = recommend_from_run(case_results([odd]), make.CPU)
    assert ranking.question.phase == ""
    assert labels(ranking) == [("BF16 · mine", "measured")]
    assert saved_ratio(ranking.first) is None


def test_nothing_to_rank(make):
    assert recommend_from_run(case_results([]), make.CPU) == []
    (ranking,) = recommend_from_run(
        case_results([make.record(DECODE, "BF16", "BF16", "k", status="failed", reason="x", device=None)]), None
    )
    assert ranking.options == ()
    assert ranking.first is None
    assert shape_summary(ranking).startswith("nothing could be ranked")


def test_a_chip_without_a_sixteen_bit_rate_still_ranks_what_was_measured(make):
    chip = make.device("odd", bandwidth_gb_s=100, tflops={"INT8": 4.0}, paths={})
    (ranking,) = recommend_from_run(
        case_results([make.record(DECODE, "INT8", "INT8", "int_mm", 1e-3, device=chip)]), chip
    )
    assert labels(ranking) == [("INT8 (W8A8) · int_mm", "measured")]
    assert ranking.first.speedup_ratio is None


def test_an_emulated_kernel_is_predicted_last_and_never_worth_trying(make):
    predicted = [
        make.record((64, 512, 512), "BF16", "BF16", "matmul"),
        make.record((64, 512, 512), "FP8_E4M3", "FP8_E4M3", "scaled_mm_emulated"),
    ]
    fp8 = replace(predicted[1], predictions=(replace(predicted[1].ideal, time_s=1e-9),))
    (ranking,) = recommend_from_run(case_results([predicted[0], fp8]), None)
    assert labels(ranking) == [("BF16 · matmul", "ideal"), ("FP8 (W8A8) · scaled_mm_emulated", "ideal")]
    assert "leaves out what emulating costs" in shape_reason(ranking.options[1], ranking)
    measured = make.record((64, 512, 512), "BF16", "BF16", "matmul", 1e-3)
    assert "worth trying" not in shape_summary(recommend_from_run(case_results([measured, fp8]), None)[0])
    alone = shape_summary(recommend_from_run(case_results([fp8]), None)[0])
    assert (
        alone == "only emulated kernels were predicted (FP8 (W8A8) · scaled_mm_emulated), without what emulating costs"
    )


def test_formats_that_were_not_measured_follow_by_their_expected_time(make):
    """A chip with expected times: its own model ranks what was not run; ideals stay beside, and are compared with
    ideals.
    """
    chip = get_hardware("h100-sxm")
    baseline = make.record(DECODE, "FP16", "FP16", "matmul", 20e-6, device=chip)
    likely = predict_expected(gemm(*DECODE, a="FP16"), chip)
    stored = replace(baseline.predictions[0], kind="expected", time_s=likely.time_s)
    (ranking,) = recommend_from_run(
        case_results([replace(baseline, predictions=(*baseline.predictions, stored))]), chip
    )
    assert ranking.options[0].estimate.source == "measured"
    rest = ranking.options[1:]
    assert {row.estimate.source for row in rest} == {"expected"}
    # By the end of the 80 % interval; level ends go by the time, and level times by the loss.
    assert all(first.estimate.high_s <= second.estimate.high_s * 1.0501 for first, second in itertools.pairwise(rest))
    fp8 = next(row for row in rest if row.weight_format == "FP8_E4M3")
    times = predict_expected(gemm(*DECODE, a="FP8", c="FP16"), chip)
    assert fp8.estimate.time_s == times.time_s > fp8.times.ideal.time_s
    assert fp8.speedup_ratio == pytest.approx(likely.time_s / times.time_s)
    # INT4's ideal is the shortest of all, its expected time is not: it is not what is worth trying.
    assert min(rest, key=lambda row: row.times.ideal.time_s).weight_format == "INT4"
    assert rest[0].weight_format != "INT4"
    assert f"worth trying: {rest[0].label}, expected" in shape_summary(ranking)


def test_a_stored_prediction_is_ranked_by_its_expected_time(make):
    chip = get_hardware("h100-sxm")
    records = []
    for number, (b, a) in enumerate((("FP16", "FP16"), ("INT4", "FP16"), ("FP8_E4M3", "FP8_E4M3"))):
        record = make.record(DECODE, b, a, "k", device=chip, number=number)
        likely = predict_expected(gemm(*DECODE, a=a, b=b), chip)
        stored = replace(record.predictions[0], kind="expected", time_s=likely.time_s)
        records.append(replace(record, predictions=(*record.predictions, stored)))
    (ranking,) = recommend_from_run(case_results(records), None)
    assert [(row.weight_format, row.estimate.source) for row in ranking.options] == [
        ("FP8_E4M3", "expected"),
        ("INT4", "expected"),
        ("FP16", "expected"),
    ]
    assert ranking.first.speedup_ratio == pytest.approx(
        ranking.options[2].estimate.time_s / ranking.first.estimate.time_s
    )
    assert shape_reason(ranking.first, ranking).startswith(
        f"expected {ranking.first.speedup_ratio:.1f}× FP16 (ideal 2.0×), not measured"
    )
    assert ranking.choice is ranking.first
