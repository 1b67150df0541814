"""A lock between processes: one of them creates or upgrades a database file, the others wait."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from roofline_model.core.errors import StoreError

POLL_S = 0.02


@contextmanager
def exclusive_lock(database: Path, *, wait_s: float = 60.0) -> Iterator[None]:
    """Hold `<database>.lock` while the body runs; the file is gone afterwards. A killed holder frees it by dying.

    Raises `StoreError` when another process holds it for `wait_s`, or when the folder cannot be written.
    """
    from filelock import FileLock, Timeout

    path = database.with_name(database.name + ".lock")
    # Where the file system knows no flock, a lock that is only a file would outlive a killed holder: an error instead.
    lock = FileLock(path, timeout=wait_s, poll_interval=POLL_S, fallback_to_soft=False)
    try:
        lock.acquire()
    except Timeout:
        raise StoreError(
            f"another process has been creating or upgrading {database} for {wait_s:g} s: wait for it or end it, then try again"
        ) from None
    except OSError as error:
        raise StoreError(
            f"{path.parent} cannot be written ({error.strerror}): choose another place with --roofline-db or ROOFLINE_DB"
        ) from None
    try:
        yield
    finally:
        # Unlinked while still held: whoever waits on the old file sees that it has no name left, and opens the new one.
        path.unlink(missing_ok=True)
        lock.release()
