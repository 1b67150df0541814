"""A diff as one JSON document. Keys end in their unit; what is not known is null, never 0."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from results.diff.case_diff import CaseDiff, SuiteDiff
from results.diff.gate import FailRule, GateResult
from results.diff.rules import VERDICTS
from results.records.records import RunInfo
from results.text.diff_text import listed_headline
from roofline_model.core.finding import findings_json, findings_text, subject_text

DOCUMENT_VERSION = 2


def diff_document(diff: SuiteDiff, result: GateResult, fail_on: Sequence[FailRule]) -> dict[str, Any]:
    """Return everything a diff found, as JSON values."""
    return {
        "format": "roofline-bench diff",
        "version": DOCUMENT_VERSION,
        "verdict": listed_headline(diff, result),
        "exit_code": result.exit_code,
        "exit_reason": findings_text(result.reasons) or None,
        "exit_findings": findings_json(result.reasons),
        "is_comparable": diff.is_comparable,
        "before": [_run(run) for run in diff.before],
        "after": [_run(run) for run in diff.after],
        "method_difference": diff.method_difference or None,
        "environment_differences": [asdict(one) for one in diff.environment],
        "rules": {**asdict(diff.rules), "fail_on": [rule.text for rule in fail_on]},
        "counts": {verdict: sum(case.verdict == verdict for case in diff.cases) for verdict in VERDICTS},
        "unmeasured_count": diff.unmeasured_count,
        "unselected_count": diff.unselected_count,
        "selection": diff.selection or None,
        "common_change_ratio": diff.common_change_ratio,
        "smallest_step_ratio": diff.smallest_step_ratio,
        "largest_smallest_step_ratio": diff.largest_smallest_step_ratio,
        "unused_quarantine": [subject_text(item) for item in diff.unused_quarantine],
        "failures": [
            {
                "case_key": failure.case.case_key,
                "case": failure.case.name,
                "rule": failure.rule.text,
                "why": failure.why,
            }
            for failure in result.failures
        ],
        "cases": [_case(case) for case in diff.cases],
    }


def _run(run: RunInfo) -> dict[str, Any]:
    return {
        "run_id": run.run_id,
        "label": run.label,
        "started_at": run.started_at,
        "status": run.status,
        "hardware": run.hardware_key,
        "git_commit": run.git_commit,
        "git_branch": run.git_branch,
        "git_is_dirty": run.git_is_dirty,
    }


def _case(case: CaseDiff) -> dict[str, Any]:
    found = asdict(case)
    found.pop("case")
    found["set_aside"] = findings_json(case.set_aside)
    return {"name": case.name, "case_id": case.case.id, **case.case.to_dict(), **found}
