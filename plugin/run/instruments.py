"""Instruments of a case: the timer for its mode, the stopping rule, the cache to defeat, and the method's name.

Made from the options and the target once per session; cheap, opens no device until it is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import plugin
from plugin.machine.canary import CALLS, CanaryKeeper, make_canary_kernel
from plugin.machine.facts import find_machine
from plugin.run.options import BenchOptions
from plugin.run.target import Target
from plugin.samples.plan import MeasurePlan
from plugin.samples.series import MedianInterval
from plugin.sensors.bounded_sensors import bounded
from plugin.sensors.energy import measure_idle_power
from plugin.sensors.nvml import open_nvml_device
from plugin.sensors.protocol import Sensors
from plugin.sensors.rapl import open_cpu_sensors
from plugin.simulate.simulated_device import SimulatedDevice
from plugin.simulate.simulated_settings import SimulatedSettings
from plugin.simulate.simulated_timer import SimulatedTimer
from plugin.timers.replay import ReplayTimer
from plugin.timers.timers import MonotonicTimer, Timer
from results.records.records import Method
from results.records.state_records import CanaryReading
from roofline_model.chips.free_memory import free_system_bytes
from roofline_model.core.errors import InvalidValueError, UnsupportedError
from roofline_model.core.finding import Finding, finding
from roofline_model.operators.case import Case

BURST_BUDGET_FACTOR = 5
"""A burst is mostly rest: it gets this many times the sampling budget, rest included."""

_SIMULATED_CANARY_S = 1e-3
_TIMERS = ("auto", "monotonic", "cuda-event", "simulated", "replay")


class Instruments:
    """Timers, rules and limits of one session. Raises a `RooflineError` for a timer that cannot be had here."""

    def __init__(self, options: BenchOptions, folder: Path, target: Target) -> None:
        self._options = options
        self._target = target
        self._replay: ReplayTimer | None = None
        self.pass_number = 1
        """Which of a case's fresh processes this is (`--roofline-processes`): a simulated device is a little different
        in each.
        """
        timer_name, _, argument = options.timer.partition(":")
        if timer_name not in _TIMERS:
            raise InvalidValueError(
                f"--roofline-timer {timer_name!r} is unknown; use auto, monotonic, cuda-event, simulated[:…] or "
                "replay:FILE"
            )
        if timer_name == "replay":
            self._replay = ReplayTimer.from_file(folder / argument)
        self._simulated: SimulatedDevice | None = None
        if timer_name == "simulated":
            self._simulated = SimulatedDevice(
                SimulatedSettings.from_text(argument)
            )  # one for all cases, as they share a GPU
        if timer_name == "monotonic" and target.device == "cuda":
            raise UnsupportedError(
                "--roofline-timer monotonic cannot time a GPU, whose work goes on after a call returns; use cuda-event"
            )
        if timer_name == "cuda-event" and target.device == "cpu":
            raise UnsupportedError("--roofline-timer cuda-event needs kernels on a GPU; use monotonic on a CPU")

    @property
    def runs_on_gpu(self) -> bool:
        """Whether kernels are timed on a real GPU."""
        return self._target.device == "cuda" and not self._options.is_simulated

    def watched_device(self, timer: Timer) -> str | None:
        """Return whose state is watched beside a timer: cpu, cuda, or None where it runs nothing on this machine."""
        return self._target.device if timer.runs_kernel else None

    @property
    def sensors(self) -> Sensors | None:
        """The sensors of the device that is measured, guarded against a driver that blocks.

        None where there are none, where nothing real is measured, and with --roofline-no-power.
        """
        return self._sensors_or_reason[0]

    @property
    def no_sensors_reason(self) -> Finding | None:
        """Why no power can be read here; None where it can, and where nobody asks."""
        return self._sensors_or_reason[1]

    @cached_property
    def _sensors_or_reason(self) -> tuple[Sensors | None, Finding | None]:
        if self._simulated is not None and not self._simulated.settings.has_sensors:
            return None, finding("sensors-absent", kind="simulated")
        if self._options.power is False or self._options.is_simulated or not self._target.can_measure:
            return None, None
        if self._target.device == "cpu":
            cpu_sensors, reason = open_cpu_sensors()
            return None if cpu_sensors is None else bounded(cpu_sensors), reason
        gpu_sensors, reason = open_nvml_device()
        if gpu_sensors is None:
            return None, reason
        chip, _ = find_machine().match()  # what is measured, whatever chip the predictions are for
        gpu_sensors.sustained_clock_hz = None if chip is None else chip.sustained_clock_hz
        return bounded(gpu_sensors), reason

    @cached_property
    def idle_power_w(self) -> float | None:
        """The power of the idle device, read once, at the first use: ask for it before the device has worked."""
        return None if self.sensors is None else measure_idle_power(self.sensors)

    def make_timer(self, mode: str = "eager", case_name: str = "") -> Timer:
        """Return a fresh timer for a mode; raises `UnsupportedError` where this machine has none.

        `case_name`, operator and id, is what `slow=` of a simulated device goes by.
        """
        if self._simulated is not None:
            return SimulatedTimer(self._simulated, pass_number=self.pass_number, case_name=case_name)
        if self._replay is not None:
            return replace(self._replay)
        if self._target.device == "cuda":
            if mode == "graph":
                from plugin.timers.cuda_graph import CudaGraphTimer

                return CudaGraphTimer.create()
            from plugin.timers.cuda import CudaEventTimer

            return CudaEventTimer.create()
        if mode == "graph":
            raise UnsupportedError("graph mode replays a CUDA graph and needs a GPU; leave --roofline-mode graph out")
        return MonotonicTimer()

    def make_rule(self, mode: str = "eager", share: float = 1.0) -> MedianInterval:
        """Return a fresh stopping rule with the user's target and a share of the budget."""
        factor = BURST_BUDGET_FACTOR if mode == "burst" else share
        return MedianInterval(
            target_ratio=self._options.target_ci_ratio, max_seconds=factor * self._options.max_seconds
        )

    def plan(self, case: Case, can_rotate: bool) -> MeasurePlan:
        """Return how a case is timed; raises `UnsupportedError` for a cold case whose operands cannot be rotated."""
        if case.cache == "cold" and not can_rotate:
            raise UnsupportedError(
                "a cold case needs make_args=, which gives every call operands of its own; use --roofline-cache "
                "flushed or warm"
            )
        return MeasurePlan(
            cache=case.cache,
            mode=case.mode,
            cache_bytes=self.cache_bytes(),
            free_bytes=self.free_bytes(),
            flush=self._flush if case.cache == "flushed" else None,
        )

    def method(self, timer: Timer, plan: MeasurePlan, visit_count: int = 1) -> Method:
        """Return how a case is measured; equal methods may be compared. `visit_count`: most stays, 1 for one alone."""
        rule = self.make_rule(plan.mode)
        settings = {
            "target_ci_ratio": rule.target_ratio,
            "max_seconds": rule.max_seconds,
            "min_samples": rule.min_samples,
            "settled_samples": rule.settled_samples,
            "min_seconds": rule.min_seconds,
            "stable_looks": rule.stable_looks,
            "stable_samples": rule.stable_samples,
            "min_sample_s": timer.min_sample_s,
            "cache": {"cold": "rotation", "flushed": "flush"}.get(plan.cache, "none"),
            "mode": plan.mode,
            # What is replayed is the method; what a simulated device is like is not: it is what one wants to find out.
            "timer": timer.name if self._replay is None else self._options.timer,
            **({"visits": visit_count, "visits_counted": "fastest, CPU at speed"} if visit_count > 1 else {}),
        }
        return Method(timer.name, plugin.METHOD_VERSION, settings)

    def make_canary(
        self,
        earlier_times: Callable[[str], Sequence[float]],
        deliver: Callable[[CanaryReading], None],
        *,
        process_ordinal: int,
        utc_now: Callable[[], str],
    ) -> CanaryKeeper | None:
        """Return the canary of this process; None with --roofline-no-canary and where samples are replayed.

        A simulated device has one of its own, whose readings are never a reference for a real one.
        """
        if not self._options.canary or self._replay is not None:
            return None
        sensors = self.sensors
        clock: dict[str, Any] = {}
        if self._simulated is not None:
            timer = SimulatedTimer(self._simulated, pass_number=self.pass_number)
            timer.begin_case("canary", _SIMULATED_CANARY_S)
            name, sensors = "simulated", timer.sensors
            clock = {"now": timer.now, "rest": timer.idle}

            def run_kernel() -> float:
                return min(timer.sample(_no_flush, [()]) for _ in range(CALLS))
        else:
            name, run_kernel = make_canary_kernel(self._target.device, self.cache_bytes())
        if sensors is not None:
            clock |= {"power_w": sensors.power_w, "sm_clock_hz": sensors.sm_clock_hz}
        return CanaryKeeper(
            name, run_kernel, earlier_times(name), deliver, utc_now, process_ordinal=process_ordinal, **clock
        )

    def cache_bytes(self) -> float | None:
        """Return the cache that cold has to defeat: this device's own, not the predicted chip's."""
        if self.runs_on_gpu:
            from plugin.timers.cuda import l2_cache_bytes

            return l2_cache_bytes()
        if self._target.device == "cpu":
            return find_machine().cache_bytes
        level = self._target.hardware.last_level_cache
        return None if level is None else level.capacity_bytes

    def free_bytes(self) -> float | None:
        """Return the memory that operands may come from."""
        if self.runs_on_gpu:
            from plugin.timers.cuda import free_bytes

            return free_bytes()
        return free_system_bytes()

    @cached_property
    def _flush(self) -> Callable[[], None]:
        """Return the one flush of this session: its buffer is twice the cache and made once."""
        if self._options.is_simulated:
            return _no_flush
        from plugin.timers.cache_state import make_flush

        size = self.cache_bytes()
        if not size:
            raise UnsupportedError("the size of the last-level cache is unknown: it cannot be flushed")
        return make_flush(self._target.device, size)


def _no_flush() -> None:
    """A simulated device has no cache to overwrite."""
