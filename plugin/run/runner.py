"""Run cases: first call, check, warm-up, samples until the rule says stop, check again. Works on any `Timer`.

Order matters and is the contract: nothing is timed before it was found correct; the first call (compilation,
autotuning, lazy loading) and the warm-up are never among the samples; set-up is outside every timed region.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from plugin.samples.correctness import Verifier, make_verifier
from plugin.samples.kernel_call import KernelCall
from plugin.samples.plan import MeasurePlan
from plugin.samples.series import CaseTiming, Series, StoppingRule
from plugin.samples.warmup import warm_up
from plugin.sensors.protocol import Sensors
from plugin.timers.rotation import CACHE_MULTIPLE, Arguments, Rotation, build_rotation, operand_bytes, sets_needed
from plugin.timers.timers import Timer
from roofline_model.core.errors import InvalidValueError, UnsupportedError
from roofline_model.core.units import format_memory

MAX_CALLS_PER_SAMPLE = 100_000
BURST_S = 5e-3
"""Longest sample of a burst: compute bursts of 5 ms stay clear of the power limit (FlashInfer PR 2899)."""

Contestant = tuple[KernelCall, Timer, StoppingRule]


def run_interleaved(
    contestants: Mapping[str, Contestant],
    plan: MeasurePlan,
    sensors: Sensors | None = None,
    *,
    after_round: Callable[[], None] = lambda: None,
    opened: dict[str, Series] | None = None,
) -> dict[str, CaseTiming]:
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
    rotation, verifier, first_call_s, saved = _first_call(call, timer, tuple(call.make_args(0)), plan)
    warmed = warm_up(call.kernel, timer, rotation, plan, sensors)
    call.restore(rotation.sets[0], saved)  # the next kernel of a comparison may be given the same arguments
    series = Series(
        call=call,
        timer=timer,
        rule=rule,
        plan=plan,
        rotation=rotation,
        verifier=verifier,
        first_call_s=first_call_s,
        warm_up=warmed,
        calls=_calls_per_sample(timer, warmed.per_call_s, plan, len(rotation.sets)),
        began=began,
        saved=saved,
        done=warmed.calls,
    )
    if plan.mode == "graph" and timer.runs_kernel:
        _capture(series)
    elif plan.mode == "graph" and hasattr(timer, "capture"):  # a simulated graph: no launches, but no outputs to check
        timer.capture(call.kernel, [])
    return series


def _first_call(
    call: KernelCall, timer: Timer, first_args: Arguments, plan: MeasurePlan
) -> tuple[Rotation, Verifier | None, float, list[Any]]:
    __tracebackhide__ = True
    verifier = make_verifier(call.reference, call.check, call.tolerance, first_args)
    saved = call.saved(first_args)
    call.run_setup()
    timer.synchronize()
    begin = time.perf_counter()
    output = call.kernel(*first_args)
    timer.synchronize()
    first_call_s = time.perf_counter() - begin
    if verifier is not None:
        verifier.verify(call.result(first_args, output), call.labelled("before timing"))
    call.restore(first_args, saved)
    rotates = plan.cache == "cold" and call.can_rotate and timer.runs_kernel
    count = sets_needed(operand_bytes(first_args), plan.cache_bytes) if rotates else 1
    rotation = build_rotation(call.make_args, first_args, count, plan.free_bytes)
    if plan.cache == "cold" and timer.runs_kernel and plan.cache_bytes:
        _require_cold(rotation, plan.cache_bytes, call.can_rotate)
    return rotation, verifier, first_call_s, saved


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
