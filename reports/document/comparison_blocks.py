"""What changed since a baseline, and over the nights."""

from __future__ import annotations

from collections.abc import Iterator

from reports.document.report import Report
from reports.present.blocks import (
    Block,
    Bullets,
    Column,
    Live,
    Paragraph,
    Section,
    Span,
    percent_cell,
    table,
    time_cell,
)
from reports.present.changes import CASE_CHANGES, CHANGES_NOTE, code_meaning
from reports.present.display_text import counted, shown
from reports.view.comparison import Comparison, changed_cases, compared_texts, gate_text
from results.history.alerts import Change
from results.history.case_history import CaseHistory
from roofline_model.core.finding import fix_text, short_text
from roofline_model.core.units import sentence

MOST_CHANGES = 100
"""Steps and drifts listed; `roofline history --all` lists all."""


def comparison_sections(report: Report) -> Iterator[Section]:
    """Yield what changed against the baseline, and over the nights."""
    comparison = report.comparison
    assert comparison is not None  # the caller has one
    yield Section("Against the baseline", "baseline", tuple(_changed_cases(comparison)))
    if comparison.histories:
        yield Section("Over the runs", "history", tuple(_nights(report, comparison)))


def _changed_cases(comparison: Comparison) -> Iterator[Block]:
    diff, result = comparison.diff, comparison.result
    if diff is None or result is None:
        yield Paragraph(
            (
                "No earlier complete run of this machine is stored that ",
                Span(shown(comparison.against, 80), "code"),
                f" could mean: {comparison.first_text}.",
            )
        )
        return
    rows = changed_cases(diff)
    if result.exit_code:
        yield Paragraph(f"`roofline diff` exits with {result.exit_code}. {sentence(gate_text(comparison))}")
        if remedy := [text for text in map(fix_text, result.reasons) if text]:
            yield Paragraph(shown(sentence("; ".join(remedy)), 600))
    elif not rows:
        yield Paragraph("Nothing changed by more than noise.")
    if rows:
        yield table("Cases that changed", CASE_CHANGES, rows, look="changes", text_note=CHANGES_NOTE)
        meanings = dict.fromkeys(f"{case.reason}: {text}" for case, _ in rows if (text := code_meaning(case)))
        if meanings:
            yield Bullets(tuple(meanings), "quiet", "text")
    yield Bullets(tuple(shown(text, 400) for text in compared_texts(comparison)), "quiet")


def _nights(report: Report, comparison: Comparison) -> Iterator[Block]:
    count, short = len(comparison.histories), sum(history.is_too_short for history in comparison.histories)
    alerts = "no open alert" if not comparison.alert_count else counted(comparison.alert_count, "open alert")
    yield Paragraph(
        f"{counted(count, 'case')} of this run, over all stored runs of this machine: {alerts}.",
        "bad" if comparison.alert_count else "plain",
    )
    if report.live and report.live["histories"]:
        yield Live("history", medium="page")
    pending = [
        (Span(shown(history.name, 160), "code"), f": {short_text(history.pending)}")
        for history in comparison.histories
        if history.pending is not None
    ]
    if pending:
        yield Bullets(tuple(pending[:MOST_CHANGES]))
    elif not comparison.changes:
        few = f"; {short} have too few runs to tell" if short else ""
        yield Paragraph(f"No case has a step or a drift{few}.", "quiet")
    if not comparison.changes:
        return
    left_count = len(comparison.changes) - MOST_CHANGES
    columns = (
        Column("Since", lambda item: shown(item[1].started_at[:10], 20)),
        Column("Case", lambda item: Span(shown(item[0].name, 160), "code"), is_head=True),
        Column("Change", lambda item: percent_cell(item[1].change_value, signed=True), "number"),
        Column("Status", _status),
        Column("Kind", lambda item: item[1].kind, drop=1),
        Column("Before", lambda item: time_cell(item[1].before_value), "number", drop=3),
        Column("After", lambda item: time_cell(item[1].after_value), "number", drop=4),
        Column("What changed in that run", _causes, "prose", drop=2),
    )
    yield table(
        "Changes over the runs",
        columns,
        comparison.changes[:MOST_CHANGES],
        look="changes",
        text_note=f"{counted(left_count, 'more change')}: `roofline history --all` lists them."
        if left_count > 0
        else "",
    )


def _status(item: tuple[CaseHistory, Change]) -> tuple[str | Span, ...]:
    change = item[1]
    return (
        Span(change.status, "bold bad" if change.is_open else ""),
        "" if change.is_confirmed else ", not yet confirmed",
    )


def _causes(item: tuple[CaseHistory, Change]) -> str:
    change = item[1]
    causes = shown("; ".join(change.changed), 400) or "nothing that is recorded"
    return f"{causes} ({shown(change.reason, 200)})" if change.reason else causes
