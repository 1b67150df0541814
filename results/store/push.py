"""Runs copied into another database, each once; a push that was broken off is continued by the next one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from results.records.records import RunInfo
from results.store import read
from results.store.query import RecordQuery, find_records, profile_hashes, read_lots
from results.store.store import ResultStore
from roofline_model.core.errors import StoreError


@dataclass(frozen=True, slots=True)
class PushedRun:
    """A run that the target holds whole."""

    run: RunInfo
    added_count: int
    """Records that the target did not have."""


def finished_runs(store: ResultStore) -> list[RunInfo]:
    """Return the runs that came to an end, oldest first."""
    return [run for run in reversed(store.runs()) if run.status != "running"]


def push(source: ResultStore, target: ResultStore, runs: Iterable[RunInfo]) -> Iterator[PushedRun]:
    """Copy runs of `source` to `target` and yield each as soon as the target holds it whole.

    A run that ended there already is left alone. Until all its records are there a run counts as running: `latest`
    never means half of one. Raises `StoreError` for the same database twice, `DatabaseAwayError` when a server is away.
    """
    if source.place == target.place:
        raise StoreError(f"{target.name} is the same database as {source.name}: name another one to push to")
    for run in runs:
        there = target.query(partial(read.read_run, run_id=run.run_id))
        is_whole = there is not None and there.status != "running"
        yield PushedRun(run, 0 if is_whole else _copy(source, target, run))


def _copy(source: ResultStore, target: ResultStore, run: RunInfo) -> int:
    """Copy one run and return how many records were new."""
    stored = next(iter(find_records(source, RecordQuery(run_id=run.run_id))), None)
    if stored is None:  # somebody else pushed and removed it a moment ago
        return 0
    profiles = [profile for profile in map(source.profile, profile_hashes(source, stored)) if profile is not None]
    begun = replace(run, status="running", exit_code=None, finished_at=None)
    target.add_run(
        begun,
        profiles,
        (),
        processes=source.processes(run.run_id),
        canaries=source.canaries(run.run_id),
        noise_floors=source.noise_floors(run.environment.class_hash).values(),
    )
    added_count = sum(target.add_run(begun, (), lot)[0] for lot in read_lots(source, stored, with_samples=True))
    target.add_run(run, (), ())
    return added_count
