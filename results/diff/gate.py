"""From a diff to an exit code: what was asked to fail, what did, and why. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from results.diff.case_diff import CaseDiff, SuiteDiff
from results.diff.rules import MACHINE_REASONS, DiffRules
from results.diff.significance.metrics import MetricChange, directed
from roofline_model.core.errors import InvalidValueError
from roofline_model.core.finding import Finding, finding

ExitCode = Literal[0, 1, 3, 4, 5]
EXIT_SAME: ExitCode = 0
EXIT_REGRESSION: ExitCode = 1
EXIT_AMBIGUOUS: ExitCode = 3
EXIT_NOT_COMPARABLE: ExitCode = 4
EXIT_MACHINE: ExitCode = 5
"""2 is a mistake of the user, as of every command."""

KINDS = ("slower", "gone", "energy", "memory", "quality", "error")
MOST_DECIMALS = 6
"""Of a size in percent."""
MOST_INVALID_RATIO = 0.5
"""With more of the cases invalid by the machine's state, the machine is what is wrong."""


@dataclass(frozen=True, slots=True)
class FailRule:
    """One condition of `--fail-on`: slower, gone, energy, memory, quality or error, from a size on."""

    kind: str
    least_ratio: float = 0.0

    @property
    def text(self) -> str:
        """As it is typed: `slower:5%`; `parse_fail_on` reads it back as the same rule."""
        percent = f"{self.least_ratio * 100:.{MOST_DECIMALS}f}".rstrip("0").rstrip(".")
        return f"{self.kind}:{percent}%" if self.least_ratio else self.kind


@dataclass(frozen=True, slots=True)
class Failure:
    """One case that fails the gate, and by which condition."""

    case: CaseDiff
    rule: FailRule
    worse: tuple[MetricChange, ...] = ()
    """The figures beyond the rule's size; empty for one on the time."""


@dataclass(frozen=True, slots=True)
class GateResult:
    """Result of a gate: exit code, failures and reasons."""

    exit_code: ExitCode
    failures: tuple[Failure, ...]
    reasons: tuple[Finding, ...] = ()
    """Why the exit code is not 0; empty for 0."""


def parse_fail_on(texts: Sequence[str]) -> tuple[FailRule, ...]:
    """Return the conditions of `slower`, `slower:5%`, `gone,energy:10%`, …; raises `InvalidValueError` for anything
    else.
    """
    rules = []
    for part in (part.strip().lower() for text in texts for part in text.split(",")):
        kind, colon, size = part.partition(":")
        number = re.fullmatch(rf"([0-9]{{1,3}}(?:\.[0-9]{{1,{MOST_DECIMALS}}})?)\s*%", size.strip())
        if kind not in KINDS or (colon and (number is None or kind == "gone")):
            raise InvalidValueError(
                f"--fail-on takes {', '.join(KINDS)}, all but gone with a size such as slower:5%, got {part[:40]!r}"
            )
        rules.append(FailRule(kind, float(number[1]) / 100 if number else 0.0))
    return tuple(rules)


def rules_for(fail_on: Sequence[FailRule], rules: DiffRules) -> DiffRules:
    """Return the rules of a diff for a gate: the smallest size of its `slower` conditions is its limit.

    SLOWER is then what is surely beyond it, SAME what is surely below.
    """
    sizes = [rule.least_ratio for rule in fail_on if rule.kind == "slower"]
    if not any(sizes):
        return rules
    limit_ratio = min(size for size in sizes if size)
    return replace(rules, limit_ratio=limit_ratio, asked_ratio=limit_ratio if all(sizes) else 0.0)


def gate(diff: SuiteDiff, fail_on: Sequence[FailRule], max_ambiguous_count: int | None = None) -> GateResult:
    """Return the exit code: 4 not comparable, 1 regression, 5 machine state invalid, 3 too ambiguous, 0 otherwise, the
    first that holds.

    Quarantined cases fail nothing, an expected slow-down or loss neither. A slow-down at equal cycles is the machine's
    (5), not the code's (1). What a run that was interrupted lacks is not gone.
    """
    if not diff.is_comparable:
        return GateResult(EXIT_NOT_COMPARABLE, (), _not_comparable(diff))
    watched = [case for case in diff.cases if not case.quarantine_reason]
    failures = tuple(
        failure for rule in fail_on for case in watched if (failure := _failure(diff, case, rule)) is not None
    )
    if failures:
        count = len({failure.case.case_key for failure in failures})
        rules = tuple(dict.fromkeys(failure.rule.text for failure in failures))
        return GateResult(EXIT_REGRESSION, failures, (finding("gate-failed", case_count=count, rules=rules),))
    if (reason := _machine(diff, watched)) is not None:
        return GateResult(EXIT_MACHINE, (), (reason,))
    ambiguous = sum(case.verdict == "AMBIGUOUS" for case in watched)
    if max_ambiguous_count is not None and ambiguous > max_ambiguous_count:
        reason = finding("too-ambiguous", case_count=ambiguous, limit_count=max_ambiguous_count)
        return GateResult(EXIT_AMBIGUOUS, (), (reason,))
    return GateResult(EXIT_SAME, ())


def _failure(diff: SuiteDiff, case: CaseDiff, rule: FailRule) -> Failure | None:
    if rule.kind == "slower":
        is_codes = case.verdict == "SLOWER" and case.reason != "clock-lower" and not case.expected_reason
        least = rule.least_ratio if case.threshold_ratio is None else case.threshold_ratio
        if is_codes and _surely_ratio(case) >= least:
            return Failure(case, rule)
        return None
    if rule.kind == "gone":
        is_whole = all(run.status == "complete" for run in diff.after)
        is_gone = case.verdict == "GONE" and is_whole and not case.expected_reason
        return Failure(case, rule) if is_gone else None
    worse = tuple(
        change
        for change in case.metrics
        if change.group == rule.kind and change.verdict == "WORSE" and loss_ratio(change) >= rule.least_ratio
    )
    return Failure(case, rule, worse) if worse else None


def _surely_ratio(case: CaseDiff) -> float:
    """Return how much slower a case surely is: the lower end of its interval."""
    surely_ratio = case.low_ratio if case.low_ratio is not None else case.change_ratio
    return surely_ratio or 0.0


def loss_ratio(change: MetricChange) -> float:
    """Return how much worse a figure became, at least, where it has an interval; of an error, how much farther from
    0.
    """
    if change.low_ratio is not None and not change.is_higher_better:
        return change.low_ratio
    if change.group == "error":
        return abs(change.after_value) - abs(change.before_value)
    return directed(change.change_ratio, change.is_higher_better)


def _machine(diff: SuiteDiff, watched: Sequence[CaseDiff]) -> Finding | None:
    """Return why the machine's state, not the code, decides what was seen; None where it does not."""
    invalid = [case for case in watched if case.verdict == "INVALID" and case.reason in MACHINE_REASONS]
    slow_count = sum(case.reason == "quarantined" for case in invalid)
    if slow_count:
        return finding("quarantined", case_count=slow_count)
    both_count = sum(case.before_s is not None and case.after_s is not None for case in watched)
    if len(invalid) > MOST_INVALID_RATIO * both_count:
        unused = {
            "before": (diff.before[-1], any(not case.before_process_count for case in invalid)),
            "after": (diff.after[-1], any(not case.after_process_count for case in invalid)),
        }
        runs = {side: run for side, (run, is_unused) in unused.items() if is_unused}
        commands = dict.fromkeys(run.command for run in runs.values() if run.command.startswith("pytest "))
        return finding(
            "machine-state-invalid",
            invalid_count=len(invalid),
            case_count=both_count,
            sides=tuple(runs),
            commands=tuple(commands) or None,
        )
    clock_count = sum(case.verdict == "SLOWER" and case.reason == "clock-lower" for case in watched)
    return finding("clock-lower", case_count=clock_count) if clock_count else None


def _not_comparable(diff: SuiteDiff) -> tuple[Finding, ...]:
    """Return all that stands in the way at once, what cannot be allowed first."""
    reasons = [finding("method-differs", methods=diff.method_difference)] if diff.method_difference else []
    if diff.blocking:
        reasons.append(
            finding("environment-differs", differences=tuple(difference.text for difference in diff.blocking))
        )
    return tuple(reasons) or (finding("no-common-case"),)
