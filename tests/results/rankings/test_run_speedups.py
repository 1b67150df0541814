"""The speed-up of a stored row is of nights that measured both, or says that it is not; intervals are those of every
table.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from reports.advice.trade_offs import trade_groups
from reports.document.advice_blocks import stored_section
from reports.document.report import Report
from reports.present.markdown import markdown
from reports.present.words.ranking_text import speedup_basis_text
from reports.present.words.stored_text import reason_text, summary_of
from results.cases.case_result import case_results

BF16, INT4 = ("BF16", "BF16", "matmul"), ("INT4", "BF16", "tinygemm")


def best_of(answer):
    [ranking] = answer.rankings
    return next(row for row in ranking.options if row.weight_format == "INT4"), ranking


def disturbed(stored_run, day, times_s, *kernels):
    """A night in which some kernels were measured in a slow state of the machine."""
    run, records = stored_run(day, times_s)
    names = {kernel for _, _, kernel in kernels}
    return run, [
        replace(record, measurement=replace(record.measurement, flags=("quarantined",)))
        if record.case.kernel in names
        else record
        for record in records
    ]


def test_a_speed_up_is_the_median_of_the_nights_that_measured_both(stored_run, recommend) -> None:
    """The trial's finding: INT4 of the first night over BF16 of the last gave a ratio that no night had."""
    both = (BF16, INT4)
    nights = [
        disturbed(stored_run, 1, {BF16: 20e-6, INT4: 10e-6}, BF16),
        disturbed(stored_run, 2, {BF16: 24e-6, INT4: 15e-6}, *both),
        disturbed(stored_run, 3, {BF16: 27e-6, INT4: 15e-6}, *both),
    ]
    assert recommend(nights).rankings[0].gap.code == "disturbed-result"
    row, ranking = best_of(recommend(nights, is_forced=True))
    assert row.estimate.time_s == pytest.approx(10e-6, rel=1e-3)
    assert row.speedup_ratio == pytest.approx(1.8)  # of 2.0, 1.6 and 1.8; the levels say 2.7
    assert speedup_basis_text(row.trust) == "median of 3 runs, all disturbed"
    assert reason_text(row, ranking).startswith("measured 1.8× BF16")
    assert "1.8× BF16 · matmul (median of 3 runs, all disturbed)" in summary_of(ranking)


def test_undisturbed_nights_go_before_disturbed_ones(stored_run, recommend) -> None:
    nights = [
        stored_run(1, {BF16: 20e-6, INT4: 10e-6}),
        disturbed(stored_run, 2, {BF16: 30e-6, INT4: 15e-6}, INT4),
        stored_run(3, {BF16: 30e-6}),
    ]
    row, _ = best_of(recommend(nights))
    assert (row.speedup_ratio, row.trust.speedup_night_count) == (pytest.approx(2.0), 1)


def test_without_a_common_night_it_is_said_at_the_number_and_trusted_less(stored_run, recommend) -> None:
    row, ranking = best_of(recommend([stored_run(1, {INT4: 10e-6}), stored_run(2, {BF16: 22e-6})]))
    assert (row.speedup_ratio, row.trust.is_across_runs) == (pytest.approx(2.2), True)
    assert reason_text(row, ranking).startswith("across runs 2.2× BF16")
    assert "2.2× BF16 · matmul (across runs)" in summary_of(ranking)
    assert (row.trust.confidence, row.trust.reasons[-1].code) == ("medium", "less-sure")
    # The advice of a report says it at the number, too: in Markdown and terminal, and beside the figure.
    advice = recommend([stored_run(1, {INT4: 10e-6}), stored_run(2, {BF16: 22e-6})])
    assert "| 2.2× across runs |" in markdown([stored_section(Report(None), advice)])
    (group,) = trade_groups(stored_run(2, {BF16: 22e-6})[0], (), (), (), advice, ranking.question.hardware)
    bases = {point.label: point.speedup_basis for point in group.points if point.option.is_measured}
    assert bases == {"INT4 (W4A16) · tinygemm": "across runs", "BF16 · matmul": ""}


def test_levels_of_the_same_nights_need_no_words(stored_run, recommend) -> None:
    row, _ = best_of(recommend([stored_run(1, {BF16: 22e-6, INT4: 10e-6}), stored_run(2, {BF16: 22e-6, INT4: 10e-6})]))
    assert (row.speedup_ratio, row.trust.speedup_night_count) == (pytest.approx(2.2), None)


def test_too_few_samples_give_no_interval_here_as_in_the_report(stored_run, recommend) -> None:
    run, records = stored_run(1, {BF16: 22e-6, INT4: 10e-6}, processes=1)
    few = [
        replace(
            record,
            measurement=replace(
                record.measurement, ci_low_s=None, ci_high_s=None, min_s=5e-6, max_s=40e-6, flags=("few-samples",)
            ),
        )
        for record in records
    ]
    row, _ = best_of(recommend([(run, few)]))
    assert (row.estimate.low_s, row.estimate.high_s) == (None, None)
    assert [item.code for item in row.trust.reasons] == ["less-sure"]
    assert case_results(few)[0].interval_s == (None, None)
    measurement = records[0].measurement
    assert case_results([records[0], few[0]])[0].interval_s == (measurement.ci_low_s, measurement.ci_high_s)
