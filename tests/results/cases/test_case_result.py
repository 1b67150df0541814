"""A case over its processes: pooled numbers by hand, both intervals, nothing invented."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reports.present.cases import common_remarks, regime_of, remarks_of, total_basis
from results.cases.case_result import case_results, marked_records
from results.records.state_records import NoiseFloor

DECODE = (1, 4096, 4096)


def pooled(make, *times_s, **more):
    records = [
        make.in_process(make.record(DECODE, "BF16", "BF16", "matmul", time_s, number=i, **more), i)
        for i, time_s in enumerate(times_s)
    ]
    (case,) = case_results(records)
    return case


def test_processes_are_pooled_by_the_geometric_mean_of_their_medians(make):
    case = pooled(make, 1e-3, 4e-3, 2e-3)
    assert case.measured_s == pytest.approx(2e-3, rel=1e-12)
    assert case.process_count == 3
    ideal_s = case.ideal_s
    assert case.error_ideal_ratio == pytest.approx((ideal_s - 2e-3) / 2e-3)
    assert case.roof_share_ratio == pytest.approx(ideal_s / 2e-3)
    assert case.achieved_bytes_per_s == pytest.approx(33_570_816 / 2e-3)
    assert case.achieved_flops_per_s == pytest.approx(33_554_432 / 2e-3)
    assert [each.measured_s for each in case.by_record] == [1e-3, 4e-3, 2e-3]


def test_total_is_shown_where_it_is_known_and_within_where_it_is_not(make):
    three, single = pooled(make, 1.00e-3, 1.02e-3, 1.05e-3), pooled(make, 1e-3)
    assert total_basis(three) == "3 processes"
    assert three.total_ratio == three.total.half_width_ratio == three.plus_minus_ratio
    assert three.total_ratio > 0.02
    assert (single.total_ratio, total_basis(single)) == (None, "one process")
    assert single.plus_minus_ratio == single.within_ratio == pytest.approx(0.01)


def test_a_floor_and_other_cases_are_named_as_the_source(make):
    record = make.record(DECODE, "BF16", "BF16", "matmul", 1e-3)
    key = record.case.case_key, record.method.method_hash
    floors = {key: NoiseFloor("c", *key, 0.04, None, 12, "")}
    (case,) = case_results([record], floors)
    assert total_basis(case) == "A/A floor"
    assert case.total_ratio > 0.05
    records = make.rich_records()
    cases = case_results(records)
    assert {total_basis(case) for case in cases} == {"3 processes", "other cases", ""}
    assert all(total_basis(case) == "" for case in cases if case.measured_s is None)


def test_a_process_that_failed_is_a_remark_and_no_time(make):
    good = [make.in_process(make.record(DECODE, "BF16", "BF16", "matmul", 1e-3, number=i), i) for i in range(2)]
    dead = make.record(
        DECODE, "BF16", "BF16", "matmul", number=2, status="failed", reason="timeout after 60 s", device=None
    )
    records = [make.in_process(dead, 2), *good]
    (case,) = case_results(records)
    assert case.status == "measured"
    assert case.process_count == 2
    assert case.measured_s == 1e-3
    assert remarks_of(case) == ("process 2 failed: timeout after 60 s",)


def test_a_remark_of_at_least_half_of_the_cases_is_common(make):
    reasons = ["another chip", "another chip", "another chip", "no kernel", "no kernel", ""]
    records = [
        make.record(DECODE, "BF16", "BF16", f"k{number}", status="skipped", reason=reason, number=number)
        for number, reason in enumerate(reasons)
    ]
    cases = case_results(records)
    assert common_remarks(cases) == {"another chip": 3}
    assert common_remarks(cases[:2]) == {}  # two lines are no repetition


def test_what_was_not_measured_keeps_its_reason_and_has_no_numbers(make):
    records = [make.record(DECODE, "BF16", "BF16", "matmul", status="skipped", reason="no unit")]
    (case,) = case_results(records)
    assert case.status == "skipped"
    assert remarks_of(case) == ("no unit",)
    for name in (
        "measured_s",
        "within_ratio",
        "total_ratio",
        "plus_minus_ratio",
        "error_ideal_ratio",
        "roof_share_ratio",
    ):
        assert getattr(case, name) is None, name


def test_flags_of_all_processes_in_the_order_they_are_explained(make):
    records = [
        make.in_process(make.record(DECODE, "BF16", "BF16", "matmul", 1e-3, number=i, flags=flags), i)
        for i, flags in enumerate((("outliers", "mystery"), ("drift",), ("outliers",)))
    ]
    (case,) = case_results(records)
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
    cases = case_results(records)
    assert [regime_of(case.case) for case in cases] == ["cold", "cold, graph", "flushed", "cold"]
    assert all(len(case.records) == 1 for case in cases)


def test_one_process_keeps_the_stored_error(make):
    record = make.record(DECODE, "BF16", "BF16", "matmul", 1e-3)
    record = replace(record, predictions=(replace(record.ideal, error_ratio=-0.123),))
    (case,) = case_results([record])
    assert case.error_ideal_ratio == -0.123


def test_faster_than_the_roof_allows_for_the_interval_that_is_shown(make):
    ideal_s = pooled(make, 1e-3).ideal_s
    assert not pooled(make, ideal_s / 1.015).is_faster_than_roof
    assert pooled(make, ideal_s / 1.3).is_faster_than_roof
    assert "faster than the ideal" in remarks_of(pooled(make, ideal_s / 1.3))
    apart = pooled(
        make, ideal_s / 1.04, ideal_s / 1.2, ideal_s / 0.9
    )  # within each process it is sure, over them it is not
    assert apart.roof_share_ratio > 1.03
    assert not apart.is_faster_than_roof


def test_a_measured_case_by_hand(make):
    # BF16 1x4096x4096: 2·4096² weight bytes + 2·4096 in + 2·4096 out = 33 570 816 B; 33 554 432 FLOP; 76 GB/s
    record = make.record((1, 4096, 4096), "BF16", "BF16", "matmul", 1e-3)
    (row,) = case_results([record])
    assert row.case.configuration_label == "BF16 · matmul"
    assert row.ideal_s == pytest.approx(33_570_816 / 76e9)
    assert row.measured_s == 1e-3
    assert row.achieved_bytes_per_s == pytest.approx(33.570816e9)
    assert row.achieved_flops_per_s == pytest.approx(33.554432e9)
    assert row.roof_share_ratio == pytest.approx(0.44172, rel=1e-4)
    assert row.error_ideal_ratio == record.ideal.error_ratio == pytest.approx(0.44172 - 1, rel=1e-4)
    assert row.within_ratio == pytest.approx(0.01)
    assert row.intensity_flop_per_byte == pytest.approx(33_554_432 / 33_570_816)
    assert (row.ideal.bound, row.ideal.path, row.ideal.memory_level, row.ideal.provenance) == (
        "memory",
        "native",
        "DRAM",
        "measured-here",
    )


def test_precision_labels_tell_weight_only_from_both_operands(make):
    def label(b, a):
        return make.record((1, 64, 64), b, a, "k").case.precision_label

    assert label("BF16", "BF16") == "BF16"
    assert label("INT4", "BF16") == "INT4 (W4A16)"
    assert label("INT8", "BF16") == "INT8 (W8A16)"
    assert label("INT8", "INT8") == "INT8 (W8A8)"
    assert label("FP8_E4M3", "FP8_E4M3") == "FP8 (W8A8)"


def test_a_case_without_operands_is_named_by_its_formats(make):
    record = make.record((1, 64, 64), "BF16", "BF16", "k")
    softmax = replace(record.case, op="softmax", formats=(("x", "FP16"),))
    nothing = replace(record.case, op="mine", formats=())
    assert softmax.precision_label == "FP16"
    assert nothing.precision_label == ""


def test_a_format_this_process_does_not_know_is_still_shown(make):
    record = make.record((1, 64, 64), "BF16", "BF16", "k", 1e-6)
    strange = replace(record, case=replace(record.case, formats=(("a", "BF16"), ("b", "Q9_OTHERS"), ("c", "BF16"))))
    (row,) = case_results([strange])
    assert row.case.precision_label == "Q9_OTHERS×BF16"
    assert "Q9_OTHERS" in row.case.id


@pytest.mark.parametrize("status", ["failed", "skipped"])
def test_a_wrong_kernel_is_never_a_time(make, status):
    (row,) = case_results([make.record((1, 64, 64), "BF16", "BF16", "k", 1e-6, status=status, reason="wrong")])
    assert row.measured_s is None
    assert row.error_ideal_ratio is None
    assert row.roof_share_ratio is None
    assert row.achieved_bytes_per_s is None
    assert row.reason == "wrong"


def test_missing_prediction_is_none_not_zero(make):
    (row,) = case_results([make.record((1, 64, 64), "BF16", "BF16", "k", 1e-6, device=None)])
    assert row.measured_s == 1e-6
    for name in (
        "ideal_s",
        "error_ideal_ratio",
        "roof_share_ratio",
        "achieved_bytes_per_s",
        "achieved_flops_per_s",
        "intensity_flop_per_byte",
    ):
        assert getattr(row, name) is None, name


def test_a_forced_run_marks_what_it_measured_and_nothing_else(make):
    records = [make.record((1, 64, 64), "BF16", "BF16", "k", 1e-6), make.record((1, 64, 64), "FP16", "FP16", "k")]
    measured, predicted = case_results(marked_records(records, is_forced=True))
    assert measured.is_forced
    assert not predicted.is_forced


def test_a_zero_median_is_no_time(make):
    (row,) = case_results([make.record((1, 64, 64), "BF16", "BF16", "k", 0.0)])
    assert row.measured_s is None
    assert row.error_ideal_ratio is None
