"""A diff as an answer: what `roofline diff --json` and the API give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from reports.present.encoder import Keys, null_if_empty
from reports.present.words.diff_text import failure_text, listed_headline
from results.diff.case_diff import SuiteDiff
from results.diff.gate import FailRule, Failure, GateResult
from results.diff.rules import VERDICTS


class DiffFailure:
    """A case that fails the gate."""

    JSON_OF = Failure
    JSON_KEYS: ClassVar[Keys] = {
        "case_key": "case.case_key",
        "name": "case.name",
        "rule": "rule.text",
        "why": failure_text,
    }


@dataclass(frozen=True, slots=True)
class DiffAnswer:
    """What changed between two sides by more than noise."""

    JSON_KEYS: ClassVar[Keys] = {
        "verdict": "verdict",
        "exit_code": "result.exit_code",
        "exit_findings": "result.reasons",
        "is_comparable": "diff.is_comparable",
        "before": "diff.before",
        "after": "diff.after",
        "method_difference": ("diff.method_difference", null_if_empty),
        "environment_differences": "diff.environment",
        "rules": "diff.rules",
        "fail_on": "conditions",
        "counts": "counts",
        "unmeasured_count": "diff.unmeasured_count",
        "unselected_count": "diff.unselected_count",
        "selection": ("diff.selection", null_if_empty),
        "common_change_ratio": "diff.common_change_ratio",
        "smallest_step_ratio": "diff.smallest_step_ratio",
        "largest_smallest_step_ratio": "diff.largest_smallest_step_ratio",
        "unused_quarantine": "diff.unused_quarantine",
        "failures": ("result.failures", tuple[DiffFailure, ...]),
        "cases": "diff.cases",
    }

    diff: SuiteDiff
    result: GateResult
    fail_on: Sequence[FailRule]

    @property
    def verdict(self) -> str:
        """The verdict in a sentence."""
        return listed_headline(self.diff, self.result)

    @property
    def conditions(self) -> tuple[str, ...]:
        """Conditions that fail the gate: `slower:5%`."""
        return tuple(rule.text for rule in self.fail_on)

    @property
    def counts(self) -> Mapping[str, int]:
        """Verdict → cases, count."""
        return {verdict: sum(case.verdict == verdict for case in self.diff.cases) for verdict in VERDICTS}
