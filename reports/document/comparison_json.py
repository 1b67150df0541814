"""A comparison with a baseline as JSON: the verdict for a script, and everything that changed for a program."""

from __future__ import annotations

from typing import Any

from reports.present.answers.diff import DiffAnswer
from reports.present.encoder import answer_json
from reports.view.comparison import Comparison, against_text
from results.diff.gate import parse_fail_on


def verdict_json(comparison: Comparison) -> dict[str, Any]:
    """Return what the comparison found, in a few keys; null where there was nothing to compare with."""
    diff, result = comparison.diff, comparison.result
    return {
        "against": comparison.against,
        "run_ids": [] if diff is None else [run.run_id for run in diff.before],
        "verdict": against_text(comparison) or None,
        "exit_code": None if result is None else result.exit_code,
        "alert_count": comparison.alert_count,
    }


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    """Return the verdict, the diff as `roofline diff --json` prints it (of its cases those that changed), and the
    changes over the nights.
    """
    diff, result = comparison.diff, comparison.result
    document = None
    if diff is not None and result is not None:
        document = answer_json(DiffAnswer(diff, result, parse_fail_on(["slower"])))
        document["cases"] = [case for case in document["cases"] if case["verdict"] != "SAME"]
    changes = [
        {"case_key": name.case.case_key, "case": name.name, "metric": "time", **answer_json(change)}
        for name, change in comparison.changes
    ]
    return {**verdict_json(comparison), "diff": document, "changes_over_nights": changes}
