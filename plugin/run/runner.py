"""Run cases: first call, check, warm-up, samples until the rule says stop, check again. Works on any `Timer`.

Order matters and is the contract: nothing is timed before it was found correct; the first call (compilation,
autotuning, lazy loading) and the warm-up are never among the samples; set-up is outside every timed region.

The warm-up is long enough for code and clocks to settle, or lasts until power and clock are flat. `eager`, `graph` and
`burst` warm code and caches up for a moment. `sustained` runs the kernel until the machine no longer changes: clocks of
a chip at its power limit swing for about 3 s (CUTLASS's measurement guideline).
"""

from __future__ import annotations

import gc
import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from plugin.samples.correctness import Verifier, make_verifier
from plugin.samples.held_outputs import HeldOutputs, part_of
from plugin.samples.kernel_call import KernelCall
from plugin.samples.operand_data import copied
from plugin.samples.plan import MeasurePlan
from plugin.samples.series import MeasuredKernel, Series, StoppingRule, WarmUp
from plugin.sensors.protocol import Sensors
from plugin.timers.clock import time
from plugin.timers.rotation import CACHE_MULTIPLE, Arguments, Rotation, build_rotation, operand_bytes, sets_needed
from plugin.timers.timers import Kernel, Timer
from roofline_model.core.errors import InvalidValueError, UnsupportedError
from roofline_model.core.units import format_memory

MAX_CALLS_PER_SAMPLE = 100_000
BURST_S = 5e-3
"""Longest sample of a burst: compute bursts of 5 ms stay clear of the power limit (FlashInfer PR 2899)."""
WARMUP_S = 0.05
WARMUP_CALLS = 3
LONG_WARMUP_S = 1.0
"""The warm-up of a slow kernel ends here, whatever its calls."""
STRETCH_S = 0.025
"""One look at the machine while it becomes steady."""
FLAT_WINDOW_S = 0.5
FLAT_RATIO = 0.01
"""Power and clock are flat when the halves of the window differ by at most this."""
FLAT_TIME_RATIO = 0.03
"""Without a sensor the time per call has to be flat; it is noisier."""
STEADY_LIMIT_S = 10.0

Contestant = tuple[KernelCall, Timer, StoppingRule]


def run_interleaved(
    contestants: Mapping[str, Contestant],
    plan: MeasurePlan,
    sensors: Sensors | None = None,
    *,
    after_round: Callable[[], None] = lambda: None,
    opened: dict[str, Series] | None = None,
) -> dict[str, MeasuredKernel]:
    """Measure one kernel, or several side by side, one sample of each in turn: a drifting machine is fair to all.

    `after_round` is called when each has given one, outside every timed region. `opened` is given their series, which
    may be sampled on. Raises `WrongResultError` for a wrong result and whatever a kernel itself raises.
    """
    __tracebackhide__ = True
    series = {}
    for name, (call, timer, rule) in contestants.items():  # a comprehension would show up in tracebacks
        series[name] = _prepare(call, timer, rule, plan, sensors)
    if opened is not None:
        opened.update(series)
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        running = list(series.values())
        while running:
            running = [series_run for series_run in running if not series_run.step()]
            after_round()
    finally:
        if was_enabled:
            gc.enable()
    return {name: series_run.finish() for name, series_run in series.items()}


def _prepare(call: KernelCall, timer: Timer, rule: StoppingRule, plan: MeasurePlan, sensors: Sensors | None) -> Series:
    __tracebackhide__ = True
    began = time.perf_counter()
    first_args = tuple(call.make_args(0))
    verifier = make_verifier(call.reference, call.check, call.tolerance, first_args, work=call.work)
    reference_s = time.perf_counter() - began
    rotation, held, first_call_s, saved = _first_call(call, timer, verifier, first_args, plan)
    warm_up_began = time.perf_counter()
    warmed = warm_up(call.kernel, timer, rotation, plan, sensors)
    call.restore(rotation.sets[0], saved)  # the next kernel of a comparison may be given the same arguments
    series = Series(
        call=call,
        timer=timer,
        rule=rule,
        plan=plan,
        rotation=rotation,
        held=held,
        first_call_s=first_call_s,
        warm_up=warmed,
        calls=_calls_per_sample(timer, warmed.per_call_s, plan, len(rotation.sets)),
        began=began,
        saved=saved,
        reference_s=reference_s,
        warm_up_s=time.perf_counter() - warm_up_began,
        done=warmed.calls,
    )
    if plan.mode == "graph" and timer.runs_kernel:
        _capture(series)
    elif plan.mode == "graph" and hasattr(timer, "capture"):  # a simulated graph: no launches, but no outputs to check
        timer.capture(call.kernel, [])
    return series


def _first_call(
    call: KernelCall, timer: Timer, verifier: Verifier | None, first_args: Arguments, plan: MeasurePlan
) -> tuple[Rotation, HeldOutputs | None, float, list[Any]]:
    __tracebackhide__ = True
    saved = call.saved(first_args)
    before = [] if verifier is None or call.mutates else part_of(first_args)
    call.run_setup()
    timer.synchronize()
    begin = time.perf_counter()
    output = call.kernel(*first_args)
    timer.synchronize()
    first_call_s = time.perf_counter() - begin
    result = call.result(first_args, output)
    right = copied(result)
    if verifier is not None:
        if not call.mutates and call.setup is None:
            verifier.learn(call.kernel)
        verifier.verify(right, call.labelled("before timing"))
    call.restore(first_args, saved)
    rotates = plan.cache == "cold" and call.can_rotate and timer.runs_kernel
    count = sets_needed(operand_bytes(first_args), plan.cache_bytes) if rotates else 1
    rotation = build_rotation(call.make_args, first_args, count, plan.free_bytes)
    if plan.cache == "cold" and timer.runs_kernel and plan.cache_bytes:
        _require_cold(rotation, plan.cache_bytes, call.can_rotate)
    held = None if verifier is None else HeldOutputs(call, rotation, verifier, result, right, saved, before)
    return rotation, held, first_call_s, saved


def _require_cold(rotation: Rotation, cache_bytes: float, can_rotate: bool) -> None:
    """Refuse to call a case cold whose operands stay in the cache (FlashInfer issue 4468 timed them all the same)."""
    if rotation.defeats(cache_bytes):
        return
    count = len(rotation.sets)
    sets_text = f"{count} set{'s' if count > 1 else ''} of operands hold {format_memory(rotation.working_set_bytes)}"
    needed = f"twice the cache is {format_memory(CACHE_MULTIPLE * cache_bytes)}"
    if can_rotate:
        raise InvalidValueError(f"{sets_text}, {needed}: the sets share memory; make_args must return distinct copies")
    raise UnsupportedError(
        f"{sets_text}, {needed}: the case cannot be cold; give make_args=, or measure it warm or flushed"
    )


def _calls_per_sample(timer: Timer, per_call_s: float, plan: MeasurePlan, set_count: int) -> int:
    """Return how many calls one sample needs so that the timer's own cost does not show.

    Whole turns of the rotation where it takes more than one: every sample then holds the same operands. A flush stands
    before each call, so that a flushed sample is one call.
    """
    if plan.cache == "flushed":
        return 1
    if not timer.runs_kernel or per_call_s <= 0 or not math.isfinite(per_call_s):
        return set_count if plan.mode == "graph" else 1
    calls = min(MAX_CALLS_PER_SAMPLE, max(1, math.ceil(timer.min_sample_s / per_call_s)))
    if plan.mode == "burst":
        calls = max(1, min(calls, int(BURST_S / per_call_s)))
    if plan.mode == "graph" or calls > set_count:
        calls = math.ceil(calls / set_count) * set_count
    return calls


def _capture(series: Series) -> None:
    """Capture whole turns of the rotation into one graph; its outputs lie in static memory."""
    capture = getattr(series.timer, "capture", None)
    if capture is None:
        raise UnsupportedError(f"timer {series.timer.name} cannot replay graphs; graph mode needs a GPU")
    if series.call.mutates:
        raise UnsupportedError(
            "a kernel that changes its arguments cannot be replayed: each replay would get the last one's output"
        )
    series.graph_schedule = series.rotation.schedule(0, series.calls)
    series.graph_outputs = capture(series.call.kernel, series.graph_schedule)
    series.timer.sample(series.call.kernel, series.graph_schedule)  # the first replay uploads the graph


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
