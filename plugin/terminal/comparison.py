"""The lines of a comparison with a baseline below the tables of a session. Imported where there is a baseline only."""

from __future__ import annotations

from collections.abc import Sequence

from reports.present.layout import Line
from reports.present.words.diff_text import (
    case_sentence,
    counts_text,
    exit_text,
    incomparable_texts,
    listed_headline,
    runs_text,
    sensitivity_text,
)
from results.diff.case_diff import SuiteDiff
from results.diff.gate import EXIT_MACHINE, GateResult
from results.diff.rules import REASONS, Verdict
from roofline_model.core.finding import code_text, short_text, subject_text

MOST_LINES = 20
"""Cases listed; `roofline diff` lists all."""
_COLOURS = {"SLOWER": "red", "GONE": "red", "FASTER": "green"}
_LISTED: tuple[Verdict, ...] = ("SLOWER", "GONE", "FASTER", "INVALID", "AMBIGUOUS")


def comparison_lines(diff: SuiteDiff, result: GateResult) -> Sequence[Line]:
    """Return the verdict, the cases that changed, and what differs between the sides."""
    colour = "red" if result.exit_code == 1 else "yellow" if result.exit_code else "green"
    lines = [Line(f"against {runs_text(diff.before)}: {listed_headline(diff, result)}", colour)]
    if result.exit_code == EXIT_MACHINE:
        lines.append(Line(exit_text(result), colour))
    cases = [case for verdict in _LISTED for case in diff.of(verdict)]
    for case in cases[:MOST_LINES]:
        remarks = [case.reason, *([case.detail] if case.detail else []), *map(short_text, case.set_aside)]
        remarks += [f"on the quarantine list: {case.quarantine_reason}"] if case.quarantine_reason else []
        remarks += [f"expected: {case.expected_reason}"] if case.expected_reason else []
        text = f"  {case.verdict} {case_sentence(case)}: {'; '.join(remarks)}"
        lines.append(Line(text, _COLOURS.get(case.verdict, "yellow")))
    codes = dict.fromkeys(case.reason for case in cases[:MOST_LINES] if case.reason in REASONS)
    lines += [Line(f"  {code}: {code_text(code)}", "light") for code in codes]
    if len(cases) > MOST_LINES:
        lines.append(
            Line(f"  and {len(cases) - MOST_LINES} more; `roofline diff {diff.after[0].run_id[:8]}` lists all")
        )
    lines += [Line(text) for text in (counts_text(diff), sensitivity_text(diff)) if text and diff.cases]
    lines += [Line(f"differs, not comparable: {text}") for text in incomparable_texts(diff)]
    lines += [Line(subject_text(item), "yellow") for item in diff.unused_quarantine]
    return [*lines, *(Line(f"differs: {difference.text}") for difference in diff.permitted)]
