"""Retention: drop the raw samples and sensor readings of old runs; every statistic, prediction, flag and row stays.

What goes, of each measurement of a run that is old enough and not protected: `samples`, `clocks`, and the readings in
`telemetry`. `sample_count` keeps saying how many samples the statistics come from.
"""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, func, or_, select, update

from results.records.records import RunInfo
from results.store.schema import MEASUREMENT, RECORD, TELEMETRY
from results.store.store import ResultStore
from results.watch.lists import name_matches
from roofline_model.core.errors import InvalidValueError
from roofline_model.core.finding import Finding, finding

KEPT_NEWEST = 10
"""Complete runs of each machine, chip and branch whose samples stay however old they are: `latest` and the rolling
baseline reach back to them, on a machine that rests as well."""

_UNITS_DAYS = {"d": 1, "w": 7, "m": 30, "y": 365}
_DATED = re.compile(r"(?<!\d)20\d\d(-?)(0[1-9]|1[0-2])\1(0[1-9]|[12]\d|3[01])(?!\d)")
"""A day in a label: the nightly script gives every night such a label, which is no wish to keep it."""
_ID_DIGITS = re.compile(r"\b[0-9a-f]{8,32}\b")


@dataclass(frozen=True, slots=True)
class RunDrop:
    """Data dropped from one run."""

    run: RunInfo
    measurement_count: int
    """Measurements that lose samples or clocks."""
    sample_bytes: int
    """Bytes of samples and clocks."""
    reading_count: int
    """Sensor readings."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to drop, because it was dropped before or never there."""
        return self.measurement_count == 0 and self.reading_count == 0


@dataclass(frozen=True, slots=True)
class ProtectedRun:
    """A run that is old enough and keeps everything all the same."""

    run: RunInfo
    reason: Finding


@dataclass(frozen=True, slots=True)
class PruneReport:
    """Dropped data per run, or data that would be dropped."""

    before: str
    """UTC; runs that started earlier are old enough."""
    drops: tuple[RunDrop, ...]
    protected: tuple[ProtectedRun, ...]

    @property
    def sample_bytes(self) -> int:
        """Bytes of samples and clocks, all runs."""
        return sum(drop.sample_bytes for drop in self.drops)

    @property
    def measurement_count(self) -> int:
        """Measurements that lose samples, all runs."""
        return sum(drop.measurement_count for drop in self.drops)

    @property
    def reading_count(self) -> int:
        """Sensor readings, all runs."""
        return sum(drop.reading_count for drop in self.drops)


def parse_age(text: str) -> datetime.timedelta:
    """Return the age typed as `90d`, `12w`, `6m` (of 30 days) or `2y` (of 365). Raises `InvalidValueError`."""
    match = re.fullmatch(r"([0-9]{1,5})([dwmy])", text.strip().lower(), re.ASCII)
    if match is None or int(match.group(1)) == 0:
        raise InvalidValueError(
            f"an age is a whole number of days, weeks, months or years such as 90d, 12w, 6m or 2y, got {text[:40]!r}"
        )
    return datetime.timedelta(days=int(match.group(1)) * _UNITS_DAYS[match.group(2)])


def named_runs(text: str, runs: Iterable[RunInfo]) -> list[RunInfo]:
    """Return the runs that a text names (a list of baselines, of quarantined cases): by 8 or more digits of an id, or a
    label.

    Any form will do (TOML, JSON, plain lines); a label counts where it stands as a line or between quotes.
    """
    digits = set(_ID_DIGITS.findall(text.lower()))
    words = {line.strip() for line in text.splitlines()} | {quoted for _, quoted in re.findall(r"([\"'])(.*?)\1", text)}
    return [
        run for run in runs if any(run.run_id.startswith(word) for word in digits) or (run.label and run.label in words)
    ]


def prune(
    store: ResultStore,
    older_than: datetime.timedelta,
    *,
    now: datetime.datetime,
    named_reasons: Mapping[str, Finding],
    kept_newest: int = KEPT_NEWEST,
    ignored_labels: Sequence[str] = (),
    is_dry: bool = False,
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> PruneReport:
    """Drop raw samples of old runs, a run per transaction, and return what was dropped; with `is_dry` what would be.

    `named_reasons` maps ids of runs that keep everything to the reason. The newest complete runs of each machine, chip
    and branch keep everything, too, and the newest run of each label, which is the one that the label names there. A
    label with a date in it (`nightly-2026-11-22-0117`) keeps nothing, nor does one that a pattern of `ignored_labels`
    covers.
    """
    cutoff = now - older_than
    protected, chosen = [], []
    runs = store.runs()
    reasons = {**_protections(runs, kept_newest, ignored_labels), **named_reasons}
    for run in runs:
        started = _started(run)
        if started is None:
            protected.append(
                ProtectedRun(run, finding("run-protected", kind="undated", started_at=run.started_at[:40]))
            )
        elif started < cutoff and run.run_id in reasons:
            protected.append(ProtectedRun(run, reasons[run.run_id]))
        elif started < cutoff:
            chosen.append(run)
    drops = []
    for number, run in enumerate(chosen):
        progress(f"run {run.run_id[:8]}", number, len(chosen))
        drops.append(_drop_of(store, run, is_dry=is_dry))
    nonempty = tuple(drop for drop in drops if not drop.is_empty)
    return PruneReport(cutoff.isoformat(timespec="seconds"), nonempty, tuple(protected))


def _protections(runs: Sequence[RunInfo], kept_newest: int, ignored_labels: Sequence[str]) -> dict[str, Finding]:
    """Return why a run keeps everything, by run id; `runs` are newest first."""
    reasons: dict[str, Finding] = {}
    labels = set()
    of_series: Counter[Hashable] = Counter()
    for run in runs:
        machine = (run.environment.class_hash, run.hardware_key, run.is_forced)
        is_wish = (
            run.label
            and not _DATED.search(run.label)
            and not any(name_matches(ignored_label, run.label) for ignored_label in ignored_labels)
        )
        if is_wish and (run.label, machine) not in labels:
            labels.add((run.label, machine))
            reasons[run.run_id] = finding("run-protected", kind="label", label=run.label[:40])
        if run.status == "complete" and _started(run) is not None:
            series = (machine, run.git_branch)
            of_series[series] += 1
            if of_series[series] <= kept_newest:
                reasons[run.run_id] = finding("run-protected", kind="newest", run_count=kept_newest)
    return reasons


def _drop_of(store: ResultStore, run: RunInfo, *, is_dry: bool) -> RunDrop:
    def drop(connection: Connection) -> RunDrop:
        run_drop = _counted(connection, run)
        if not is_dry and not run_drop.is_empty:
            _drop(connection, run.run_id)
        return run_drop

    return store.query(drop) if is_dry else store.transact("pruning", drop)


def _counted(connection: Connection, run: RunInfo) -> RunDrop:
    sample_bytes = func.length(MEASUREMENT.c.samples) + func.coalesce(func.length(MEASUREMENT.c.clocks), 0)
    of_run = RECORD.c.run_id == run.run_id
    count, total = connection.execute(
        select(func.count(), func.sum(sample_bytes)).join_from(MEASUREMENT, RECORD).where(of_run, _HAS_SAMPLES)
    ).one()
    readings = connection.execute(select(func.count()).join_from(TELEMETRY, RECORD).where(of_run)).scalar_one()
    return RunDrop(run, int(count), int(total or 0), int(readings))


def _drop(connection: Connection, run_id: str) -> None:
    of_run = select(RECORD.c.id).where(RECORD.c.run_id == run_id)
    nothing: dict[str, Any] = {"samples": b"", "clocks": None}
    connection.execute(update(MEASUREMENT).where(MEASUREMENT.c.record_pk.in_(of_run), _HAS_SAMPLES).values(nothing))
    connection.execute(delete(TELEMETRY).where(TELEMETRY.c.record_pk.in_(of_run)))


_HAS_SAMPLES = or_(func.length(MEASUREMENT.c.samples) > 0, MEASUREMENT.c.clocks.is_not(None))


def _started(run: RunInfo) -> datetime.datetime | None:
    try:
        started = datetime.datetime.fromisoformat(run.started_at)
    except ValueError:
        return None
    return started if started.tzinfo is not None else started.replace(tzinfo=datetime.UTC)
