"""Runs with all that they measured, whatever was asked: what the spread between processes and the age of a case are
told by.

A question narrows the cases that are ranked. What is known of a run may not depend on it, or the same case of the same
records would have another interval, another confidence and another place in every answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

from reports.stored.rows.levels import chip_of, is_of_this_chip
from results.records.impossible import possible_records
from results.records.records import Record, RunInfo

if TYPE_CHECKING:
    from results.store.store import ResultStore


class WholeRuns(Protocol):
    """Where a run's other cases are found."""

    def measured(self, run: RunInfo, hardware_key: str) -> tuple[Record, ...]:
        """Return all that a run measured on a chip, without samples."""

    def newest(self, hardware_key: str) -> RunInfo | None:
        """Return the newest run that measured something on the chip it asked for; None without one."""


class GivenRuns:
    """Runs in hand."""

    def __init__(self, runs: Mapping[str, RunInfo] | None = None, records: Iterable[Record] = ()) -> None:
        self._by_run: dict[str, list[Record]] = {}
        runs_by_id = runs or {}
        for record in records:
            if record.status == "measured" and record.run_id in runs_by_id:
                self._by_run.setdefault(record.run_id, []).append(record)
        self._newest = newest_by_chip(run for run_id, run in runs_by_id.items() if run_id in self._by_run)

    def measured(self, run: RunInfo, hardware_key: str) -> tuple[Record, ...]:
        """Return all that a run measured on a chip."""
        return _of_chip(self._by_run.get(run.run_id, ()), run, hardware_key)

    def newest(self, hardware_key: str) -> RunInfo | None:
        """Return the newest run that measured something on the chip it asked for; None without one."""
        return self._newest.get(hardware_key)


class StoreRuns:
    """Runs of an open store, each read once and only where it is asked for. Both raise `StoreError` where it cannot be
    read.
    """

    def __init__(self, store: ResultStore) -> None:
        self._store = store
        self._by_run: dict[str, tuple[Record, ...]] = {}
        self._newest: Mapping[str, RunInfo] | None = None

    def measured(self, run: RunInfo, hardware_key: str) -> tuple[Record, ...]:
        """Return all that a run measured on a chip, without samples."""
        records = self._by_run.get(run.run_id)
        if records is None:
            records = possible_records(self._store.records(run.run_id, with_samples=False))
            self._by_run[run.run_id] = records
        return _of_chip(records, run, hardware_key)

    def newest(self, hardware_key: str) -> RunInfo | None:
        """Return the newest run that measured something on the chip it asked for; None without one."""
        from results.store.newest import measuring_runs

        if self._newest is None:
            self._newest = newest_by_chip(measuring_runs(self._store))
        return self._newest.get(hardware_key)


def newest_by_chip(runs: Iterable[RunInfo]) -> dict[str, RunInfo]:
    """Return the newest run of each chip, none that was forced onto another machine."""
    newest: dict[str, RunInfo] = {}
    for run in sorted(runs, key=lambda candidate: (candidate.started_at, candidate.run_id)):
        if not run.is_forced:
            newest[run.hardware_key] = run
    return newest


def _of_chip(records: Iterable[Record], run: RunInfo, hardware_key: str) -> tuple[Record, ...]:
    return tuple(
        record
        for record in records
        if record.status == "measured" and chip_of(record, run) == hardware_key and is_of_this_chip(record, run)
    )
