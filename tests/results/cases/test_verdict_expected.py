"""The verdict of a shape with expected times: they are told beside the ideal ones, and rank what was not measured."""

from __future__ import annotations

from dataclasses import replace

import pytest
from shape_records import record

from results.cases import shape_verdict
from results.cases.case_result import case_results
from results.cases.shape_verdict import ranked_options


def judge(records, **more):
    """Return the verdict over the cases of the records."""
    return shape_verdict.judge(case_results(records), **more)


def expecting(predicted, expected_s):
    """The same record with an expected time beside the ideal one."""
    expected = replace(predicted.predictions[0], kind="expected", time_s=expected_s, provenance="fitted")
    return replace(predicted, predictions=(*predicted.predictions, expected))


def test_an_ideal_speedup_never_stands_alone_where_one_is_expected():
    wide = expecting(record("BF16", median_s=46e-6), 42e-6)
    narrow = expecting(record("INT4", "BF16", "tinygemm", 20e-6), 16e-6)
    verdict = judge([wide, narrow])
    assert verdict.expected_speedup == pytest.approx(42 / 16)
    level = judge([wide, expecting(record("INT4", "BF16", "tinygemm", 46e-6), 16e-6)])
    assert (level.is_level, level.choice) == (True, level.baseline)
    # One side without an expected time: the ideal one is all there is.
    assert judge([wide, record("INT4", "BF16", "tinygemm", 20e-6)]).expected_speedup is None


def test_a_forced_time_meets_no_expected_time_of_another_chip():
    records = [
        expecting(record("BF16", median_s=46e-6, flags=("forced",)), 42e-6),
        expecting(record("INT8", median_s=20e-6, flags=("forced",)), 16e-6),
    ]
    assert judge(records).expected_speedup is None


def test_what_was_not_measured_is_ranked_by_expected_times():
    wide, slow = expecting(record("BF16"), 40e-6), expecting(record("INT8"), 60e-6)
    quick = expecting(record("INT4", "BF16", "tinygemm"), 25e-6)
    assert [option.precision for option in ranked_options(case_results([wide, slow, quick]))] == [
        "INT4 (W4A16)",
        "BF16",
        "INT8 (W8A8)",
    ]
    assert judge([wide, slow, quick]).expected_speedup == pytest.approx(1.6)
    assert judge([wide, slow]).choice.precision == "BF16"


def test_an_ideal_time_wins_over_no_expected_one():
    wide, bound = expecting(record("BF16"), 40e-6), record("INT8")
    assert bound.ideal.time_s < 40e-6
    verdict = judge([wide, bound])
    assert [option.estimate.source for option in verdict.options] == ["expected", "ideal"]
    assert (verdict.best.precision, verdict.rival, verdict.is_win, verdict.riskier) == ("BF16", None, False, None)
    # A baseline of a lower bound proves no gain either.
    other = judge([record("BF16"), expecting(record("INT8"), 25e-6)])
    assert (other.best.precision, other.is_win) == ("INT8 (W8A8)", False)
    # Bounds alone are compared with each other.
    assert judge([record("BF16"), bound]).is_win


def test_equal_expected_times_are_level_whatever_the_ideal_ones_say():
    wide, narrow = expecting(record("BF16"), 40e-6), expecting(record("INT8"), 40e-6)
    assert judge([wide, narrow]).is_level


def test_a_lower_bound_is_no_baseline_beside_a_time():
    quick, bound = expecting(record("FP16"), 40e-6), record("BF16")
    assert bound.ideal.time_s < 40e-6
    assert judge([quick, bound, expecting(record("INT8"), 25e-6)]).baseline.precision == "FP16"
