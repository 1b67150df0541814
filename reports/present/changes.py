"""The columns of changed cases that a diff shows."""

from __future__ import annotations

from reports.present.blocks import Column, Span, time_cell
from reports.present.words.diff_text import change_text, interval_text, percent, probability, short
from results.diff.case_diff import CaseDiff
from roofline_model.operators.case import case_title

_LOOKS = {"SLOWER": "failed", "FASTER": "good", "GONE": "failed", "INVALID": "warning", "AMBIGUOUS": "warning"}


def _process_counts(change: CaseDiff) -> str:
    """Return how many processes of each side were used, `3/3`; a dash for a side of which none was."""
    counts = (change.before_process_count, change.after_process_count)
    return "/".join(str(count) if count else "–" for count in counts) if any(counts) else "–"


CHANGES = (
    Column("Verdict", lambda change: Span(change.verdict, _LOOKS.get(change.verdict, "")), is_head=True),
    Column("Case", lambda change: short(case_title(change.case.op, change.case.shape), 80), "prose", least=14),
    Column("Format", lambda change: short(change.case.precision_label or "–", 60), "prose", least=8),
    Column("Kernel", lambda change: short(change.case.kernel, 80), "prose", least=10, drop=3),
    Column("Before", lambda change: time_cell(change.before_s), "number", drop=1),
    Column("After", lambda change: time_cell(change.after_s), "number", drop=2),
    Column("Change", lambda change: "–" if change.change_ratio is None else change_text(change), "number"),
)
"""What changed, at a glance."""
JUDGEMENTS = (
    Column("Cache", lambda change: change.case.cache, drop=6),
    Column("Mode", lambda change: short(change.case.mode, 20), drop=7),
    Column("95 % interval", interval_text, "number", drop=3),
    Column("q", lambda change: probability(change.adjusted_p_value), "number", drop=5),
    Column("Processes", _process_counts, "number", drop=9),
    Column(
        "Sees",
        lambda change: "–" if change.smallest_step_ratio is None else percent(change.smallest_step_ratio),
        "number",
        drop=8,
    ),
    Column("Reason", lambda change: change.reason, drop=4),
)
"""How sure it is, and why."""
