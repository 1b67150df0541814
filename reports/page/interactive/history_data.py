"""Cases over their nights, for the page: those with a change first, each with its nights, levels and changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reports.text.display_text import counted, shown
from results.history.alerts import Change
from results.history.case_history import CaseHistory
from roofline_model.core.units import format_percent

MAX_HISTORIES, MAX_NIGHTS = 60, 120
"""Series in a page and nights of each, the newest; `roofline history` shows any case whole."""
_LEAST_NIGHTS = 3


def history_data(histories: Sequence[CaseHistory]) -> list[dict[str, Any]]:
    """Return the histories that a page has room for: open alerts first, then other changes, then the longest."""
    drawn = [one for one in histories if len(one.points) >= _LEAST_NIGHTS or one.changes]
    drawn.sort(key=lambda one: (-len(one.alerts), -len(one.change_points), -len(one.points), one.name))
    return [_history(one) for one in drawn[:MAX_HISTORIES]]


def change_text(change: Change) -> str:
    """Return the size of a change of time: `+6.3 %`."""
    return format_percent(change.change_value, signed=True)


def _history(history: CaseHistory) -> dict[str, Any]:
    nights = history.points[-MAX_NIGHTS:]
    first = nights[0].started_at
    levels = []
    for segment in history.segments:
        for level in segment.levels:
            used = segment.used[level.first_index : level.first_index + level.night_count]
            if used[-1].started_at >= first:
                start = max(used[0].started_at, first)
                levels.append({"first_at": start, "last_at": used[-1].started_at, "value_s": level.value})
    told = ", ".join(
        f"{change_text(one)} on {one.started_at[:10]}" for one in history.changes if one.status != "withdrawn"
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
                "doubt": shown(night.doubt, 80),
            }
            for night in nights
        ],
        "levels": levels,
        "changes": [
            {
                "kind": one.kind,
                "started_at": one.started_at,
                "text": change_text(one),
                "status": one.status,
                "is_open": one.is_open,
            }
            for one in history.changes
            if one.status != "withdrawn" and one.started_at >= first
        ],
    }
