"""The samples of cases that a median does not describe."""

from __future__ import annotations

from collections.abc import Iterable

from results.cases.case_result import CaseResult

SHAPE_FLAGS = ("bimodal", "drift", "outliers")
"""Flags that a picture of the samples explains."""

MAX_SERIES = 12
"""Figures in one page; `roofline show RUN CASE` shows any case."""


def flagged_series(cases: Iterable[CaseResult]) -> tuple[tuple[str, CaseResult], ...]:
    """Return each process of a case whose samples were flagged for their shape and are still stored, the gravest flag
    first; before it `process 2` where the case ran in several, else nothing.
    """
    flagged = [
        (f"process {each.lead.process.ordinal}" if case.process_count > 1 else "", each)
        for case in cases
        for each in case.by_timed_record
        if shape_flags(each) and len(each.measurements[0].samples_s) >= 3
    ]
    return tuple(sorted(flagged, key=lambda pair: min(map(SHAPE_FLAGS.index, shape_flags(pair[1])))))


def shape_flags(process: CaseResult) -> tuple[str, ...]:
    """Return the flags of a process that are about the shape of its samples."""
    return tuple(flag for flag in SHAPE_FLAGS if flag in process.measurements[0].flags)
