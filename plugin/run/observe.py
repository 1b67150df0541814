"""One measurement with everything that was seen beside it: sensors, machine state, retries, energy, kernel attribution.

The runner times; this watches. A case whose clock was held down is measured again after a rest, at most a few times;
what is still held down is kept and flagged, never dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from statistics import median

from plugin.machine.state_warnings import StateWatch
from plugin.run.instruments import Instruments
from plugin.run.runner import run_interleaved
from plugin.run.telemetry import Telemetry, median_of
from plugin.samples.kernel_call import KernelCall
from plugin.samples.plan import MeasurePlan
from plugin.samples.series import CaseTiming
from plugin.sensors.energy import disagrees, measure_energy, measure_idle_power
from plugin.sensors.protocol import Sensors
from plugin.sensors.throttle import RetrySchedule, is_capped
from plugin.timers.nvtx import case_range
from plugin.timers.timers import Timer
from results.records.records import TelemetrySample
from results.records.state_records import EnergyReading, KernelAttribution, MachineState

ENERGY_STRETCH_S = 0.2
"""Kernel calls between two waits in an energy window: long enough that the waits do not count."""
SIMULATED_STRETCH_S = 0.01
"""A simulated device is read between stretches, so that they must be shorter than its sensor's period."""
PACE_RATIO = 0.1
"""A kernel this much slower or faster in the energy windows had another clock or other gaps than when it was timed."""
MAX_ENERGY_CALLS = 20_000
TRACED_CALLS = 32


@dataclass(frozen=True, slots=True)
class Observed:
    """What was found about one kernel, and about the machine meanwhile."""

    timing: CaseTiming
    telemetry: tuple[TelemetrySample, ...]
    state: MachineState
    flags: tuple[str, ...]
    """Of the samples and of the machine."""
    clock_hz: float | None = None
    """Median SM clock: of the samples where they know it, else of the sensor."""
    energy: EnergyReading | None = None
    attribution: KernelAttribution | None = None


def observe(
    name: str, kernels: Mapping[str, tuple[KernelCall, Timer]], plan: MeasurePlan, instruments: Instruments
) -> dict[str, Observed]:
    """Measure the kernels side by side, again while the clock is held down, and say what the machine did.

    `name` is the range that profilers show. Raises what the runner raises.
    """
    __tracebackhide__ = True
    retries = RetrySchedule()
    first_calls_s: dict[str, float] = {}
    timer = next(iter(kernels.values()))[1]
    sensors = sensors_of(timer, instruments)
    while True:
        contestants = {
            label: (call, timer, instruments.make_rule(plan.mode)) for label, (call, timer) in kernels.items()
        }
        with (
            Telemetry(sensors if timer.runs_kernel else None) as telemetry,
            case_range(name),
            StateWatch(sensors, instruments.watched_device(timer), timer.idle) as watch,
        ):
            timings = run_interleaved(contestants, plan, sensors)
        for label, timing in timings.items():
            first_calls_s.setdefault(label, timing.first_call_s)
        clock_hz = _clock(timings, telemetry)
        state = _with_active_reasons(watch.state, watch.active_reasons, clock_hz)
        capped = plan.mode != "sustained" and is_capped(
            state.throttled_s, clock_hz, state.rated_clock_hz, watch.active_reasons
        )
        rest_s = retries.next_rest_s() if capped else None
        if rest_s is None:
            break
        timings.clear()  # the operands of this try, before the next one makes its own
        timer.idle(rest_s)
    state = replace(state, retry_count=retries.count)
    extra = (*watch.flags(), *(["capped"] if capped else []))
    return {
        label: Observed(
            timing=replace(timing, first_call_s=first_calls_s[label]),
            telemetry=telemetry.samples,
            state=state,
            flags=tuple(dict.fromkeys([*timing.flags, *extra])),
            clock_hz=clock_hz,
        )
        for label, timing in timings.items()
    }


def sensors_of(timer: Timer, instruments: Instruments) -> Sensors | None:
    """Return the sensors that belong to a timer: the simulated device brings its own."""
    own: Sensors | None = getattr(timer, "sensors", None)
    return own if own is not None or not timer.runs_kernel else instruments.sensors


def with_energy(
    observed: Observed, call: KernelCall, timer: Timer, plan: MeasurePlan, instruments: Instruments
) -> Observed:
    """Add the energy of windows that hold the kernel alone; as it was where no sensor can tell.

    Not for flushed cases: without the flushes the windows would hold a warm kernel, with them the flushes.
    """
    sensors = sensors_of(timer, instruments)
    if sensors is None or plan.flush is not None:
        return observed
    timing = observed.timing
    if timing.graph_schedule is not None:
        schedule = timing.graph_schedule
    else:
        stretch_s = ENERGY_STRETCH_S if timer.runs_kernel else SIMULATED_STRETCH_S
        schedule = timing.rotation.schedule(0, min(MAX_ENERGY_CALLS, max(1, int(stretch_s / timing.stats.median_s))))

    def run() -> int:
        if timing.graph_schedule is not None or not timer.runs_kernel:
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
        return observed
    flags = list(observed.flags)
    if abs(energy.call_s / timing.stats.median_s - 1) > PACE_RATIO:
        flags.append("energy-pace")
    if disagrees(energy):
        flags.append("energy-disagrees")
    return replace(observed, energy=energy, flags=tuple(flags))


def with_attribution(observed: Observed, call: KernelCall, timer: Timer, plan: MeasurePlan) -> Observed:
    """Add what ran on the device per call; raises `UnsupportedError` where that cannot be traced."""
    from plugin.timers.cupti import attribute

    schedule = observed.timing.rotation.schedule(0, TRACED_CALLS)
    return replace(observed, attribution=attribute(call.kernel, schedule, timer.synchronize, plan.flush))


def _with_active_reasons(state: MachineState, active: Sequence[str], clock_hz: float | None) -> MachineState:
    """Return the state with the reasons active at the end of a case of low clock, 0 s where no counter moved for them."""
    if not active or not is_capped(None, clock_hz, state.rated_clock_hz, active):
        return state
    return replace(state, throttled_s=dict.fromkeys(active, 0.0) | dict(state.throttled_s or {}))


def _clock(timings: Mapping[str, CaseTiming], telemetry: Telemetry) -> float | None:
    """Return the median SM clock of the samples, else of the sensor, else None."""
    clocks = list(chain.from_iterable(timing.clocks_hz for timing in timings.values()))
    return median(clocks) if clocks else median_of(telemetry.samples, "sm_clock_hz")
