"""Which nights speak for a case: the newest comparable ones since the last step; stale, doubtful and failed ones are
said.
"""

from __future__ import annotations

import pytest

from reports.present.words.evidence_text import note_texts
from reports.present.words.ranking_text import excluded_texts
from results.rankings.levels import POOLED_COUNT, case_level, stale_findings
from roofline_model.core.finding import finding, has_code

BF16, INT8, INT4 = ("BF16", "BF16", "matmul"), ("INT8", "INT8", "int_mm"), ("INT4", "BF16", "tinygemm")


def level_of(nights):
    runs = {run.run_id: run for run, _ in nights}
    return case_level([record for _, records in nights for record in records], runs)


def test_the_newest_comparable_nights_are_pooled_and_no_more(stored_run) -> None:
    level = level_of([stored_run(day, {INT4: 9e-6}) for day in range(9)])
    assert [int(run.run_id[:8], 16) for run in level.runs] == list(range(9 - POOLED_COUNT, 9))
    assert len(level.records) == 3 * POOLED_COUNT
    assert level.records[0].run_id == level.newest.run_id, "what is said beside the time is the newest night's"


def test_nights_before_a_step_and_of_another_driver_do_not_count(stored_run) -> None:
    step = level_of([stored_run(day, {INT4: 9e-6 if day < 3 else 12e-6 * (1 + 0.01 * day)}) for day in range(5)])
    assert [int(run.run_id[:8], 16) for run in step.runs] == [3, 4]
    driver = level_of(
        [stored_run(1, {INT4: 9e-6}), stored_run(2, {INT4: 9e-6}), stored_run(3, {INT4: 10e-6}, driver="590.12")]
    )
    assert [int(run.run_id[:8], 16) for run in driver.runs] == [3]


def test_a_disturbed_or_foreign_night_is_used_only_where_there_is_no_other(stored_run) -> None:
    contended = stored_run(3, {INT4: 20e-6}, flags=("contended",))
    branch = stored_run(4, {INT4: 30e-6}, git_branch="idea")
    level = level_of([stored_run(1, {INT4: 9e-6}), stored_run(2, {INT4: 9e-6}), contended, branch])
    assert [int(run.run_id[:8], 16) for run in level.runs] == [1, 2]
    assert not level.doubts
    alone = level_of([contended])
    assert (len(alone.runs), alone.doubts) == (1, (finding("contended"),))
    cut = level_of([stored_run(1, {INT4: 9e-6}, status="interrupted")])
    assert cut.doubts == (finding("run-unfinished", status="interrupted"),)


def test_a_measurement_goes_stale_by_software_by_age_and_by_a_later_skip(stored_run) -> None:
    old = stored_run(1, {INT4: 9e-6})
    driver, _ = stored_run(2, {}, driver="590.12")
    late, _ = stored_run(60, {})
    level = level_of([old])
    assert stale_findings(level, old[0]) == ()
    assert stale_findings(level, driver) == (
        finding("measured-earlier", kind="facts", facts=("driver 580.95 → 590.12",)),
    )
    assert stale_findings(level, late) == (finding("measured-earlier", kind="days", days_count=59),)
    skipped = level_of([old, stored_run(2, {INT4: "skipped: torchao is not installed"})])
    assert stale_findings(skipped, old[0]) == (
        finding("measured-earlier", kind="status", status="skipped", reason="torchao is not installed"),
    )


def test_stale_and_failed_rows_are_told_in_the_answer(stored_run, recommend) -> None:
    nights = [
        stored_run(1, {BF16: 22e-6, INT8: 14e-6, INT4: 9e-6}),
        stored_run(2, {BF16: 22e-6, INT4: "failed: relative error 0.3 exceeds 0.08"}, driver="590.12"),
    ]
    [ranking] = recommend(nights).rankings
    rows = {row.label: row for row in ranking.options}
    assert [item.code for item in rows["INT8 (W8A8) · int_mm"].trust.stale] == ["measured-earlier"]
    assert rows["INT8 (W8A8) · int_mm"].trust.confidence == "medium"
    assert not rows["BF16 · matmul"].trust.stale
    assert "INT4 (W4A16) · tinygemm" not in rows, "what fails now is not recommended"
    assert dict(excluded_texts(ranking))["INT4 (W4A16) · tinygemm"] == (
        "failed in run 00000002, after it was measured: relative error 0.3 exceeds 0.08"
    )
    assert "INT8 (W8A8) · int_mm" in next(item for item in ranking.missing if item.code == "stale").value("options")
    assert has_code(ranking.missing, "evidence-missing")


def test_a_forced_measurement_is_none_of_the_chip(stored_run, recommend) -> None:
    [ranking] = recommend([stored_run(1, {BF16: 22e-6, INT4: 9e-6}, is_forced=True)], with_chip=True).rankings or [None]
    assert ranking is None or not any(row.is_measured for row in ranking.options)


def test_the_choice_keeps_the_default_limit_of_loss_and_the_faster_one_keeps_its_place(stored_run, recommend) -> None:
    runs = [stored_run(1, {BF16: 22e-6, INT8: 14e-6, INT4: 9e-6})]
    [ranking] = recommend(runs, max_loss_pct=None).rankings
    assert [option.weight_format for option in ranking.options[:3]] == ["INT4", "INT8", "BF16"]
    assert ranking.choice.weight_format == "INT8"
    assert [(each.role, each.option.weight_format) for each in ranking.alternatives] == [
        ("riskier", "INT4"),
        ("safest", "BF16"),
    ]
    [alone] = recommend([stored_run(1, {INT4: 9e-6})], max_loss_pct=None).rankings
    assert alone.choice is None


def test_simulated_times_never_meet_real_ones(stored_run, recommend) -> None:
    real = stored_run(1, {BF16: 22e-6, INT4: 9e-6})
    newer = stored_run(2, {BF16: 40e-6, INT8: 20e-6}, flags=("simulated",))
    together, alone = recommend([real, newer]), recommend([real])
    assert [[option.estimate.time_s for option in each.options] for each in together.rankings] == [
        [option.estimate.time_s for option in each.options] for each in alone.rankings
    ]
    assert any("simulated runs" in note for note in note_texts(together))
    [simulated] = recommend([newer]).rankings
    assert simulated.choice is not None


def test_disturbed_times_make_no_result_unless_it_is_forced(stored_run, recommend) -> None:
    runs = [stored_run(1, {BF16: 22e-6, INT8: 9e-6}, flags=("contended",))]
    [ranking] = recommend(runs).rankings
    assert (ranking.choice, ranking.gap.code) == (None, "disturbed-result")
    [forced] = recommend(runs, is_forced=True).rankings
    assert (forced.choice.label, forced.gap.code) == ("INT8 (W8A8) · int_mm", "disturbed-result")


def test_interval_and_time_are_over_the_processes_of_all_pooled_nights(stored_run, recommend) -> None:
    nights = [
        stored_run(day, {BF16: 22e-6, INT8: 14e-6, INT4: time_s}) for day, time_s in enumerate((9.0e-6, 9.2e-6, 9.1e-6))
    ]
    best = recommend(nights).rankings[0].first
    assert sum(run.process_count for run in best.evidence) == 9
    assert best.estimate.time_s == pytest.approx(9.1e-6, rel=0.005)
    assert best.estimate.low_s < 9.1e-6 < best.estimate.high_s
    assert best.estimate.high_s / best.estimate.low_s - 1 < 0.1
