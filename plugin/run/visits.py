"""Visits: a case is sampled in several short stays over the run, between those of other cases.

The only place that knows about them. `VisitPool` keeps cases open after their test: kernel and operands stay, and each
later test pays each a visit before its own sampling. A case is completed when its visits agree or its budget is spent;
where memory runs short the oldest is. What its test stored is replaced then: the same record with all samples that
count. A killed process loses the later visits, never the record.

A shared machine has slow states that no counter shows: another guest on the same core makes a kernel 20 to 35 %
slower, for milliseconds to seconds. A fixed loop between the samples shows most of them (`timers.host_speed`): only
samples that found the CPU as fast as usual count where there are any. Of what it does not show, the samples of one
visit resemble each other and say nothing about the next one; only visits that lie apart tell. What disturbs only adds
time, so the visits that agree with the fastest one count. `agreement` is pure: the samples of each visit in, the
samples that count out.

Kernels of `bench_cases` are asked for (`again=context`). A kernel of somebody else's suite is visited where
`later_calls` sees that nothing it may depend on ended with its test; one that fails then keeps what its test found.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from itertools import compress
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from plugin.machine.cpu_state import SHORTEST_WINDOW_S, LoadWatch
from plugin.run.later_calls import State, is_same
from plugin.samples.correctness import WrongResultError
from plugin.samples.plan import MeasurePlan
from plugin.samples.series import MeasuredKernel, Series
from plugin.samples.stats import estimate_median
from plugin.timers.clock import time
from plugin.timers.timers import Timer
from results.records.state_records import MachineState

if TYPE_CHECKING:
    from plugin.run.pending import Pending
    from plugin.run.session import BenchSession
    from results.records.records import Record

VISITS = 12
"""Stays at a case, at most."""
SPACING_S = 1.0
"""A case is left alone for so long after a visit, while tests go on: slow states last up to seconds."""
VISIT_RATIO = 0.07
"""Share of the budget that one takes; the shortest one that tells whether others used the CPUs takes more of a small
budget.
"""
MOST_BYTES_RATIO = 0.1
"""Of the free memory, that the operands of open cases may hold."""
CLOSING_S = 12.0
"""Longest time that the last cases are visited for when the run ends."""
WAKE_S = 0.005
"""A visit begins with so many seconds untimed, and one sample at least: other kernels had the caches meanwhile."""
LEAST_SAMPLES = 3
LONGEST_WAIT_S = 0.05
"""A visit waits so long for a CPU that is as fast as usual."""
FAILED_VISIT = "is_visit_failed"
"""Key of a record's `extra`: its kernel failed at a later visit, when its test had passed."""
_DISTURBED = ("contended", "stolen")
_OF_SAMPLES = ("few-samples", "noisy", "drift", "bimodal", "outliers", "autocorrelated")
LEAST_VISITS = 5
"""Stays at a case before it is left alone: fewer may all lie in one slow state."""
LEAST_AGREEING = 3
"""Undisturbed visits that have to agree with the fastest one before a case is left alone."""
LEAST_CONTENDED = 6
"""Contended ones that have to, where no others are to be had."""
AGREE_MULTIPLE = 1.0
"""Medians agree within twice ± this many times the target of the precision …"""
AGREEING_RATIO = 2 / 3
"""… and of contended ones this share has to."""

Settings = Callable[[], AbstractContextManager[Any]]
"""What the kernel has to run inside, entered anew at each visit."""


@dataclass(frozen=True, slots=True)
class Visit:
    """One stay at a case."""

    samples_s: tuple[float, ...]
    clocks_hz: tuple[float | None, ...]
    is_contended: bool
    """Whether other processes used the CPUs meanwhile."""
    others_ratio: float | None = None
    """Share of our CPUs' time that other processes used; None where it is not known."""
    is_slowed: bool = False
    """Whether hardly any of its samples found the CPU as fast as usual; else those that did are its samples."""

    @property
    def median_s(self) -> float:
        """Median seconds per call."""
        return median(self.samples_s)


@dataclass(frozen=True, slots=True)
class Agreement:
    """What the visits to a case say together."""

    visits: tuple[Visit, ...]
    used: tuple[Visit, ...]
    """Those whose samples count, in order: the undisturbed ones that agree with the fastest of them; where too few are
    undisturbed, all that agree with the fastest.
    """
    agreed_count: int
    is_settled: bool
    """Whether so many agree that more visits would tell nothing new."""

    @property
    def is_disturbed(self) -> bool:
        """Whether contended visits had to be used."""
        return any(visit.is_contended for visit in self.used)

    @property
    def others_ratio(self) -> float | None:
        """Share of our CPUs' time that others used, mean over the visits that count and know it; None where none
        does.
        """
        shares = [visit.others_ratio for visit in self.used if visit.others_ratio is not None]
        return fmean(shares) if shares else None

    @property
    def samples_s(self) -> tuple[float, ...]:
        """The samples that count."""
        return tuple(sample for visit in self.used for sample in visit.samples_s)

    @property
    def clocks_hz(self) -> tuple[float | None, ...]:
        """Their clocks."""
        return tuple(clock for visit in self.used for clock in visit.clocks_hz)

    def facts(self) -> dict[str, Any]:
        """Return what a record keeps: how many visits there were, agreed, were contended and slowed; their medians."""
        return {
            "count": len(self.visits),
            "agreed": self.agreed_count,
            "contended": sum(visit.is_contended for visit in self.visits),
            "slowed": sum(visit.is_slowed for visit in self.visits),
            "medians_s": [visit.median_s for visit in self.visits],
        }


def agreement(visits: Sequence[Visit], target_ratio: float) -> Agreement:
    """Return what one or more visits say together.

    Contended and slowed visits are left out as soon as `LEAST_AGREEING` are neither: the counters of a short stay are
    coarse, and one alone may have been found undisturbed by chance. Those within twice ± `AGREE_MULTIPLE` × the target
    of the fastest agree: what disturbs, seen or not, only ever adds time. They settle a case if they are
    `LEAST_AGREEING` of `LEAST_VISITS`; contended ones if they are `LEAST_CONTENDED`, and most of all.
    """
    clean = [visit for visit in visits if not visit.is_contended and not visit.is_slowed]
    if len(clean) < min(LEAST_AGREEING, len(visits)):
        clean = []
    ordered = sorted(clean or visits, key=lambda visit: visit.median_s)
    width = 2 * math.log1p(AGREE_MULTIPLE * target_ratio)
    agreeing = [visit for visit in ordered if math.log(visit.median_s / ordered[0].median_s) <= width]
    used = tuple(visit for visit in visits if any(visit is member for member in agreeing))
    if clean:
        is_settled = len(agreeing) >= LEAST_AGREEING and len(visits) >= LEAST_VISITS
    else:
        is_settled = len(agreeing) >= max(LEAST_CONTENDED, AGREEING_RATIO * len(ordered))
    return Agreement(tuple(visits), used, len(agreeing), is_settled)


@dataclass(slots=True)
class OpenCase:
    """One case between its test and its completion."""

    pending: Pending
    first: MeasuredKernel
    """As the first visit found it."""
    series: Series
    timer: Timer
    plan: MeasurePlan
    settings: Settings
    budget_s: float
    target_ratio: float
    first_s: float
    """Seconds that the first visit sampled."""
    state: Callable[[], State] | None = None
    """What the kernel finds outside its arguments (`later_calls.program_state`); None: its test asked to be visited,
    whatever that is.
    """
    test_state: State = field(default_factory=dict)
    """The state in its test, without what the kernel itself changes."""
    later_s: float = 0.0
    """Seconds that all later visits sampled."""
    waited_s: float = 0.0
    """Seconds that visits waited for the CPU to be fast: they cost the run, and nothing of the budget."""
    visits: list[Visit] = field(default_factory=list)
    left_s: float = field(default_factory=time.perf_counter)
    """When its last visit ended, by the process's clock."""
    record: Record | None = None
    """As it is stored; None until its test is over."""

    def __post_init__(self) -> None:
        if self.state is not None:
            after = self.state()
            self.test_state = {name: value for name, value in self.test_state.items() if after.get(name) == value}

    @property
    def finds_the_same(self) -> bool:
        """Whether the kernel would find now what it found in its test."""
        return self.state is None or is_same(self.state(), self.test_state)

    @property
    def agreement(self) -> Agreement:
        """What its visits say together."""
        return agreement(self.visits, self.target_ratio)

    @property
    def is_done(self) -> bool:
        """Whether no further visit is due."""
        if self.first_s + self.later_s >= self.budget_s or len(self.visits) >= VISITS:
            return True
        together = self.agreement
        if not together.is_settled:
            return False
        width = estimate_median(together.samples_s).half_width_ratio
        return width is not None and width <= self.target_ratio

    def visit(self) -> None:
        """Stay for a share of the budget."""
        seconds = max(VISIT_RATIO * self.budget_s, SHORTEST_WINDOW_S)
        first = len(self.series.samples)
        if self.series.speed is not None:
            self.waited_s += self.series.speed.wait(LONGEST_WAIT_S)
        was_enabled = gc.isenabled()
        gc.disable()
        load = LoadWatch()
        try:
            with self.settings(), load:
                began = time.perf_counter()
                self.series.step()
                while time.perf_counter() - began < WAKE_S:
                    self.series.step()
                del self.series.samples[first:], self.series.clocks[first:], self.series.marks[first:]
                while len(self.series.samples) - first < LEAST_SAMPLES or time.perf_counter() - began < seconds:
                    self.series.step()
                    if time.perf_counter() - began > 3 * seconds and len(self.series.samples) > first:
                        break
        finally:
            if was_enabled:
                gc.enable()
        self.left_s = time.perf_counter()
        self.later_s += self.left_s - began
        self.visits.append(visit_of(self.series, first, bool(load.flags()), load.others_ratio))

    def completed(self) -> MeasuredKernel:
        """Return the measurement of all visits that count; raises `WrongResultError` for a kernel that is wrong by
        now.
        """
        together = self.agreement
        series = self.series
        series.samples, series.clocks = list(together.samples_s), list(together.clocks_hz)
        series.stop_reason = "agreed" if together.is_settled else "budget"
        with self.settings():
            kernel = series.finish()
        first, last = self.first.measurement, kernel.measurement
        flags = [flag for flag in first.flags if flag not in (*_DISTURBED, *_OF_SAMPLES)]
        if together.is_disturbed:
            flags += [flag for flag in _DISTURBED if flag in first.flags] or ["contended"]
        if together.agreed_count < LEAST_AGREEING <= len(self.visits):
            flags.append("bimodal")  # hardly any visit was as fast as the one that counts
        measurement = replace(
            last,
            wall_s=(first.wall_s or 0.0) + self.later_s + self.waited_s,  # what other cases took is theirs
            sm_clock_hz=first.sm_clock_hz,
            temperature_c=first.temperature_c,
            flags=tuple(dict.fromkeys([*last.flags, *flags])),
            state=replace(first.state or MachineState(), others_ratio=together.others_ratio),
        )
        return replace(kernel, measurement=measurement, telemetry=self.first.telemetry)


def visit_of(series: Series, first: int, is_contended: bool, others_ratio: float | None) -> Visit:
    """Return a visit of the samples that found the CPU fast; of all where fewer than `LEAST_SAMPLES` did."""
    samples, clocks, speed = series.samples[first:], series.clocks[first:], series.speed
    is_slowed = False
    if speed is not None:
        speed.read()
        fast = speed.are_fast(series.marks[first:])
        is_slowed = sum(fast) < LEAST_SAMPLES
        if not is_slowed:
            samples, clocks = list(compress(samples, fast)), list(compress(clocks, fast))
    return Visit(tuple(samples), tuple(clocks), is_contended, others_ratio, is_slowed)


class VisitPool:
    """The open cases of a session."""

    def __init__(self, session: BenchSession) -> None:
        self._session = session
        self._cases: list[OpenCase] = []
        self.is_on = True
        """Whether cases may stay open: not where each has a process of its own."""

    def may_keep(self, timer: Timer, plan: MeasurePlan) -> bool:
        """Return whether a case timed like that may be visited again: real kernels whose calls stand for themselves."""
        options = self._session.options
        return (
            self.is_on
            and timer.runs_kernel
            and self._session.target.device == "cpu"
            and plan.mode == "eager"
            and not options.power
            and options.attribution == "none"
        )

    def keep(self, case: OpenCase) -> MeasuredKernel:
        """Keep a case open after its first visit and return what is known of it so far; the oldest go where there is
        no room.

        One whose operands alone take too much memory gets its visits now, one after the other.
        """
        first = case.first.measurement
        is_contended = bool(set(_DISTURBED).intersection(first.flags))
        case.visits.append(visit_of(case.series, 0, is_contended, (first.state or MachineState()).others_ratio))
        case.pending.extra["visits"] = case.agreement.facts()
        if case.is_done:
            return case.first
        free = self._session.instruments.free_bytes()
        most_bytes = math.inf if free is None else MOST_BYTES_RATIO * free
        own_bytes = case.series.rotation.working_set_bytes
        if own_bytes > most_bytes:
            while not case.is_done:
                case.visit()
            case.pending.extra["visits"] = case.agreement.facts()
            return case.completed()
        held = [each.series.rotation.working_set_bytes for each in self._cases]
        while self._cases and sum(held) + own_bytes > most_bytes:
            self._leave(self._cases[0])
            held.pop(0)
        self._cases.append(case)
        return case.first

    def stored(self, record: Record) -> None:
        """Note that the record of an open case is in the store; one whose test failed is not visited again."""
        for case in list(self._cases):
            if case.pending.record_id == record.record_id:
                case.record = record
                if "test_failure" in record.extra or record.status != "measured":
                    self._cases.remove(case)

    def pay(self) -> None:
        """Visit every open case whose test is over, that was left some time ago and that finds the same; complete what
        is done.
        """
        for case in list(self._cases):
            is_due = case.record is not None and time.perf_counter() - case.left_s >= SPACING_S
            if is_due and case.finds_the_same:
                self._visit(case)

    def end_tests(self) -> None:
        """Complete the cases whose test did not ask to be visited: the fixtures of the session end next."""
        self._finish([case for case in self._cases if case.state is not None])

    def close(self, *, may_visit: bool = True) -> None:
        """Complete everything. What is open though its test did not ask for it stays as its test stored it."""
        self._cases = [case for case in self._cases if case.record is not None and case.state is None]
        self._finish(self._cases, may_visit=may_visit)

    def _finish(self, cases: Sequence[OpenCase], *, may_visit: bool = True) -> None:
        """Visit cases in turn, for at most `CLOSING_S`, and complete them."""
        limit_s = min(CLOSING_S, self._session.options.timeout_s / 2)
        until_s = time.perf_counter() + (limit_s if may_visit else 0.0)

        def are_open() -> list[OpenCase]:
            return [case for case in cases if case.record is not None and any(case is each for each in self._cases)]

        cases = list(cases)
        while time.perf_counter() < until_s and (due := [case for case in are_open() if case.finds_the_same]):
            for case in due:
                self._visit(case)
        for case in are_open():
            if case.state is None or len(case.visits) > 1:
                self._complete(case)
            else:  # it never found again what its test found
                self._cases.remove(case)

    def _leave(self, case: OpenCase) -> None:
        """Complete a case whose place is needed; one whose test has not stored it goes as it is."""
        if case.record is None:
            self._cases.remove(case)
        else:
            self._complete(case)

    def _visit(self, case: OpenCase) -> None:
        try:
            case.visit()
        except Exception as error:  # whatever the kernel raises, it is not the running test's
            self._fail(case, error)
            return
        if case.is_done:
            self._complete(case)

    def _complete(self, case: OpenCase) -> None:
        assert case.record is not None
        together = case.agreement
        try:
            kernel = case.completed()
        except Exception as error:  # whatever the kernel raises when it is checked once more
            self._fail(case, error)
            return
        self._cases.remove(case)
        case.pending.extra["visits"] = together.facts()
        case.pending.measured(self._session, kernel, case.timer, case.plan)
        record = case.pending.record(self._session, case.record.test_id, None)
        assert record is not None
        self._session.complete(replace(record, created_at=case.record.created_at))

    def _fail(self, case: OpenCase, error: Exception) -> None:
        """Let a case go that failed when it was visited again: its record says so. The session fails where its test
        asked for the visit; where it did not, what its test found stays, and a wrong result puts it in doubt.
        """
        assert case.record is not None
        assert case.record.measurement is not None
        is_wrong, measured = isinstance(error, WrongResultError), case.record.measurement
        reason = str(error) if is_wrong else f"{type(error).__name__}: {error}"
        self._cases.remove(case)
        if case.state is None:
            extra = {**case.record.extra, "test_failure": reason[:200], FAILED_VISIT: True}
        else:
            extra = {**case.record.extra, "visits": {**case.record.extra["visits"], "ended_by": reason[:200]}}
            measured = replace(measured, flags=(*measured.flags, *(["wrong-later"] if is_wrong else [])))
        self._session.complete(replace(case.record, extra=extra, measurement=measured))
