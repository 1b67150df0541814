"""From a diff to an exit code: what was asked to fail, what did, and why. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from results.diff.case_diff import CaseDiff, SuiteDiff
from results.diff.rules import MACHINE_REASONS, DiffRules
from results.diff.significance.metrics import MetricChange, directed
from results.records.records import RunInfo
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
SEEN_RATIO = 0.10
"""The slow-down that a gate which saw too little is asked about: how many processes would see it."""
_DECIDED = ("SLOWER", "FASTER", "SAME", "AMBIGUOUS")


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
    """What `roofline diff` exits with, code."""
    failures: tuple[Failure, ...]
    """Cases that fail the gate."""
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


def parse_max_ambiguous(text: str) -> tuple[int | None, float | None]:
    """Return the most ambiguous cases that pass, as a count (`12`) or as a share of the cases that were compared
    (`20%`), and None for the other; both None for an empty text. Raises `InvalidValueError` for anything else.
    """
    number = re.fullmatch(r"([0-9]{1,9})|([0-9]{1,3}(?:\.[0-9]{1,6})?) ?%", text.strip())
    if text and (number is None or float(number[2] or 0) > 100):
        raise InvalidValueError(
            f"--max-ambiguous takes a number of cases such as 12, or a share of them such as 20%, got {text[:40]!r}"
        )
    if number is None:
        return None, None
    return (int(number[1]), None) if number[1] else (None, float(number[2]) / 100)


def rules_for(fail_on: Sequence[FailRule], rules: DiffRules) -> DiffRules:
    """Return the rules of a diff for a gate: the smallest size of its `slower` conditions is its limit.

    SLOWER is then what is surely beyond it, SAME what is surely below.
    """
    sizes = [rule.least_ratio for rule in fail_on if rule.kind == "slower"]
    if not any(sizes):
        return rules
    limit_ratio = min(size for size in sizes if size)
    return replace(rules, limit_ratio=limit_ratio, asked_ratio=limit_ratio if all(sizes) else 0.0)


def gate(
    diff: SuiteDiff,
    fail_on: Sequence[FailRule],
    max_ambiguous_count: int | None = None,
    max_ambiguous_ratio: float | None = None,
) -> GateResult:
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
    reason = _ambiguous(watched, max_ambiguous_count, max_ambiguous_ratio)
    return GateResult(EXIT_SAME, ()) if reason is None else GateResult(EXIT_AMBIGUOUS, (), (reason,))


def _ambiguous(watched: Sequence[CaseDiff], most_count: int | None, most_ratio: float | None) -> Finding | None:
    """Return that the gate sees too little in more cases than may be, and the processes a side with which no more than
    that would miss `SEEN_RATIO`; None where they are few enough.

    A case that is SAME beside a noise that is not known is one of them: it passes whatever happened.
    """
    decided = [case for case in watched if case.verdict in _DECIDED]
    if most_count is None:
        most_count = len(decided) if most_ratio is None else int(most_ratio * len(decided))
    unknown_count = sum(case.is_same_unseen for case in decided)
    case_count = sum(case.verdict == "AMBIGUOUS" for case in decided) + unknown_count
    if case_count <= most_count:
        return None
    needed = sorted((needed_processes(case, SEEN_RATIO) for case in decided), reverse=True)
    process_count = needed[most_count]
    return finding(
        "too-ambiguous",
        case_count=case_count,
        decided_count=len(decided),
        unknown_count=unknown_count or None,
        limit_count=most_count,
        step_ratio=SEEN_RATIO,
        process_count=None if math.isinf(process_count) else int(process_count),
    )


def needed_processes(case: CaseDiff, step_ratio: float) -> float:
    """Return how many processes a side would find a slow-down of this size in this case with 80 %, as noisy as they are
    now; infinite where the diff does not know its noise.

    The smallest step falls with the root of the processes; that more of them know the noise better is left out.
    """
    step = case.smallest_step_ratio
    counts = (case.before_process_count, case.after_process_count)
    if step is None or not all(counts):
        return math.inf
    share = 1 / counts[0] + 1 / counts[1]
    return max(2, math.ceil(2 / share * (math.log1p(step) / math.log1p(step_ratio)) ** 2))


def _failure(diff: SuiteDiff, case: CaseDiff, rule: FailRule) -> Failure | None:
    if rule.kind == "slower":
        is_codes = case.verdict == "SLOWER" and case.reason != "clock-lower" and not case.expected_reason
        least = rule.least_ratio if case.threshold_ratio is None else case.threshold_ratio
        surely_ratio = case.low_ratio if case.low_ratio is not None else case.change_ratio
        if is_codes and (surely_ratio or 0.0) >= least:
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
        commands = dict.fromkeys(run.command for run in runs.values() if _can_be_typed_again(run))
        return finding(
            "machine-state-invalid",
            invalid_count=len(invalid),
            case_count=both_count,
            sides=tuple(runs),
            commands=tuple(commands) or None,
        )
    clock_count = sum(case.verdict == "SLOWER" and case.reason == "clock-lower" for case in watched)
    return finding("clock-lower", case_count=clock_count) if clock_count else None


def _can_be_typed_again(run: RunInfo) -> bool:
    """Whether the command of a run measures anew. One that names its run would store another of that name, and write
    over the files of a nightly run or a pull request.
    """
    return run.command.startswith("pytest ") and "--roofline-run" not in run.command


def _not_comparable(diff: SuiteDiff) -> tuple[Finding, ...]:
    """Return all that stands in the way at once, what cannot be allowed first."""
    reasons = [finding("method-differs", methods=diff.method_difference)] if diff.method_difference else []
    if diff.blocking:
        reasons.append(
            finding("environment-differs", differences=tuple(difference.text for difference in diff.blocking))
        )
    return tuple(reasons) or (finding("no-common-case"),)
