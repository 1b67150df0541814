"""Findings: codes with values; words from one catalog."""

from __future__ import annotations

import pickle
import string

import pytest

from roofline_model.core.answer import Estimate, Times, is_comparable
from roofline_model.core.errors import InvalidValueError, UnsupportedError
from roofline_model.core.finding import (
    SEVERITIES,
    Finding,
    by_severity,
    catalog,
    finding,
    finding_json,
    finding_of,
    from_stored,
    short_text,
    stored_form,
    unsupported,
)


def test_every_entry_is_whole():
    for code, entry in catalog().items():
        assert entry.severity in SEVERITIES, code
        assert entry.short, code
        assert "\n" not in entry.short, code
        assert entry.explanation, code
        assert all(name.isidentifier() for _, name, _, _ in string.Formatter().parse(entry.short) if name), code


def test_values_are_printed_by_the_unit_of_their_name():
    assert short_text(finding("host-time", source="as it was")) == "as it was"
    assert finding("x", time_s=3.2e-5).value("time_s") == 3.2e-5
    assert finding("x").value("time_s") is None


def test_an_unknown_code_is_shown_by_its_code():
    newer = Finding("from-a-newer-version")
    assert short_text(newer) == newer.code
    assert newer.severity == "info"


def test_the_most_severe_come_first_and_each_once():
    info, caution = finding("host-time", source="a"), finding("kernel-gap", "NVFP4", hardware="h100-sxm")
    assert by_severity([info, caution, info]) == [caution, info]


def test_the_best_evidence_is_what_was_measured():
    ideal, expected = Estimate(1e-6, source="ideal"), Estimate(2e-6, 1.5e-6, 3e-6)
    measured = Estimate(2.2e-6, source="measured")
    assert Times(ideal).best is ideal
    assert Times(ideal, expected).best.prudent_s == 3e-6
    assert Times(ideal, expected, measured).best is measured
    with pytest.raises(InvalidValueError):
        _ = Times().best


def test_a_bound_is_compared_with_its_own_kind_only():
    assert is_comparable("measured", "expected")
    assert is_comparable("ideal", "ideal")
    assert not is_comparable("ideal", "expected")
    assert not is_comparable("ceilings", "measured")


def test_flags_of_a_measurement_and_reasons_of_a_diff_have_entries():
    from results.diff.rules import REASONS
    from results.records.flags import DOUBTFUL_FLAGS, FLAGS, INVALIDATING_FLAGS

    assert set(FLAGS) | REASONS <= catalog().keys()
    assert {flag for flag in FLAGS if catalog()[flag].severity == "warning"} == set(INVALIDATING_FLAGS)
    assert set(INVALIDATING_FLAGS) < DOUBTFUL_FLAGS


def test_a_segment_in_brackets_needs_its_values():
    bare, whole = (finding("rows-fitted", row_count=12, mean_error_ratio=error) for error in (None, 0.05))
    assert short_text(bare) == "12 measured rows"
    assert "5.0 %" in short_text(whole)


def test_a_finding_survives_its_stored_form_and_its_error():
    item = finding("constants-of-family", "gb10", kind="family", chips=("a", "b"), share_ratio=0.5)
    assert from_stored(stored_form(item)) == item
    assert finding_json(item).items() >= {"code": item.code, "severity": "info", "text": short_text(item)}.items()
    error = pickle.loads(pickle.dumps(unsupported(item)))
    assert (str(error), finding_of(error)) == (short_text(item), item)
    assert finding_of(UnsupportedError("not here")).value("reason") == "not here"


def test_a_value_that_is_missing_is_a_dash():
    assert short_text(finding("ceiling-unmeasured", kind="rate")).startswith("no – product")
