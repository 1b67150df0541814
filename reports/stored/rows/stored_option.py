"""From a level and its time to a row: nights, doubts, staleness and confidence, the same for shapes and models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from reports.present.display_text import shown
from reports.stored.rows.confidence import measured_confidence, predicted_confidence
from reports.stored.rows.levels import CaseLevel, stale_findings
from results.cases.case_result import CaseResult
from results.records.flags import DOUBTFUL_FLAGS
from results.records.records import RunInfo
from results.text.verdict_text import doubts_text
from results.verdicts import shape_verdict
from roofline_model.core.answer import Estimate, Evidence, Option, Trust


class StoredOptions(NamedTuple):
    """The options of one question before they are ranked."""

    options: list[Option]
    baseline: Option | None
    """What speed-ups are counted against, one of the options."""


def predicted_half_ratio(time_s: float, low_s: float | None, high_s: float | None) -> float | None:
    """Return half the 80 % interval of an expected time over it; None without one."""
    return None if low_s is None or high_s is None else (high_s - low_s) / 2 / time_s


def trust_of(estimate: Estimate, level: CaseLevel | None, reference: RunInfo | None) -> Trust:
    """Return the trust in a time. `level`: of its case, None where nothing is stored; `reference`: the chip's newest
    measuring run.
    """
    if estimate.source != "measured" or level is None or level.result is None:
        return Trust(*predicted_confidence(estimate))
    doubts = _doubts(level.result, level)
    stale = () if reference is None else stale_findings(level, reference)
    confidence, reasons = measured_confidence(
        level.result.process_count, estimate.half_width_ratio, doubts, is_stale=bool(stale)
    )
    return Trust(confidence, reasons, doubts, stale)


def _doubts(case: CaseResult, level: CaseLevel) -> tuple[str, ...]:
    """Return what puts the times of a level in doubt: flags in the order they are explained, then its nights' own
    doubt.
    """
    flags = [flag for flag in case.flags if flag in DOUBTFUL_FLAGS or flag == "simulated"]
    other_doubts = [item for item in level.doubts if item.code not in flags]
    return (*flags, *([shown(doubts_text(other_doubts), 60)] if other_doubts else []))


def evidence_of(level: CaseLevel | None) -> tuple[Evidence, ...]:
    """Return the runs behind a level with the records of each, oldest first; none where nothing is stored."""
    if level is None or level.result is None:
        return ()
    by_run = {evidence.run_id: evidence for evidence in shape_verdict.evidence_of(level.result)}
    return tuple(
        replace(by_run[run.run_id], started_at=run.started_at, label=shown(run.label, 60) or None)
        for run in level.runs
        if run.run_id in by_run
    )


def levels_by_case(levels: Iterable[CaseLevel]) -> Mapping[str, CaseLevel]:
    """Return the levels of one ranking by case key."""
    return {level.records[0].case.case_key: level for level in levels if level.records}
