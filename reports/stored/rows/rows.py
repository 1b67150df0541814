"""From a level and its time to a row: nights, doubts, staleness and confidence, the same for shapes and models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from reports.stored.answer import Confidence, Night, TimeSource
from reports.stored.rows.confidence import measured_confidence, predicted_confidence
from reports.stored.rows.levels import CaseLevel, stale_reason
from reports.text.display_text import shown
from results.records.flags import DOUBTFUL_FLAGS, FLAGS
from results.records.records import Record, RunInfo
from results.statistics.replication import TotalInterval
from results.text.verdict_text import doubts_text


@dataclass(frozen=True, slots=True)
class RowTime:
    """The time of a row as `trust_of` asks for it."""

    source: TimeSource
    time_s: float
    low_s: float | None
    high_s: float | None
    interval_ratio: float | None
    """± of a table: of a measured time over processes where their spread is known."""
    provenance: str
    is_calibration_doubtful: bool = False
    """Of an expected time: whether the constants behind it were measured on a busy machine."""


def measured_interval(records: Iterable[Record], total: TotalInterval | None) -> tuple[float | None, float | None]:
    """Return the ends of the 95 % interval of a measured time as every table shows it: over processes where their spread is
    known, else inside the processes that have one; None where too few samples allow none."""
    if total is not None and total.low_s is not None and total.high_s is not None:
        return total.low_s, total.high_s
    known = [
        (record.measurement.ci_low_s, record.measurement.ci_high_s)
        for record in records
        if record.measurement is not None
        and record.measurement.ci_low_s is not None
        and record.measurement.ci_high_s is not None
    ]
    return min((low for low, _ in known), default=None), max((high for _, high in known), default=None)


def predicted_half_ratio(time_s: float, low_s: float | None, high_s: float | None) -> float | None:
    """Return half the 80 % interval of an expected time over it; None without one."""
    return None if low_s is None or high_s is None else (high_s - low_s) / 2 / time_s


@dataclass(frozen=True, slots=True)
class Trust:
    """How far a row may be trusted, and on what it rests."""

    confidence: Confidence
    confidence_reason: str
    doubts: tuple[str, ...]
    stale_reason: str
    nights: tuple[Night, ...]


def trust_of(time: RowTime, level: CaseLevel | None, reference: RunInfo | None) -> Trust:
    """Return the trust in a row. `level`: of its case, None where nothing is stored; `reference`: the chip's newest measuring run."""
    nights = () if level is None else nights_of(level)
    if time.source != "measured" or level is None:
        confidence, why = predicted_confidence(
            time.source, time.low_s, time.high_s, time.provenance, is_doubtful=time.is_calibration_doubtful
        )
        return Trust(confidence, shown(why), (), "", nights)
    doubts = doubts_of(level)
    stale = stale_reason(level, reference) if reference is not None else ""
    process_count = sum(night.process_count for night in nights)
    confidence, why = measured_confidence(process_count, time.interval_ratio, doubts, stale)
    return Trust(confidence, shown(why), doubts, shown(stale), nights)


def doubts_of(level: CaseLevel) -> tuple[str, ...]:
    """Return what puts the times of a level in doubt: flags in the order they are explained, then its nights' own doubt."""
    carried = {flag for record in level.records if record.measurement is not None for flag in record.measurement.flags}
    flags = [key for key in FLAGS if key in carried and (key in DOUBTFUL_FLAGS or key == "simulated")]
    own = [item for item in level.doubts if item.code not in flags]
    return (*flags, *([shown(doubts_text(own), 60)] if own else []))


def nights_of(level: CaseLevel) -> tuple[Night, ...]:
    """Return the runs behind a level with the records of each."""
    by_run: dict[str, list[str]] = {}
    processes: dict[str, set[int]] = {}
    for record in level.records:
        by_run.setdefault(record.run_id, []).append(record.record_id)
        if record.status == "measured":
            processes.setdefault(record.run_id, set()).add(record.process.ordinal)
    return tuple(
        Night(
            run.run_id,
            run.started_at,
            shown(run.label, 60),
            tuple(by_run[run.run_id]),
            len(processes.get(run.run_id, ())),
        )
        for run in level.runs
        if run.run_id in by_run
    )


def levels_by_case(levels: Iterable[CaseLevel]) -> Mapping[str, CaseLevel]:
    """Return the levels of one ranking by case key."""
    return {level.records[0].case.case_key: level for level in levels if level.records}
