"""A diff as an answer: what `roofline diff --json` and the API give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reports.present.words.diff_text import failure_text, listed_headline
from results.diff.case_diff import CaseDiff, SuiteDiff
from results.diff.environments import Difference
from results.diff.gate import FailRule, GateResult
from results.diff.rules import VERDICTS, DiffRules
from results.records.records import RunInfo
from roofline_model.core.finding import Finding


@dataclass(frozen=True, slots=True)
class DiffFailure:
    """A case that fails the gate."""

    case_key: str
    """Sixteen hex digits: the case."""
    name: str
    """The case in words."""
    rule: str
    """The condition that it meets: `slower:5%`."""
    why: str
    """By how much."""


@dataclass(frozen=True, slots=True)
class DiffAnswer:
    """What changed between two sides by more than noise."""

    verdict: str
    """The verdict in a sentence."""
    exit_code: int
    """What `roofline diff` exits with, code."""
    exit_findings: tuple[Finding, ...]
    """Why that is not 0; empty for 0."""
    is_comparable: bool
    """Whether machine, software and method allow a comparison at all."""
    before: tuple[RunInfo, ...]
    """The earlier runs: one, or those of a rolling baseline."""
    after: tuple[RunInfo, ...]
    """The later runs."""
    method_difference: str | None
    """What differs between the methods where every case in common was measured by two; null where one was not."""
    environment_differences: tuple[Difference, ...]
    """Facts of the environment that differ."""
    rules: DiffRules
    """What counts as a change."""
    fail_on: tuple[str, ...]
    """Conditions that fail the gate: `slower:5%`."""
    counts: Mapping[str, int]
    """Verdict → cases, count."""
    unmeasured_count: int
    """Cases that neither side measured, count."""
    unselected_count: int
    """Cases of the earlier side that the later one was not asked for (`pytest -k`), count."""
    selection: str | None
    """What the later side was selected by, as typed; null where nothing was left out for it."""
    common_change_ratio: float | None
    """Median change over the cases judged."""
    smallest_step_ratio: float | None
    """Median over the cases judged of the smallest slow-down that would be seen with 80 %."""
    largest_smallest_step_ratio: float | None
    """The same of the case that sees least, as a share."""
    unused_quarantine: tuple[Finding, ...]
    """Entries of the quarantine list that matched nothing or have expired."""
    failures: tuple[DiffFailure, ...]
    """Cases that fail the gate."""
    cases: tuple[CaseDiff, ...]
    """Every case of either side; none where the sides are not comparable."""


def diff_answer(diff: SuiteDiff, result: GateResult, fail_on: Sequence[FailRule]) -> DiffAnswer:
    """Return everything a diff says, as an answer."""
    return DiffAnswer(
        verdict=listed_headline(diff, result),
        exit_code=result.exit_code,
        exit_findings=result.reasons,
        is_comparable=diff.is_comparable,
        before=diff.before,
        after=diff.after,
        method_difference=diff.method_difference or None,
        environment_differences=diff.environment,
        rules=diff.rules,
        fail_on=tuple(rule.text for rule in fail_on),
        counts={verdict: sum(case.verdict == verdict for case in diff.cases) for verdict in VERDICTS},
        unmeasured_count=diff.unmeasured_count,
        unselected_count=diff.unselected_count,
        selection=diff.selection or None,
        common_change_ratio=diff.common_change_ratio,
        smallest_step_ratio=diff.smallest_step_ratio,
        largest_smallest_step_ratio=diff.largest_smallest_step_ratio,
        unused_quarantine=diff.unused_quarantine,
        failures=tuple(
            DiffFailure(failure.case.case_key, failure.case.name, failure.rule.text, failure_text(failure))
            for failure in result.failures
        ),
        cases=diff.cases,
    )
