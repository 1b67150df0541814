"""The history of a case: its nights in comparable segments, the steps and drifts in them, and which of those are
alerts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from results.history.alerts import Change, changes_of
from results.history.points import (
    ALL_BRANCHES,
    HistoryPoint,
    Observation,
    case_name,
    main_branch,
    model_value,
    predictor_name,
)
from results.history.segments import Segment, segments_of
from results.records.metrics import Metric, get_metric
from results.records.records import Record, RunInfo
from results.watch.annotations import Annotation
from roofline_model.core.errors import InvalidValueError, UnknownNameError
from roofline_model.core.finding import Finding, finding
from roofline_model.core.grouping import grouped
from roofline_model.operators.case import Case

if TYPE_CHECKING:
    from results.store.store import ResultStore
    from results.watch.quarantine import Quarantine

_WITH = {
    "time": "a time",
    "energy": "energy (--roofline-power measures it)",
    "memory": "the memory of a whole model",
    "quality": "the quality of a whole model",
    "error": "a prediction",
}
"""Metric → what a night needs for it."""


@dataclass(frozen=True, slots=True)
class CaseHistory:
    """One case over all its nights."""

    case: Case
    """What is run."""
    metric: Metric
    """What is watched."""
    segments: tuple[Segment, ...]
    """Oldest first; only nights of one segment are compared."""
    changes: tuple[Change, ...]
    """Steps and drifts, oldest first, those that are no alerts among them. An open alert stays, however long ago it
    began.
    """
    annotations: tuple[Annotation, ...] = ()
    """Those that are about this case, whether or not they covered a change."""
    quarantine_reason: str = ""
    """Why it raises no alert; empty where it may."""
    branch: str | None = None
    """The branch whose nights count; None: every branch."""
    since: str | None = None
    """Nights and ended changes before this day are searched and not shown."""

    @property
    def name(self) -> str:
        """Operator and id, unique to the case."""
        return case_name(self.case)

    @property
    def points(self) -> tuple[HistoryPoint, ...]:
        """The nights of all segments in the order of their runs, from `since` on."""
        nights = (point for segment in self.segments for point in self.shown_points(segment))
        return tuple(sorted(nights, key=lambda point: point.started_at))

    def shown_points(self, segment: Segment) -> tuple[HistoryPoint, ...]:
        """Return the nights of one of the segments, from `since` on."""
        return tuple(point for point in segment.nights if self.since is None or point.started_at >= self.since)

    @property
    def change_points(self) -> tuple[Change, ...]:
        """The steps that stand."""
        return tuple(change for change in self.changes if change.kind == "step" and change.status != "withdrawn")

    @property
    def drifts(self) -> tuple[Change, ...]:
        """The slow movements."""
        return tuple(change for change in self.changes if change.kind == "drift")

    @property
    def alerts(self) -> tuple[Change, ...]:
        """Open changes."""
        return tuple(change for change in self.changes if change.is_open)

    @property
    def pending(self) -> Finding | None:
        """That the newest runs differ and are too few to be a step; None where they do not."""
        return max(self.segments, key=lambda segment: segment.nights[-1].started_at).pending

    @property
    def is_too_short(self) -> bool:
        """Whether no segment has enough nights to say anything of steps."""
        return all(segment.is_too_short for segment in self.segments)


@dataclass(frozen=True, slots=True)
class HistoryOptions:
    """Settings of a history: metric, branch, first day shown, expected changes, quarantined cases."""

    metric: Metric
    branch: str | None = None
    """None: the branch with most runs; `all`: every branch."""
    since: str | None = None
    """Day from which nights are shown (ISO date or time); earlier ones are searched all the same."""
    annotations: Sequence[Annotation] = ()
    quarantine: Quarantine | None = None


def case_history(
    source: ResultStore | Iterable[Record],
    case: Case | str,
    *,
    runs: Iterable[RunInfo] = (),
    metric: str = "time",
    since: str | None = None,
    branch: str | None = None,
    annotations: Sequence[Annotation] = (),
    quarantine: Quarantine | None = None,
) -> CaseHistory:
    """Return the history of one case.

    `source`: an open store, or records together with their `runs`. `case`: a case or its `case_key`; for a store also
    words (see `reading.find_case`). `metric`: time, energy, memory, quality or error. `since`: ISO date or time;
    earlier runs are searched and not shown. `branch`: whose runs count (default: the branch with most runs of this
    case; `all`). Raises `UnknownNameError` for an unknown case, metric or branch, `InvalidValueError` for a case
    without a run.
    """
    options = HistoryOptions(get_metric(metric), branch, since, annotations, quarantine)
    if not isinstance(source, Iterable):
        from results.history import reading

        chosen = reading.find_case(source, case) if isinstance(case, str) else case
        series = reading.read_series(source, options.metric, case_key=chosen.case_key)
        observations, by_id, case_key = series.observations, series.runs, chosen.case_key
        called = case_name(chosen)
    else:
        case_key = case.case_key if isinstance(case, Case) else case
        by_id, called = {run.run_id: run for run in runs}, f"case {case_key}"
        records = [record for record in source if record.case.case_key == case_key]
        observations = observations_of(records, by_id, options.metric)
    histories = _histories(observations, by_id, options)
    if not histories or not histories[0].points:
        raise InvalidValueError(
            f"no run with {_WITH[options.metric.key]} of {called[:120]}{f' since {since}' if since else ''} is stored"
        )
    return histories[0]


def case_histories(store: ResultStore, *, options: HistoryOptions) -> list[CaseHistory]:
    """Return the history of every case with a run of the metric to show, by name; raises as `case_history`."""
    from results.history import reading

    series = reading.read_series(store, options.metric)
    histories = _histories(series.observations, series.runs, options)
    return [history for history in histories if history.points or history.alerts]


def observations_of(records: Iterable[Record], runs: Mapping[str, RunInfo], metric: Metric) -> list[Observation]:
    """Return the observations of a metric in the records of these runs; other records are skipped."""
    observations = []
    for record in records:
        run, measured = runs.get(record.run_id), record.measurement
        if run is None or measured is None or record.status != "measured":
            continue
        value, predictor = record_value(record, metric)
        if value is None:
            continue
        observations.append(
            Observation(
                case=record.case,
                run_id=record.run_id,
                process_ordinal=record.process.ordinal,
                history_key=record.history_key(run.environment.class_hash),
                hardware_key=record.ideal.hardware_key if record.ideal else "",
                method_hash=record.method.method_hash if record.method else "",
                method_version=record.method.version if record.method else "",
                value=value,
                flags=measured.flags,
                sm_clock_hz=measured.sm_clock_hz,
                prediction_version=predictor,
            )
        )
    return observations


def record_value(record: Record, metric: Metric) -> tuple[float | None, str]:
    """Return a record's value of a metric, and the predictor (of an error; else empty)."""
    measured = record.measurement
    if metric.key == "time":
        return (None if measured is None else measured.median_s), ""
    if metric.key == "energy":
        return (None if measured is None else measured.energy_j), ""
    if metric.key == "error":
        prediction = next(
            (
                prediction
                for prediction in (record.expected, record.ideal)
                if prediction is not None and prediction.error_ratio is not None
            ),
            None,
        )
        return (
            (None, "")
            if prediction is None
            else (prediction.error_ratio, predictor_name(prediction.model_version, prediction.profile_hash))
        )
    return model_value(record, metric), ""


def _histories(
    observations: Iterable[Observation], runs: Mapping[str, RunInfo], options: HistoryOptions
) -> list[CaseHistory]:
    _check_branch(options.branch, runs.values())
    # By the object first: a key is a hash of the whole case, and there are far fewer cases than observations.
    by_object = grouped(observations, lambda observation: id(observation.case))
    by_case: dict[str, list[Observation]] = {}
    for members in by_object.values():
        by_case.setdefault(members[0].case.case_key, []).extend(members)
    histories = (_history(members, runs, options) for members in by_case.values())
    return sorted(
        (history for history in histories if history is not None),
        key=lambda history: (history.name, history.case.case_key),
    )


def _check_branch(branch: str | None, runs: Iterable[RunInfo]) -> None:
    """Raise `UnknownNameError` for a branch that no run is of: its history would have no alert for ever."""
    git_branches = {run.git_branch for run in runs if run.git_branch}
    if branch not in (None, ALL_BRANCHES) and git_branches and branch not in git_branches:
        raise UnknownNameError(
            "branch", branch or "", git_branches, fix="Or `all`, or none for the branch with most runs."
        )


def _history(
    observations: Sequence[Observation], runs: Mapping[str, RunInfo], options: HistoryOptions
) -> CaseHistory | None:
    case, metric = observations[0].case, options.metric
    branch = options.branch
    if branch is None:
        branch = main_branch(
            runs[run_id] for run_id in {observation.run_id for observation in observations} if run_id in runs
        )
    elif branch == ALL_BRANCHES:
        branch = None
    segments = segments_of(observations, runs, metric, branch)
    if not segments:
        return None
    name, key = case_name(case), case.case_key
    reason = options.quarantine.reason_of(name, key) if options.quarantine is not None else ""
    about = tuple(annotation for annotation in options.annotations if annotation.covers_case(name, key))
    history = CaseHistory(case, metric, segments, (), about, reason, branch, options.since)
    changes = changes_of(history, runs)
    if (since := options.since) is not None:
        changes = tuple(each for each in changes if each.is_open or max(each.found_at, each.fixed_at) >= since)
    return replace(history, changes=changes)


def unused_entries(histories: Sequence[CaseHistory], options: HistoryOptions) -> tuple[Finding, ...]:
    """Return which annotations and quarantine entries match no case, have expired, or name a commit of no night.

    `histories`: of every case. An annotation that merely covers no change is not told: it outlives its step on purpose.
    """
    names = [(history.name, history.case.case_key) for history in histories]
    entries = [
        finding("entry-unused", f"annotation {annotation.match}", kind="unmatched")
        for annotation in options.annotations
        if not any(annotation.covers_case(*name) for name in names)
    ]
    commits = {
        point.git_commit
        for history in histories
        for segment in history.segments
        for point in segment.nights
        if point.git_commit is not None
    }
    entries += [
        finding("entry-unused", f"annotation {annotation.match}", kind="without-night", commit=annotation.commit)
        for annotation in options.annotations
        if annotation.commit and not any(commit.startswith(annotation.commit) for commit in commits)
    ]
    if options.quarantine is not None:
        entries += options.quarantine.unused(names)
    return tuple(entries)
