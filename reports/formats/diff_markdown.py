"""A diff as Markdown: for a job summary and for a comment on a pull request."""

from __future__ import annotations

from collections.abc import Sequence

from reports.present.blocks import table
from reports.present.changes import CASE_CHANGES
from reports.present.markdown import escaped, table_text
from reports.present.words.diff_text import (
    common_text,
    counts_text,
    exit_text,
    incomparable_texts,
    listed_headline,
    run_text,
    sensitivity_text,
    time_text,
)
from results.diff.case_diff import CaseDiff, SuiteDiff
from results.diff.gate import EXIT_NOT_COMPARABLE, GateResult
from results.diff.rules import REASONS, VERDICTS
from roofline_model.core.finding import code_text, subject_text

SIGNS = {0: "✅", 1: "❌", 3: "⚠️", 4: "⛔", 5: "⚠️"}
MOST_ROWS = 50
"""Rows of one verdict: GitHub refuses comments beyond 65,536 characters."""


def diff_markdown(diff: SuiteDiff, result: GateResult) -> str:
    """Return the verdict, a table of what changed, what differs in the environment, and what could have been seen."""
    lines = [f"### {SIGNS[result.exit_code]} {escaped(listed_headline(diff, result))}", ""]
    if result.reasons and result.exit_code != EXIT_NOT_COMPARABLE:
        lines += [f"Exit code {result.exit_code}: {escaped(exit_text(result))}.", ""]
    for verdict in VERDICTS:
        cases = diff.of(verdict)
        if cases and verdict != "SAME":
            lines += _table(verdict, cases)
    lines += [f"{escaped(text)}.  " for text in (counts_text(diff), sensitivity_text(diff), common_text(diff)) if text]
    lines += ["", *_sides(diff)]
    if len(diff.of("SAME")) < len(diff.cases) and (text := time_text(diff)):
        lines += ["", f"{escaped(text)}.  "]
    codes = dict.fromkeys(case.reason for case in diff.cases if case.verdict != "SAME" and case.reason in REASONS)
    if codes:
        lines += ["", "<details><summary>Reason codes</summary>", ""]
        lines += [f"- `{code}`: {escaped(code_text(code))}" for code in codes]
        lines += ["", "</details>"]
    return "\n".join(lines).rstrip() + "\n"


def _table(verdict: str, cases: Sequence[CaseDiff]) -> list[str]:
    listed = cases[:MOST_ROWS]
    more = [f"\n… and {len(cases) - len(listed)} more."] if len(cases) > len(listed) else []
    made = table(f"{verdict} cases", CASE_CHANGES[1:], [(case, 1) for case in listed])
    return [f"**{verdict}** ({len(cases)})", "", table_text(made), *more, ""]


def _sides(diff: SuiteDiff) -> list[str]:
    lines = [
        f"- {word}: {escaped(run_text(run))}"
        for word, runs in (("before", diff.before), ("after", diff.after))
        for run in runs
    ]
    lines += [f"- differs, **not comparable**: {escaped(text)}" for text in incomparable_texts(diff)]
    lines += [f"- differs: {escaped(difference.text)}" for difference in diff.permitted]
    lines += [f"- {escaped(subject_text(item))}" for item in diff.unused_quarantine]
    return lines
