"""The columns of changed cases: of a diff on a screen, and of a report and a comment, which name each case whole."""

from __future__ import annotations

from reports.present.blocks import Cell, Column, Rich, Span, time_cell
from reports.present.display_text import shown
from reports.present.words.diff_text import change_text, interval_text, percent, probability, short, why_text
from results.diff.case_diff import CaseDiff
from results.diff.rules import REASONS
from roofline_model.core.finding import code_text
from roofline_model.operators.case import case_title

_LOOKS = {"SLOWER": "failed", "FASTER": "good", "GONE": "failed", "INVALID": "warning", "AMBIGUOUS": "warning"}


def _process_counts(change: CaseDiff) -> str:
    """Return how many processes of each side were used, `3/3`; a dash for a side of which none was."""
    counts = (change.before_process_count, change.after_process_count)
    return "/".join(str(count) if count else "–" for count in counts) if any(counts) else "–"


def _change(change: CaseDiff) -> Cell:
    return Cell("–" if change.change_ratio is None else change_text(change), change.change_ratio)


def _sees(change: CaseDiff) -> str:
    return "–" if change.smallest_step_ratio is None else percent(change.smallest_step_ratio)


def code_meaning(change: CaseDiff) -> str:
    """Return what the code of a reason means; empty for one that explains itself."""
    return code_text(change.reason) if change.reason in REASONS else ""


CHANGES = (
    Column("Verdict", lambda change: Span(change.verdict, _LOOKS.get(change.verdict, "")), is_head=True),
    Column("Case", lambda change: short(case_title(change.case.op, change.case.shape), 80), "prose", least=14),
    Column("Format", lambda change: short(change.case.precision_label or "–", 60), "prose", least=8),
    Column("Kernel", lambda change: short(change.case.kernel, 80), "prose", least=10, drop=3),
    Column("Before", lambda change: time_cell(change.before_s), "number", drop=1),
    Column("After", lambda change: time_cell(change.after_s), "number", drop=2),
    Column("Change", _change, "number"),
)
"""What changed, at a glance."""
JUDGEMENTS = (
    Column("Cache", lambda change: change.case.cache, drop=6),
    Column("Mode", lambda change: short(change.case.mode, 20), drop=7),
    Column("95 % interval", interval_text, "number", drop=3),
    Column("q", lambda change: probability(change.adjusted_p_value), "number", drop=5),
    Column("Processes", _process_counts, "number", drop=9),
    Column("Sees", _sees, "number", drop=8),
    Column("Reason", lambda change: change.reason, drop=4),
)
"""How sure it is, and why."""


def _named(row: tuple[CaseDiff, int]) -> Rich:
    """Return the name of a row's case; of several their number and the first."""
    case, count = row
    name = Span(shown(short(case.name), 160), "code")
    return name if count == 1 else (f"{count:,} cases: ", name, ", …")


_Q = "share of cases called so that may be wrong, after correction for many cases"
_SEES = "the smallest slow-down of this case that 80 % of comparisons would have seen"
CHANGES_NOTE = f"q: the {_Q}; sees: {_SEES}."
CASE_CHANGES = (
    Column("Verdict", lambda row: Span(row[0].verdict, f"change {row[0].verdict.lower()}")),
    Column("Case", _named, is_head=True),
    Column("Change", lambda row: _change(row[0]), "number"),
    Column("95\u00a0%", lambda row: interval_text(row[0]), "number"),
    Column("Before", lambda row: time_cell(row[0].before_s if row[1] == 1 else None), "number", drop=1),
    Column("After", lambda row: time_cell(row[0].after_s if row[1] == 1 else None), "number", drop=2),
    Column("q", lambda row: probability(row[0].adjusted_p_value), "number", _Q, drop=4),
    Column("Sees", lambda row: _sees(row[0]), "number", _SEES, drop=5),
    Column("Reason", lambda row: Cell(shown(why_text(row[0]), 400), title=code_meaning(row[0])), "prose", drop=3),
)
"""Of a case and how many it stands for."""
