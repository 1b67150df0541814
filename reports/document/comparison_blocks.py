"""What changed since a baseline and over the nights, as blocks of a report: Markdown, paper and the terminal say the same."""

from __future__ import annotations

from collections.abc import Iterator

from reports.document.blocks import Block, Bullets, Heading, Paragraph, TableColumn, table
from reports.text.display_text import counted, shown
from reports.view.comparison import Comparison, against_text, compared_rows, compared_texts, gate_text
from results.history.alerts import Change
from results.history.case_history import CaseHistory
from roofline_model.core.units import format_percent, format_time

MOST_CHANGES = 100
"""Steps and drifts listed; `roofline history --all` lists all."""


def verdict_blocks(comparison: Comparison) -> Iterator[Block]:
    """Yield the verdict against the baseline, for the head of the report; nothing where there was nothing to compare with."""
    text = against_text(comparison)
    if text:
        is_bad = comparison.result is not None and comparison.result.exit_code != 0
        yield Bullets((text,), "warning" if is_bad else "verdict")


def comparison_blocks(comparison: Comparison) -> Iterator[Block]:
    """Yield the sections `Against the baseline` and `Over the nights`."""
    yield Heading(2, "Against the baseline")
    if comparison.diff is None or comparison.result is None:
        yield Paragraph(
            f"No earlier complete run of this machine is stored that {shown(comparison.against, 80)!r} could mean: {comparison.first_text}."
        )
    else:
        yield from _changed_cases(comparison)
        yield Bullets(tuple(shown(text, 400) for text in compared_texts(comparison)), "quiet")
    if comparison.histories:
        yield Heading(2, "Over the nights")
        yield from _nights(comparison)


def _changed_cases(comparison: Comparison) -> Iterator[Block]:
    rows, result = compared_rows(comparison), comparison.result
    if result is not None and result.exit_code:
        yield Paragraph(f"{gate_text(comparison)} (`roofline diff` exits with {result.exit_code}).")
    elif not rows:
        yield Paragraph("Nothing changed by more than noise.")
    if not rows:
        return
    columns = (
        TableColumn("verdict"),
        TableColumn("case", is_prose=True),
        TableColumn("before", True, drop=1),
        TableColumn("after", True, drop=2),
        TableColumn("change", True),
        TableColumn("95 % interval", True),
        TableColumn("q", True, drop=4),
        TableColumn("would see", True, drop=5),
        TableColumn("reason", is_prose=True, drop=3),
    )
    cells = [
        (
            row.verdict,
            row.name,
            format_time(row.case.before_s),
            format_time(row.case.after_s),
            row.change,
            row.interval,
            row.probability,
            row.sensitivity,
            row.reason,
        )
        for row in rows
    ]
    note = "q: the share of cases called so that may be wrong; would see: the smallest slow-down of that case that would have been seen four times in five."
    meanings = dict.fromkeys(f"{row.case.reason}: {row.meaning}" for row in rows if row.meaning)
    yield table("Cases that changed", columns, cells, note=note)
    if meanings:
        yield Bullets(tuple(meanings), "quiet")


def _nights(comparison: Comparison) -> Iterator[Block]:
    count, short = len(comparison.histories), sum(history.is_too_short for history in comparison.histories)
    alerts = "no open alert" if not comparison.alert_count else f"{counted(comparison.alert_count, 'open alert')}"
    yield Paragraph(
        f"{counted(count, 'case')} of this run looked at over all stored runs of this machine: {alerts}.",
        "warning" if comparison.alert_count else "plain",
    )
    if not comparison.changes:
        few = f"; {short} have too few nights to tell" if short else ""
        yield Paragraph(f"No step and no drift in any of them{few}.", "quiet")
        return
    columns = (
        TableColumn("since"),
        TableColumn("case", is_prose=True),
        TableColumn("kind", drop=1),
        TableColumn("before", True, drop=3),
        TableColumn("after", True, drop=4),
        TableColumn("change", True),
        TableColumn("status", is_prose=True),
        TableColumn("what changed that night", is_prose=True, drop=2),
    )
    left = len(comparison.changes) - MOST_CHANGES
    note = f"{counted(left, 'more change')}: `roofline history --all` lists them." if left > 0 else ""
    yield table("", columns, [_change(one, change) for one, change in comparison.changes[:MOST_CHANGES]], note=note)


def _change(history: CaseHistory, change: Change) -> tuple[str, ...]:
    changed = shown("; ".join(change.changed), 400) or "nothing that is recorded"
    return (
        shown(change.started_at[:10], 20),
        shown(history.name, 160),
        change.kind,
        format_time(change.before_value),
        format_time(change.after_value),
        format_percent(change.change_value, signed=True),
        change.status + ("" if change.is_confirmed else ", not yet confirmed"),
        changed + (f" ({shown(change.reason, 200)})" if change.reason else ""),
    )
