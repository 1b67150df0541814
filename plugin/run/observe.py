"""One measurement with what was recorded beside it: sensors, machine state, retries, energy, kernel attribution.

The runner times the kernel; this module reads the sensors. When the clock was throttled during a case, the case is
measured again after a rest, a few times at most. A case that stays throttled is kept and flagged.

A background thread reads the sensors while a case runs. Reading more often than a sensor updates costs the host and
tells nothing: the thread begins at 10 ms and slows to the period it finds (`energy_math.infer_period_s`), never slower
than 0.1 s, and starts there the next time. Sensors may name their period themselves (`reading_period_s`, a CPU's do);
sensors that tell nothing at all are not read on. A sensor that freezes is left behind: the end of a case waits 0.2 s at
most, and no second thread is started while one is stuck.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from statistics import median
from typing import Any

from plugin.machine.state_warnings import StateWatch
from plugin.run.instruments import Instruments
from plugin.run.runner import run_interleaved
from plugin.samples.kernel_call import KernelCall
from plugin.samples.plan import MeasurePlan
from plugin.samples.series import MeasuredKernel, Series
from plugin.samples.stats import quantile
from plugin.sensors.bounded_sensors import bounded, unbounded
from plugin.sensors.energy import disagrees, measure_energy, measure_idle_power
from plugin.sensors.energy_math import infer_period_s
from plugin.sensors.protocol import Sensors
from plugin.sensors.throttle import RETRY_RESTS_S, is_capped
from plugin.timers.clock import time
from plugin.timers.profiler import nvtx_range, range_name
from plugin.timers.timers import Timer
from results.records.records import TelemetrySample
from results.records.state_records import MachineState
from roofline_model.core.errors import UnsupportedError

ENERGY_STRETCH_S = 0.2
"""Kernel calls between two waits in an energy window: long enough that the waits do not count."""
SIMULATED_STRETCH_S = 0.01
"""A simulated device is read between stretches, so that they must be shorter than its sensor's period."""
PACE_RATIO = 0.1
"""A kernel this much slower or faster in the energy windows had another clock or other gaps than when it was timed."""
MAX_ENERGY_CALLS = 20_000
TRACED_CALLS = 32


def observe(
    name: str,
    kernels: Mapping[str, tuple[KernelCall, Timer]],
    plan: MeasurePlan,
    instruments: Instruments,
    *,
    share: float = 1.0,
    opened: dict[str, Series] | None = None,
) -> dict[str, MeasuredKernel]:
    """Measure the kernels side by side, again while the clock is held down, and say what the machine did.

    `name` is the range that profilers show. `share` of the sampling budget is spent; `opened` is given the series, to
    be sampled on later. Raises what the runner raises.
    """
    __tracebackhide__ = True
    first_calls_s: dict[str, float | None] = {}
    timer = next(iter(kernels.values()))[1]
    sensors = sensors_of(timer, instruments)
    for retry_count, rest_s in enumerate((*RETRY_RESTS_S, None)):
        contestants = {
            label: (call, timer, instruments.make_rule(plan.mode, share)) for label, (call, timer) in kernels.items()
        }
        with (
            Telemetry(sensors, now=None if timer.runs_kernel else timer.now) as telemetry,
            nvtx_range(range_name(name)),
            StateWatch(sensors, instruments.watched_device(timer), timer.idle) as watch,
        ):
            measured = run_interleaved(contestants, plan, sensors, after_round=telemetry.tick, opened=opened)
        for label, kernel in measured.items():
            first_calls_s.setdefault(label, kernel.measurement.first_call_s)
        of_sensor_hz = median_of(
            telemetry.samples, "sm_clock_hz"
        )  # of all kernels, where they have no clock of their own
        clocks_hz = {
            label: median(own_hz) if (own_hz := kernel.measurement.clocks_hz) else of_sensor_hz
            for label, kernel in measured.items()
        }
        seen = replace(watch.state, retry_count=retry_count)
        states = {
            label: _with_active_reasons(seen, watch.active_reasons, clock_hz) for label, clock_hz in clocks_hz.items()
        }
        capped_labels = {
            label
            for label, state in states.items()
            if plan.mode != "sustained"
            and is_capped(state.throttled_s, clocks_hz[label], state.rated_clock_hz, watch.active_reasons)
        }
        if rest_s is None or not capped_labels:
            break
        measured.clear()  # the operands of this try, before the next one makes its own
        timer.idle(rest_s)
    machine_flags = watch.flags()
    temperature_c = median_of(telemetry.samples, "temperature_c")
    for label, kernel in measured.items():
        flags = [*kernel.measurement.flags, *machine_flags, *(["capped"] if label in capped_labels else [])]
        measurement = replace(
            kernel.measurement,
            first_call_s=first_calls_s[label],
            sm_clock_hz=clocks_hz[label],
            temperature_c=temperature_c,
            flags=tuple(dict.fromkeys(flags)),
            state=states[label],
        )
        measured[label] = replace(kernel, measurement=measurement, telemetry=telemetry.samples)
    return measured


def sensors_of(timer: Timer, instruments: Instruments) -> Sensors | None:
    """Return the sensors that belong to a timer: the simulated device brings its own."""
    timer_sensors: Sensors | None = getattr(timer, "sensors", None)
    return timer_sensors if timer_sensors is not None or not timer.runs_kernel else instruments.sensors


def with_energy(
    measured: MeasuredKernel, call: KernelCall, timer: Timer, plan: MeasurePlan, instruments: Instruments
) -> MeasuredKernel:
    """Add the energy of windows that hold the kernel alone; as it was where no sensor can tell.

    Not for flushed cases: without the flushes the windows would hold a warm kernel, with them the flushes.
    """
    sensors = sensors_of(timer, instruments)
    if sensors is None or plan.flush is not None:
        return measured
    measurement = measured.measurement
    if measured.graph_schedule is not None:
        schedule = measured.graph_schedule
    else:
        stretch_s = ENERGY_STRETCH_S if timer.runs_kernel else SIMULATED_STRETCH_S
        schedule = measured.rotation.schedule(0, min(MAX_ENERGY_CALLS, max(1, int(stretch_s / measurement.median_s))))

    def run() -> int:
        if measured.graph_schedule is not None or not timer.runs_kernel:
            timer.sample(call.kernel, schedule)
        else:
            for arguments in schedule:  # not through the timer: its blocking kernel would be in the window
                call.kernel(*arguments)
        timer.synchronize()
        return len(schedule)

    pause = None if timer.runs_kernel else timer.idle
    if pause is None:
        idle_power_w = instruments.idle_power_w
    else:
        idle_power_w = measure_idle_power(sensors, now=timer.now, pause=pause)
    energy = measure_energy(run, sensors, now=timer.now, idle_power_w=idle_power_w, pause=pause)
    if energy is None:
        return measured
    flags = list(measurement.flags)
    if abs(energy.call_s / measurement.median_s - 1) > PACE_RATIO:
        flags.append("energy-pace")
    if disagrees(energy):
        flags.append("energy-disagrees")
    measurement = replace(
        measurement,
        energy=energy,
        power_w=energy.power_w,
        energy_j=energy.energy_j,
        power_source=energy.source,
        flags=tuple(flags),
    )
    return replace(measured, measurement=measurement)


def with_attribution(measured: MeasuredKernel, call: KernelCall, timer: Timer, plan: MeasurePlan) -> MeasuredKernel:
    """Add what ran on the device per call; where that cannot be traced, a flag, and a warning that says why."""
    from plugin.timers.cupti import attribute

    schedule, measurement = measured.rotation.schedule(0, TRACED_CALLS), measured.measurement
    try:
        attribution = attribute(call.kernel, schedule, timer.synchronize, plan.flush)
    except UnsupportedError as error:
        warnings.warn(str(error), stacklevel=2)
        measurement = replace(measurement, flags=(*measurement.flags, "not-attributed"))
    else:
        measurement = replace(measurement, attribution=attribution)
    return replace(measured, measurement=measurement)


def _with_active_reasons(state: MachineState, active: Sequence[str], clock_hz: float | None) -> MachineState:
    """Return the state with the reasons active at the end of a case of low clock, 0 s where no counter moved for
    them.
    """
    if not active or not is_capped(None, clock_hz, state.rated_clock_hz, active):
        return state
    return replace(state, throttled_s=dict.fromkeys(active, 0.0) | dict(state.throttled_s or {}))


PERIOD_S = 0.010
MAX_PERIOD_S = 0.1
JOIN_S = 0.2
LEARNING_READINGS = 100
"""After this many readings the sensor's period is looked for."""
SILENT_READINGS = 3
"""Sensors that have told nothing in this many readings have nothing to tell."""


class Telemetry:
    """Samples the sensors of one device between `with` and its end; sensors of None give empty results.

    `now`: the clock of a simulated device, whose sensors no thread can read: `tick` then does, between its samples.
    """

    def __init__(
        self, sensors: Sensors | None, period_s: float | None = None, now: Callable[[], float] | None = None
    ) -> None:
        self._now = now
        inner = None if sensors is None else unbounded(sensors)
        self._sensors: Sensors | None = getattr(inner, "beside_work", lambda: inner)()
        self._guard = None if sensors is None else bounded(sensors)
        self._given_s = period_s if period_s is not None else getattr(self._sensors, "reading_period_s", None)
        learnt_s = None if self._guard is None else self._guard.state.period_s
        self.period_s: float = self._given_s or learnt_s or PERIOD_S
        """Time between two readings."""
        self._stop = threading.Event()
        self._samples: list[TelemetrySample] = []

    def __enter__(self) -> Telemetry:
        # The thread holds what it works on: one that was left behind frozen cannot write into the next window.
        self._samples, self._stop, self._thread = [], threading.Event(), None
        if self._now is not None:
            self._began_s = self._now()
        elif self._sensors is not None and self._guard is not None and not self._guard.is_frozen:
            self._thread = threading.Thread(
                target=self._loop,
                args=(self._sensors, self._samples, self._stop, time.perf_counter()),
                name="roofline-telemetry",
                daemon=True,
            )
            self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._stop.set()
        if self._thread is not None and self._guard is not None:
            self._guard.wait_for(self._thread, JOIN_S)
            self._thread = None

    def tick(self) -> None:
        """Take a reading of a simulated device where one is due by its clock; a real device's thread needs none."""
        if self._sensors is None or self._now is None:
            return
        time_s = self._now() - self._began_s
        if self._samples and time_s - self._samples[-1].time_s < self.period_s:
            return
        sample = _read(self._sensors, time_s)
        if sample is not None and _tells(sample):
            self._samples.append(sample)

    def _loop(self, sensors: Sensors, samples: list[TelemetrySample], stop: threading.Event, began_s: float) -> None:
        while not stop.wait(self.period_s):
            sample = _read(sensors, time.perf_counter() - began_s)
            if sample is None:
                return  # sensors never raise; these do, and would go on doing so
            if stop.is_set():
                return
            samples.append(sample)
            if len(samples) == SILENT_READINGS and not any(map(_tells, samples)):
                samples.clear()
                return
            if len(samples) == LEARNING_READINGS and self._given_s is None:
                self._learn(samples)

    def _learn(self, samples: list[TelemetrySample]) -> None:
        found_s = infer_period_s([sample.time_s for sample in samples], [sample.power_w for sample in samples])
        self.period_s = min(MAX_PERIOD_S, max(PERIOD_S, found_s or PERIOD_S))
        if found_s is not None and self._guard is not None:
            self._guard.state.period_s = self.period_s

    @property
    def samples(self) -> tuple[TelemetrySample, ...]:
        """The readings of the last window, in order."""
        return tuple(self._samples)


def median_of(samples: tuple[TelemetrySample, ...], name: str) -> float | None:
    """Return the median of one sensor over a window, or None when it was never readable."""
    values = sorted(value for value in (getattr(sample, name) for sample in samples) if value is not None)
    return quantile(values, 0.5) if values else None


_READINGS = tuple(field.name for field in fields(TelemetrySample) if field.name != "time_s")


def _read(sensors: Sensors, time_s: float) -> TelemetrySample | None:
    try:
        values = {name: getattr(sensors, name)() for name in _READINGS}
    except Exception:
        return None
    return TelemetrySample(time_s=time_s, **values)


def _tells(sample: TelemetrySample) -> bool:
    return any(getattr(sample, name) is not None for name in _READINGS)
