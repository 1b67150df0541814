"""Changes that somebody announced: an annotated slow-down or loss of a case is shown and fails nothing. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from results.diff.case_diff import CaseDiff
from results.records.records import RunInfo
from results.watch.annotations import Annotation
from roofline_model.operators.case import Case


def reason_of_change(
    annotations: Sequence[Annotation], case: Case, case_key: str, before: Sequence[RunInfo], after: Sequence[RunInfo]
) -> str:
    """Return why a change of a case's time between two sides is expected; empty where no annotation covers it.

    An annotation's day lies between the newest run before the change and the oldest one after it, both days included (a
    run is of the day it started); its commit is that of a run after it.
    """
    if not annotations or not before or not after:
        return ""
    name = f"{case.op} {case.id}"
    first, last = max(run.started_at for run in before)[:10], min(run.started_at for run in after)[:10]
    commits = [run.git_commit for run in after]
    for annotation in annotations:
        if annotation.covers_case(name, case_key) and annotation.covers(
            "time", min(first, last), max(first, last), commits
        ):
            return annotation.reason
    return ""


def marked_expected(
    case: CaseDiff,
    annotations: Sequence[Annotation],
    used: Collection[str],
    before: Sequence[RunInfo],
    after: Sequence[RunInfo],
) -> CaseDiff:
    """Return a changed or lost case with the reason of the annotation that covers it. `used`: ids of the older runs
    used.
    """
    if case.verdict not in ("SLOWER", "FASTER", "GONE"):
        return case
    older = [run for run in before if run.run_id in used]
    return replace(case, expected_reason=reason_of_change(annotations, case.case, case.case_key, older, after))
