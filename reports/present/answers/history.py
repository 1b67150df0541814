"""Histories as answers: what `roofline history --json` and the API give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from reports.present.encoder import Keys
from results.history.alerts import Change
from results.history.case_history import CaseHistory
from results.history.points import HistoryPoint
from results.history.segments import Level, Segment
from results.records.metrics import Metric
from roofline_model.core.answer import IN_PLACE


@dataclass(frozen=True, slots=True)
class CaseChange:
    """A step between two levels, or the drift of one, and where it was seen."""

    DERIVED: ClassVar = ("hardware", "commit_before", "commit_after")

    change: Change = field(metadata=IN_PLACE)
    segment: Segment = field(metadata={"in_json": False})

    @property
    def hardware(self) -> str:
        """Key of the chip."""
        return self.segment.hardware_key

    @property
    def commit_before(self) -> str | None:
        """Commit of the last night before it; null where none is known."""
        place = self._place
        return self.segment.used[place - 1].git_commit if place else None

    @property
    def commit_after(self) -> str | None:
        """Commit of its first night; null where none is known."""
        place = self._place
        return None if place is None else self.segment.used[place].git_commit

    @property
    def _place(self) -> int | None:
        nights = enumerate(self.segment.used)
        return next((place for place, point in nights if point.run_id == self.change.run_id), None)


@dataclass(frozen=True, slots=True)
class HistoryLevel:
    """Nights between two steps."""

    JSON_KEYS: ClassVar[Keys] = {
        "run_id": "first.run_id",
        "started_at": "first.started_at",
        "night_count": "level.night_count",
        "value": "level.value",
        "sm_clock_hz": "level.sm_clock_hz",
    }

    first: HistoryPoint
    level: Level


@dataclass(frozen=True, slots=True)
class HistorySegment:
    """Nights of one chip, environment class and method: only these are compared."""

    JSON_KEYS: ClassVar[Keys] = {
        "history_key": "segment.history_key",
        "hardware": "segment.hardware_key",
        "method_version": "segment.method_version",
        "split": "segment.split",
        "split_change_value": "segment.split_change_value",
        "is_too_short": "segment.is_too_short",
        "pending": "segment.pending",
        "nights": "nights",
        "levels": "levels",
    }

    segment: Segment
    nights: tuple[HistoryPoint, ...]
    """The nights, oldest first."""

    @property
    def levels(self) -> tuple[HistoryLevel, ...]:
        """The levels between the steps, oldest first."""
        used = self.segment.used
        return tuple(HistoryLevel(used[level.first_index], level) for level in self.segment.levels)


def _night_count(history: CaseHistory) -> int:
    """Return the nights, count."""
    return len(history.points)


def _alert_count(history: CaseHistory) -> int:
    """Return the changes somebody has to look at, count."""
    return len(history.alerts)


def _changes(history: CaseHistory) -> tuple[CaseChange, ...]:
    """Return steps and drifts, oldest first."""
    return tuple(CaseChange(change, history.segments[change.segment_index]) for change in history.changes)


def _segments(history: CaseHistory) -> tuple[HistorySegment, ...]:
    """Return the nights that may be compared with each other, oldest first."""
    return tuple(HistorySegment(segment, history.shown_points(segment)) for segment in history.segments)


class CaseHead:
    """A case over its nights, without them."""

    JSON_OF = CaseHistory
    JSON_KEYS: ClassVar[Keys] = {
        "name": "name",
        "case_key": "case.case_key",
        "case": "case",
        "night_count": _night_count,
        "is_too_short": "is_too_short",
        "pending": "pending",
        "quarantine_reason": "quarantine_reason",
        "alert_count": _alert_count,
        "changes": _changes,
    }


class HistoryAnswer:
    """One case over its nights."""

    JSON_OF = CaseHistory
    JSON_KEYS: ClassVar[Keys] = {
        **CaseHead.JSON_KEYS,
        "metric": "metric",
        "branch": "branch",
        "since": "since",
        "segments": _segments,
        "annotations": "annotations",
    }


@dataclass(frozen=True, slots=True)
class HistoryOverview:
    """The cases that changed, and how many there are in all."""

    JSON_KEYS: ClassVar[Keys] = {
        "metric": "metric",
        "case_count": "case_count",
        "too_short_count": "too_short_count",
        "alert_count": "alert_count",
        "unused_entries": "unused_entries",
        "cases": ("cases", tuple[CaseHead, ...]),
    }

    histories: Sequence[CaseHistory]
    metric: Metric
    """What is watched."""
    unused_entries: tuple[str, ...] = ()
    """Annotations and quarantine entries that matched nothing."""

    @property
    def case_count(self) -> int:
        """Cases, count."""
        return len(self.histories)

    @property
    def too_short_count(self) -> int:
        """Cases of too few nights to say anything of steps, count."""
        return sum(history.is_too_short for history in self.histories)

    @property
    def alert_count(self) -> int:
        """Changes somebody has to look at, count."""
        return sum(len(history.alerts) for history in self.histories)

    @property
    def cases(self) -> tuple[CaseHistory, ...]:
        """The cases that changed, or whose newest nights differ."""
        return tuple(history for history in self.histories if history.changes or history.pending)
