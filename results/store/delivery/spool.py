"""Results that a database would not take, in a file beside the run until it takes them.

One file per process: a first line that names the database (never its user or password), then one change per line,
each on the disk before it counts as kept. The writer holds a lock on its file for as long as it lives, so that nobody
sends half a run; a killed writer frees it by dying.

A change is a value, so that it can wait in a file, and can be made again without harm: the first try may have been
committed just before the connection broke.
"""

from __future__ import annotations

import contextlib
import json
import os
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, update

from results.records.plain_form import FormError, from_plain, to_plain
from results.records.records import HardwareProfile, ProcessInfo, Record, RunInfo, RunStatus
from results.records.state_records import CanaryReading, NoiseFloor
from results.store import read, write
from roofline_model.core.errors import StoreError

SUFFIX = ".spool.jsonl"
SPOOL_FORMAT = "roofline-bench spool"
SPOOL_VERSION = 1


class Spool:
    """The file of this process; it is made with the first change and removed when all were delivered."""

    def __init__(self, folder: Path, place: str) -> None:
        """Nothing is written yet. `place` is `StoreTarget.place` of the database that the changes are for."""
        self._folder = folder.absolute()
        self._place = place
        self._descriptor: int | None = None
        self._runs: dict[str, RunInfo] = {}
        self.path: Path | None = None
        self.changes: list[Change] = []

    def note_run(self, run: RunInfo) -> None:
        """Remember a run: the file has to begin with it, so that it can be delivered to a database that lost it."""
        self._runs[run.run_id] = run

    def add(self, change: Change) -> None:
        """Keep a change: once this returns it is on the disk. Raises `StoreError` when the disk does not take it."""
        new = [change]
        run = self._runs.get(change.run_id)
        if run is not None and not any(added.run_id == change.run_id for added in self.changes):
            new = [Change(change.run_id, run), *(new if change.content is not run else [])]
        try:
            if self._descriptor is None:
                self._create(change.run_id)
            assert self._descriptor is not None
            _append(self._descriptor, "".join(_line(new_change) for new_change in new))
        except (TypeError, ValueError) as error:
            raise StoreError(f"a {kind_of(change)} cannot be kept in {self.path}: {str(error)[:160]}") from None
        except OSError as error:
            raise StoreError(
                f"{self.path or self._folder} cannot be written ({error.strerror}): free some space; what it holds "
                "already is safe"
            ) from None
        self.changes += new

    def record_ids(self, run_id: str) -> set[str]:
        """Return the ids of the records of a run that wait here."""
        return {
            change.content.record_id
            for change in self.changes
            if isinstance(change.content, Record) and change.run_id == run_id
        }

    def remove(self) -> None:
        """Remove the file: everything in it was delivered.

        One that cannot be removed is delivered again, to no effect.
        """
        if self.path is not None:
            with contextlib.suppress(OSError):
                self.path.unlink()
        self.close()
        self.path = None
        self.changes = []

    def close(self) -> None:
        """Let go of the file; what is in it stays."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _create(self, run_id: str) -> None:
        import fcntl

        self._folder.mkdir(parents=True, exist_ok=True)
        ignore = self._folder / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n", encoding="utf-8")
        self.path = self._folder / f"{run_id[:8]}-{uuid.uuid4().hex[:8]}{SUFFIX}"
        self._descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o666)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        head = {"format": SPOOL_FORMAT, "version": SPOOL_VERSION, "place": self._place}
        _append(self._descriptor, json.dumps(head) + "\n")
        folder = os.open(self._folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(folder)  # the name of the file outlives a power cut, too
        finally:
            os.close(folder)


@dataclass(frozen=True, slots=True)
class SpooledChanges:
    """Contents of a spool file."""

    place: str
    changes: tuple[Change, ...]
    torn_bytes: int = 0
    """Length of a last line that was cut off: its writer was killed while writing it."""

    @property
    def record_count(self) -> int:
        """Records among the changes."""
        return sum(isinstance(change.content, Record) for change in self.changes)


def spool_files(folder: Path) -> list[Path]:
    """Return the spool files of a folder, oldest first; none where there is no such folder."""
    try:
        paths = [path for path in folder.iterdir() if path.name.endswith(SUFFIX)]
        return sorted(paths, key=lambda path: (path.stat().st_mtime_ns, path.name))
    except OSError:
        return []


def read_spool(path: Path) -> SpooledChanges:
    """Return the changes of a spool file. Raises `StoreError` naming the line that is none; the file stays as it is.

    A last line that was cut off is left out, and its length said.
    """
    try:
        text = path.read_bytes()
    except OSError as error:
        raise StoreError(f"{path} cannot be read ({error.strerror})") from None
    *lines, last = text.split(b"\n")
    if _is_json(last):  # all but its end
        lines, last = [*lines, last], b""
    if not lines:
        return SpooledChanges("", (), len(last))
    head = _object(path, 1, lines[0])
    if head.get("format") != SPOOL_FORMAT or not isinstance(head.get("place"), str):
        raise StoreError(f"{path} holds no results that a run kept back: its first line is of something else")
    if head.get("version") != SPOOL_VERSION:
        raise StoreError(
            f"{path} was written by another roofline-bench (spool version {str(head.get('version'))[:20]}, this one "
            f"reads {SPOOL_VERSION}): update this project (git pull, make venv)"
        )
    changes = tuple(_change(path, number, line) for number, line in enumerate(lines[1:], start=2))
    return SpooledChanges(head["place"], changes, len(last))


def _line(change: Change) -> str:
    document = {"run_id": change.run_id, "kind": kind_of(change), "value": to_plain(change.content)}
    return json.dumps(document, allow_nan=False) + "\n"


def _change(path: Path, number: int, line: bytes) -> Change:
    document = _object(path, number, line)
    kind, run_id = KINDS.get(str(document.get("kind"))), document.get("run_id")
    if kind is None or not isinstance(run_id, str):
        raise _damaged(path, number, "no kind of change that is known here")
    try:
        return Change(run_id, from_plain(kind, document.get("value"), "value"))
    except FormError as error:
        raise _damaged(path, number, str(error)) from None


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _object(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        raise _damaged(path, number, "it is not JSON") from None
    if not isinstance(document, dict):
        raise _damaged(path, number, "it is not an object")
    return document


def _damaged(path: Path, number: int, why: str) -> StoreError:
    return StoreError(
        f"{path}: line {number} is damaged ({why[:160]}): nothing of this file was delivered; remove the line to "
        "deliver the rest"
    )


def _append(descriptor: int, text: str) -> None:
    """Write the text and wait until the disk has it; a part that was written before an error is taken back."""
    data = text.encode("ascii")  # json.dumps escapes everything else
    old_size = os.fstat(descriptor).st_size
    try:
        written = 0
        while written < len(data):
            written += os.write(descriptor, data[written:])
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, old_size)
        raise


@dataclass(frozen=True, slots=True)
class RunEnd:
    """End of a run."""

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


@dataclass(frozen=True, slots=True)
class CompletedRecord:
    """A record that is there already, with more samples."""

    record: Record


Content = (
    RunInfo
    | RunEnd
    | HardwareProfile
    | Record
    | CompletedRecord
    | CanaryReading
    | SlowCanaries
    | AddedFlag
    | ProcessInfo
    | NewFloors
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
    "completed-record": CompletedRecord,
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


def make_changes(connection: Connection, known_ids: write.KnownIds, changes: Iterable[Change]) -> int:
    """Make the changes in their order, in the transaction that somebody began; return how many records were new.

    What is there already stays. Raises `StoreError` for a record of a run that is neither there nor among the changes.
    """
    return sum(_MAKERS[kind_of(change)](connection, known_ids, change.run_id, change.content) for change in changes)


def add_flag(connection: Connection, added: AddedFlag) -> int:
    """Add a flag to measurements; return how many did not carry it yet. Raises `StoreError` for a record not there."""
    return write.add_flag(connection, added.record_ids, added.flag)


def _finish(connection: Connection, known_ids: write.KnownIds, run_id: str, end: RunEnd) -> int:
    values = {"status": end.status, "exit_code": end.exit_code, "finished_at": end.finished_at}
    if connection.execute(update(write.RUN).where(write.RUN.c.run_id == run_id), values).rowcount != 1:
        raise StoreError(f"run {run_id[:40]!r} is not in the database: begin_run has to come first")
    return 0


def _begin(connection: Connection, known_ids: write.KnownIds, run_id: str, run: RunInfo) -> int:
    if read.read_run(connection, run_id) is None:
        write.insert_run(connection, run)
    return 0


def _profile(connection: Connection, known_ids: write.KnownIds, run_id: str, profile: HardwareProfile) -> int:
    write.insert_profile(connection, profile)
    return 0


def _record(connection: Connection, known_ids: write.KnownIds, run_id: str, record: Record) -> int:
    owner = write.present_record_runs(connection, [record.record_id]).get(record.record_id)
    if owner is None:
        write.insert_record(connection, known_ids, record)
        return 1
    if owner != record.run_id:
        raise StoreError(
            f"record {record.record_id[:40]} of run {record.run_id[:12]} is there already as one of run {owner[:12]}"
        )
    return 0


def _completed(connection: Connection, known_ids: write.KnownIds, run_id: str, completed: CompletedRecord) -> int:
    write.replace_record(connection, completed.record)
    return 0


def _canary(connection: Connection, known_ids: write.KnownIds, run_id: str, reading: CanaryReading) -> int:
    write.insert_canaries(connection, run_id, [reading])
    return 0


def _slow(connection: Connection, known_ids: write.KnownIds, run_id: str, slow: SlowCanaries) -> int:
    write.rejudge_canaries(connection, run_id, slow.readings)
    return 0


def _flag(connection: Connection, known_ids: write.KnownIds, run_id: str, added: AddedFlag) -> int:
    add_flag(connection, added)
    return 0


def _process(connection: Connection, known_ids: write.KnownIds, run_id: str, process: ProcessInfo) -> int:
    write.end_process(connection, run_id, process, process.end_reason)
    return 0


def _floors(connection: Connection, known_ids: write.KnownIds, run_id: str, new: NewFloors) -> int:
    write.insert_floors(connection, new.floors)
    return 0


_MAKERS: dict[str, Callable[[Connection, write.KnownIds, str, Any], int]] = {
    "run": _begin,
    "run-end": _finish,
    "profile": _profile,
    "record": _record,
    "completed-record": _completed,
    "canary": _canary,
    "slow-canaries": _slow,
    "flag": _flag,
    "process-end": _process,
    "noise-floors": _floors,
}
