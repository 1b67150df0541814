"""The machine over a whole run: the canary kernel's readings, what they quarantined, workers that ended, warnings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from reports.cases.summary import CaseSummary
from reports.text.display_text import counted, shown
from results.records.records import Record, RunInfo
from results.records.state_records import CanaryReading
from results.records.stored_findings import read_findings
from results.verdicts.gain import times_faster
from roofline_model.core.finding import advice_text
from roofline_model.core.units import format_time


@dataclass(frozen=True, slots=True)
class CanaryPoint:
    """One canary reading, ready to draw."""

    offset_s: float | None
    """Since the run began; None where its time cannot be read."""
    slowdown_ratio: float
    """Its time over what it was compared with; over the run's own healthy median where there was no reference."""
    is_slow: bool
    kernel: str
    text: str
    """`09:14:03 UTC, process 0: gemv 4096x4096 took 1.31 ms, 3.2× its usual 410 µs`."""


@dataclass(frozen=True, slots=True)
class RunState:
    """What a reader must know about the machine before believing a run."""

    canaries: tuple[CanaryPoint, ...]
    quarantined_offsets_s: tuple[float, ...]
    """When each quarantined record was made, since the run began; those without a usable time are left out."""
    quarantined: tuple[str, ...]
    """Ids of the quarantined cases."""
    capped: tuple[str, ...]
    """Ids of the cases whose clock was held down in every try."""
    restarts: tuple[str, ...]
    """One sentence per worker that did not end by itself."""
    warnings: tuple[str, ...]
    """What the session warned of, as stored with the environment."""

    @property
    def has_time_axis(self) -> bool:
        """Whether every reading has a time; else they are drawn by their number."""
        return all(canary.offset_s is not None for canary in self.canaries)

    @property
    def slow(self) -> tuple[CanaryPoint, ...]:
        """The slow readings."""
        return tuple(canary for canary in self.canaries if canary.is_slow)

    @property
    def is_known(self) -> bool:
        """Whether there is anything to say."""
        return bool(self.canaries or self.quarantined or self.capped or self.restarts or self.warnings)

    @property
    def canary_sentence(self) -> str:
        """How many readings there were, and how slow the slow ones."""
        if not self.canaries:
            return "No canary ran: an invisible slow state of the machine would not have been noticed."
        count, slow = counted(len(self.canaries), "canary reading"), self.slow
        if not slow:
            worst = max(canary.slowdown_ratio for canary in self.canaries)
            return f"{count}, none slow: the slowest took {times_faster(worst)} its usual time."
        worst = max(one.slowdown_ratio for one in slow)
        return f"{count}, {len(slow)} slow: up to {times_faster(worst)} the usual time."


def run_state(
    run: RunInfo, summaries: Iterable[CaseSummary], records: Iterable[Record], canaries: Iterable[CanaryReading]
) -> RunState:
    """Return the state of a run; `summaries` name the cases, `records` the processes."""
    readings = sorted(canaries, key=lambda one: (one.created_at, one.process_ordinal, one.ordinal))
    records, summaries = tuple(records), tuple(summaries)
    start_s = utc_seconds(run.started_at)
    held = [record for record in records if record.measurement and "quarantined" in record.measurement.flags]
    offsets_s = [seconds_since(start_s, one.created_at) for one in held]
    return RunState(
        canaries=tuple(_point(reading, readings, seconds_since(start_s, reading.created_at)) for reading in readings),
        quarantined_offsets_s=tuple(offset_s for offset_s in offsets_s if offset_s is not None),
        quarantined=tuple(summary.lead.case_id for summary in summaries if "quarantined" in summary.flags),
        capped=tuple(summary.lead.case_id for summary in summaries if "capped" in summary.flags),
        restarts=_restarts(records),
        warnings=_stored_warnings(run),
    )


def _point(reading: CanaryReading, readings: list[CanaryReading], offset_s: float | None) -> CanaryPoint:
    usual_s = reading.reference_s
    if not usual_s or usual_s <= 0:
        own = [one.time_s for one in readings if one.kernel == reading.kernel and not one.is_slow]
        usual_s = median(own or [reading.time_s])
    slowdown_ratio = reading.time_s / usual_s if usual_s > 0 else 1.0
    kernel = shown(reading.kernel, 60)
    clock = reading.created_at[11:19] if utc_seconds(reading.created_at) is not None else f"reading {reading.ordinal}"
    text = (
        f"{shown(clock, 20)} UTC, process {reading.process_ordinal}: {kernel} took {format_time(reading.time_s, 3)}, "
        f"{times_faster(slowdown_ratio)} its usual {format_time(usual_s, 3)}"
    )
    return CanaryPoint(offset_s, slowdown_ratio, reading.is_slow, kernel, text)


def _restarts(records: tuple[Record, ...]) -> tuple[str, ...]:
    restarts: dict[int, str] = {}
    for record in records:
        process = record.process
        if process.end_reason:
            restarts[process.ordinal] = (
                f"process {process.ordinal}{f' (pid {process.pid})' if process.pid is not None else ''}: "
                f"{shown(process.end_reason, 160)}; a fresh one took over"
            )
    return tuple(restarts[ordinal] for ordinal in sorted(restarts))


def _stored_warnings(run: RunInfo) -> tuple[str, ...]:
    try:
        return tuple(shown(advice_text(item)) for item in read_findings(run.environment.facts.get("warnings")))
    except ValueError:  # nothing stored, or no findings
        return ()


def seconds_since(start_s: float | None, timestamp: str) -> float | None:
    """Return the seconds between a moment and a stored time; None where either is not known."""
    time_s = utc_seconds(timestamp)
    return None if start_s is None or time_s is None else time_s - start_s


def utc_seconds(timestamp: str) -> float | None:
    """Return a stored ISO 8601 time as seconds since 1970 (UTC where it names no zone); None for what is no time."""
    from datetime import UTC, datetime

    try:
        moment = datetime.fromisoformat(timestamp)
    except ValueError:
        return None
    return (moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment).timestamp()
