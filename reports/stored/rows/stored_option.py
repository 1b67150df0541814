"""From a level and its time to a row: nights, doubts, staleness and confidence, the same for shapes and models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from reports.stored.rows.confidence import measured_confidence, predicted_confidence
from reports.stored.rows.levels import CaseLevel, stale_findings
from reports.text.display_text import shown
from results.records.flags import DOUBTFUL_FLAGS, FLAGS
from results.records.records import Record, RunInfo
from results.statistics.replication import TotalInterval
from results.text.verdict_text import doubts_text
from roofline_model.core.answer import Estimate, Evidence, Option, Trust


class StoredOptions(NamedTuple):
    """The options of one question before they are ranked."""

    options: list[Option]
    baseline: Option | None
    """What speed-ups are counted against, one of the options."""


def measured_interval(records: Iterable[Record], total: TotalInterval | None) -> tuple[float | None, float | None]:
    """Return the ends of the 95 % interval of a measured time as every table shows it: over processes where their
    spread is known, else inside the processes that have one; None where too few samples allow none.
    """
    if total is not None and total.low_s is not None and total.high_s is not None:
        return total.low_s, total.high_s
    intervals_s = [
        (record.measurement.ci_low_s, record.measurement.ci_high_s)
        for record in records
        if record.measurement is not None
        and record.measurement.ci_low_s is not None
        and record.measurement.ci_high_s is not None
    ]
    return min((low for low, _ in intervals_s), default=None), max((high for _, high in intervals_s), default=None)


def predicted_half_ratio(time_s: float, low_s: float | None, high_s: float | None) -> float | None:
    """Return half the 80 % interval of an expected time over it; None without one."""
    return None if low_s is None or high_s is None else (high_s - low_s) / 2 / time_s


def trust_of(estimate: Estimate, level: CaseLevel | None, reference: RunInfo | None) -> Trust:
    """Return the trust in a time. `level`: of its case, None where nothing is stored; `reference`: the chip's newest
    measuring run.
    """
    if estimate.source != "measured" or level is None:
        return Trust(*predicted_confidence(estimate))
    doubts = doubts_of(level)
    stale = () if reference is None else stale_findings(level, reference)
    process_count = sum(run.process_count for run in evidence_of(level))
    confidence, reasons = measured_confidence(process_count, estimate.half_width_ratio, doubts, is_stale=bool(stale))
    return Trust(confidence, reasons, doubts, stale)


def doubts_of(level: CaseLevel) -> tuple[str, ...]:
    """Return what puts the times of a level in doubt: flags in the order they are explained, then its nights' own
    doubt.
    """
    carried = {flag for record in level.records if record.measurement is not None for flag in record.measurement.flags}
    flags = [key for key in FLAGS if key in carried and (key in DOUBTFUL_FLAGS or key == "simulated")]
    other_doubts = [item for item in level.doubts if item.code not in flags]
    return (*flags, *([shown(doubts_text(other_doubts), 60)] if other_doubts else []))


def evidence_of(level: CaseLevel | None) -> tuple[Evidence, ...]:
    """Return the runs behind a level with the records of each; none where nothing is stored."""
    if level is None:
        return ()
    by_run: dict[str, list[str]] = {}
    processes: dict[str, set[int]] = {}
    flags: dict[str, set[str]] = {}
    for record in level.records:
        by_run.setdefault(record.run_id, []).append(record.record_id)
        if record.status == "measured":
            processes.setdefault(record.run_id, set()).add(record.process.ordinal)
        if record.measurement is not None:
            flags.setdefault(record.run_id, set()).update(record.measurement.flags)
    return tuple(
        Evidence(
            run.run_id,
            run.started_at,
            shown(run.label, 60) or None,
            tuple(by_run[run.run_id]),
            len(processes.get(run.run_id, ())),
            tuple(sorted(flags.get(run.run_id, ()))),
        )
        for run in level.runs
        if run.run_id in by_run
    )


def levels_by_case(levels: Iterable[CaseLevel]) -> Mapping[str, CaseLevel]:
    """Return the levels of one ranking by case key."""
    return {level.records[0].case.case_key: level for level in levels if level.records}
