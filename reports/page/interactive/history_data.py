"""Cases over their nights, for the page: those with a change first, each with its nights, levels and changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reports.figures.history import change_text, drawn_nights, history_figure
from reports.figures.plotly_drawer import plotly_json
from reports.text.display_text import counted, shown
from results.history.case_history import CaseHistory
from results.text.verdict_text import doubts_text

MAX_HISTORIES = 60
"""Series in a page; `roofline history` shows any case."""
_LEAST_NIGHTS = 3


def history_data(histories: Sequence[CaseHistory]) -> list[dict[str, Any]]:
    """Return the histories that a page has room for: open alerts first, then other changes, then the longest."""
    drawn = [history for history in histories if len(history.points) >= _LEAST_NIGHTS or history.changes]
    drawn.sort(key=lambda one: (-len(one.alerts), -len(one.change_points), -len(one.points), one.name))
    return [_history(one) for one in drawn[:MAX_HISTORIES]]


def _history(history: CaseHistory) -> dict[str, Any]:
    told = ", ".join(
        f"{change_text(change)} on {change.started_at[:10]}"
        for change in history.changes
        if change.status != "withdrawn"
    )
    return {
        "name": shown(history.name, 160),
        "label": f"{shown(history.name, 100)} ({told or counted(len(history.points), 'night')})",
        "nights": [
            {
                "started_at": shown(night.started_at, 40),
                "value_s": night.value,
                "run": night.run_id[:8] if night.run_id[:8].isalnum() else "",
                "label": shown(night.label, 60),
                "commit": shown(night.git_commit or "", 40)[:9],
                "process_count": night.process_count,
                "doubt": shown(doubts_text(night.doubts), 80),
            }
            for night in drawn_nights(history)
        ],
        "figure": plotly_json(history_figure(history)),
    }
