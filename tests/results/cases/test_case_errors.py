"""Prediction quality and counts, by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from results.cases.case_result import case_results, marked_records
from results.cases.errors import error_summaries, overall_error, reason_counts, status_counts


def with_errors(make, *errors, b="BF16"):
    """Cases whose stored errors are exactly these ratios."""
    records = [make.record((1, 64, 64 + i), b, b, "k", 1e-3, number=i) for i in range(len(errors))]
    fixed = [
        replace(r, predictions=(replace(r.ideal, time_s=1e-3 * (1 + e), error_ratio=e),))
        for r, e in zip(records, errors, strict=True)
    ]
    return case_results(fixed)


def test_median_and_worst_by_hand(make):
    (summary,) = error_summaries(with_errors(make, -0.5, -0.2, 0.1, -0.9))
    assert summary.case_count == 4
    assert summary.median_abs_error_ratio == pytest.approx(0.35)  # of 0.1 0.2 0.5 0.9
    assert summary.median_error_ratio == pytest.approx(-0.35)  # of -0.9 -0.5 -0.2 0.1
    assert summary.worst_error_ratio == -0.9
    assert summary.worst_case_id == "1x64x67-w16a16-BF16.BF16-k-cold"
    assert summary.median_roof_share_ratio == pytest.approx(0.65)
    assert summary.best_roof_share_ratio == pytest.approx(1.1)


def test_the_worst_expected_error_is_a_case_of_its_own(make):
    records = [make.record((1, 64, 64 + i), "BF16", "BF16", "k", 1e-3, number=i) for i in range(3)]
    expected_s = [1.2e-3, 0.4e-3, None]
    errors = [0.2, -0.6, None]
    rows = case_results(
        replace(
            each,
            predictions=(
                replace(each.ideal, time_s=0.5e-3 + place * 1e-4, error_ratio=-0.5 + place / 10),
                *([] if time_s is None else [replace(each.ideal, kind="expected", time_s=time_s, error_ratio=error)]),
            ),
        )
        for place, (each, time_s, error) in enumerate(zip(records, expected_s, errors, strict=True))
    )
    (summary,) = error_summaries(rows)
    assert summary.worst_expected_error_ratio == pytest.approx(-0.6)
    assert summary.worst_expected_case_id == rows[1].case.id
    assert summary.worst_case_id == rows[0].case.id
    assert summary.median_abs_error_ratio == pytest.approx(0.4)  # of 0.5 0.4 0.3
    assert summary.paired_abs_error_ratio == pytest.approx(0.45)  # of the two with an expected time
    (without,) = error_summaries(with_errors(make, -0.5))
    assert without.worst_expected_error_ratio is without.paired_abs_error_ratio is None


def test_one_summary_per_operator_and_precision(make):
    rows = [
        *with_errors(make, -0.5),
        *with_errors(make, -0.25, b="FP32"),
        *case_results([make.record((64, 64, 64), "FP32", "FP32", "k", 1.0)]),
    ]
    assert [(summary.op, summary.precision) for summary in error_summaries(rows)] == [
        ("gemv", "BF16"),
        ("gemv", "FP32"),
        ("gemm", "FP32"),
    ]
    assert overall_error(rows).case_count == 3


def test_forced_rows_count_in_no_summary(make):
    rows = case_results(marked_records([make.record((1, 64, 64), "BF16", "BF16", "k", 1e-3)], is_forced=True))
    assert rows[0].error_ideal_ratio is not None
    assert error_summaries(rows) == ()
    assert overall_error(rows) is None


def test_counts_hold_every_status_and_reasons_put_failures_first(make):
    rows = case_results(
        [
            make.record((1, 64, 64), "BF16", "BF16", "k", 1e-3),
            make.record((1, 64, 64), "FP16", "FP16", "k", status="skipped", reason="no unit"),
            make.record((1, 64, 65), "FP16", "FP16", "k", status="skipped", reason="no unit"),
            make.record((1, 64, 64), "FP32", "FP32", "k", status="failed"),
        ]
    )
    assert status_counts(rows) == {"measured": 1, "predicted": 0, "skipped": 2, "failed": 1}
    first, second = reason_counts(rows)
    assert (first.status, first.reason, len(first.cases)) == ("failed", "", 1)
    assert (second.status, second.reason, len(second.cases)) == ("skipped", "no unit", 2)
