"""What changed since the run before, and why: the row's own time, its evidence, the driver, or what others did."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reports.present.words.stored_text import change_sentence, compared_text, difference_text
from results.rankings.moves import RankChange
from roofline_model.core.finding import finding

BF16, INT8, INT4 = ("BF16", "BF16", "matmul"), ("INT8", "INT8", "int_mm"), ("INT4", "BF16", "tinygemm")
FP8 = ("FP8_E4M3", "FP8_E4M3", "scaled_mm_row")
BEFORE = {BF16: 22e-6, FP8: 10e-6, INT8: 11e-6, INT4: 9e-6}


def changes(advice) -> dict[str, RankChange]:
    [ranking] = advice.rankings
    return {change.label: change for change in ranking.changes}


def codes(change: RankChange) -> list[str]:
    return [item.code for item in change.causes]


def test_a_new_driver_that_slows_a_kernel_is_named_with_its_ranks_and_the_change(stored_run, recommend) -> None:
    nights = [
        stored_run(1, BEFORE),
        stored_run(2, BEFORE),
        stored_run(3, {**BEFORE, INT4: 9e-6 * 1.4}, driver="590.12"),
    ]
    advice = recommend(nights)
    by_label = changes(advice)
    assert "BF16 · matmul" not in by_label
    change = by_label["INT4 (W4A16) · tinygemm"]
    assert (change.before_rank, change.after_rank, change.verdict) == (1, 3, "SLOWER")
    (moved,) = change.causes
    assert moved.code == "measured-time-rose"
    assert moved.value("size_ratio") == pytest.approx(0.4, abs=1e-3)
    assert moved.value("low_change_ratio") < moved.value("size_ratio") < moved.value("high_change_ratio")
    assert (moved.value("before_run"), moved.value("run")) == ("00000002", "00000003")
    assert [difference_text(difference) for difference in change.environment] == ["driver 580.95 → 590.12"]
    assert change.is_blocked
    assert "; driver 580.95 → 590.12 differs" in change_sentence(change)
    other = by_label["FP8 (W8A8) · scaled_mm_row"]
    assert (other.before_rank, other.after_rank) == (2, 1)
    assert other.causes == (finding("order-of-others", "INT4 (W4A16) · tinygemm", kind="fell-behind"), moved)
    assert abs(change.change_ratio - 0.4) < 1e-3
    assert (
        compared_text(advice.rankings[0])
        == "run 00000003 (2026-11-04) against what run 00000002 (2026-11-03) and earlier ones said"
    )


def test_nothing_changed_is_no_change(stored_run, recommend) -> None:
    assert recommend([stored_run(day, BEFORE) for day in range(3)]).changes == ()
    alone = recommend([stored_run(1, BEFORE)])
    assert (alone.changes, alone.rankings[0].compared) == ((), None)


def test_a_kernel_measured_for_the_first_time_says_what_was_expected(stored_run, recommend) -> None:
    nights = [stored_run(1, {BF16: 22e-6, INT4: None}), stored_run(2, {BF16: 22e-6, INT4: 9e-6})]
    by_label = changes(recommend(nights))
    narrow, base = by_label["INT4 (W4A16) · tinygemm"], by_label["BF16 · matmul"]
    (measured,) = narrow.causes
    assert (narrow.before_rank, narrow.after_rank, measured.code) == (2, 1, "first-measured")
    assert measured.value("time_s") == pytest.approx(9e-6, rel=1e-5)
    assert measured.value("expected_s") or measured.value("ideal_s")
    assert (base.before_rank, base.after_rank) == (1, 2)
    assert base.causes == (finding("order-of-others", "INT4 (W4A16) · tinygemm", kind="passed"), measured)


def test_what_fails_now_is_gone_with_its_reason_and_what_is_new_is_new(stored_run, recommend) -> None:
    nights = [
        stored_run(1, {BF16: 22e-6, INT4: 9e-6}),
        stored_run(2, {BF16: 22e-6, INT8: 14e-6, INT4: "failed: wrong result"}),
    ]
    by_label = changes(recommend(nights))
    gone, new = by_label["INT4 (W4A16) · tinygemm"], by_label["INT8 (W8A8) · int_mm"]
    assert (gone.before_rank, gone.after_rank, codes(gone)) == (1, None, ["failed-since"])
    assert (new.before_rank, new.after_rank, codes(new)) == (None, 1, ["first-measured"])


def test_one_process_a_night_cannot_tell_a_change_from_noise_and_says_so(stored_run, recommend) -> None:
    nights = [stored_run(1, BEFORE, processes=1), stored_run(2, {**BEFORE, INT4: 12e-6}, processes=1, driver="590.12")]
    change = changes(recommend(nights))["INT4 (W4A16) · tinygemm"]
    assert codes(change) == ["measured-time-rose", "noise-unknown"]
    assert change.causes[0].value("verdict") == "ambiguous"


def test_another_method_is_no_change_of_the_time_and_says_so(stored_run, recommend) -> None:
    run, records = stored_run(2, {**BEFORE, INT4: 30e-6})
    other = [replace(record, method=replace(record.method, version="2")) for record in records]
    by_label = changes(recommend([stored_run(1, BEFORE), (run, other)]))
    assert {tuple(codes(change)) for change in by_label.values()} == {("times-not-compared", "method-differs")}
    change = by_label["INT4 (W4A16) · tinygemm"]
    assert (change.before_rank, change.after_rank) == (1, 4)
    assert change.causes[0].value("detail") == "version 1 → 2"


def test_the_newest_run_of_each_ranking_counts_not_that_of_the_store(stored_run, recommend) -> None:
    prefill = (512, 4096, 4096)
    nights = [
        stored_run(1, BEFORE),
        stored_run(2, {**BEFORE, INT4: 13e-6}, driver="590.12"),
        stored_run(3, {BF16: 3e-4}, shape=prefill, driver="590.12"),
    ]
    changed = {ranking.question.name: len(ranking.changes) for ranking in recommend(nights).rankings}
    assert changed["gemv 1x4096x4096"] >= 2
    assert changed["gemm 512x4096x4096"] == 0
