"""Alerts of a history, one per step or drift: the metric, the size of the change and its status. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from results.history.change_points import Step
from results.history.segments import Segment, changes_at, clock_ratio
from results.records.metrics import Metric
from results.records.records import RunInfo
from roofline_model.operators.case import short_hash

if TYPE_CHECKING:
    from results.history.case_history import CaseHistory

Status = Literal["open", "annotated", "quarantined", "fixed", "superseded", "drifting", "better", "withdrawn"]
"""Of a change: open, annotated and quarantined ones are worse; a superseded case is measured by another method or for
another chip since; a drifting step is part of a drift; later nights did not show a withdrawn one.
"""

DRIFT_SHARE = 0.5
"""A step is part of the drift of its new level when that moves the same way by at least this share of the step."""
BACK_SHARE = 0.25
"""A level is back where it was when it is worse by no more than this share of the step (or the smallest step that
counts).
"""


@dataclass(frozen=True, slots=True)
class Change:
    """A step between two levels, or the drift of one. Values are in the metric's unit."""

    DERIVED: ClassVar = ("is_open",)

    kind: Literal["step", "drift"]
    """step: from one night to the next; drift: slowly over many."""
    alert_id: str
    """Sixteen hex digits: the same on every later night, so that it is told once."""
    status: Status
    """Whether somebody still has to look at it: `open`."""
    segment_index: int
    """Which of the history's segments it is in: ordinal from 0."""
    before_value: float
    """Level before it, in the metric's unit."""
    after_value: float
    """Level after it, in the metric's unit."""
    change_value: float
    """By `Metric.change`: relative to before, for quality and error the difference."""
    run_id: str
    """Of the first night of the new level; of a drift the first night of the level that drifts."""
    started_at: str
    """Of that run: UTC, ISO 8601."""
    found_run_id: str
    """Of the night on which it was found; of a drift the newest night that shows it."""
    found_at: str
    """Of that night: UTC, ISO 8601."""
    night_count: int
    """Nights of the new level, or of the level that drifts, count."""
    is_confirmed: bool
    """Whether enough nights have shown it; a new step may still be withdrawn."""
    changed: tuple[str, ...] = ()
    """What differs in the environment from the night before, the commit among it."""
    clock_ratio: float | None = None
    """SM clock after over before, where it moved: slower by as much is the clock, not the kernel."""
    reason: str = ""
    """Of the annotation or the quarantine."""
    fixed_at: str = ""
    """When a later level began that is back."""

    @property
    def is_open(self) -> bool:
        """Whether it is an alert."""
        return self.status == "open"


def changes_of(history: CaseHistory, runs: Mapping[str, RunInfo]) -> tuple[Change, ...]:
    """Return the steps and drifts of all segments of a history, oldest first. `runs`: of its nights."""
    segments = history.segments
    changes: list[Change] = []
    for number, segment in enumerate(segments):
        later = segments[number + 1 :]
        level_index = 0
        for step in segment.steps:
            if not step.is_withdrawn:
                level_index += 1
            changes.append(_step(number, segment, step, level_index, later, history, runs))
        changes += [
            _drift(number, segment, index, later, history)
            for index, level in enumerate(segment.levels)
            if level.drift_value is not None
        ]
    return tuple(sorted(changes, key=lambda change: (change.started_at, change.found_at, change.kind)))


def _step(
    number: int,
    segment: Segment,
    step: Step,
    level_index: int,
    later: Sequence[Segment],
    history: CaseHistory,
    runs: Mapping[str, RunInfo],
) -> Change:
    """Return one step. `level_index`: the level that the step ends at."""
    used, metric = segment.used, history.metric
    if step.is_withdrawn:
        old = new = segment.levels[level_index]
    else:
        old, new = segment.levels[level_index - 1], segment.levels[level_index]
    first, found_run = used[step.start_index], used[step.found_index]
    last_before = used[step.start_index - 1]
    rise = metric.badness(new.scaled_value) - _worst_before(segment, level_index, metric)
    limit = metric.badness(old.scaled_value) + max(metric.least, BACK_SHARE * abs(rise))
    fixed_at = "" if step.is_withdrawn or rise <= 0 else _back_at(segment, level_index + 1, limit, later, metric)
    days = (last_before.started_at[:10], found_run.started_at[:10])
    commits = [run.git_commit for run in used[step.start_index : step.found_index + 1]]
    reason = _annotated(history, days, commits)
    # Levels are known better every night: what began as a step may turn out to be less than one.
    is_none = step.is_withdrawn or abs(new.scaled_value - old.scaled_value) < metric.least
    status: Status
    if is_none:
        status = "withdrawn"
    elif rise <= 0:
        status = "better"
    else:
        status = _status(fixed_at, reason, segment, later, history)
        moved, drift = new.scaled_value - old.scaled_value, new.drift_value or 0.0
        if status == "open" and moved * drift > 0 and abs(drift) >= DRIFT_SHARE * abs(moved):
            status = "drifting"
    return Change(
        kind="step",
        alert_id=short_hash(["step", history.case.case_key, metric.key, segment.history_key, first.run_id]),
        status=status,
        segment_index=number,
        before_value=old.value,
        after_value=new.value,
        change_value=metric.change(old.value, new.value),
        run_id=first.run_id,
        started_at=first.started_at,
        found_run_id=found_run.run_id,
        found_at=found_run.started_at,
        night_count=0 if is_none else new.night_count,
        is_confirmed=step.is_confirmed,
        changed=changes_at(segment, step, runs),
        clock_ratio=None if is_none else clock_ratio(old, new),
        reason=reason or (history.quarantine_reason if status == "quarantined" else ""),
        fixed_at=fixed_at,
    )


def _drift(number: int, segment: Segment, index: int, later: Sequence[Segment], history: CaseHistory) -> Change:
    """Return the drift of one level: from its first night's value on the trend to its last one's."""
    metric, used, level = history.metric, segment.used, segment.levels[index]
    total = level.drift_value or 0.0
    start, end = level.scaled_value - total / 2, level.scaled_value + total / 2
    first, last = used[level.first_index], used[level.first_index + level.night_count - 1]
    rise = metric.badness(end) - metric.badness(start)
    limit = metric.badness(start) + max(metric.least, BACK_SHARE * abs(rise))
    fixed_at = "" if rise <= 0 else _back_at(segment, index + 1, limit, later, metric)
    nights = used[level.first_index : level.first_index + level.night_count]
    reason = _annotated(history, (first.started_at[:10], last.started_at[:10]), [run.git_commit for run in nights])
    status: Status = "better" if rise <= 0 else _status(fixed_at, reason, segment, later, history)
    before, after = metric.unscaled(start), metric.unscaled(end)
    return Change(
        kind="drift",
        alert_id=short_hash(["drift", history.case.case_key, metric.key, segment.history_key, first.run_id]),
        status=status,
        segment_index=number,
        before_value=before,
        after_value=after,
        change_value=metric.change(before, after),
        run_id=first.run_id,
        started_at=first.started_at,
        found_run_id=last.run_id,
        found_at=last.started_at,
        night_count=level.night_count,
        is_confirmed=True,
        reason=reason or (history.quarantine_reason if status == "quarantined" else ""),
        fixed_at=fixed_at,
    )


def _worst_before(segment: Segment, level_index: int, metric: Metric) -> float:
    """Return the badness that a level is held against: the one before it; of the error the worst one so far.

    Inside a segment the prediction does not change, so an error moves because the time did, and the time has its own
    alert. When a slow kernel is mended its error is as large again as it was: nobody has to look at the model for that.
    """
    before = metric.badness(segment.levels[max(level_index - 1, 0)].scaled_value)
    if metric.key == "error":
        earlier = (metric.badness(level.scaled_value) for level in segment.levels[: max(level_index - 1, 0)])
        return max([before, *(value + metric.least for value in earlier)])
    return before


def _back_at(segment: Segment, from_index: int, limit: float, later: Sequence[Segment], metric: Metric) -> str:
    """Return when the first level began that is no worse than `limit`: from `from_index` on here, or in a segment that
    goes on.
    """
    for level in segment.levels[from_index:]:
        if metric.badness(level.scaled_value) <= limit:
            return segment.used[level.first_index].started_at
    for other in later:
        for level in other.levels if _is_continued(segment, other) else ():
            if metric.badness(level.scaled_value) <= limit:
                return other.used[level.first_index].started_at
    return ""


def _is_continued(segment: Segment, other: Segment) -> bool:
    """Return whether a later segment goes on with the same chip and method, after this one ended."""
    is_same = (segment.hardware_key, segment.method_version) == (other.hardware_key, other.method_version)
    return is_same and other.nights[0].started_at > segment.nights[-1].started_at


def _annotated(history: CaseHistory, days: tuple[str, str], commits: Sequence[str | None]) -> str:
    return next(
        (
            annotation.reason
            for annotation in history.annotations
            if annotation.covers(history.metric.key, *days, commits)
        ),
        "",
    )


def _status(fixed_at: str, reason: str, segment: Segment, later: Sequence[Segment], history: CaseHistory) -> Status:
    if fixed_at:
        return "fixed"
    if reason:
        return "annotated"
    if history.quarantine_reason:
        return "quarantined"
    ended = segment.nights[-1].started_at
    later_segments = [other for other in later if other.nights[0].started_at > ended]
    return (
        "superseded"
        if later_segments and not any(_is_continued(segment, other) for other in later_segments)
        else "open"
    )
