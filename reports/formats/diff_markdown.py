"""A diff as Markdown: for a job summary and for a comment on a pull request."""

from __future__ import annotations

from collections.abc import Sequence

from reports.present.markdown import escaped
from reports.present.words.diff_text import (
    change_text,
    changed_metric_texts,
    common_text,
    counts_text,
    exit_text,
    incomparable_texts,
    interval_text,
    listed_headline,
    percent,
    probability,
    run_text,
    sensitivity_text,
    signed,
    time_text,
)
from results.diff.case_diff import CaseDiff, SuiteDiff
from results.diff.gate import EXIT_NOT_COMPARABLE, GateResult
from results.diff.rules import REASONS, VERDICTS
from roofline_model.core.finding import code_text, short_text, subject_text
from roofline_model.core.units import format_time

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
    lines = [
        f"**{verdict}** ({len(cases)})",
        "",
        "| case | before | after | change | 95 % interval | q | would see | reason |",
        "|---|--:|--:|--:|--:|--:|--:|---|",
    ]
    for case in listed:
        step = "–" if case.smallest_step_ratio is None else percent(case.smallest_step_ratio)
        cells = [
            f"{escaped(case.name)}",
            format_time(case.before_s),
            format_time(case.after_s),
            change_text(case) if case.change_ratio is not None else "–",
            interval_text(case),
            probability(case.adjusted_p_value).replace("<", "\\<"),
            step,
            _why(case),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    if len(cases) > len(listed):
        lines.append(f"\n… and {len(cases) - len(listed)} more.")
    return [*lines, ""]


def _why(case: CaseDiff) -> str:
    parts = [case.reason]
    if case.cycles_change_ratio is not None and case.verdict in ("SLOWER", "FASTER"):
        parts.append(f"cycles {signed(case.cycles_change_ratio)}")
    parts += [case.detail] if case.detail else [short_text(item) for item in case.set_aside]
    parts += changed_metric_texts(case)
    parts += [f"quarantined: {case.quarantine_reason}"] if case.quarantine_reason else []
    parts += [f"expected: {case.expected_reason}"] if case.expected_reason else []
    return escaped("; ".join(parts))


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
