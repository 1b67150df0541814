"""Observations (one process, one record) into points of a series (one run each), and which may be believed. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import ClassVar

from results.diff.rules import INVALIDATING_FLAGS
from results.records.metrics import Metric
from results.records.records import Record, RunInfo
from roofline_model.core.finding import Finding, finding
from roofline_model.operators.case import Case

UNUSABLE_FLAGS = frozenset(INVALIDATING_FLAGS)
"""Flags that keep a run out of the search, the same that make a diff invalid: what others, the clock or a slow state
did to it. Doubts that are traits of a kernel (noisy, bimodal) come back in every run; without such runs there would be
nothing to watch.
"""

ALL_BRANCHES = "all"


@dataclass(frozen=True, slots=True)
class Observation:
    """One metric of one record: what a series is made of."""

    case: Case
    run_id: str
    process_ordinal: int
    history_key: str
    hardware_key: str
    method_hash: str
    method_version: str
    value: float
    flags: tuple[str, ...] = ()
    sm_clock_hz: float | None = None
    prediction_version: str = ""
    """What predicted, for the metric `error`: model version and profile; empty for the others."""

    @property
    def segment_key(self) -> tuple[str, str, str]:
        """Observations with equal keys may be compared over time: same chip, environment class, method and model."""
        return (self.history_key, self.method_hash, self.prediction_version)


@dataclass(frozen=True, slots=True)
class HistoryPoint:
    """One run's value of a case: the geometric mean over its processes, each of which counts once."""

    DERIVED: ClassVar = ("is_used",)

    run_id: str
    """Id of the run."""
    started_at: str
    """UTC, ISO 8601."""
    label: str
    """Label of the run; empty without one."""
    git_commit: str | None
    """Commit that was measured; null where unknown."""
    git_is_dirty: bool | None
    """Whether files differed from that commit; null where unknown."""
    git_branch: str | None
    """Branch of that commit; null where unknown."""
    value: float
    """In the metric's unit."""
    process_count: int
    """Processes, count."""
    flags: tuple[str, ...]
    """Warnings about its samples."""
    doubts: tuple[Finding, ...]
    """Why it is shown hollow and not searched for steps; empty for one that counts."""
    sm_clock_hz: float | None = None
    """Median clock of the SMs, Hz."""

    @property
    def is_used(self) -> bool:
        """Whether the run takes part in the search for steps."""
        return not self.doubts


def points_of(
    observations: Sequence[Observation], runs: Mapping[str, RunInfo], metric: Metric, branch: str | None
) -> list[HistoryPoint]:
    """Return the points of one series in the order of their runs. Runs that `runs` does not hold are left out.

    A point is doubtful where its run is not complete, is of another branch than `branch` (None: any), or where more
    than half of its processes carry a flag of `UNUSABLE_FLAGS`; otherwise the processes without such a flag make its
    value.
    """
    by_run: dict[str, list[Observation]] = {}
    for observation in observations:
        if observation.run_id in runs and metric.scaled(observation.value) is not None:
            by_run.setdefault(observation.run_id, []).append(observation)
    ordered = sorted(by_run, key=lambda run_id: (runs[run_id].started_at, run_id))
    return [_point(runs[run_id], by_run[run_id], metric, branch) for run_id in ordered]


def _point(run: RunInfo, members: Sequence[Observation], metric: Metric, branch: str | None) -> HistoryPoint:
    flags: tuple[str, ...] = ()
    clear = members
    if any(member.flags for member in members):
        flags = tuple(sorted({flag for member in members for flag in member.flags}))
        clear = [member for member in members if UNUSABLE_FLAGS.isdisjoint(member.flags)]
    doubts: tuple[Finding, ...] = ()
    if run.status != "complete":
        doubts = (finding("run-unfinished", status=run.status),)
    elif branch is not None and run.git_branch is not None and run.git_branch != branch:
        doubts = (finding("other-branch", branch=run.git_branch),)
    elif 2 * len(clear) < len(members):
        doubts = tuple(map(Finding, sorted(UNUSABLE_FLAGS.intersection(flags))))
    by_process: dict[int, list[float]] = {}
    for observation in clear or members:
        by_process.setdefault(observation.process_ordinal, []).append(observation.value)
    clocks = [member.sm_clock_hz for member in members if member.sm_clock_hz is not None]
    return HistoryPoint(
        run_id=run.run_id,
        started_at=run.started_at,
        label=run.label,
        git_commit=run.git_commit,
        git_is_dirty=run.git_is_dirty,
        git_branch=run.git_branch,
        value=_mean(by_process, metric),
        process_count=len(by_process),
        flags=flags,
        doubts=doubts,
        sm_clock_hz=median(clocks) if clocks else None,
    )


def _mean(by_process: Mapping[int, Sequence[float]], metric: Metric) -> float:
    """Return the mean over processes on the metric's scale, of each process its median."""
    values = [
        process_values[0] if len(process_values) == 1 else median(process_values)
        for process_values in by_process.values()
    ]
    if len(values) == 1:
        return values[0]
    return metric.unscaled(fmean(scaled for value in values if (scaled := metric.scaled(value)) is not None))


def main_branch(runs: Iterable[RunInfo]) -> str | None:
    """Return the branch that most complete runs are of, the newer one of two with equally many; None where none is
    known.

    The nightly series is one branch's; what somebody tried on another one is no run of it.
    """
    counts: dict[str, int] = {}
    newest: dict[str, str] = {}
    for run in runs:
        if run.git_branch is not None and run.status == "complete":
            counts[run.git_branch] = counts.get(run.git_branch, 0) + 1
            newest[run.git_branch] = max(newest.get(run.git_branch, ""), run.started_at)
    return max(counts, key=lambda name: (counts[name], newest[name]), default=None)


def case_name(case: Case) -> str:
    """Return operator and id: `gemv 1x4096x4096-w16a16-BF16.BF16-matmul-cold`."""
    return f"{case.op} {case.id}"


def model_value(record: Record, metric: Metric) -> float | None:
    """Return memory or quality of a record of a whole model; None for any other record."""
    from results.records.model_figures import model_figures

    figures = model_figures(record)
    if figures is None:
        return None
    if metric.key == "memory":
        return figures.resident_bytes
    return figures.kl_nats_per_token.value if figures.kl_nats_per_token is not None else None


def predictor_name(model_version: str, profile_hash: str) -> str:
    """Return the name of the predictor: errors of different predictors are never compared."""
    return f"{model_version} ({profile_hash[:8]})"
