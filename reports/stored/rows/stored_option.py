"""From an option and the level of its case to a row: nights, doubts, staleness and confidence, the same for shapes and
models.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from reports.present.display_text import shown
from reports.present.words.verdict_text import doubts_text
from reports.stored.rows.confidence import measured_confidence, predicted_confidence
from reports.stored.rows.levels import CaseLevel, stale_findings
from reports.stored.rows.run_speedups import RunSpeedups
from results.cases import shape_verdict
from results.cases.case_result import CaseResult
from results.records.flags import DOUBTFUL_FLAGS
from results.records.records import RunInfo
from roofline_model.core.answer import Estimate, Evidence, Option, Times, Trust


class StoredOptions(NamedTuple):
    """The options of one question before they are ranked."""

    options: list[Option]
    baseline: Option | None
    """What speed-ups are counted against, one of the options."""


def stored_options(
    options: Iterable[Option],
    baseline: Option | None,
    levels: Mapping[str, CaseLevel],
    reference: RunInfo | None,
    speedups: RunSpeedups,
) -> StoredOptions:
    """Return options of one question, unordered, with what the nights of their cases say: intervals, evidence, trust,
    and a speed-up over the baseline that some run saw. `levels`: by case key; `reference`: the chip's newest measuring
    run.
    """
    made = []
    base = None
    for option in options:
        level, speedup_ratio = levels.get(option.key), option.speedup_ratio
        times = _times(option.times, level)
        trust = trust_of(times.best, level, reference)
        is_baseline = baseline is not None and option.key == baseline.key
        if is_baseline:
            speedup_ratio = 1.0
        elif option.is_measured and baseline is not None and baseline.is_measured:
            speedup = speedups.of(option.key, baseline.key, speedup_ratio)
            if speedup is not None:
                speedup_ratio, trust = speedup.ratio, speedup.trusted(trust)
        made.append(replace(option, times=times, speedup_ratio=speedup_ratio, evidence=evidence_of(level), trust=trust))
        base = made[-1] if is_baseline else base
    return StoredOptions(made, base)


def _times(times: Times, level: CaseLevel | None) -> Times:
    """Return the times with half the interval of an expected one, and the interval over the nights of a measured
    one.
    """
    expected, measured = times.expected, times.measured
    if expected is not None:
        low_s, high_s = expected.low_s, expected.high_s
        half_ratio = None if low_s is None or high_s is None else (high_s - low_s) / 2 / expected.time_s
        expected = replace(expected, half_width_ratio=half_ratio)
    if measured is not None and level is not None and level.result is not None:
        low_s, high_s = level.result.interval_s
        measured = replace(measured, low_s=low_s, high_s=high_s)
    return Times(times.ideal, expected, measured)


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
