"""What links to a case lead to: the id of its row in the table of all cases. Rows are numbered through the chips of a run."""

from __future__ import annotations

from collections.abc import Iterator

from reports.cases.summary import CaseSummary
from reports.view.views import ReportView


def record_anchors(view: ReportView, limit: int | None) -> dict[str, str]:
    """Return record id → id of its case's row; of each chip the first `limit` cases, whose rows are in the static table."""
    return {row.record_id: anchor for anchor, case in _rows(view, limit) for row in case.rows}


def case_anchors(view: ReportView, limit: int | None) -> dict[tuple[str, str, str], str]:
    """Return (case id, cache state, mode) → id of the case's row, of the first where chips share a case."""
    found: dict[tuple[str, str, str], str] = {}
    for anchor, case in _rows(view, limit):
        found.setdefault((case.lead.case_id, case.lead.cache, case.lead.mode), anchor)
    return found


def _rows(view: ReportView, limit: int | None) -> Iterator[tuple[str, CaseSummary]]:
    number = 0
    for chip in view.chips:
        for place, case in enumerate(chip.cases):
            number += 1
            if limit is None or place < limit:
                yield f"case-{number}", case
