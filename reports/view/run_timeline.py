"""The run over time: when each case ran, and the power, clock and temperature that are stored with it.

A record is made when its case ends, so that its time is the interval's right end. Its length is the wall-clock time of the
series (or the last sensor reading, where that is later) plus the windows of energy, which follow the series. What lies
between two intervals is preparation, checks and rests.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reports.cases.rows import CaseRow
from reports.cases.state import state_of
from reports.cases.summary import CaseSummary
from reports.view.run_state import seconds_since, utc_seconds
from results.records.records import RunInfo, TelemetrySample

if TYPE_CHECKING:
    from reports.view.views import ReportView

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
        """What the figure shows and what is not stored, with the option that records it; empty for a run without measured cases."""
        if not self.spans:
            return ""
        channels = self.channels
        if not channels:
            return (
                "No power, clock or temperature is stored with this run, so there is nothing to draw over its time. Where the machine "
                "has sensors --roofline-power records power and energy; clock and temperature come along unless --roofline-no-power is given."
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


def run_timeline(view: ReportView) -> RunTimeline:
    """Return the measured cases of a view over time; cases are numbered through its chips."""
    return spans_over_time(view.run, view.cases)


def spans_over_time(run: RunInfo, cases: Iterable[CaseSummary]) -> RunTimeline:
    """Return the measured rows of cases, numbered from 1, as spans of time since the run began."""
    rows = [(number, row) for number, case in enumerate(cases, 1) for row in case.measured_rows]
    began_s = utc_seconds(run.started_at)
    ends_s = [seconds_since(began_s, row.record.created_at) for _, row in rows]
    has_time_axis = bool(rows) and all(end_s is not None and end_s >= 0 for end_s in ends_s)
    has_sm_clock = any(row.record.measurement and row.record.measurement.sm_clock_hz for _, row in rows)
    spans = [
        _span(number, row, end_s if has_time_axis and end_s is not None else None, place, has_sm_clock=has_sm_clock)
        for place, ((number, row), end_s) in enumerate(zip(rows, ends_s, strict=True))
    ]
    return RunTimeline(tuple(sorted(spans, key=lambda span: span.end_s)), has_time_axis, has_sm_clock)


def reading_of(sample: TelemetrySample, channel: str) -> float | None:
    """Return a channel of one sensor reading."""
    value: float | None = getattr(sample, "sm_clock_hz" if channel == "clock_hz" else channel)
    return value


def _span(number: int, row: CaseRow, end_s: float | None, place: int, *, has_sm_clock: bool) -> CaseSpan:
    record = row.record
    measurement = record.measurement
    assert measurement is not None  # a measured row
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
        name=row.name,
        precision=row.precision,
        process=row.process,
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
        throttled_text="–" if state is None else state.throttled_text,
        is_throttled="capped" in measurement.flags or (bool(reasons) and state is not None and state.is_below_rated),
        readings=readings if end_s is not None else (),
        readings_begin_s=start_s,
    )
