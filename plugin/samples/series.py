"""The samples of one kernel as they are taken, when there are enough of them, and what they amount to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Protocol

from plugin.samples.correctness import Verifier, WrongResultError
from plugin.samples.kernel_call import KernelCall
from plugin.samples.plan import MeasurePlan
from plugin.samples.poison import holds_poison, poison
from plugin.samples.stats import SampleStats, estimate_median, shape_flags, summarize
from plugin.timers.clock import time
from plugin.timers.rotation import Rotation
from plugin.timers.timers import Schedule, Timer
from roofline_model.core.errors import UnsupportedError

NOISY_RATIO = 0.05
MAX_BAD_SAMPLES = 20
CHECKED_REPLAYS = 8
"""Outputs of a graph that are compared with the reference; all of them are poisoned first."""
WAKE_S = 5e-4
BURST_REST_S = 0.1
"""Rest before each burst: clock and power have recovered, the chip has not yet gone to sleep."""


@dataclass(frozen=True, slots=True)
class WarmUp:
    """Result of a warm-up."""

    calls: int
    per_call_s: float
    """Fastest seconds per call seen; infinite where the kernel is not run."""
    is_steady: bool = True
    """False when a sustained case gave up waiting for power and clock to become flat."""


@dataclass(frozen=True, slots=True)
class CaseTiming:
    """Timing of one case."""

    samples_s: tuple[float, ...]
    clocks_hz: tuple[float, ...]
    """SM clock of each sample; empty unless it is known for every one."""
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
    graph_schedule: Schedule | None = None
    """The calls that the timer's captured graph holds; None in other modes."""
    issue_s: float | None = None
    """Median of the host's time to queue one call; None unless it is known for every sample."""


@dataclass(slots=True)
class Series:
    """One kernel between its warm-up and its last check."""

    call: KernelCall
    timer: Timer
    rule: StoppingRule
    plan: MeasurePlan
    rotation: Rotation
    verifier: Verifier | None
    first_call_s: float
    warm_up: WarmUp
    calls: int
    began: float
    saved: list[Any]
    """Copies of the arguments that the kernel writes to, from before the first call."""
    graph_schedule: Schedule | None = None
    """The captured calls in graph mode; every sample replays all of them."""
    graph_outputs: list[Any] = field(default_factory=list)
    done: int = 0
    """Calls made so far: the rotation goes on where the warm-up left it."""
    elapsed_s: float = 0.0
    attempts: int = 0
    stop_reason: str = ""
    samples: list[float] = field(default_factory=list)
    clocks: list[float | None] = field(default_factory=list)
    issues_s: list[float | None] = field(default_factory=list)
    """Host seconds to queue one call, per sample; None where the host is part of the sample."""

    def step(self) -> bool:
        """Take one sample; return whether the series has ended."""
        start_time = self.timer.now()
        try:
            if self.plan.mode == "burst":
                self._wake()
            value = self._sample()
        except StopIteration:
            self.stop_reason = "replay-end"
            return True
        self.attempts += 1
        self.elapsed_s += max(0.0, self.timer.now() - start_time)
        if value > 0 and math.isfinite(value):  # a clock that stands still or runs backwards gives no sample
            self.samples.append(value)
            self.clocks.append(self.timer.last_clock_hz)
            self.issues_s.append(getattr(self.timer, "last_issue_s", None))
        elif self.attempts - len(self.samples) > MAX_BAD_SAMPLES:
            raise UnsupportedError(
                f"timer {self.timer.name} gives zero, negative or infinite times: {len(self.samples)} of "
                f"{self.attempts} samples are usable"
            )
        self.stop_reason = self.rule.reason_to_stop(self.samples, self.elapsed_s) or ""
        return bool(self.stop_reason)

    def _sample(self) -> float:
        if self.graph_schedule is not None:
            return self.timer.sample(self.call.kernel, self.graph_schedule, self.plan.flush)
        schedule = self.rotation.schedule(self.done, self.calls)
        self.done += self.calls
        return self.timer.sample(self.call.kernel, schedule, self.plan.flush)

    def _wake(self) -> None:
        """Rest, then run about half a millisecond untimed: what follows an idle gap is a slow call, not a burst."""
        self.timer.idle(BURST_REST_S)
        if self.timer.runs_kernel and self.warm_up.per_call_s < WAKE_S:
            self._sample()

    def finish(self) -> CaseTiming:
        """Check the kernel once more and return what was found."""
        __tracebackhide__ = True
        if self.verifier is not None:
            if self.graph_schedule is not None:
                self._check_graph(self.verifier, self.graph_schedule)
            else:
                self._check_again(self.verifier)
        stats = summarize(self.samples)
        clocks = [clock for clock in self.clocks if clock is not None]
        issues_s = [issue_s for issue_s in self.issues_s if issue_s is not None]
        return CaseTiming(
            samples_s=tuple(self.samples),
            clocks_hz=tuple(clocks) if len(clocks) == len(self.samples) else (),
            stats=stats,
            calls_per_sample=self.calls,
            stop_reason=self.stop_reason,
            first_call_s=self.first_call_s,
            warmup_calls=self.warm_up.calls,
            wall_s=time.perf_counter() - self.began,
            rotation=self.rotation,
            max_error=None if self.verifier is None else self.verifier.max_error,
            tolerance=None if self.verifier is None else self.verifier.tolerance,
            flags=self._flags(stats),
            graph_schedule=self.graph_schedule,
            issue_s=median(issues_s) if issues_s and len(issues_s) == len(self.samples) else None,
        )

    def _check_again(self, verifier: Verifier) -> None:
        """Run the kernel once more on the first set, as it was before anything was timed."""
        __tracebackhide__ = True
        call, arguments = self.call, self.rotation.sets[0]
        call.restore(arguments, self.saved)
        call.run_setup()
        output = call.result(arguments, call.kernel(*arguments))
        self.timer.synchronize()
        verifier.verify(
            output,
            call.labelled("after timing"),
            fix="" if call.mutates else "does the kernel write to its arguments? name them in mutates=",
        )
        call.restore(arguments, self.saved)

    def _check_graph(self, verifier: Verifier, schedule: Schedule) -> None:
        """Poison every output, replay the graph and compare: a kernel that is not in the graph leaves the poison.

        The reference belongs to the first operand set, so that its calls are compared; every other call must have
        overwritten its poison too, which the check of a few of them shows where sets hold equal data.
        """
        __tracebackhide__ = True
        call = self.call
        poison(self.graph_outputs, schedule)
        replay = getattr(self.timer, "replay", None)  # once: `sample` may replay more often
        if replay is not None:
            replay()
        else:
            self.timer.sample(call.kernel, schedule)
        self.timer.synchronize()
        turn = len(self.rotation.sets)
        turns = range(0, len(schedule), turn)
        for index in turns[:: max(1, len(turns) // CHECKED_REPLAYS)]:
            output = call.result(schedule[index], self.graph_outputs[index])
            verifier.verify(output, call.labelled(f"in graph replay {index}"))
        for index, output in enumerate(self.graph_outputs):
            if index % turn and holds_poison(output):
                raise WrongResultError(call.labelled(f"graph replay {index} has written nothing"))

    def _flags(self, stats: SampleStats) -> tuple[str, ...]:
        flags = []
        if self.verifier is None:
            flags.append("unchecked")
        if stats.half_width_ratio is None:
            flags.append("few-samples")
        elif stats.half_width_ratio > NOISY_RATIO:
            flags.append("noisy")
        flags += shape_flags(self.samples)
        if self.plan.cache == "cold" and self.timer.runs_kernel and not self.rotation.defeats(self.plan.cache_bytes):
            flags.append("cold-unproven")
        if getattr(self.timer, "unqueued_count", 0):
            flags.append("launch-gaps")
        if not self.warm_up.is_steady:
            flags.append("not-steady")
        return tuple(flags)


class StoppingRule(Protocol):
    """Decides after each sample; the returned text is stored as the measurement's stop reason."""

    def reason_to_stop(self, samples_s: Sequence[float], elapsed_s: float) -> str | None:
        """Return why sampling ends now, or None to go on."""
        ...


@dataclass(slots=True)
class MedianInterval:
    """Stop when the 95 % interval of the median is within ± `target_ratio` at two looks in a row, or for lack of
    progress.

    Looks come when the count has grown by a quarter since the last: looking after every sample would stop on lucky
    streaks and make the stated 95 % untrue, and the second look is there because the first is chosen for being narrow.
    Cheap samples begin at `settled_samples`, fewer cannot tell whether they resemble each other; costly ones begin at
    `min_samples` after `min_seconds`, and until they are `settled_samples` they have to be tighter by √(count/settled).
    """

    target_ratio: float = 0.01
    max_seconds: float = 0.7
    min_samples: int = 12
    max_samples: int = 10_000
    settled_samples: int = 100
    min_seconds: float = 0.1
    stable_looks: int = 6
    """Noise is stable when this many looks (3.8 times the samples) made the interval less than a tenth narrower …"""
    stable_samples: int = 256
    """… of at least so many samples. Independent noise would have become half as wide."""
    next_look: int = 0
    within_target: int = 0
    """Looks in a row at which the interval was narrow enough."""
    half_widths: list[float] = field(default_factory=list)
    """Relative half width at each look, oldest first."""

    def reason_to_stop(self, samples_s: Sequence[float], elapsed_s: float) -> str | None:
        """Return `converged`, `noise-stable`, `budget` or `max-samples`, or None to go on.

        The budget never ends a series before 3 samples: a median of less says nothing about its own spread.
        """
        count = len(samples_s)
        if elapsed_s >= self.max_seconds and count >= 3:
            return "budget"
        if count >= self.max_samples:
            return "max-samples"
        if count < self.next_look or count < self.min_samples:
            return None
        if count < self.settled_samples and elapsed_s < self.min_seconds:
            return None
        self.next_look = count + max(1, count // 4)
        return self._look(samples_s)

    def _look(self, samples_s: Sequence[float]) -> str | None:
        width = estimate_median(samples_s).half_width_ratio
        if width is None:
            self.within_target = 0
            return None
        self.half_widths.append(width)
        needed = self.target_ratio * min(1.0, math.sqrt(len(samples_s) / self.settled_samples))
        self.within_target = self.within_target + 1 if width <= needed else 0
        if self.within_target >= 2:
            return "converged"
        # While the target is being reached there is progress by definition.
        return "noise-stable" if not self.within_target and self._is_stable(len(samples_s)) else None

    def _is_stable(self, count: int) -> bool:
        """Whether more samples have stopped making the interval narrower; each end is the mean of two looks.

        nvbench's rule for its standard deviation (stop when the ring of noise values no longer moves), put on the width
        that is reported: slow noise keeps it wide however long one waits, and so do ticks of a coarse clock.
        """
        if count < self.stable_samples or len(self.half_widths) < self.stable_looks + 2:
            return False
        new_width = sum(self.half_widths[-2:])
        old_width = sum(self.half_widths[-2 - self.stable_looks : -self.stable_looks])
        return new_width > 0.9 * old_width
