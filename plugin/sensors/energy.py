"""Energy of a kernel: windows that hold the kernel alone, read from the counter first and from power as a cross-check.

Each window lasts at least two seconds: an A100 or H100 senses power during a quarter of the time only (arXiv
2312.02741) and its counter steps every 20–100 ms. Quantisation is avoided, not averaged: the mean power is taken
between the first and the last step inside the window (`energy_math.counter_power_w`, error ≤ reading interval / window,
0.5 % at 10 ms and 2 s), then spread over the window's calls. The windows start at different phases of the sensor.
Energy per call includes the gaps between launches: it is what the window used over the calls it held.

Power and energy ran on an H200. Steps, lag, partial duty, resets and freezes are tested on simulated sensors.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from plugin.sensors.energy_math import MIN_STEPS, change_times_s, counter_power_w, integrate_j
from plugin.sensors.protocol import Sensors
from plugin.sensors.sensor_log import SensorLog
from plugin.timers.clock import time
from results.records.state_records import EnergyReading

DISAGREEMENT_RATIO = 0.10
"""Counter and integral further apart than this deserve a note."""
FIRST_SETTLE_S = 1.0
"""The kernel runs this long before the first window: power rises, and the sensor's period is found."""
SETTLE_S = 0.3
LAG_FACTOR = 1.5
"""A one-second average needs this many times its lag before it shows the kernel alone."""
TIME_FACTOR = 4
"""No further window is begun once this many times the asked time has gone (a kernel of 30 s fills a window alone)."""
MAX_STANDSTILL = 1000
"""Stretches after which the clock had not moved forward before it counts as broken."""
IDLE_STRETCH_S = 0.05
IDLE_SETTLE_S = 1.0


@dataclass(frozen=True, slots=True)
class EnergyWindow:
    """One window: how long, how many calls, and what each source says of it."""

    begin_s: float
    end_s: float
    call_count: int
    counter_power_w: float | None = None
    sampled_power_w: float | None = None
    """Power integrated over the window, divided by its length."""
    change_count: int = 0
    """How often the power reading changed in the window."""

    @property
    def seconds(self) -> float:
        """Length of the window."""
        return self.end_s - self.begin_s

    def per_call_j(self, power_w: float) -> float:
        """Energy of one call at a mean power."""
        return power_w * self.seconds / self.call_count


def measure_energy(
    run: Callable[[], int],
    sensors: Sensors,
    *,
    now: Callable[[], float] = time.perf_counter,
    windows: int = 3,
    window_s: float = 2.0,
    idle_power_w: float | None = None,
    pause: Callable[[float], None] | None = None,
) -> EnergyReading | None:
    """Return the energy per call of what `run` does, or None where no sensor can tell.

    `run()` executes a stretch of kernel calls alone, waits for them and returns how many it made; what it raises passes
    through. A `now` that does not show the real time means simulated time: readings are then taken between stretches
    (keep them to a tenth of the window) and `pause` must advance that clock. A source that changed less than ten times
    in a window is too slow for it and not used; where no source remains, or the sensors freeze, the answer is None.
    """
    log = SensorLog(sensors, now)
    pause = pause if pause is not None else (time.sleep if log.is_real_time else _no_pause)
    if not log.can_tell():
        return None
    spans: list[tuple[float, float, int]] = []
    with log:
        began_s = now()
        for ordinal in range(max(1, windows)):
            if spans and now() - began_s > TIME_FACTOR * windows * window_s:
                break
            if ordinal:  # another phase of the sensor each time
                pause(ordinal / windows * min(0.1, log.period_s() or 0.1))
            settle_s = max(SETTLE_S if ordinal else FIRST_SETTLE_S, LAG_FACTOR * getattr(sensors, "power_lag_s", 0.0))
            if _stretches(run, now, settle_s, log) is None:
                return None
            span = _stretches(run, now, window_s, log)
            if span is None:
                return None
            spans.append(span)
    energies = [_evaluate(log, span) for span in spans]
    return _reading(energies, sensors, log.period_s(), idle_power_w)


def measure_idle_power(
    sensors: Sensors,
    *,
    now: Callable[[], float] = time.perf_counter,
    pause: Callable[[float], None] = time.sleep,
    window_s: float = 2.0,
) -> float | None:
    """Return the mean power while nothing runs, or None where unreadable. Call it when the device has come to rest.

    The counter first, as in `measure_energy`; else the integral of the power readings. `pause` waits, by the clock
    `now`.
    """
    log = SensorLog(sensors, now)
    if not log.can_tell():
        return None

    def rest() -> int:
        pause(IDLE_STRETCH_S)
        return 1

    with log:
        settle_s = max(IDLE_SETTLE_S, LAG_FACTOR * getattr(sensors, "power_lag_s", 0.0))
        if _stretches(rest, now, settle_s, log) is None:
            return None
        span = _stretches(rest, now, window_s, log)
    if span is None:
        return None
    window = _evaluate(log, span)
    return window.counter_power_w if window.counter_power_w is not None else window.sampled_power_w


def disagrees(reading: EnergyReading) -> bool:
    """Return whether counter and integrated power are more than 10 % apart."""
    return reading.disagreement_ratio is not None and abs(reading.disagreement_ratio) > DISAGREEMENT_RATIO


def _stretches(
    run: Callable[[], int], now: Callable[[], float], seconds: float, log: SensorLog
) -> tuple[float, float, int] | None:
    """Run until `seconds` have passed; return (begin, end, calls), or None when the clock stands still or no call was
    made.
    """
    log.tick()
    begin_s = latest_s = now()
    calls = standstill = 0
    while latest_s - begin_s < seconds:
        calls += run()
        log.tick()
        current_s = now()
        standstill += current_s <= latest_s  # a clock that stands still or runs backwards must not hold us for ever
        latest_s = current_s
        if standstill > MAX_STANDSTILL:
            return None
    return (begin_s, latest_s, calls) if calls > 0 else None


def _evaluate(log: SensorLog, span: tuple[float, float, int]) -> EnergyWindow:
    begin_s, end_s, calls = span
    times_s, powers_w, counters_j = log.columns()
    joules = integrate_j(times_s, powers_w, begin_s, end_s)
    changes = [when for when in change_times_s(times_s, powers_w) if begin_s <= when <= end_s]
    return EnergyWindow(
        begin_s,
        end_s,
        calls,
        counter_power_w=counter_power_w(times_s, counters_j, begin_s, end_s),
        sampled_power_w=None if joules is None else joules / (end_s - begin_s),
        change_count=len(changes),
    )


def _reading(
    windows: Sequence[EnergyWindow], sensors: Sensors, period_s: float | None, idle_power_w: float | None
) -> EnergyReading | None:
    """Return the reading from the windows of one source: the counter where most windows have it, else power."""
    counted = [window for window in windows if window.counter_power_w is not None]
    sampled = [window for window in windows if window.sampled_power_w is not None and window.change_count >= MIN_STEPS]
    is_derived = bool(getattr(sensors, "power_is_derived", False))
    uses_counter = 2 * len(counted) > len(windows)
    chosen = counted if uses_counter else [] if is_derived else sampled
    if not chosen:
        return None
    powers = [(window.counter_power_w if uses_counter else window.sampled_power_w) or 0.0 for window in chosen]
    energies = [window.per_call_j(power_w) for window, power_w in zip(chosen, powers, strict=True)]
    checks = [window.per_call_j(window.sampled_power_w) for window in chosen if window.sampled_power_w is not None]
    energy_j = statistics.fmean(energies)
    call_s = statistics.fmean(window.seconds / window.call_count for window in chosen)
    net_j = None if idle_power_w is None else energy_j - idle_power_w * call_s
    return EnergyReading(
        energy_j=energy_j,
        power_w=statistics.fmean(powers),
        window_s=statistics.fmean(window.seconds for window in chosen),
        window_count=len(chosen),
        call_count=sum(window.call_count for window in chosen),
        source=getattr(sensors, "counter_source" if uses_counter else "samples_source", "simulated"),
        scope=sensors.scope,
        std_j=statistics.stdev(energies) if len(energies) > 1 else None,
        idle_power_w=idle_power_w,
        # Idle read higher than the load: one of the two is wrong, and neither difference is an energy.
        net_energy_j=net_j if net_j is not None and net_j > 0 else None,
        cross_check_j=statistics.fmean(checks) if uses_counter and checks and not is_derived else None,
        sensor_period_s=period_s,
    )


def _no_pause(seconds: float) -> None:
    """Simulated time passes only while something runs."""
