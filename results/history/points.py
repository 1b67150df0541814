"""Observations (one process, one record) into points of a series (one run each), and which may be believed. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import ClassVar

from results.cases.pooling import Pooled, Sighting, pool
from results.records.metrics import Metric
from results.records.records import Record, RunInfo
from roofline_model.core.answer import NOT_IN_JSON
from roofline_model.core.finding import Finding, finding
from roofline_model.core.grouping import grouped
from roofline_model.operators.case import Case

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
    """One run's value of a case: pooled over its processes, as every surface pools them."""

    DERIVED: ClassVar = (
        "run_id",
        "started_at",
        "label",
        "git_commit",
        "git_is_dirty",
        "git_branch",
        "value",
        "process_count",
        "flags",
        "is_used",
    )

    run: RunInfo = field(metadata=NOT_IN_JSON)
    pooled: Pooled = field(metadata=NOT_IN_JSON)
    doubts: tuple[Finding, ...]
    """Why it is shown hollow and not searched for steps; empty for one that counts."""
    sm_clock_hz: float | None = None
    """Median clock of the SMs, Hz."""

    @property
    def run_id(self) -> str:
        """Id of the run."""
        return self.run.run_id

    @property
    def started_at(self) -> str:
        """UTC, ISO 8601."""
        return self.run.started_at

    @property
    def label(self) -> str:
        """Label of the run; empty without one."""
        return self.run.label

    @property
    def git_commit(self) -> str | None:
        """Commit that was measured; null where unknown."""
        return self.run.git_commit

    @property
    def git_is_dirty(self) -> bool | None:
        """Whether files differed from that commit; null where unknown."""
        return self.run.git_is_dirty

    @property
    def git_branch(self) -> str | None:
        """Branch of that commit; null where unknown."""
        return self.run.git_branch

    @property
    def value(self) -> float:
        """In the metric's unit."""
        return self.pooled.value

    @property
    def process_count(self) -> int:
        """Processes whose values are used, count."""
        return len(self.pooled.logs)

    @property
    def flags(self) -> tuple[str, ...]:
        """Warnings about their samples."""
        return self.pooled.flags

    @property
    def is_used(self) -> bool:
        """Whether the run takes part in the search for steps."""
        return not self.doubts


def points_of(
    observations: Sequence[Observation], runs: Mapping[str, RunInfo], metric: Metric, branch: str | None
) -> list[HistoryPoint]:
    """Return the points of one series in the order of their runs. Runs that `runs` does not hold are left out.

    A point is doubtful where its run is not complete, is of another branch than `branch` (None: any), or where it is
    not judgeable.
    """
    by_run = grouped(observations, lambda observation: observation.run_id)
    ordered = sorted(by_run.keys() & runs.keys(), key=lambda run_id: (runs[run_id].started_at, run_id))
    points = (_point(runs[run_id], by_run[run_id], metric, branch) for run_id in ordered)
    return [point for point in points if point is not None]


def _point(run: RunInfo, members: Sequence[Observation], metric: Metric, branch: str | None) -> HistoryPoint | None:
    pooled = pool([Sighting((run.run_id, each.process_ordinal), each.value, each.flags) for each in members], metric)
    if pooled is None:
        return None
    doubts: tuple[Finding, ...] = ()
    if run.status != "complete":
        doubts = (finding("run-unfinished", status=run.status),)
    elif branch is not None and run.git_branch is not None and run.git_branch != branch:
        doubts = (finding("other-branch", branch=run.git_branch),)
    elif not pooled.is_judgeable:
        doubts = tuple(map(Finding, sorted(pooled.disturbed_by)))
    clocks = [member.sm_clock_hz for member in members if member.sm_clock_hz is not None]
    return HistoryPoint(run, pooled, doubts, median(clocks) if clocks else None)


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
