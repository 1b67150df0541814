"""Warm-up before the first sample: long enough for code and clocks to settle, or until power and clock are flat.

`eager`, `graph` and `burst` warm code and caches up for a moment. `sustained` runs the kernel until the machine no
longer changes: clocks of a chip at its power limit swing for about 3 s (CUTLASS's measurement guideline).
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median

from plugin.samples.plan import MeasurePlan
from plugin.sensors.protocol import Sensors
from plugin.timers.rotation import Rotation
from plugin.timers.timers import Kernel, Timer

WARMUP_S = 0.05
WARMUP_CALLS = 3
LONG_WARMUP_S = 1.0
"""The warm-up of a slow kernel ends here, whatever its calls."""
WAKE_S = 5e-4
STRETCH_S = 0.025
"""One look at the machine while it becomes steady."""
FLAT_WINDOW_S = 0.5
FLAT_RATIO = 0.01
"""Power and clock are flat when the halves of the window differ by at most this."""
FLAT_TIME_RATIO = 0.03
"""Without a sensor the time per call has to be flat; it is noisier."""
STEADY_LIMIT_S = 10.0


@dataclass(frozen=True, slots=True)
class WarmUp:
    """Result of a warm-up."""

    calls: int
    per_call_s: float
    """Fastest seconds per call seen; infinite where the kernel is not run."""
    is_steady: bool = True
    """False when a sustained case gave up waiting for power and clock to become flat."""


@dataclass(slots=True)
class Steadiness:
    """Readings of the last half second; flat when the two halves of every reading agree."""

    readings: deque[tuple[float, tuple[float | None, ...]]] = field(default_factory=deque)

    def add(self, now_s: float, time_per_call_s: float, clock_hz: float | None, power_w: float | None) -> None:
        """Take one look."""
        self.readings.append((now_s, (time_per_call_s, clock_hz, power_w)))
        while self.readings and now_s - self.readings[0][0] > 2 * FLAT_WINDOW_S:
            self.readings.popleft()

    @property
    def is_flat(self) -> bool:
        """Whether a whole window was seen and nothing moved in it."""
        if not self.readings:
            return False
        end = self.readings[-1][0]
        window = [(at, values) for at, values in self.readings if end - at <= FLAT_WINDOW_S]
        if self.readings[0][0] > end - FLAT_WINDOW_S or len(window) < 4:
            return False
        times, clocks, powers = zip(*(values for _, values in window), strict=True)
        sensed = [values for values in (clocks, powers) if None not in values]
        if sensed:
            return all(_is_flat(values, FLAT_RATIO) for values in sensed)
        return _is_flat(times, FLAT_TIME_RATIO)


def _is_flat(values: Sequence[float], allowed_ratio: float) -> bool:
    half = len(values) // 2
    first, last = median(values[:half]), median(values[-half:])
    return first > 0 and abs(last - first) <= allowed_ratio * first


def warm_up(
    kernel: Kernel, timer: Timer, rotation: Rotation, plan: MeasurePlan, sensors: Sensors | None = None
) -> WarmUp:
    """Run the kernel as its mode asks; returns the calls made and the seconds of one."""
    if timer.runs_kernel:
        calls, per_call_s = _settle(kernel, timer, rotation, plan.flush)
    else:
        calls, per_call_s = 0, math.inf
    if plan.mode != "sustained":
        return WarmUp(calls, per_call_s)
    more, is_steady = _run_until_steady(kernel, timer, rotation, plan.flush, per_call_s, sensors)
    return WarmUp(calls + more, per_call_s, is_steady)


def _settle(kernel: Kernel, timer: Timer, rotation: Rotation, flush: Callable[[], None] | None) -> tuple[int, float]:
    """Call until code, clocks and caches have settled a little; return the calls made and the seconds of one.

    Every operand set is called once where that is quick. A kernel of seconds is called once: its first call has done
    the loading, and three more would cost minutes.
    """
    calls, batch = 0, 1
    sets = min(len(rotation.sets), 64)
    began, device_began = time.perf_counter(), timer.now()
    per_call = math.inf
    while True:
        per_call = min(per_call, timer.sample(kernel, rotation.schedule(calls, batch), flush))
        calls += batch
        if timer.now() - device_began >= LONG_WARMUP_S:
            return calls, per_call
        if time.perf_counter() - began >= WARMUP_S and calls >= max(WARMUP_CALLS, sets):
            return calls, per_call
        batch = 1 if flush else min(2 * batch, 4096)


def _run_until_steady(
    kernel: Kernel,
    timer: Timer,
    rotation: Rotation,
    flush: Callable[[], None] | None,
    per_call_s: float,
    sensors: Sensors | None,
) -> tuple[int, bool]:
    """Run stretches of the kernel until power and clock are flat; return the calls made and whether they became so."""
    steadiness = Steadiness()
    begin, began = timer.now(), time.perf_counter()
    calls = 0
    while True:
        finite_per_call_s = per_call_s if math.isfinite(per_call_s) and per_call_s > 0 else STRETCH_S
        batch = 1 if flush else min(100_000, max(1, round(STRETCH_S / finite_per_call_s)))
        try:
            value = timer.sample(kernel, rotation.schedule(calls, batch), flush)
        except StopIteration:  # a replay ends: its samples are all there is
            return calls, True
        calls += batch
        per_call_s = value if math.isfinite(value) and value > 0 else per_call_s
        clock_hz = timer.last_clock_hz if sensors is None else (sensors.sm_clock_hz() or timer.last_clock_hz)
        time_now = timer.now()
        steadiness.add(time_now, per_call_s, clock_hz, None if sensors is None else sensors.power_w())
        if steadiness.is_flat:
            return calls, True
        # The second clock is for a timer whose own stands still.
        if time_now - begin >= STEADY_LIMIT_S or time.perf_counter() - began >= STEADY_LIMIT_S:
            return calls, False
