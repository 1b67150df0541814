"""Writing to a server that may be away: try again, then keep on the disk, then deliver as soon as it is back.

What earlier runs kept is delivered, too. Sending a file twice stores nothing twice.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Literal

from results.records.records import Record, RunInfo
from results.store.connection import RETRY_WAITS_S
from results.store.delivery.spool import Change, Spool, read_spool, spool_files
from roofline_model.core.errors import DatabaseAwayError, StoreError
from roofline_model.core.finding import Finding, finding, finding_of

if TYPE_CHECKING:
    from results.store.store import ResultStore


DELIVER_EVERY_S = 30.0
"""While changes wait, a write looks for the server this often: looking for one that does not answer takes 10 s."""


@dataclass(frozen=True, slots=True)
class Undelivered:
    """Results that the database has not taken yet."""

    path: Path
    change_count: int
    record_count: int
    reason: str
    """What the last try to deliver it said."""

    @property
    def finding(self) -> Finding:
        """The finding for the user."""
        return finding("undelivered", reason=self.reason, record_count=self.record_count, file=str(self.path))


class Outbox:
    """Takes one write after the other; what the database does not take is in the spool, and stays in its order."""

    def __init__(self, spool: Spool, send: Callable[[Sequence[Change]], int]) -> None:
        """`send` makes changes in one transaction, each once however often it is called; it raises
        `DatabaseAwayError`.
        """
        self._spool = spool
        self._send = send
        self._lock = RLock()
        self._next_look_s = 0.0
        self._reason = ""

    def write(self, change: Change, attempt: Callable[[], None]) -> None:
        """Make the change by `attempt`, else by `send` a moment later, else keep it.

        Raises what else goes wrong, and `StoreError` when the disk cannot keep the change either.
        """
        with self._lock:
            if isinstance(change.content, RunInfo):
                self._spool.note_run(change.content)
            if self._spool.changes and (time.monotonic() < self._next_look_s or self.deliver() is not None):
                self._spool.add(change)
                return
            try:
                attempt()
            except DatabaseAwayError as error:
                self._reason = str(error)
            else:
                return
            for wait_s in RETRY_WAITS_S:
                time.sleep(wait_s)
                try:
                    self._send([change])
                except DatabaseAwayError as error:
                    self._reason = str(error)
                else:
                    return
            self._spool.add(change)
            self._next_look_s = time.monotonic() + DELIVER_EVERY_S

    def deliver(self) -> Undelivered | None:
        """Send what waits; return what still does, or None.

        Raises `StoreError` when the database refuses it for good.
        """
        with self._lock:
            if not self._spool.changes:
                return None
            try:
                self._send(self._spool.changes)
            except DatabaseAwayError as error:
                self._reason = str(error)
                self._next_look_s = time.monotonic() + DELIVER_EVERY_S
                return self._undelivered()
            self._spool.remove()
            return None

    def record_ids(self, run_id: str) -> set[str]:
        """Return the ids of the records of a run that wait."""
        return self._spool.record_ids(run_id)

    def close(self) -> None:
        """Let go of the file, so that others may deliver it."""
        self._spool.close()

    def _undelivered(self) -> Undelivered:
        assert self._spool.path is not None
        records = sum(isinstance(change.content, Record) for change in self._spool.changes)
        return Undelivered(self._spool.path, len(self._spool.changes), records, self._reason)


Outcome = Literal["delivered", "other-database", "in-use", "failed"]


@dataclass(frozen=True, slots=True)
class Delivery:
    """Outcome of one spool file; a delivered file is removed, any other stays."""

    path: Path
    outcome: Outcome
    record_count: int = 0
    """Records in the file."""
    added_count: int = 0
    """Of these, records that the database did not have yet."""
    reason: Finding | None = None
    """Why it stays."""
    torn_bytes: int = 0
    """Length of a last line that was cut off: the run was killed while writing it."""

    @property
    def finding(self) -> Finding | None:
        """What was lost before it came here, if anything was."""
        return finding("torn-spool", file=self.path.name, torn_bytes=self.torn_bytes) if self.torn_bytes else None


def deliver_waiting(store: ResultStore, folder: Path) -> list[Delivery]:
    """Deliver every file of `folder` that is for this database; raises `StoreError` when the database is away."""
    return list(_deliveries(store, spool_files(folder), any_place=False))


def deliver_files(store: ResultStore, paths: Iterable[Path]) -> list[Delivery]:
    """Deliver these files, whichever database they were meant for (it may have moved)."""
    return list(_deliveries(store, paths, any_place=True))


def _deliveries(store: ResultStore, paths: Iterable[Path], *, any_place: bool) -> Iterator[Delivery]:
    for path in paths:
        try:
            with _locked(path) as is_free:
                if not is_free:
                    yield Delivery(path, "in-use", reason=finding("spool-in-use"))
                    continue
                yield _deliver(store, path, any_place)
        except DatabaseAwayError:
            raise
        except StoreError as error:
            yield Delivery(path, "failed", reason=finding_of(error))


def _deliver(store: ResultStore, path: Path, any_place: bool) -> Delivery:
    spooled = read_spool(path)
    if spooled.changes and spooled.place != store.place and not any_place:
        return Delivery(
            path,
            "other-database",
            spooled.record_count,
            reason=finding("spool-of-other-database", database=spooled.place),
            torn_bytes=spooled.torn_bytes,
        )
    added = store.make_changes(spooled.changes) if spooled.changes else 0
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(f"{path} was delivered and cannot be removed ({error.strerror}): remove it yourself") from None
    return Delivery(path, "delivered", spooled.record_count, added, torn_bytes=spooled.torn_bytes)


@contextmanager
def _locked(path: Path) -> Iterator[bool]:
    """Hold the lock of a spool file; False while the run that writes it lives, and where somebody else delivered it."""
    import fcntl

    try:
        # Opening a pipe that nobody writes to would wait for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise StoreError(f"{path} cannot be read ({error.strerror})") from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise StoreError(f"{path} is not a regular file: no run of ours wrote it; remove it")
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield _is_still(path, descriptor)  # somebody else may have delivered and removed it a moment ago
    finally:
        os.close(descriptor)


def _is_still(path: Path, descriptor: int) -> bool:
    try:
        return os.stat(path).st_ino == os.fstat(descriptor).st_ino
    except OSError:
        return False
