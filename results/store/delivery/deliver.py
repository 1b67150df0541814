"""Delivering what earlier runs kept back while their database was away. Sending a file twice stores nothing twice."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from results.store.delivery.spool import read_spool, spool_files
from roofline_model.core.errors import DatabaseAwayError, StoreError

if TYPE_CHECKING:
    from results.store.store import ResultStore

Outcome = Literal["delivered", "other-database", "in-use", "failed"]


@dataclass(frozen=True, slots=True)
class Delivery:
    """What became of one spool file; it is removed once delivered, and left alone otherwise."""

    path: Path
    outcome: Outcome
    record_count: int = 0
    """Records in the file."""
    added_count: int = 0
    """Of these, records that the database did not have yet."""
    reason: str = ""


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
                    yield Delivery(path, "in-use", reason="a run is still writing it, or somebody delivers it")
                    continue
                yield _deliver(store, path, any_place)
        except DatabaseAwayError:
            raise
        except StoreError as error:
            yield Delivery(path, "failed", reason=str(error))


def _deliver(store: ResultStore, path: Path, any_place: bool) -> Delivery:
    spooled = read_spool(path)
    if spooled.changes and spooled.place != store.place and not any_place:
        return Delivery(path, "other-database", spooled.record_count, reason=f"it is for {spooled.place}")
    added = store.make_changes(spooled.changes) if spooled.changes else 0
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(f"{path} was delivered and cannot be removed ({error.strerror}): remove it yourself") from None
    return Delivery(path, "delivered", spooled.record_count, added)


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
            raise StoreError(f"{path} is no regular file: no run of ours wrote it; remove it")
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
