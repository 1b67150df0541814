"""Where the time of a stored case went: read back from its record, shown in the report and by `roofline show`."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from reports.page.html import render_page
from reports.view.views import report_view
from results.cases.case_result import case_results, marked_records
from results.cases.errors import case_gap, expected_gap
from results.records.records import PredictionRecord


def with_expected(record, expected_s, **terms_s):
    ideal = record.ideal
    expected = replace(
        ideal,
        kind="expected",
        model_version="expected-1",
        time_s=expected_s,
        low_s=0.9 * expected_s,
        high_s=1.2 * expected_s,
        provenance="fitted",
        terms_s=terms_s,
        error_ratio=None,
    )
    assert isinstance(expected, PredictionRecord)
    return replace(record, predictions=(ideal, expected))


@pytest.fixture
def record(make):
    return with_expected(
        make.record((1, 4096, 4096), "BF16", "BF16", "matmul", 600e-6), 500e-6, dram=470e-6, launch=20e-6
    )


def summary(*records):
    (case_summary,) = case_results(records)
    return case_summary


def test_the_parts_add_up_to_the_measured_time(record):
    gap = case_gap(summary(record))
    parts = dict(gap.parts)
    assert parts["ideal"] == record.ideal.time_s
    assert parts["launch"] == pytest.approx(20e-6)
    assert parts["unexplained"] == pytest.approx(100e-6)
    assert math.fsum(parts.values()) == pytest.approx(600e-6)


def test_without_an_expected_time_there_is_no_split_worth_showing(make, record):
    plain = make.record((1, 4096, 4096), "BF16", "BF16", "matmul", 600e-6)
    assert dict(case_gap(summary(plain)).parts).keys() == {"ideal", "unexplained"}
    assert expected_gap(summary(plain)) is None
    assert expected_gap(summary(record)) is not None


def test_a_prediction_of_another_chip_is_never_held_against_the_time(record):
    forced = replace(record, measurement=replace(record.measurement, flags=("forced",)))
    (summary,) = case_results(marked_records([forced], is_forced=True))
    assert case_gap(summary) is None


def test_the_report_shows_the_split_only_where_there_is_one(make, record):
    run = make.run()
    page = render_page(report_view(run, [record], {}))
    assert "Where the time went" in page
    assert ">unexplained<" in page
    assert "fitted" in page
    plain = make.record((1, 4096, 4096), "BF16", "BF16", "matmul", 600e-6)
    assert "Where the time went" not in render_page(report_view(run, [plain], {}))
