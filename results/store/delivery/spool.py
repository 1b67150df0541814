"""Results that a database would not take, in a file beside the run until it takes them.

One file per process: a first line that names the database (never its user or password), then one change per line,
each on the disk before it counts as kept. The writer holds a lock on its file for as long as it lives, so that nobody
sends half a run; a killed writer frees it by dying.
"""

from __future__ import annotations

import contextlib
import json
import os
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from results.records.plain_form import FormError, from_plain, to_plain
from results.records.records import Record, RunInfo
from results.store.delivery.changes import KINDS, Change, kind_of
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
        if run is not None and not any(one.run_id == change.run_id for one in self.changes):
            new = [Change(change.run_id, run), *(new if change.content is not run else [])]
        try:
            if self._descriptor is None:
                self._create(change.run_id)
            assert self._descriptor is not None
            _append(self._descriptor, "".join(_line(one) for one in new))
        except (TypeError, ValueError) as error:
            raise StoreError(f"a {kind_of(change)} cannot be kept in {self.path}: {str(error)[:160]}") from None
        except OSError as error:
            raise StoreError(
                f"{self.path or self._folder} cannot be written ({error.strerror}): free some space; what it holds already is safe"
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
        """Remove the file: everything in it was delivered. One that cannot be removed is delivered again, to no effect."""
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
    """What a spool file holds."""

    place: str
    changes: tuple[Change, ...]

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

    A last line without its end was never kept (its writer was killed while writing it) and is left out.
    """
    try:
        text = path.read_bytes()
    except OSError as error:
        raise StoreError(f"{path} cannot be read ({error.strerror})") from None
    whole = text[: text.rfind(b"\n") + 1]
    lines = whole.split(b"\n")[:-1]
    if not lines:
        return SpooledChanges("", ())
    head = _object(path, 1, lines[0])
    if head.get("format") != SPOOL_FORMAT or not isinstance(head.get("place"), str):
        raise StoreError(f"{path} holds no results that a run kept back: its first line is of something else")
    if head.get("version") != SPOOL_VERSION:
        raise StoreError(
            f"{path} was written by another roofline-bench (spool version {str(head.get('version'))[:20]}, this one reads {SPOOL_VERSION}): pip install --upgrade roofline-bench"
        )
    changes = tuple(_change(path, number, line) for number, line in enumerate(lines[1:], start=2))
    return SpooledChanges(head["place"], changes)


def _line(change: Change) -> str:
    document = {"run_id": change.run_id, "kind": kind_of(change), "value": to_plain(change.content)}
    return json.dumps(document, allow_nan=False) + "\n"


def _change(path: Path, number: int, line: bytes) -> Change:
    found = _object(path, number, line)
    kind, run_id = KINDS.get(str(found.get("kind"))), found.get("run_id")
    if kind is None or not isinstance(run_id, str):
        raise _damaged(path, number, "no kind of change that is known here")
    try:
        return Change(run_id, from_plain(kind, found.get("value"), "value"))
    except FormError as error:
        raise _damaged(path, number, str(error)) from None


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
        f"{path}: line {number} is damaged ({why[:160]}): nothing of this file was delivered; remove the line to deliver the rest"
    )


def _append(descriptor: int, text: str) -> None:
    """Write the text and wait until the disk has it; a part that was written before an error is taken back."""
    data = text.encode("ascii")  # json.dumps escapes everything else
    before = os.fstat(descriptor).st_size
    try:
        written = 0
        while written < len(data):
            written += os.write(descriptor, data[written:])
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, before)
        raise
