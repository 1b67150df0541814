"""Histories as answers: what `roofline history --json` and the API give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from results.history.alerts import Change
from results.history.case_history import CaseHistory
from results.history.points import HistoryPoint
from results.history.segments import Segment
from results.records.metrics import Metric
from results.watch.annotations import Annotation
from roofline_model.core.finding import Finding
from roofline_model.operators.case import Case


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseChange(Change):
    """A step between two levels, or the drift of one, and where it was seen."""

    hardware: str
    """Key of the chip."""
    commit_before: str | None
    """Commit of the last night before it; null where none is known."""
    commit_after: str | None
    """Commit of its first night; null where none is known."""


@dataclass(frozen=True, slots=True)
class HistoryLevel:
    """Nights between two steps."""

    run_id: str
    """Of its first night."""
    started_at: str
    """Of that night: UTC, ISO 8601."""
    night_count: int
    """Nights, count."""
    value: float
    """In the metric's unit."""
    sm_clock_hz: float | None
    """Median clock of the SMs, Hz."""


@dataclass(frozen=True, slots=True)
class HistorySegment:
    """Nights of one chip, environment class and method: only these are compared."""

    history_key: str
    """What the nights have in common, as a key."""
    hardware: str
    """Key of the chip."""
    method_version: str
    """Version of the measuring method."""
    split: tuple[str, ...]
    """What differs from the segment before, in words."""
    split_change_value: float | None
    """Change from the last level of the segment before, relative or in the metric's unit: told, never judged."""
    is_too_short: bool
    """Whether there are too few nights to say anything of steps."""
    pending: Finding | None
    """That the newest nights differ and are too few to be a step; null where they do not."""
    nights: tuple[HistoryPoint, ...]
    """The nights, oldest first."""
    levels: tuple[HistoryLevel, ...]
    """The levels between the steps, oldest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseHead:
    """A case over its nights, without them."""

    name: str
    """The case in words."""
    case_key: str
    """Sixteen hex digits: the case."""
    case: Case
    """What is run."""
    night_count: int
    """Nights, count."""
    is_too_short: bool
    """Whether there are too few nights to say anything of steps."""
    pending: Finding | None
    """That the newest nights differ and are too few to be a step; null where they do not."""
    quarantine_reason: str
    """Why it raises no alert; empty where it may."""
    alert_count: int
    """Changes somebody has to look at, count."""
    changes: tuple[CaseChange, ...]
    """Steps and drifts, oldest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryAnswer(CaseHead):
    """One case over its nights."""

    metric: Metric
    """What is watched."""
    branch: str | None
    """Whose nights count; null: every branch."""
    since: str | None
    """Nights and ended changes before this day are searched and not shown; null: all are shown."""
    segments: tuple[HistorySegment, ...]
    """Nights that may be compared with each other, oldest first."""
    annotations: tuple[Annotation, ...]
    """What somebody wrote about changes of the case."""


@dataclass(frozen=True, slots=True)
class HistoryOverview:
    """The cases that changed, and how many there are in all."""

    metric: Metric
    """What is watched."""
    case_count: int
    """Cases, count."""
    too_short_count: int
    """Cases of too few nights to say anything of steps, count."""
    alert_count: int
    """Changes somebody has to look at, count."""
    unused_entries: tuple[str, ...]
    """Annotations and quarantine entries that matched nothing."""
    cases: tuple[CaseHead, ...]
    """The cases that changed, or whose newest nights differ."""


def history_answer(history: CaseHistory) -> HistoryAnswer:
    """Return one case with its nights as an answer."""
    head = case_head(history)
    return HistoryAnswer(
        **{field.name: getattr(head, field.name) for field in fields(head)},
        metric=history.metric,
        branch=history.branch,
        since=history.since,
        segments=tuple(_segment(history, segment) for segment in history.segments),
        annotations=history.annotations,
    )


def history_overview(
    histories: Sequence[CaseHistory], metric: Metric, unused_entries: Sequence[str] = ()
) -> HistoryOverview:
    """Return the changes of every case that has one, and the counts, as an answer."""
    return HistoryOverview(
        metric=metric,
        case_count=len(histories),
        too_short_count=sum(history.is_too_short for history in histories),
        alert_count=sum(len(history.alerts) for history in histories),
        unused_entries=tuple(unused_entries),
        cases=tuple(case_head(history) for history in histories if history.changes or history.pending),
    )


def case_head(history: CaseHistory) -> CaseHead:
    """Return one case without its nights as an answer."""
    return CaseHead(
        name=history.name,
        case_key=history.case.case_key,
        case=history.case,
        night_count=len(history.points),
        is_too_short=history.is_too_short,
        pending=history.pending,
        quarantine_reason=history.quarantine_reason,
        alert_count=len(history.alerts),
        changes=tuple(_change(history, change) for change in history.changes),
    )


def _change(history: CaseHistory, change: Change) -> CaseChange:
    segment = history.segments[change.segment_index]
    nights = segment.used
    first = next((index for index, point in enumerate(nights) if point.run_id == change.run_id), None)
    return CaseChange(
        **{field.name: getattr(change, field.name) for field in fields(change)},
        hardware=segment.hardware_key,
        commit_before=nights[first - 1].git_commit if first else None,
        commit_after=None if first is None else nights[first].git_commit,
    )


def _segment(history: CaseHistory, segment: Segment) -> HistorySegment:
    used = segment.used
    return HistorySegment(
        history_key=segment.history_key,
        hardware=segment.hardware_key,
        method_version=segment.method_version,
        split=segment.split,
        split_change_value=segment.split_change_value,
        is_too_short=segment.is_too_short,
        pending=segment.pending,
        nights=history.shown_points(segment),
        levels=tuple(
            HistoryLevel(
                run_id=used[level.first_index].run_id,
                started_at=used[level.first_index].started_at,
                night_count=level.night_count,
                value=level.value,
                sm_clock_hz=level.sm_clock_hz,
            )
            for level in segment.levels
        ),
    )
