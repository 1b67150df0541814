"""Run one case: first call, check, warm-up, samples until the rule says stop, check again. Works on any `Timer`.

Order matters and is the contract: nothing is timed before it was found correct; the first call (compilation,
autotuning, lazy loading) and the warm-up are never among the samples; set-up is outside every timed region.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from plugin.correctness import Check, Verifier, make_verifier
from plugin.rotation import Arguments, MakeArgs, Rotation, build_rotation, operand_bytes, sets_needed
from plugin.stats import SampleStats, drift_ratio, summarize
from plugin.stopping import StoppingRule
from plugin.timers import Kernel, Timer
from roofline_model.errors import InvalidValueError, UnsupportedError

WARMUP_S = 0.05
WARMUP_CALLS = 3
MAX_CALLS_PER_SAMPLE = 100_000
DRIFT_FLAG_RATIO = 0.05
NOISY_RATIO = 0.05
MAX_BAD_SAMPLES = 20


@dataclass(frozen=True, slots=True)
class KernelCall:
    """What is to be measured: the kernel, its operands and how its result is checked."""

    kernel: Kernel
    make_args: MakeArgs
    can_rotate: bool
    """False when the user gave fixed arguments: the case can then not be cold."""
    reference: Any = None
    check: Check | None = None
    tolerance: float | None = None
    mutates: tuple[int, ...] = ()
    """Positions of arguments the kernel writes to; put back before and after each check, so that every check sees the same input."""
    label: str = ""
    """Names the kernel in errors, where several are measured together."""
    setup: Callable[[], Any] | None = None
    """Called before the first call and before the final check, outside every timed region."""


@dataclass(frozen=True, slots=True)
class CaseTiming:
    """What the runner found."""

    samples_s: tuple[float, ...]
    stats: SampleStats
    calls_per_sample: int
    stop_reason: str
    first_call_s: float
    warmup_calls: int
    wall_s: float
    rotation: Rotation
    max_error: float | None
    tolerance: float | None
    flags: tuple[str, ...] = field(default=())


def run_case(
    call: KernelCall,
    timer: Timer,
    rule: StoppingRule,
    *,
    cold: bool,
    cache_bytes: float | None,
    free_bytes: float | None = None,
) -> CaseTiming:
    """Measure one kernel; raises `WrongResultError` for a wrong result and whatever the kernel itself raises."""
    __tracebackhide__ = True
    return run_interleaved({"": (call, timer, rule)}, cold=cold, cache_bytes=cache_bytes, free_bytes=free_bytes)[""]


def run_interleaved(
    contestants: Mapping[str, tuple[KernelCall, Timer, StoppingRule]],
    *,
    cold: bool,
    cache_bytes: float | None,
    free_bytes: float | None = None,
) -> dict[str, CaseTiming]:
    """Measure several kernels side by side, one sample of each in turn, so that a drifting machine is fair to all."""
    __tracebackhide__ = True
    series = {}
    for name, (call, timer, rule) in contestants.items():  # a comprehension would show up in tracebacks
        series[name] = _prepare(call, timer, rule, cold, cache_bytes, free_bytes)
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        running = list(series.values())
        while running:
            running = [one for one in running if not one.step()]
    finally:
        if was_enabled:
            gc.enable()
    return {name: one.finish(cold, cache_bytes) for name, one in series.items()}


def _prepare(
    call: KernelCall,
    timer: Timer,
    rule: StoppingRule,
    cold: bool,
    cache_bytes: float | None,
    free_bytes: float | None,
) -> _Series:
    __tracebackhide__ = True
    began = time.perf_counter()
    rotation, verifier, first_call_s, saved = _first_call(
        call, timer, tuple(call.make_args(0)), cold, cache_bytes, free_bytes
    )
    warmup_calls, per_call_s = _warm_up(call.kernel, timer, rotation)
    _restore(call, rotation.sets[0], saved)  # the next kernel of a comparison may be given the same arguments
    return _Series(
        call=call,
        timer=timer,
        rule=rule,
        rotation=rotation,
        verifier=verifier,
        first_call_s=first_call_s,
        warmup_calls=warmup_calls,
        calls=_calls_per_sample(timer, per_call_s),
        began=began,
        saved=saved,
        done=warmup_calls,
    )


@dataclass(slots=True)
class _Series:
    """The samples of one kernel as they are taken."""

    call: KernelCall
    timer: Timer
    rule: StoppingRule
    rotation: Rotation
    verifier: Verifier | None
    first_call_s: float
    warmup_calls: int
    calls: int
    began: float
    saved: list[Any]
    """Copies of the arguments that the kernel writes to, from before the first call."""
    done: int
    """Calls made so far: the rotation goes on where the warm-up left it."""
    elapsed_s: float = 0.0
    attempts: int = 0
    stop_reason: str = ""
    samples: list[float] = field(default_factory=list)

    def step(self) -> bool:
        """Take one sample; return whether the series has ended."""
        before = self.timer.now()
        try:
            value = self.timer.sample(self.call.kernel, self.rotation.schedule(self.done, self.calls))
        except StopIteration:
            self.stop_reason = "replay-end"
            return True
        self.done += self.calls
        self.attempts += 1
        self.elapsed_s += max(0.0, self.timer.now() - before)
        if value > 0 and math.isfinite(value):  # a clock that stands still or runs backwards gives no sample
            self.samples.append(value)
        elif self.attempts - len(self.samples) > MAX_BAD_SAMPLES:
            raise UnsupportedError(
                f"timer {self.timer.name} gives zero, negative or infinite times: {len(self.samples)} of {self.attempts} samples are usable"
            )
        self.stop_reason = self.rule.reason_to_stop(self.samples, self.elapsed_s) or ""
        return bool(self.stop_reason)

    def _check_again(self, verifier: Verifier) -> None:
        """Run the kernel once more on the first set, as it was before anything was timed."""
        __tracebackhide__ = True
        arguments = self.rotation.sets[0]
        _restore(self.call, arguments, self.saved)
        if self.call.setup is not None:
            self.call.setup()
        output = _result(self.call, arguments, self.call.kernel(*arguments))
        self.timer.synchronize()
        hint = "" if self.call.mutates else " (does the kernel write to its arguments? name them in mutates=)"
        verifier.verify(output, _labelled(self.call, f"after timing{hint}"))
        _restore(self.call, arguments, self.saved)

    def finish(self, cold: bool, cache_bytes: float | None) -> CaseTiming:
        """Check the kernel once more and return what was found."""
        __tracebackhide__ = True
        if self.verifier is not None:
            self._check_again(self.verifier)
        stats = summarize(self.samples)
        return CaseTiming(
            samples_s=tuple(self.samples),
            stats=stats,
            calls_per_sample=self.calls,
            stop_reason=self.stop_reason,
            first_call_s=self.first_call_s,
            warmup_calls=self.warmup_calls,
            wall_s=time.perf_counter() - self.began,
            rotation=self.rotation,
            max_error=None if self.verifier is None else self.verifier.max_error,
            tolerance=None if self.verifier is None else self.verifier.tolerance,
            flags=_flags(
                self.samples, stats, self.verifier, self.rotation, cold and self.timer.runs_kernel, cache_bytes
            ),
        )


def _first_call(
    call: KernelCall,
    timer: Timer,
    first_args: Arguments,
    cold: bool,
    cache_bytes: float | None,
    free_bytes: float | None,
) -> tuple[Rotation, Verifier | None, float, list[Any]]:
    __tracebackhide__ = True
    verifier = make_verifier(call.reference, call.check, call.tolerance, first_args)
    saved = _saved(call, first_args)
    if call.setup is not None:
        call.setup()
    timer.synchronize()
    begin = time.perf_counter()
    output = call.kernel(*first_args)
    timer.synchronize()
    first_call_s = time.perf_counter() - begin
    if verifier is not None:
        verifier.verify(_result(call, first_args, output), _labelled(call, "before timing"))
    _restore(call, first_args, saved)
    count = sets_needed(operand_bytes(first_args), cache_bytes) if cold and call.can_rotate and timer.runs_kernel else 1
    return build_rotation(call.make_args, first_args, count, free_bytes), verifier, first_call_s, saved


def _result(call: KernelCall, arguments: Arguments, output: Any) -> Any:
    """Return what is to be checked: the output, or the arguments written to by a kernel that returns nothing."""
    if output is not None or not call.mutates:
        return output
    return [arguments[position] for position in call.mutates]


def _labelled(call: KernelCall, when: str) -> str:
    return f"{call.label}: {when}" if call.label else when


def _saved(call: KernelCall, arguments: Arguments) -> list[Any]:
    """Return copies of the arguments that the kernel writes to."""
    copies = []
    for position in call.mutates:
        if not 0 <= position < len(arguments):
            raise InvalidValueError(f"mutates names argument {position}, but the kernel takes {len(arguments)}")
        value = arguments[position]
        copies.append(value.clone() if hasattr(value, "clone") else value.copy())
    return copies


def _restore(call: KernelCall, arguments: Arguments, saved: Sequence[Any]) -> None:
    for position, copy in zip(call.mutates, saved, strict=True):
        target = arguments[position]
        if hasattr(target, "copy_"):
            target.copy_(copy)
        else:
            target[...] = copy


def _warm_up(kernel: Kernel, timer: Timer, rotation: Rotation) -> tuple[int, float]:
    """Call until code, clocks and caches have settled a little; return the calls made and the seconds of one."""
    if not timer.runs_kernel:
        return 0, math.inf
    calls, batch = 0, max(WARMUP_CALLS, len(rotation.sets)) if len(rotation.sets) <= 64 else 64
    begin = time.perf_counter()
    per_call = math.inf
    while True:
        per_call = min(per_call, timer.sample(kernel, rotation.schedule(calls, batch)))
        calls += batch
        if time.perf_counter() - begin >= WARMUP_S:
            return calls, per_call
        batch = min(2 * batch, 4096)


def _calls_per_sample(timer: Timer, per_call_s: float) -> int:
    """Return how many calls one sample needs so that the timer's own cost does not show."""
    if not timer.runs_kernel or per_call_s <= 0 or not math.isfinite(per_call_s):
        return 1
    return min(MAX_CALLS_PER_SAMPLE, max(1, math.ceil(timer.min_sample_s / per_call_s)))


def _flags(
    samples: Sequence[float],
    stats: SampleStats,
    verifier: Verifier | None,
    rotation: Rotation,
    cold: bool,
    cache_bytes: float | None,
) -> tuple[str, ...]:
    flags = []
    if verifier is None:
        flags.append("unchecked")
    if stats.half_width_ratio is None or stats.half_width_ratio > NOISY_RATIO:
        flags.append("noisy")
    drift = drift_ratio(samples)
    if drift is not None and abs(drift) > DRIFT_FLAG_RATIO:
        flags.append("drift")
    if cold and not rotation.defeats(cache_bytes):
        flags.append("cold-unproven")
    return tuple(flags)
