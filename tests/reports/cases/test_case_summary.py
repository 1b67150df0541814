"""A case over its processes: pooled numbers by hand, both intervals, nothing invented."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reports.cases.summary import case_summaries, common_remarks
from results.cases.case_result import case_results
from results.records.state_records import NoiseFloor

DECODE = (1, 4096, 4096)


def pooled(make, *times_s, **more):
    records = [
        make.in_process(make.record(DECODE, "BF16", "BF16", "matmul", time_s, number=i, **more), i)
        for i, time_s in enumerate(times_s)
    ]
    (case,) = case_summaries(case_results(records))
    return case


def test_processes_are_pooled_by_the_geometric_mean_of_their_medians(make):
    case = pooled(make, 1e-3, 4e-3, 2e-3)
    assert case.measured_s == pytest.approx(2e-3, rel=1e-12)
    assert case.process_count == 3
    ideal_s = case.lead.ideal_s
    assert case.error_ratio == pytest.approx((ideal_s - 2e-3) / 2e-3)
    assert case.roof_share_ratio == pytest.approx(ideal_s / 2e-3)
    assert case.pooled.achieved_bytes_per_s == pytest.approx(33_570_816 / 2e-3)
    assert case.pooled.achieved_flops_per_s == pytest.approx(33_554_432 / 2e-3)
    assert case.pooled.measured_s == case.measured_s
    assert [row.measured_s for row in case.rows] == [1e-3, 4e-3, 2e-3]


def test_total_is_shown_where_it_is_known_and_within_where_it_is_not(make):
    three, single = pooled(make, 1.00e-3, 1.02e-3, 1.05e-3), pooled(make, 1e-3)
    assert three.total_basis == "3 processes"
    assert three.total_ratio == three.total.half_width_ratio == three.plus_minus_ratio
    assert three.total_ratio > 0.02
    assert (single.total_ratio, single.total_basis) == (None, "one process")
    assert single.plus_minus_ratio == single.within_ratio == pytest.approx(0.01)


def test_a_floor_and_other_cases_are_named_as_the_source(make):
    record = make.record(DECODE, "BF16", "BF16", "matmul", 1e-3)
    key = record.case.case_key, record.method.method_hash
    floors = {key: NoiseFloor("c", *key, 0.04, None, 12, "")}
    (case,) = case_summaries(case_results([record], floors))
    assert case.total_basis == "A/A floor"
    assert case.total_ratio > 0.05
    records = make.rich_records()
    cases = case_summaries(case_results(records))
    assert {case.total_basis for case in cases} == {"3 processes", "other cases", ""}
    assert all(case.total_basis == "" for case in cases if case.measured_s is None)


def test_a_process_that_failed_is_a_remark_and_no_time(make):
    good = [make.in_process(make.record(DECODE, "BF16", "BF16", "matmul", 1e-3, number=i), i) for i in range(2)]
    dead = make.record(
        DECODE, "BF16", "BF16", "matmul", number=2, status="failed", reason="timeout after 60 s", device=None
    )
    records = [make.in_process(dead, 2), *good]
    (case,) = case_summaries(case_results(records))
    assert case.status == "measured"
    assert case.process_count == 2
    assert case.measured_s == 1e-3
    assert case.remarks == ("process 2 failed: timeout after 60 s",)


def test_a_remark_of_at_least_half_of_the_cases_is_common(make):
    reasons = ["another chip", "another chip", "another chip", "no kernel", "no kernel", ""]
    records = [
        make.record(DECODE, "BF16", "BF16", f"k{number}", status="skipped", reason=reason, number=number)
        for number, reason in enumerate(reasons)
    ]
    cases = case_summaries(case_results(records))
    assert common_remarks(cases) == {"another chip": 3}
    assert common_remarks(cases[:2]) == {}  # two lines are no repetition


def test_what_was_not_measured_keeps_its_reason_and_has_no_numbers(make):
    records = [make.record(DECODE, "BF16", "BF16", "matmul", status="skipped", reason="no unit")]
    (case,) = case_summaries(case_results(records))
    assert case.status == "skipped"
    assert case.remarks == ("no unit",)
    for name in (
        "measured_s",
        "within_ratio",
        "total_ratio",
        "plus_minus_ratio",
        "error_ratio",
        "roof_share_ratio",
    ):
        assert getattr(case, name) is None, name


def test_flags_of_all_processes_in_the_order_they_are_explained(make):
    records = [
        make.in_process(make.record(DECODE, "BF16", "BF16", "matmul", 1e-3, number=i, flags=flags), i)
        for i, flags in enumerate((("outliers", "mystery"), ("drift",), ("outliers",)))
    ]
    (case,) = case_summaries(case_results(records))
    assert case.flags == ("drift", "outliers", "mystery")
    assert case.doubts == ("drift",)


def test_modes_cache_states_and_chips_are_cases_of_their_own(make):
    record = make.record(DECODE, "BF16", "BF16", "matmul", 1e-3)
    records = [
        record,
        make.as_mode(record, "graph"),
        make.record(DECODE, "BF16", "BF16", "matmul", 1e-3, cache="flushed"),
        make.record(DECODE, "BF16", "BF16", "matmul", 1e-3, device=make.GPU),
    ]
    cases = case_summaries(case_results(records))
    assert [case.regime for case in cases] == ["cold", "cold, graph", "flushed", "cold"]
    assert all(len(case.rows) == 1 for case in cases)


def test_one_process_keeps_the_stored_error(make):
    record = make.record(DECODE, "BF16", "BF16", "matmul", 1e-3)
    record = replace(record, predictions=(replace(record.ideal, error_ratio=-0.123),))
    (case,) = case_summaries(case_results([record]))
    assert case.error_ratio == -0.123


def test_faster_than_the_roof_allows_for_the_interval_that_is_shown(make):
    ideal_s = pooled(make, 1e-3).lead.ideal_s
    assert not pooled(make, ideal_s / 1.015).is_faster_than_roof
    assert pooled(make, ideal_s / 1.3).is_faster_than_roof
    assert "faster than the ideal" in pooled(make, ideal_s / 1.3).remarks
    apart = pooled(
        make, ideal_s / 1.04, ideal_s / 1.2, ideal_s / 0.9
    )  # within each process it is sure, over them it is not
    assert apart.roof_share_ratio > 1.03
    assert not apart.is_faster_than_roof
