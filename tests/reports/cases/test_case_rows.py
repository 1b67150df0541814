"""A row is arithmetic on one record: hand numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reports.cases.rows import case_rows, marked_records


def test_measured_row_by_hand(make):
    # BF16 1x4096x4096: 2·4096² weight bytes + 2·4096 in + 2·4096 out = 33 570 816 B; 33 554 432 FLOP; 76 GB/s
    record = make.record((1, 4096, 4096), "BF16", "BF16", "matmul", 1e-3)
    (row,) = case_rows([record])
    assert row.label == "BF16 · matmul"
    assert row.ideal_s == pytest.approx(33_570_816 / 76e9)
    assert row.measured_s == 1e-3
    assert row.achieved_bytes_per_s == pytest.approx(33.570816e9)
    assert row.achieved_flops_per_s == pytest.approx(33.554432e9)
    assert row.roof_share_ratio == pytest.approx(0.44172, rel=1e-4)
    assert row.error_ratio == record.ideal.error_ratio == pytest.approx(0.44172 - 1, rel=1e-4)
    assert row.interval_ratio == pytest.approx(0.01)
    assert row.intensity_flop_per_byte == pytest.approx(33_554_432 / 33_570_816)
    assert (row.bound, row.path, row.memory_level, row.provenance) == ("memory", "native", "DRAM", "measured-here")


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
    (row,) = case_rows([strange])
    assert row.precision == "Q9_OTHERS×BF16"
    assert "Q9_OTHERS" in row.case_id


@pytest.mark.parametrize("status", ["failed", "skipped"])
def test_a_wrong_kernel_is_never_a_time(make, status):
    (row,) = case_rows([make.record((1, 64, 64), "BF16", "BF16", "k", 1e-6, status=status, reason="wrong")])
    assert row.measured_s is None
    assert row.error_ratio is None
    assert row.roof_share_ratio is None
    assert row.achieved_bytes_per_s is None
    assert row.reason == "wrong"


def test_missing_prediction_is_none_not_zero(make):
    (row,) = case_rows([make.record((1, 64, 64), "BF16", "BF16", "k", 1e-6, device=None)])
    assert row.measured_s == 1e-6
    for name in (
        "ideal_s",
        "error_ratio",
        "roof_share_ratio",
        "achieved_bytes_per_s",
        "achieved_flops_per_s",
        "intensity_flop_per_byte",
    ):
        assert getattr(row, name) is None, name


def test_a_forced_run_marks_what_it_measured_and_nothing_else(make):
    records = [make.record((1, 64, 64), "BF16", "BF16", "k", 1e-6), make.record((1, 64, 64), "FP16", "FP16", "k")]
    measured, predicted = case_rows(marked_records(records, is_forced=True))
    assert measured.is_forced
    assert not predicted.is_forced


def test_a_zero_median_is_no_time(make):
    (row,) = case_rows([make.record((1, 64, 64), "BF16", "BF16", "k", 0.0)])
    assert row.measured_s is None
    assert row.error_ratio is None
