"""What changed since the run before, and why: the row's own time, its evidence, the driver, or what others did."""

from __future__ import annotations

from dataclasses import replace

from reports.stored.words import compared_text

BF16, INT8, INT4 = ("BF16", "BF16", "matmul"), ("INT8", "INT8", "int_mm"), ("INT4", "BF16", "tinygemm")
FP8 = ("FP8_E4M3", "FP8_E4M3", "scaled_mm_row")
BEFORE = {BF16: 22e-6, FP8: 10e-6, INT8: 11e-6, INT4: 9e-6}


def sentences(found) -> dict[str, str]:
    [ranking] = found.rankings
    return {change.label: change.sentence for change in ranking.changes}


def test_a_new_driver_that_slows_a_kernel_is_named_with_its_ranks_and_the_change(night, recommend) -> None:
    nights = [night(1, BEFORE), night(2, BEFORE), night(3, {**BEFORE, INT4: 9e-6 * 1.4}, driver="590.12")]
    found = recommend(nights)
    told = sentences(found)
    assert told["INT4 (W4A16) · tinygemm"].startswith(
        "INT4 (W4A16) · tinygemm fell from 1st to 3rd: its measured time rose 40 % (95 %: "
    )
    assert (
        "between run 00000002 (2026-11-03) and run 00000003 (2026-11-04); driver 580.95 → 590.12 differs, "
        "so roofline diff calls the runs not comparable" in told["INT4 (W4A16) · tinygemm"]
    )
    assert told["FP8 (W8A8) · scaled_mm_row"].startswith(
        "FP8 (W8A8) · scaled_mm_row rose from 2nd to 1st: INT4 (W4A16) · tinygemm fell behind it (measured time rose 40 %"
    )
    assert "BF16 · matmul" not in told
    change = next(one for one in found.changes if one.label == "INT4 (W4A16) · tinygemm")
    assert (change.before_rank, change.after_rank, change.verdict) == (1, 3, "SLOWER")
    assert change.environment == ("driver 580.95 → 590.12",)
    assert abs(change.change_ratio - 0.4) < 1e-3
    assert (
        compared_text(found.rankings[0])
        == "run 00000003 (2026-11-04) against what run 00000002 (2026-11-03) and earlier ones said"
    )


def test_nothing_changed_is_no_change(night, recommend) -> None:
    assert recommend([night(day, BEFORE) for day in range(3)]).changes == ()
    alone = recommend([night(1, BEFORE)])
    assert (alone.changes, alone.rankings[0].compared) == ((), None)


def test_a_kernel_measured_for_the_first_time_says_what_was_expected(night, recommend) -> None:
    nights = [night(1, {BF16: 22e-6, INT4: None}), night(2, {BF16: 22e-6, INT4: 9e-6})]
    told = sentences(recommend(nights))
    assert told["INT4 (W4A16) · tinygemm"].startswith(
        "INT4 (W4A16) · tinygemm rose from 2nd to 1st: measured for the first time in run 00000002 (2026-11-03): 9 µs, where "
    )
    assert told["BF16 · matmul"].startswith(
        "BF16 · matmul fell from 1st to 2nd: INT4 (W4A16) · tinygemm passed it (measured for the first time"
    )


def test_what_fails_now_is_gone_with_its_reason_and_what_is_new_is_new(night, recommend) -> None:
    nights = [night(1, {BF16: 22e-6, INT4: 9e-6}), night(2, {BF16: 22e-6, INT8: 14e-6, INT4: "failed: wrong result"})]
    told = sentences(recommend(nights))
    assert told["INT4 (W4A16) · tinygemm"] == (
        "INT4 (W4A16) · tinygemm is no longer ranked (was 1st): failed in run 00000002, after it was measured: wrong result"
    )
    assert (
        told["INT8 (W8A8) · int_mm"]
        == "INT8 (W8A8) · int_mm is new, 1st: measured for the first time in run 00000002 (2026-11-03): 14 µs"
    )


def test_one_process_a_night_cannot_tell_a_change_from_noise_and_says_so(night, recommend) -> None:
    nights = [night(1, BEFORE, processes=1), night(2, {**BEFORE, INT4: 12e-6}, processes=1, driver="590.12")]
    told = sentences(recommend(nights))["INT4 (W4A16) · tinygemm"]
    assert "its measured time rose 33 %" in told
    assert ", ambiguous: " in told


def test_another_method_is_no_change_of_the_time_and_says_so(night, recommend) -> None:
    run, records = night(2, {**BEFORE, INT4: 30e-6})
    other = [replace(record, method=replace(record.method, version="2")) for record in records]
    told = sentences(recommend([night(1, BEFORE), (run, other)]))
    assert not any("measured time" in one for one in told.values())
    assert told["INT4 (W4A16) · tinygemm"].startswith(
        "INT4 (W4A16) · tinygemm fell from 1st to 4th: its times are not comparable: the two sides were measured by different "
        "methods (version 1 → 2)"
    )
    assert told["FP8 (W8A8) · scaled_mm_row"].endswith("measured by different methods (version 1 → 2)")


def test_the_newest_run_of_each_ranking_counts_not_that_of_the_store(night, recommend) -> None:
    prefill = (512, 4096, 4096)
    nights = [
        night(1, BEFORE),
        night(2, {**BEFORE, INT4: 13e-6}, driver="590.12"),
        night(3, {BF16: 3e-4}, shape=prefill, driver="590.12"),
    ]
    changed = {ranking.title: len(ranking.changes) for ranking in recommend(nights).rankings}
    assert changed["gemv 1x4096x4096"] >= 2
    assert changed["gemm 512x4096x4096"] == 0
