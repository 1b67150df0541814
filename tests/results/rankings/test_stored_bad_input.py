"""What is missing is said instead of breaking: empty, predicted only, one case, no baseline, mixed chips, hostile or
foreign records.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from reports.present.answers.rankings import recommendations_json
from reports.present.words.evidence_text import missing_texts
from reports.present.words.ranking_text import excluded_texts
from reports.present.words.stored_text import summary_of
from results.rankings import StoredQuestion, recommend_from_runs
from roofline_model.core.errors import InvalidValueError
from roofline_model.core.finding import finding

BF16, INT8, INT4 = ("BF16", "BF16", "matmul"), ("INT8", "INT8", "int_mm"), ("INT4", "BF16", "tinygemm")


def test_nothing_stored() -> None:
    recommendations = recommend_from_runs([], [])
    assert recommendations.rankings == ()
    assert missing_texts(recommendations) == (
        "nothing is stored: measure first, `pytest bench_cases` (docs/reference/measuring.md)",
    )


def test_nothing_of_what_was_asked(stored_run, recommend) -> None:
    advice = recommend([stored_run(1, {BF16: 22e-6})], hardware_key="gb10")
    assert advice.rankings == ()
    assert missing_texts(advice) == (
        "no record on gb10 is stored; stored chips: h200-sxm; `roofline runs` lists what is",
    )


def test_predictions_only(stored_run, recommend) -> None:
    advice = recommend([stored_run(1, {BF16: None, INT4: None})], with_chip=True)
    [ranking] = advice.rankings
    assert ranking.options
    assert not any(row.is_measured for row in ranking.options)
    assert (
        missing_texts(advice)[0]
        == "no record is measured: every time is a prediction, nothing is known of this machine's kernels"
    )
    assert ranking.missing[0] == finding("evidence-missing", kind="none-measured")
    assert summary_of(ranking).startswith("try ")


def test_one_case_alone_and_no_wide_baseline(stored_run, recommend) -> None:
    [ranking] = recommend([stored_run(1, {INT4: 9e-6})]).rankings
    assert ranking.missing[:2] == (
        finding("evidence-missing", "INT4 (W4A16) · tinygemm", kind="one-measured"),
        finding("evidence-missing", kind="baseline"),
    )
    assert ranking.first.speedup_ratio is None


def test_everything_failed(stored_run, recommend) -> None:
    [ranking] = recommend([stored_run(1, {BF16: "failed: out of memory", INT4: "skipped: no kernel"})]).rankings
    assert ranking.options == ()
    assert ranking.first is None
    assert {reason for _, reason in excluded_texts(ranking)} == {"failed: out of memory", "skipped: no kernel"}
    assert summary_of(ranking) == "nothing is left to recommend: see what was refused and why"


def test_what_was_measured_and_fails_now_is_not_ranked_even_alone(stored_run, recommend) -> None:
    failing = {BF16: "failed: wrong result", INT4: "failed: wrong result"}
    [ranking] = recommend([stored_run(1, {BF16: 22e-6, INT4: 9e-6}), stored_run(2, failing)]).rankings
    assert ranking.options == ()
    assert {label for label, _ in excluded_texts(ranking)} == {"BF16 · matmul", "INT4 (W4A16) · tinygemm"}
    [kept_ranking] = recommend(
        [stored_run(1, {BF16: 22e-6, INT4: 9e-6}), stored_run(2, failing, git_branch="idea")]
    ).rankings
    assert len(kept_ranking.options) == 2, "what fails on another branch says nothing of this one"


def test_mixed_chips_are_never_mixed(make, stored_run, recommend) -> None:
    advice = recommend(
        [stored_run(1, {BF16: 22e-6, INT4: 9e-6}), stored_run(2, {BF16: 1e-3, INT8: 2e-4}, device=make.CPU)]
    )
    assert [(ranking.question.hardware, ranking.first.label) for ranking in advice.rankings] == [
        ("h200-sxm", "INT4 (W4A16) · tinygemm"),
        ("this-cpu", "INT8 (W8A8) · int_mm"),
    ]
    assert any(line.startswith("2 chips are stored (h200-sxm, this-cpu)") for line in missing_texts(advice))


def test_hostile_names_and_foreign_records_are_text(make, stored_run, recommend) -> None:
    run, records = stored_run(1, {BF16: 22e-6, INT4: 9e-6})
    odd = [
        replace(records[-1], case=replace(records[-1].case, kernel="</script>‮" + "x" * 100_000), record_id="f" * 32),
        replace(
            records[0],
            case=replace(records[0].case, op="custom", shape=(), formats=()),
            predictions=(),
            record_id="e" * 32,
        ),
        replace(records[0], record_id="d" * 32, run_id="not a run that is known"),
    ]
    advice = recommend([(run, [*records, *odd])])
    assert len(advice.rankings) == 2
    text = json.dumps(recommendations_json(advice), allow_nan=False)
    assert len(text) < 60_000
    assert "\\u202e" not in text


def test_bad_questions_are_refused() -> None:
    for bad in ({"phase": "train"}, {"memory_limit_bytes": 0.0}, {"max_loss_pct": -1.0}):
        with pytest.raises(InvalidValueError):
            StoredQuestion(**bad)
