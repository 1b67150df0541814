"""What the machine did while one case was measured, its processes put together: clock, throttling, retries, other load."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median

from reports.cases.summary import CaseSummary
from reports.text.display_text import prefixed, shown
from results.records.records import Measurement
from results.records.state_records import RATED_RATIO, MachineState
from roofline_model.core.units import format_percent, format_time


@dataclass(frozen=True, slots=True)
class CaseState:
    """The worst over the processes of a case, the median for clocks. None: this machine does not tell."""

    clock_hz: float | None
    """Median SM clock."""
    clock_low_hz: float | None
    """Lowest and highest SM clock of a sample; None where clocks are not known per sample."""
    clock_high_hz: float | None
    rated_clock_hz: float | None
    throttled_s: Mapping[str, float] | None
    """Seconds per reason, added over the processes; empty: none, 0: seen when a case ended, its counter had not moved."""
    retry_count: int | None
    others_ratio: float | None
    stolen_ratio: float | None
    device_process_count: int | None
    cpu_clock_hz: float | None
    temperature_c: float | None

    @property
    def clock_text(self) -> str:
        """`1.98 GHz (1.62 to 1.98)`, the range where samples have clocks of their own and differ."""
        text = clock_text(self.clock_hz)
        if self.clock_low_hz is None or self.clock_high_hz is None or self.clock_high_hz <= self.clock_low_hz * 1.0005:
            return text
        return f"{text} ({clock_text(self.clock_low_hz)} to {clock_text(self.clock_high_hz)})"

    @property
    def throttled_text(self) -> str:
        """`power cap 1.2 s, heat seen`; `none`, `none counted` below the rated clock, `–` where the counters cannot be read."""
        if self.throttled_s is None:
            return "–"
        ranked = sorted(self.throttled_s.items(), key=lambda item: -item[1])
        parts = [
            f"{shown(reason, 40)} {format_time(seconds, 2) if seconds > 0 else 'seen, time not counted'}"
            for reason, seconds in ranked
            if seconds > 0 or self.is_below_rated
        ]
        return ", ".join(parts) or ("none counted" if self.is_below_rated else "none")

    @property
    def is_below_rated(self) -> bool:
        """Whether the clock was lower than the chip should hold: something held it down, counted or not."""
        if self.clock_hz is None or self.rated_clock_hz is None:
            return False
        return self.clock_hz < RATED_RATIO * self.rated_clock_hz

    @property
    def load_text(self) -> str:
        """`others 3 %, stolen 0 %`; `–` where neither is known."""
        parts = [("others", self.others_ratio), ("stolen", self.stolen_ratio)]
        return ", ".join(f"{name} {format_percent(ratio, 0)}" for name, ratio in parts if ratio is not None) or "–"


def case_state(summary: CaseSummary) -> CaseState | None:
    """Return the state of a measured case, or None when nothing is known about it."""
    return state_of(summary.measurements)


def state_of(measurements: Iterable[Measurement]) -> CaseState | None:
    """Return the state over some measurements of one case, or None when nothing is known about it."""
    measurements = tuple(measurements)
    states = [measurement.state for measurement in measurements if measurement.state is not None]
    clocks_hz = [clock for measurement in measurements for clock in measurement.clocks_hz]
    typical_hz = [measurement.sm_clock_hz for measurement in measurements if measurement.sm_clock_hz is not None]
    temperatures_c = [
        measurement.temperature_c for measurement in measurements if measurement.temperature_c is not None
    ]
    if not states and not clocks_hz and not typical_hz and not temperatures_c:
        return None
    return CaseState(
        clock_hz=median(typical_hz or clocks_hz) if typical_hz or clocks_hz else None,
        clock_low_hz=min(clocks_hz, default=None),
        clock_high_hz=max(clocks_hz, default=None),
        rated_clock_hz=_largest(state.rated_clock_hz for state in states),
        throttled_s=_throttled(states),
        retry_count=sum(state.retry_count for state in states) if states else None,
        others_ratio=_largest(state.others_ratio for state in states),
        stolen_ratio=_largest(state.stolen_ratio for state in states),
        device_process_count=_most(state.device_process_count for state in states),
        cpu_clock_hz=_typical(state.cpu_clock_hz for state in states),
        temperature_c=max(temperatures_c, default=None),
    )


def clock_text(clock_hz: float | None) -> str:
    """Print a clock as `1.98 GHz` or `810 MHz`; missing → `–`."""
    return prefixed(clock_hz, "Hz", 4)


def _throttled(states: list[MachineState]) -> dict[str, float] | None:
    known = [state.throttled_s for state in states if state.throttled_s is not None]
    if not known:
        return None
    total: Counter[str] = Counter()
    for one in known:
        for reason, seconds in one.items():
            total[reason] += seconds  # type: ignore[assignment]  # a Counter adds floats as well
    return dict(total)


def _largest(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _most(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


def _typical(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None
