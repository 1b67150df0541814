"""A lock between processes: one of them creates or upgrades a database file, the others wait."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from roofline_model.errors import StoreError

POLL_S = 0.02


@contextmanager
def exclusive_lock(database: Path, *, wait_s: float = 60.0) -> Iterator[None]:
    """Hold `<database>.lock` while the body runs; the file is gone afterwards. A killed holder frees it by dying.

    Raises `StoreError` when another process holds it for `wait_s`, or when the folder cannot be written.
    """
    path = database.with_name(database.name + ".lock")
    deadline = time.monotonic() + wait_s
    descriptor = _acquire(path)
    while descriptor is None:
        if time.monotonic() > deadline:
            raise StoreError(
                f"another process has been creating or upgrading {database} for {wait_s:g} s: wait for it or end it, then try again"
            )
        time.sleep(POLL_S)
        descriptor = _acquire(path)
    try:
        yield
    finally:
        # Unlinked while still held: whoever waits on the old file sees that it is no longer the one at this path.
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _acquire(path: Path) -> int | None:
    """Return the descriptor of the locked file, or None while somebody else holds it."""
    import fcntl

    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise StoreError(
            f"{path.parent} cannot be written ({error.strerror}): choose another place with --roofline-db or ROOFLINE_DB"
        ) from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The file we locked may have been unlinked by its last holder in the meantime.
        if os.fstat(descriptor).st_ino == os.stat(path).st_ino:
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None
