"""Visits: a case is sampled in several short stays over the run, between those of other cases.

The only place that knows about them. `VisitPool` keeps cases open after their test: kernel and operands stay, and each
later test pays each a visit before its own sampling. A case is completed when its visits agree or its budget is spent;
where memory runs short the oldest is. What its test stored is replaced then: the same record with all samples that
count. A killed process loses the later visits, never the record.

A shared machine has slow states that last longer than a visit. The samples of one visit then resemble each other and
say nothing about the next one; only visits that lie apart tell. `agreement` is pure: the samples of each visit in, the
samples that count out.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from statistics import median
from typing import TYPE_CHECKING, Any

from plugin.machine.cpu_state import SHORTEST_WINDOW_S, LoadWatch
from plugin.run.observe import Observed
from plugin.samples.correctness import WrongResultError
from plugin.samples.plan import MeasurePlan
from plugin.samples.series import CaseTiming, Series
from plugin.samples.stats import estimate_median
from plugin.timers.clock import time
from plugin.timers.timers import Timer

if TYPE_CHECKING:
    from plugin.run.pending import Pending
    from plugin.run.session import BenchSession
    from results.records.records import Record

VISITS = 9
"""Stays at a case, at most; no more cases are open at once."""
VISIT_RATIO = 0.07
"""Share of the budget that one takes; the shortest one that tells whether others used the CPUs takes more of a small
budget.
"""
MOST_BYTES_RATIO = 0.1
"""Of the free memory, that the operands of open cases may hold."""
CLOSING_S = 8.0
"""Longest time that the last cases are visited for when the run ends."""
WAKE_S = 0.005
"""A visit begins with so many seconds untimed, and one sample at least: other kernels had the caches meanwhile."""
LEAST_SAMPLES = 3
FAILED_VISIT = "is_visit_failed"
"""Key of a record's `extra`: its kernel failed at a later visit, when its test had passed."""
_DISTURBED = ("contended", "stolen")
_OF_SAMPLES = ("few-samples", "noisy", "drift", "bimodal", "outliers", "autocorrelated")
LEAST_AGREEING = 3
"""Undisturbed visits that have to agree before a case is left alone."""
LEAST_CONTENDED = 6
"""Contended ones that have to, where no others are to be had."""
AGREE_MULTIPLE = 2.0
"""Medians agree within this many times the target of the precision …"""
AGREEING_RATIO = 2 / 3
"""… and this share of the undisturbed visits has to, of the contended ones where none is undisturbed."""

Settings = Callable[[], AbstractContextManager[Any]]
"""What the kernel has to run inside, entered anew at each visit."""


@dataclass(frozen=True, slots=True)
class Visit:
    """One stay at a case."""

    samples_s: tuple[float, ...]
    clocks_hz: tuple[float | None, ...]
    is_contended: bool
    """Whether other processes used the CPUs meanwhile."""

    @property
    def median_s(self) -> float:
        """Median seconds per call."""
        return median(self.samples_s)


@dataclass(frozen=True, slots=True)
class Agreement:
    """What the visits to a case say together."""

    visits: tuple[Visit, ...]
    used: tuple[Visit, ...]
    """Those whose samples count, in order: the ones that agree where they are most of the undisturbed ones, else all
    undisturbed ones; where there are none, those like the fastest.
    """
    agreed_count: int
    contended_count: int
    is_settled: bool
    """Whether so many agree that more visits would tell nothing new."""

    @property
    def is_disturbed(self) -> bool:
        """Whether contended visits had to be used."""
        return any(visit.is_contended for visit in self.used)

    @property
    def samples_s(self) -> tuple[float, ...]:
        """The samples that count."""
        return tuple(sample for visit in self.used for sample in visit.samples_s)

    @property
    def clocks_hz(self) -> tuple[float | None, ...]:
        """Their clocks."""
        return tuple(clock for visit in self.used for clock in visit.clocks_hz)

    def facts(self) -> dict[str, Any]:
        """Return what a record keeps: how many visits there were, agreed and were contended, and their medians."""
        return {
            "count": len(self.visits),
            "agreed": self.agreed_count,
            "contended": self.contended_count,
            "medians_s": [visit.median_s for visit in self.visits],
        }


def agreement(visits: Sequence[Visit], target_ratio: float) -> Agreement:
    """Return what one or more visits say together.

    Contended visits are left out as soon as `LEAST_AGREEING` are not: the counters of a short stay are coarse, and one
    alone may have been found undisturbed by chance. The largest group that lies within twice ± `AGREE_MULTIPLE` × the
    target agrees; of equal groups the fastest. With fewer undisturbed ones, those that agree with the fastest of all
    count: other processes only ever add time. They settle a case too, if they are `LEAST_CONTENDED`.
    """
    contended = [visit for visit in visits if visit.is_contended]
    clean = [visit for visit in visits if not visit.is_contended]
    if contended and len(clean) < LEAST_AGREEING:
        clean = []
    ordered = sorted(clean or visits, key=lambda visit: visit.median_s)
    width = 2 * math.log1p(AGREE_MULTIPLE * target_ratio)
    groups = [
        [visit for visit in ordered[start:] if math.log(visit.median_s / first.median_s) <= width]
        for start, first in enumerate(ordered)
    ]
    best = max(groups, key=len) if clean else groups[0]
    counts = best if not clean or 2 * len(best) > len(clean) else clean
    used = tuple(visit for visit in visits if any(visit is member for member in counts))
    least_count = LEAST_AGREEING if clean else LEAST_CONTENDED
    is_settled = len(best) >= max(least_count, AGREEING_RATIO * len(ordered))
    return Agreement(tuple(visits), used, len(best), len(contended), is_settled)


@dataclass(slots=True)
class OpenCase:
    """One case between its test and its completion."""

    pending: Pending
    observed: Observed
    series: Series
    timer: Timer
    plan: MeasurePlan
    settings: Settings
    budget_s: float
    target_ratio: float
    first_s: float
    """Seconds that the first visit sampled."""
    spent_s: float = field(init=False)
    """Seconds that all visits took."""
    visits: list[Visit] = field(default_factory=list)
    record: Record | None = None
    """As it is stored; None until its test is over."""

    def __post_init__(self) -> None:
        self.spent_s = self.first_s

    @property
    def agreement(self) -> Agreement:
        """What its visits say together."""
        return agreement(self.visits, self.target_ratio)

    @property
    def is_done(self) -> bool:
        """Whether no further visit is due."""
        if self.spent_s >= self.budget_s or len(self.visits) >= VISITS:
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
        was_enabled = gc.isenabled()
        gc.disable()
        load = LoadWatch()
        try:
            with self.settings(), load:
                began = time.perf_counter()
                self.series.step()
                while time.perf_counter() - began < WAKE_S:
                    self.series.step()
                del self.series.samples[first:], self.series.clocks[first:]
                while len(self.series.samples) - first < LEAST_SAMPLES or time.perf_counter() - began < seconds:
                    self.series.step()
                    if time.perf_counter() - began > 3 * seconds and len(self.series.samples) > first:
                        break
        finally:
            if was_enabled:
                gc.enable()
        self.spent_s += time.perf_counter() - began
        self.visits.append(_visit(self.series, first, bool(load.flags())))

    def completed(self) -> Observed:
        """Return the measurement of all visits that count; raises `WrongResultError` for a kernel that is wrong by
        now.
        """
        together = self.agreement
        series = self.series
        series.samples, series.clocks = list(together.samples_s), list(together.clocks_hz)
        series.stop_reason = "agreed" if together.is_settled else "budget"
        with self.settings():
            timing: CaseTiming = series.finish()
        own_s = self.observed.timing.wall_s + self.spent_s - self.first_s
        timing = replace(timing, wall_s=own_s)  # what other cases took in between is theirs
        flags = [flag for flag in self.observed.flags if flag not in (*_DISTURBED, *_OF_SAMPLES)]
        if together.is_disturbed:
            flags += [flag for flag in _DISTURBED if flag in self.observed.flags] or ["contended"]
        return replace(self.observed, timing=timing, flags=tuple(dict.fromkeys([*timing.flags, *flags])))


def _visit(series: Series, first: int, is_contended: bool) -> Visit:
    return Visit(tuple(series.samples[first:]), tuple(series.clocks[first:]), is_contended)


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

    def keep(self, case: OpenCase) -> Observed:
        """Keep a case open after its first visit and return what is known of it so far; the oldest go where there is
        no room.

        One whose operands alone take too much memory gets its visits now, one after the other.
        """
        case.visits.append(_visit(case.series, 0, bool(set(_DISTURBED).intersection(case.observed.flags))))
        case.pending.extra["visits"] = case.agreement.facts()
        if case.is_done:
            return case.observed
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
        return case.observed

    def stored(self, record: Record) -> None:
        """Note that the record of an open case is in the store; one whose test failed is not visited again."""
        for case in list(self._cases):
            if case.pending.record_id == record.record_id:
                case.record = record
                if "test_failure" in record.extra or record.status != "measured":
                    self._cases.remove(case)

    def pay(self) -> None:
        """Visit every open case whose test is over; complete what is done."""
        for case in list(self._cases):
            if case.record is not None:
                self._visit(case)

    def close(self, *, may_visit: bool = True) -> None:
        """Complete everything; visit what is still open, in turn, for at most `CLOSING_S`."""
        until_s = time.perf_counter() + (CLOSING_S if may_visit else 0.0)
        self._cases = [case for case in self._cases if case.record is not None]
        while self._cases and time.perf_counter() < until_s:
            self.pay()
        for case in list(self._cases):
            self._complete(case)

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
            self._fail(case, f"{type(error).__name__}: {error}")
            return
        if case.is_done:
            self._complete(case)

    def _complete(self, case: OpenCase) -> None:
        assert case.record is not None
        together = case.agreement
        try:
            observed = case.completed()
        except WrongResultError as error:
            self._fail(case, str(error))
            return
        self._cases.remove(case)
        case.pending.extra["visits"] = together.facts()
        case.pending.measured(self._session, observed, case.timer, case.plan)
        record = case.pending.record(self._session, case.record.test_id, None)
        assert record is not None
        self._session.complete(replace(record, created_at=case.record.created_at))

    def _fail(self, case: OpenCase, reason: str) -> None:
        """Let a case go that failed when it was visited again: its record says so, and the session fails."""
        assert case.record is not None
        self._cases.remove(case)
        extra = {**case.record.extra, "test_failure": reason[:200], FAILED_VISIT: True}
        self._session.complete(replace(case.record, extra=extra))
