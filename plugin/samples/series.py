"""The samples of one kernel as they are taken, when there are enough of them, and what they amount to."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any, Protocol

from plugin.samples.correctness import WrongResultError
from plugin.samples.held_outputs import HeldOutputs
from plugin.samples.kernel_call import KernelCall
from plugin.samples.operand_data import copied, fill
from plugin.samples.plan import MeasurePlan
from plugin.samples.poison import holds_poison, memories, poison
from plugin.samples.stats import estimate_median, shape_flags, summarize
from plugin.timers.clock import raw_s, time
from plugin.timers.host_speed import HostSpeed
from plugin.timers.rotation import Rotation
from plugin.timers.timers import Schedule, Timer
from results.records.records import Measurement, TelemetrySample
from roofline_model.core.errors import UnsupportedError

NOISY_RATIO = 0.05
MAX_BAD_SAMPLES = 20
CHECKED_REPLAYS = 8
"""Outputs of a graph that are compared with the reference; all of them are poisoned first."""
CHECK_RATIO = 0.04
"""Share of a case's time that holding its calls against the checked output may take."""
MOST_CALLS = 64
"""Calls of one untimed, checked sample; so many in a row end every case of a short kernel, so that one wrong in so many
is always among them …"""
MOST_OUTPUT_BYTES = 64 * 2**20
"""… and bytes of their outputs, all of which are held."""
END_ROW_S = 6e-3
"""What that row may take in any case: 4 % of the shortest case that settles."""
CHECKED_CALL_S = 20e-6
"""About what one small output takes to be compared."""
MOST_POISONED_BYTES = 16 * 2**20
"""Of an output that is poisoned before the last check: more would take longer than the check is worth."""
CHALLENGE_S = 0.25
"""A slower kernel is not called again on other data."""
CLOCK_RATIO = 1.02
"""How much two clocks of the system may differ over a sample: slewing one makes them differ by 0.05 %."""
WAKE_S = 5e-4
_BETWEEN = "between samples"
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
class MeasuredKernel:
    """One measured kernel: what is stored of it, and what the process that measured it needs beside that."""

    measurement: Measurement
    rotation: Rotation
    graph_schedule: Schedule | None = None
    """The calls that the timer's captured graph holds; None in other modes."""
    issue_s: float | None = None
    """Median of the host's time to queue one call; None unless it is known for every sample."""
    read_bytes: int = 0
    """Bytes of one operand set that a call was seen to read; 0 where nobody looked."""
    telemetry: tuple[TelemetrySample, ...] = ()


@dataclass(slots=True)
class Series:
    """One kernel between its warm-up and its last check."""

    call: KernelCall
    timer: Timer
    rule: StoppingRule
    plan: MeasurePlan
    rotation: Rotation
    held: HeldOutputs | None
    """None where there is nothing to compare with."""
    first_call_s: float
    warm_up: WarmUp
    calls: int
    began: float
    saved: list[Any]
    """Copies of the arguments that the kernel writes to, from before the first call."""
    reference_s: float = 0.0
    """Seconds that the reference of the first set took."""
    warm_up_s: float = 0.0
    """Seconds that the warm-up took."""
    graph_schedule: Schedule | None = None
    """The captured calls in graph mode; every sample replays all of them."""
    graph_outputs: list[Any] = field(default_factory=list)
    done: int = 0
    """Calls made so far: the rotation goes on where the warm-up left it."""
    elapsed_s: float = 0.0
    checked_s: float = 0.0
    """Seconds spent on checking calls between samples."""
    clock_ratios: list[tuple[float, float]] = field(default_factory=list)
    """What the timer said of each sample, and what its clock says of a little more than the sample, over how long the
    sample took by another clock.
    """
    attempts: int = 0
    stop_reason: str = ""
    samples: list[float] = field(default_factory=list)
    clocks: list[float | None] = field(default_factory=list)
    issues_s: list[float | None] = field(default_factory=list)
    """Host seconds to queue one call, per sample; None where the host is part of the sample."""
    marks: list[int] = field(default_factory=list)
    """Reading of the host's speed before each sample; empty on devices."""
    read_bytes: int = 0
    """Bytes of one set that a call was seen to read; 0 where nobody looked."""
    choice: random.Random = field(default_factory=random.Random)

    def step(self) -> bool:
        """Take one sample; return whether the series has ended."""
        start_time = self.timer.now()
        try:
            if self.plan.mode == "burst":
                self._wake()
            mark = None if self.speed is None else self.speed.mark()
            value = self._sample()
        except StopIteration:
            self.stop_reason = "replay-end"
            return True
        self.attempts += 1
        self.elapsed_s += max(0.0, self.timer.now() - start_time)
        if self.held is not None and self.timer.runs_kernel:
            self._check_calls(self.held)
        if value > 0 and math.isfinite(value):  # a clock that stands still or runs backwards gives no sample
            self.samples.append(value)
            self.clocks.append(self.timer.last_clock_hz)
            self.issues_s.append(getattr(self.timer, "last_issue_s", None))
            if mark is not None:
                self.marks.append(mark)
        elif self.attempts - len(self.samples) > MAX_BAD_SAMPLES:
            raise UnsupportedError(
                f"timer {self.timer.name} gives zero, negative or infinite times: {len(self.samples)} of "
                f"{self.attempts} samples are usable"
            )
        self.stop_reason = self.rule.reason_to_stop(self.samples, self.elapsed_s) or ""
        return bool(self.stop_reason)

    @property
    def speed(self) -> HostSpeed | None:
        """How fast the CPU is that the kernel runs on; None on devices."""
        return getattr(self.timer, "speed", None)

    def _sample(self) -> float:
        if self.graph_schedule is not None:
            return self.timer.sample(self.call.kernel, self.graph_schedule, self.plan.flush)
        schedule = self.rotation.schedule(self.done, self.calls)
        self.done += self.calls
        before_ns, before_s = time.perf_counter_ns(), raw_s()
        value = self.timer.sample(self.call.kernel, schedule, self.plan.flush)
        witness_s = raw_s() - before_s
        around_s = (time.perf_counter_ns() - before_ns) * 1e-9
        if witness_s > 0 and math.isfinite(value):
            self.clock_ratios.append((value * self.calls / witness_s, around_s / witness_s))
        return value

    # Between the samples: is every call right? ------------------------------------------------------------------

    @property
    def _check_room_s(self) -> float:
        """Seconds that checks may still take."""
        return CHECK_RATIO * (self.warm_up_s + self.elapsed_s) - self.checked_s

    def _check_calls(self, held: HeldOutputs) -> None:
        """Hold the last call against the checked output, and now and then the calls of a whole sample, as far as the
        time for it goes.

        Which ones is left to chance where it does not suffice for all: a kernel that is wrong every so often must not
        fall into step with the checks.
        """
        __tracebackhide__ = True
        if self._check_room_s <= 0 or (self.checked_s and self.choice.random() < 0.3 and self._is_scarce):
            return
        began_s, set_up_s = time.perf_counter(), held.set_up_s
        if self.graph_schedule is not None:
            index = self.choice.randrange(len(self.graph_schedule))
            held.see(index % len(self.rotation.sets), self.graph_outputs[index], "while timed")
        else:
            if not held.restores and hasattr(self.timer, "last_output"):
                held.see((self.done - 1) % len(self.rotation.sets), self.timer.last_output, "while timed")
            if self._wants_audit(held) and self._check_room_s >= self._audit_s:
                self._audit(held)
        self.checked_s += time.perf_counter() - began_s - (held.set_up_s - set_up_s)

    @property
    def _is_scarce(self) -> bool:
        """Whether the calls so far took more than half of the time that checks may take."""
        return self.checked_s > 0.5 * CHECK_RATIO * (self.warm_up_s + self.elapsed_s)

    def _wants_audit(self, held: HeldOutputs) -> bool:
        """Whether timed calls alone leave out some: those inside a sample, on a device, or on arguments written to."""
        return self.calls > 1 or held.restores or not hasattr(self.timer, "last_output")

    @property
    def _audit_s(self) -> float:
        """About what a checked sample takes."""
        return min(self.calls, MOST_CALLS) * (self.warm_up.per_call_s + CHECKED_CALL_S)

    def _audit(self, held: HeldOutputs) -> None:
        """Take a sample like the others, as long as chance says, whose time is thrown away and whose every output is
        checked.
        """
        __tracebackhide__ = True
        if held.restores:
            index = held.pick_restorable()
            held.see(index, self._call_restored(held, index), _BETWEEN)
            held.restore(index)
            return
        self._audit_row(held, self.choice.randint(1, min(self.calls, MOST_CALLS)))

    def _audit_row(self, held: HeldOutputs, count: int) -> None:
        """Make so many calls in a row, untimed, fewer where their outputs would take much memory, and check each."""
        __tracebackhide__ = True
        count = max(1, min(count, MOST_OUTPUT_BYTES // max(1, held.output_bytes)))
        numbers = held.row(self.done, count)
        outputs = self._outputs([self.rotation.sets[number] for number in numbers])
        self.done += count
        held.see_all(numbers, outputs, _BETWEEN)

    def _call_restored(self, held: HeldOutputs, index: int) -> Any:
        """Return the output of one call on a set whose arguments are as they were at first."""
        held.restore(index)
        self.call.run_setup()
        return self._outputs([self.rotation.sets[index]])[0]

    def _outputs(self, schedule: Schedule) -> list[Any]:
        """Make calls just as a sample makes them and return their outputs."""
        make = getattr(self.timer, "outputs", None)
        if make is not None:
            return list(make(self.call.kernel, schedule))
        outputs: list[Any] = []

        def recorded(*arguments: Any) -> Any:
            outputs.append(self.call.kernel(*arguments))
            return outputs[-1]

        self.timer.sample(recorded, schedule, self.plan.flush)
        return outputs

    def _wake(self) -> None:
        """Rest, then run about half a millisecond untimed: what follows an idle gap is a slow call, not a burst."""
        self.timer.idle(BURST_REST_S)
        if self.timer.runs_kernel and self.warm_up.per_call_s < WAKE_S:
            self._sample()

    def finish(self) -> MeasuredKernel:
        """Check the kernel once more and return what was found."""
        __tracebackhide__ = True
        if self.held is not None:
            self._check_end(self.held)
        verifier = None if self.held is None else self.held.verifier
        summary = summarize(self.samples)
        clocks = [clock for clock in self.clocks if clock is not None]
        issues_s = [issue_s for issue_s in self.issues_s if issue_s is not None]
        measurement = replace(
            summary,
            calls_per_sample=self.calls,
            stop_reason=self.stop_reason,
            first_call_s=self.first_call_s,
            warmup_calls=self.warm_up.calls,
            wall_s=time.perf_counter() - self.began,
            rotation_count=len(self.rotation.sets),
            working_set_bytes=self.rotation.working_set_bytes,
            max_error=None if verifier is None else verifier.max_error,
            tolerance=None if verifier is None else verifier.tolerance,
            flags=self._flags(summary.ci_half_width_ratio),
            clocks_hz=tuple(clocks) if len(clocks) == len(self.samples) else (),
        )
        issue_s = median(issues_s) if issues_s and len(issues_s) == len(self.samples) else None
        return MeasuredKernel(measurement, self.rotation, self.graph_schedule, issue_s, self.read_bytes)

    def _check_end(self, held: HeldOutputs) -> None:
        """Check the kernel once more, on the first set as it was before anything was timed, then on other data."""
        __tracebackhide__ = True
        per_call_s = self.warm_up.per_call_s
        if self.graph_schedule is not None:
            self._check_graph(held, self.graph_schedule)
        else:
            if self.timer.runs_kernel:
                self._audit_end(held)
            self._check_again(held)
        held.require_unwritten()
        if self.timer.runs_kernel and per_call_s < CHALLENGE_S:
            is_cheap = 3 * per_call_s < CHECK_RATIO * (self.warm_up_s + self.elapsed_s)
            held.challenge(self._result_of_first, self.reference_s, is_cheap=is_cheap)
            if is_cheap and self.plan.wants_read_bytes and not held.restores:
                self.read_bytes = held.read_bytes(self._result_of_first)
        self.call.restore(self.rotation.sets[0], self.saved)

    def _audit_end(self, held: HeldOutputs) -> None:
        """Check a row of calls: all that one in `MOST_CALLS` is wrong of, where they are short."""
        __tracebackhide__ = True
        per_call_s = self.warm_up.per_call_s + CHECKED_CALL_S
        room_s = max(self._check_room_s, END_ROW_S)
        room = MOST_CALLS if self.calls > 1 else min(MOST_CALLS, int(room_s / per_call_s))
        if not held.restores:
            if room:
                self._audit_row(held, room)
            return
        for _ in range(max(1, room)):  # one call each, on arguments that were put back
            self._audit(held)

    def _result_of_first(self) -> Any:
        """Make a call on the first set and return its result."""
        arguments = self.rotation.sets[0]
        if self.graph_schedule is not None:
            self._replay(self.graph_schedule)
            return self.graph_outputs[0]
        assert self.held is not None
        return self.call.result(arguments, self._call_restored(self.held, 0))

    def _check_again(self, held: HeldOutputs) -> None:
        """Run the kernel once more, with poison in the memory of the last output and in what it may be given anew."""
        __tracebackhide__ = True
        call, arguments = self.call, self.rotation.sets[0]
        is_cheap = not held.restores and held.output_bytes <= MOST_POISONED_BYTES
        last = getattr(self.timer, "last_output", None) if is_cheap else None
        backup, decoy = copied(last), copied(last)
        poison([last, decoy], [arguments, self.rotation.sets[(self.done - 1) % len(self.rotation.sets)]])
        call.restore(arguments, self.saved)
        call.run_setup()
        del decoy
        output = call.kernel(*arguments)
        self.timer.synchronize()
        try:
            self._see_poisoned(held, 0, output, "after timing", last)
        finally:
            if last is not output:
                fill(last, backup)
        call.restore(arguments, self.saved)

    def _see_poisoned(self, held: HeldOutputs, index: int, output: Any, when: str, old: Any) -> None:
        """Check an output whose memory was poisoned; `old`: the poisoned one. Poison is called that, not a wrong
        number.
        """
        __tracebackhide__ = True
        try:
            held.see(index, output, when)
        except WrongResultError:
            if not holds_poison(output):
                raise
            returned = ": it returned an old buffer" if memories(old) & memories(output) else ""
            message = self.call.labelled(f"{when}: the call did not write its output{returned}")
            raise WrongResultError(message) from None

    def _check_graph(self, held: HeldOutputs, schedule: Schedule) -> None:
        """Poison every output, replay the graph and compare: a kernel that is not in the graph leaves the poison.

        A few calls are compared, on any set; every other one must have overwritten its poison too.
        """
        __tracebackhide__ = True
        poison(self.graph_outputs, schedule)
        self._replay(schedule)
        seen = self.choice.sample(range(len(schedule)), min(CHECKED_REPLAYS, len(schedule)))
        for index in seen:
            output = self.graph_outputs[index]
            self._see_poisoned(held, index % len(self.rotation.sets), output, f"in graph replay {index}", output)
        for index, output in enumerate(self.graph_outputs):
            if index not in seen and holds_poison(output):
                raise WrongResultError(self.call.labelled(f"graph replay {index} has written nothing"))

    def _replay(self, schedule: Schedule) -> None:
        replay = getattr(self.timer, "replay", None)  # once: `sample` may replay more often
        if replay is not None:
            replay()
        else:
            self.timer.sample(self.call.kernel, schedule)
        self.timer.synchronize()

    def _flags(self, half_width_ratio: float | None) -> tuple[str, ...]:
        flags = []
        if self.held is None:
            flags.append("unchecked")
        else:
            flags += sorted(self.held.flags)
        if self._is_misclocked:
            flags.append("clocks-disagree")
        if half_width_ratio is None:
            flags.append("few-samples")
        elif half_width_ratio > NOISY_RATIO:
            flags.append("noisy")
        flags += shape_flags(self.samples)
        if self.plan.cache == "cold" and self.timer.runs_kernel and not self.rotation.defeats(self.plan.cache_bytes):
            flags.append("cold-unproven")
        if getattr(self.timer, "unqueued_count", 0):
            flags.append("launch-gaps")
        if not self.warm_up.is_steady:
            flags.append("not-steady")
        return tuple(flags)

    @property
    def _is_misclocked(self) -> bool:
        """Whether the host's timer and another clock of the system disagree over all samples."""
        if self.timer.name != "monotonic" or not self.clock_ratios:
            return False
        # A process that has to wait between two readings makes the first ratio smaller and the second larger: neither
        # is wrong by that.
        inside, around = zip(*self.clock_ratios, strict=True)
        return max(inside) > CLOCK_RATIO or max(around) < 1 / CLOCK_RATIO


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
