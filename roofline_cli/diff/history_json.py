"""`roofline history --json`: histories as plain values, every number with its unit in its name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from results.history.alerts import Change
    from results.history.case_history import CaseHistory
    from results.history.segments import Segment
    from results.records.metrics import Metric


def history_json(history: CaseHistory) -> dict[str, Any]:
    """Return one case with all its nights."""
    return {
        **_head(history),
        "metric": _metric_json(history.metric),
        "branch": history.branch,
        "since": history.since,
        "segments": [_segment_json(history, segment) for segment in history.segments],
        "changes": [change_json(change) for change in history.changes],
        "annotations": [
            {
                "match": annotation.match,
                "reason": annotation.reason,
                "on": annotation.on.isoformat() if annotation.on else None,
                "commit": annotation.commit or None,
            }
            for annotation in history.annotations
        ],
    }


def all_json(histories: Sequence[CaseHistory], metric: Metric, unused: Sequence[str] = ()) -> dict[str, Any]:
    """Return the changes of every case that has one, without its nights, and the counts."""
    changed = [history for history in histories if history.changes]
    return {
        "metric": _metric_json(metric),
        "case_count": len(histories),
        "too_short_count": sum(history.is_too_short for history in histories),
        "alert_count": sum(len(history.alerts) for history in histories),
        "unused_entries": list(unused),
        "cases": [
            {
                **_head(history),
                "changes": [{**change_json(change), **_place(history, change)} for change in history.changes],
            }
            for history in changed
        ],
    }


def change_json(change: Change) -> dict[str, Any]:
    """Return one step or drift."""
    return {**asdict(change), "changed": list(change.changed), "is_open": change.is_open}


def _place(history: CaseHistory, change: Change) -> dict[str, Any]:
    """Return on which chip a change was seen, and between which two commits it began: null where none is known."""
    segment = history.segments[change.segment_index]
    nights = segment.used
    first = next((index for index, night in enumerate(nights) if night.run_id == change.run_id), None)
    return {
        "hardware_key": segment.hardware_key,
        "commit_before": nights[first - 1].git_commit if first else None,
        "commit_after": nights[first].git_commit if first is not None else None,
    }


def _head(history: CaseHistory) -> dict[str, Any]:
    return {
        "name": history.name,
        "case_key": history.case.case_key,
        "case": history.case.to_dict(),
        "night_count": len(history.points),
        "is_too_short": history.is_too_short,
        "quarantine_reason": history.quarantine_reason,
        "alert_count": len(history.alerts),
    }


def _metric_json(metric: Metric) -> dict[str, Any]:
    return {"key": metric.key, "unit": metric.unit, "meaning": metric.meaning}


def _segment_json(history: CaseHistory, segment: Segment) -> dict[str, Any]:
    return {
        "history_key": segment.history_key,
        "hardware_key": segment.hardware_key,
        "method_version": segment.method_version,
        "split": list(segment.split),
        "split_change_value": segment.split_change_value,
        "is_too_short": segment.is_too_short,
        "nights": [
            {**asdict(night), "flags": list(night.flags), "is_used": night.is_used}
            for night in history.shown_nights(segment)
        ],
        "levels": [
            {
                "run_id": segment.used[level.first_index].run_id,
                "started_at": segment.used[level.first_index].started_at,
                "night_count": level.night_count,
                "value": level.value,
                "sm_clock_hz": level.sm_clock_hz,
            }
            for level in segment.levels
        ],
    }
