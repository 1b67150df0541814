"""The verdict on a shape, its ranking in a report and the answer over its phase take the same, whatever is missing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from shape_records import record

from reports.advice.run_phases import phase_rankings
from results.cases.case_result import case_results
from results.cases.shape_verdict import shape_verdicts
from results.rankings.shape import recommend_from_run
from roofline_model.core.answer import NO_CHOICE


def few(b, a, kernel, median_s):
    made = record(b, a, kernel, median_s, has_interval=False)
    return replace(made, measurement=replace(made.measurement, min_s=median_s, max_s=median_s, sample_count=1))


BF16 = record("BF16", median_s=100e-6)
INT8 = record("INT8", "INT8", "int_mm", 50e-6)
INT4 = record("INT4", "BF16", "tinygemm", 30e-6)
SCENES = {
    "take": ([BF16, INT8], "INT8"),
    "a faster one beyond the limit": ([BF16, INT8, INT4], "INT8"),
    "nothing else within the limit": ([BF16, INT4], "BF16"),
    "few samples, 5 % apart": ([few("FP32", None, "matmul", 105e-6), few("INT8", "BF16", "int8pack", 100e-6)], "FP32"),
    "few samples, far apart": ([few("BF16", None, "matmul", 105e-6), few("INT8", "BF16", "int8pack", 50e-6)], "INT8"),
    "a prediction as baseline": ([record("BF16"), record("INT4", "BF16", "tinygemm", 510e-6)], "BF16"),
    "predictions": ([record("BF16"), record("INT8", "INT8", "int_mm"), record("INT4", "BF16", "tinygemm")], "INT8"),
    "no baseline": ([record("INT8", "BF16", "int8pack", 60e-6), INT4], "INT8"),
    "none within the limit": ([INT4, record("INT4", "BF16", "int4pack", 35e-6)], None),
    "the choice in doubt": ([BF16, record("INT8", "INT8", "int_mm", 50e-6, flags=("above-roof",))], "INT8"),
    "disturbed": ([record("BF16", median_s=100e-6, flags=("contended",)), INT8], None),
}


def weight(option):
    return None if option is None else option.weight_format


@pytest.mark.parametrize("name", SCENES)
def test_every_surface_takes_the_same(name):
    records, expected = SCENES[name]
    results = shape_verdicts(case_results(records))
    (result,) = results
    (ranking,) = recommend_from_run(case_results(records), None)
    (phase,) = phase_rankings(results, (), "cpu")
    in_run = None if result.gap is not None else result.choice
    assert [weight(each) for each in (in_run, ranking.choice, phase.choice)] == [expected] * 3
    assert (phase.ranking.headline.code in NO_CHOICE) == (expected is None)
    assert ranking.is_contest
    assert phase.is_contest


def test_one_case_alone_is_no_contest_and_has_no_role(make):
    (ranking,) = recommend_from_run(
        case_results([make.record((1, 4096, 4096), "INT8", "INT8", "int_mm", 1e-3)]), make.CPU
    )
    assert len(ranking.options) > 1  # what the model proposes
    assert (ranking.is_contest, ranking.roles) == (False, {})


def test_what_the_model_proposes_is_never_taken(make):
    (ranking,) = recommend_from_run(
        case_results([make.record((1, 4096, 4096), "INT4", "BF16", "tinygemm", 1e-3)]), make.CPU
    )
    assert ranking.choice is None
    assert any(option.kernel is None and option.loss.pct is not None for option in ranking.options)


@pytest.mark.parametrize(
    ("cases", "narrower"),
    [
        ([BF16, INT8, INT4], {"INT8", "INT4"}),
        ([BF16, record("FP16", median_s=90e-6)], set()),
        ([INT8, INT4], set()),  # nothing in 16 bits to compare with
        ([INT8], set()),
    ],
    ids=["two beside 16 bits", "16 bits alone", "no baseline", "a case alone"],
)
def test_a_narrower_format_competes_where_a_baseline_was_run_too(cases, narrower):
    (ranking,) = recommend_from_run(case_results(cases), None)
    assert {option.weight_format for option in ranking.narrower} == narrower


def test_what_the_model_proposes_is_no_narrower_case(make):
    (ranking,) = recommend_from_run(
        case_results([make.record((1, 4096, 4096), "BF16", "BF16", "matmul", 1e-3)]), make.CPU
    )
    assert any(option.kernel is None and option.loss.source != "reference" for option in ranking.options)
    assert ranking.narrower == ()
