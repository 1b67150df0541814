"""The machine over a whole run: canary readings and what they quarantined, workers that ended, and the cases with their
power, clock and temperature over time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from reports.present.cases import case_precision, name_of, throttled_text
from reports.present.display_text import counted, shown
from results.cases.case_result import CaseResult
from results.cases.state import state_of
from results.records.plain_form import read_findings
from results.records.records import Record, RunInfo, TelemetrySample
from results.records.state_records import CanaryReading
from roofline_model.core.finding import advice_text
from roofline_model.core.units import format_speedup, format_time


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
            return f"{count}, none slow (at most {format_speedup(worst)} the usual time)."
        worst = max(canary.slowdown_ratio for canary in slow)
        return f"{count}, {len(slow)} slow: up to {format_speedup(worst)} the usual time."


def run_state(
    run: RunInfo, summaries: Iterable[CaseResult], records: Iterable[Record], canaries: Iterable[CanaryReading]
) -> RunState:
    """Return the state of a run; `summaries` name the cases, `records` the processes."""
    readings = sorted(canaries, key=lambda canary: (canary.created_at, canary.process_ordinal, canary.ordinal))
    records, summaries = tuple(records), tuple(summaries)
    start_s = utc_seconds(run.started_at)
    held = [record for record in records if record.measurement and "quarantined" in record.measurement.flags]
    offsets_s = [seconds_since(start_s, reading.created_at) for reading in held]
    return RunState(
        canaries=tuple(_point(reading, readings, seconds_since(start_s, reading.created_at)) for reading in readings),
        quarantined_offsets_s=tuple(offset_s for offset_s in offsets_s if offset_s is not None),
        quarantined=tuple(shown(summary.case.id, 160) for summary in summaries if "quarantined" in summary.flags),
        capped=tuple(shown(summary.case.id, 160) for summary in summaries if "capped" in summary.flags),
        restarts=_restarts(records),
        warnings=_stored_warnings(run),
    )


def _point(reading: CanaryReading, readings: list[CanaryReading], offset_s: float | None) -> CanaryPoint:
    usual_s = reading.reference_s
    if not usual_s or usual_s <= 0:
        usual_times_s = [other.time_s for other in readings if other.kernel == reading.kernel and not other.is_slow]
        usual_s = median(usual_times_s or [reading.time_s])
    slowdown_ratio = reading.time_s / usual_s if usual_s > 0 else 1.0
    kernel = shown(reading.kernel, 60)
    clock = reading.created_at[11:19] if utc_seconds(reading.created_at) is not None else f"reading {reading.ordinal}"
    text = (
        f"{shown(clock, 20)} UTC, process {reading.process_ordinal}: {kernel} took {format_time(reading.time_s, 3)}, "
        f"{format_speedup(slowdown_ratio)} its usual {format_time(usual_s, 3)}"
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


CHANNELS = ("power_w", "clock_hz", "temperature_c")
"""What is drawn over time, from the top."""


@dataclass(frozen=True, slots=True)
class CaseSpan:
    """One case in one process. SI units; None: not stored."""

    ordinal: int
    """Of the case in the table of all cases, from 1."""
    name: str
    precision: str
    process: int
    begin_s: float
    """Since the run began; where a record has no usable time, all spans stand in their order, one unit each."""
    end_s: float
    power_w: float | None
    """Mean over the windows of energy, gross."""
    idle_power_w: float | None
    energy_j: float | None
    """Per call, gross."""
    clock_hz: float | None
    """Median SM clock; of a run that has none, the mean clock of the CPUs in use."""
    clock_low_hz: float | None
    """Lowest and highest SM clock of a sample."""
    clock_high_hz: float | None
    rated_clock_hz: float | None
    temperature_c: float | None
    throttled_text: str
    is_throttled: bool
    """Whether the clock was held down: flagged so, or below its rated value with a reason."""
    readings: tuple[TelemetrySample, ...]
    """Of the sensors while the series ran, in order."""
    readings_begin_s: float
    """When their time is 0."""

    def has(self, channel: str) -> bool:
        """Return whether an average or a reading of a channel is there."""
        return getattr(self, channel) is not None or any(
            reading_of(reading, channel) is not None for reading in self.readings
        )


@dataclass(frozen=True, slots=True)
class RunTimeline:
    """All spans of a run, in the order of time."""

    spans: tuple[CaseSpan, ...]
    has_time_axis: bool
    has_sm_clock: bool

    @property
    def channels(self) -> tuple[str, ...]:
        """The channels of which anything is stored."""
        return tuple(name for name in CHANNELS if any(span.has(name) for span in self.spans))

    @property
    def reading_count(self) -> int:
        """Readings over time of any channel, of all spans."""
        return sum(
            any(reading_of(reading, name) is not None for name in CHANNELS)
            for span in self.spans
            for reading in span.readings
        )

    @property
    def sentence(self) -> str:
        """What the figure shows and what is not stored, with the option that records it; empty for a run without
        measured cases.
        """
        if not self.spans:
            return ""
        channels = self.channels
        if not channels:
            return (
                "No power, clock or temperature is stored with this run, so there is nothing to draw over its time. "
                "Where the machine "
                "has sensors --roofline-power records power and energy; clock and temperature come along unless "
                "--roofline-no-power is given."
            )
        drawn = (
            "Lines are sensor readings, steps the average of a case."
            if self.reading_count
            else "Only averages per case are stored: each step is one case."
        )
        lacking = [_RECORDED_BY[name] for name in CHANNELS if name not in channels]
        return f"{drawn} Not stored: {'; '.join(lacking)}." if lacking else drawn


_RECORDED_BY = {
    "power_w": "power and energy (--roofline-power records them where a sensor can be read)",
    "clock_hz": "the clock (read along where the device has sensors, unless --roofline-no-power is given)",
    "temperature_c": "the temperature (read along where the device has sensors, unless --roofline-no-power is given)",
}


def spans_over_time(run: RunInfo, cases: Iterable[CaseResult]) -> RunTimeline:
    """Return the timed records of cases, numbered from 1, as spans of time since the run began."""
    rows = [(number, each) for number, case in enumerate(cases, 1) for each in case.by_timed_record]
    began_s = utc_seconds(run.started_at)
    ends_s = [seconds_since(began_s, each.lead.created_at) for _, each in rows]
    has_time_axis = bool(rows) and all(end_s is not None and end_s >= 0 for end_s in ends_s)
    has_sm_clock = any(each.lead.measurement and each.lead.measurement.sm_clock_hz for _, each in rows)
    spans = [
        _span(number, each, end_s if has_time_axis and end_s is not None else None, place, has_sm_clock=has_sm_clock)
        for place, ((number, each), end_s) in enumerate(zip(rows, ends_s, strict=True))
    ]
    return RunTimeline(tuple(sorted(spans, key=lambda span: span.end_s)), has_time_axis, has_sm_clock)


def reading_of(sample: TelemetrySample, channel: str) -> float | None:
    """Return a channel of one sensor reading."""
    value: float | None = getattr(sample, "sm_clock_hz" if channel == "clock_hz" else channel)
    return value


def _span(number: int, timed: CaseResult, end_s: float | None, place: int, *, has_sm_clock: bool) -> CaseSpan:
    record = timed.lead
    measurement = record.measurement
    assert measurement is not None  # it is timed
    energy, readings = measurement.energy, record.telemetry
    is_simulated = "simulated" in measurement.flags  # its windows are seconds of its own clock: nothing waited for them
    windows_s = 0.0 if energy is None or is_simulated else energy.window_s * energy.window_count
    series_s = max(measurement.wall_s or 0.0, readings[-1].time_s if readings else 0.0)
    stop_s = float(place + 1) if end_s is None else end_s
    start_s = float(place) if end_s is None else max(end_s - windows_s - series_s, 0.0)
    state = state_of([measurement])
    cpu_clock_hz = None if state is None or has_sm_clock else state.cpu_clock_hz
    reasons = {} if state is None else state.throttled_s or {}
    return CaseSpan(
        ordinal=number,
        name=name_of(timed.case),
        precision=case_precision(timed.case),
        process=record.process.ordinal,
        begin_s=start_s,
        end_s=stop_s,
        power_w=measurement.power_w,
        idle_power_w=None if energy is None else energy.idle_power_w,
        energy_j=measurement.energy_j,
        clock_hz=measurement.sm_clock_hz or cpu_clock_hz,
        clock_low_hz=None if state is None else state.clock_low_hz,
        clock_high_hz=None if state is None else state.clock_high_hz,
        rated_clock_hz=None if state is None else state.rated_clock_hz,
        temperature_c=measurement.temperature_c,
        throttled_text="–" if state is None else throttled_text(state),
        is_throttled="capped" in measurement.flags or (bool(reasons) and state is not None and state.is_below_rated),
        readings=readings if end_s is not None else (),
        readings_begin_s=start_s,
    )
