"""The values of a diff: one case between two suites, and the whole suite. Frozen and plain; `suites` makes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from results.diff.environments import Difference
from results.diff.rules import DiffRules, Verdict
from results.diff.significance.metrics import MetricChange
from results.records.records import RunInfo
from roofline_model.core.finding import Finding
from roofline_model.operators.case import Case


@dataclass(frozen=True, slots=True)
class CaseDiff:
    """One case on both sides.

    Changes are (after − before) / before, positive is slower; None where nothing is known.
    """

    DERIVED: ClassVar = ("name", "case_id")

    case: Case
    """What is run."""
    case_key: str
    """Sixteen hex digits: the case on both sides."""
    verdict: Verdict
    """SAME: within noise; AMBIGUOUS: it may be either; INVALID: not comparable; NEW, GONE: on one side only."""
    reason: str
    """Code of `rules.REASONS`, explained in docs/reference/diff.md."""
    detail: str
    """What the code leaves open: which flag in how many processes, why it was skipped; may be empty."""
    before_s: float | None = None
    """Seconds; geometric mean of the processes' medians, which the test compares."""
    after_s: float | None = None
    """Seconds; the same of the later side."""
    before_process_count: int = 0
    """Processes used, count."""
    after_process_count: int = 0
    """Processes used, count."""
    change_ratio: float | None = None
    """(after − before) / before."""
    low_ratio: float | None = None
    """Lower end of the 95 % interval of the change."""
    high_ratio: float | None = None
    """Upper end of the 95 % interval of the change."""
    p_value: float | None = None
    """p_value of the change, one-sided in its direction."""
    adjusted_p_value: float | None = None
    """The same after Benjamini–Hochberg over the suite."""
    floor_ratio: float | None = None
    """Noise floor: standard deviation of the difference of the two sides' estimates, as a share."""
    min_effect_ratio: float | None = None
    """The smallest change that is called, as a share."""
    smallest_step_ratio: float | None = None
    """The slow-down of this case alone that would be found with 80 %, as a share."""
    clock_before_hz: float | None = None
    """Clock of the SMs, or of the CPUs where no SM clock is known, on the earlier side, Hz."""
    clock_after_hz: float | None = None
    """The same on the later side, Hz."""
    others_before_ratio: float | None = None
    """Share of the CPUs that other processes used beside a kernel on the CPU, on the earlier side."""
    others_after_ratio: float | None = None
    """The same share on the later side."""
    cycles_change_ratio: float | None = None
    """Change of time × clock, as a share; None where a clock is not known."""
    threshold_ratio: float | None = None
    """The case's own smallest change that counts (`roofline` marker), as a share."""
    set_aside: tuple[Finding, ...] = ()
    """Processes and nights that were not used; the subject is the side, `before` or `after`."""
    flags: tuple[str, ...] = ()
    """Of the measurements on either side."""
    metrics: tuple[MetricChange, ...] = ()
    """Energy, memory, quality and error of the prediction on both sides."""
    quarantine_reason: str = ""
    """Why the case is on the quarantine list: it is judged and shown, and never fails a gate."""
    expected_reason: str = ""
    """Why the change of the time, or the loss of the case, was expected (an annotation): it is shown, and fails no
    gate.
    """

    @property
    def name(self) -> str:
        """Operator and id: what tells it from every other case."""
        return f"{self.case.op} {self.case.id}"

    @property
    def is_same_unseen(self) -> bool:
        """Whether it is SAME although its noise is not known (two processes a side, no floor): any slow-down could
        hide.
        """
        return self.verdict == "SAME" and self.smallest_step_ratio is None

    @property
    def case_id(self) -> str:
        """The case as the benchmarks name it."""
        return self.case.id


@dataclass(frozen=True, slots=True)
class SuiteDiff:
    """Comparison of two suites, case by case."""

    before: tuple[RunInfo, ...]
    """The earlier runs: one, or those of a rolling baseline."""
    after: tuple[RunInfo, ...]
    """The later runs."""
    cases: tuple[CaseDiff, ...]
    """In the order of the newer suite, what is gone behind; empty where the sides are not comparable."""
    environment: tuple[Difference, ...]
    """Facts of the environment that differ."""
    rules: DiffRules
    """What counts as a change."""
    common_change_ratio: float | None = None
    """Median change over the cases judged: what all of them did together."""
    smallest_step_ratio: float | None = None
    """Median over the cases judged of the smallest slow-down seen with 80 %."""
    method_difference: str = ""
    """What differs between the methods where every case in common was measured by two; empty where one was not, or none
    is common.
    """
    largest_smallest_step_ratio: float | None = None
    """The same of the case that sees least, as a share."""
    unmeasured_count: int = 0
    """Cases that neither side measured, count."""
    unselected_count: int = 0
    """Cases of the older side that the newer one was not asked for: they are not among `cases`, and not
    GONE, count.
    """
    selection: str = ""
    """What the newer side was selected by, as typed: `-k gemv`; empty where nothing was left out for it."""
    unused_quarantine: tuple[Finding, ...] = ()
    """Entries of the quarantine list that matched nothing or have expired."""

    @property
    def blocking(self) -> tuple[Difference, ...]:
        """Why the sides are not comparable; empty where they are."""
        return tuple(difference for difference in self.environment if difference.is_blocking)

    @property
    def permitted(self) -> tuple[Difference, ...]:
        """Differences that do not block; the method version is left out where the method difference already names
        it.
        """
        method_fact = "method_version" if self.method_difference else ""
        return tuple(
            difference
            for difference in self.environment
            if not difference.is_blocking and difference.name != method_fact
        )

    @property
    def is_comparable(self) -> bool:
        """Whether machine and software are the same on both sides, and a case was measured on both by the same
        method.
        """
        measured = [case for case in self.cases if case.before_s is not None and case.after_s is not None]
        return not self.blocking and any(case.reason != "method-differs" for case in measured)

    @property
    def is_judged(self) -> bool:
        """Whether a case has a verdict on its time: none has where all are invalid, ambiguous, new or gone."""
        return any(case.verdict in ("SLOWER", "FASTER", "SAME") for case in self.cases)

    def of(self, *verdicts: Verdict) -> tuple[CaseDiff, ...]:
        """Return the cases of these verdicts, the largest change first."""
        cases = [case for case in self.cases if case.verdict in verdicts]
        return tuple(sorted(cases, key=lambda case_diff: -abs(case_diff.change_ratio or 0.0)))
