"""Changes to a database as values: what a run stores, so that it can wait in a file and be made later, once.

Every change can be made again without harm: the first try may have been committed just before the connection broke.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, update

from results.records.records import HardwareProfile, ProcessInfo, Record, RunInfo, RunStatus
from results.records.state_records import CanaryReading, NoiseFloor
from results.store import read, write
from roofline_model.core.errors import StoreError


@dataclass(frozen=True, slots=True)
class RunEnd:
    """How a run ended."""

    status: RunStatus
    exit_code: int | None
    finished_at: str | None


@dataclass(frozen=True, slots=True)
class SlowCanaries:
    """Readings that a later one showed to be slow."""

    readings: tuple[CanaryReading, ...]


@dataclass(frozen=True, slots=True)
class AddedFlag:
    """A flag that measurements get in hindsight."""

    record_ids: tuple[str, ...]
    flag: str


@dataclass(frozen=True, slots=True)
class NewFloors:
    """Noise floors of a machine."""

    floors: tuple[NoiseFloor, ...]


Content = (
    RunInfo | RunEnd | HardwareProfile | Record | CanaryReading | SlowCanaries | AddedFlag | ProcessInfo | NewFloors
)


@dataclass(frozen=True, slots=True)
class Change:
    """One thing to be stored, and the run it belongs to."""

    run_id: str
    content: Content
    """A `ProcessInfo` says how that process ended; a `RunInfo` that the run began."""


KINDS: dict[str, type[Any]] = {
    "run": RunInfo,
    "run-end": RunEnd,
    "profile": HardwareProfile,
    "record": Record,
    "canary": CanaryReading,
    "slow-canaries": SlowCanaries,
    "flag": AddedFlag,
    "process-end": ProcessInfo,
    "noise-floors": NewFloors,
}
"""Names of the kinds in a file."""


def kind_of(change: Change) -> str:
    """Return the name of the kind of a change."""
    return next(name for name, kind in KINDS.items() if type(change.content) is kind)


def make_changes(connection: Connection, known: write.KnownIds, changes: Iterable[Change]) -> int:
    """Make the changes in their order, in the transaction that somebody began; return how many records were new.

    What is there already stays. Raises `StoreError` for a record of a run that is neither there nor among the changes.
    """
    return sum(_MAKERS[kind_of(change)](connection, known, change.run_id, change.content) for change in changes)


def add_flag(connection: Connection, added: AddedFlag) -> int:
    """Add a flag to measurements; return how many did not carry it yet. Raises `StoreError` for a record not there."""
    return write.add_flag(connection, added.record_ids, added.flag)


def _finish(connection: Connection, known: write.KnownIds, run_id: str, end: RunEnd) -> int:
    values = {"status": end.status, "exit_code": end.exit_code, "finished_at": end.finished_at}
    if connection.execute(update(write.RUN).where(write.RUN.c.run_id == run_id), values).rowcount != 1:
        raise StoreError(f"run {run_id[:40]!r} is not in the database: begin_run has to come first")
    return 0


def _begin(connection: Connection, known: write.KnownIds, run_id: str, run: RunInfo) -> int:
    if read.read_run(connection, run_id) is None:
        write.insert_run(connection, run)
    return 0


def _profile(connection: Connection, known: write.KnownIds, run_id: str, profile: HardwareProfile) -> int:
    write.insert_profile(connection, profile)
    return 0


def _record(connection: Connection, known: write.KnownIds, run_id: str, record: Record) -> int:
    owner = write.present_record_runs(connection, [record.record_id]).get(record.record_id)
    if owner is None:
        write.insert_record(connection, known, record)
        return 1
    if owner != record.run_id:
        raise StoreError(
            f"record {record.record_id[:40]} of run {record.run_id[:12]} is there already as one of run {owner[:12]}"
        )
    return 0


def _canary(connection: Connection, known: write.KnownIds, run_id: str, reading: CanaryReading) -> int:
    write.insert_canaries(connection, run_id, [reading])
    return 0


def _slow(connection: Connection, known: write.KnownIds, run_id: str, slow: SlowCanaries) -> int:
    write.rejudge_canaries(connection, run_id, slow.readings)
    return 0


def _flag(connection: Connection, known: write.KnownIds, run_id: str, added: AddedFlag) -> int:
    add_flag(connection, added)
    return 0


def _process(connection: Connection, known: write.KnownIds, run_id: str, process: ProcessInfo) -> int:
    write.end_process(connection, run_id, process, process.end_reason)
    return 0


def _floors(connection: Connection, known: write.KnownIds, run_id: str, new: NewFloors) -> int:
    write.insert_floors(connection, new.floors)
    return 0


_MAKERS: dict[str, Callable[[Connection, write.KnownIds, str, Any], int]] = {
    "run": _begin,
    "run-end": _finish,
    "profile": _profile,
    "record": _record,
    "canary": _canary,
    "slow-canaries": _slow,
    "flag": _flag,
    "process-end": _process,
    "noise-floors": _floors,
}
