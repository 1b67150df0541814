"""One benchmark at a time on this machine, whoever started it: a lock that ends with the process that holds it.

GitHub's concurrency groups end at the border of a repository; a machine that serves several repositories, or a person
at its terminal beside the nightly job, needs this one. Standard library only; Linux.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

LOCK_NAME = "roofline-bench-machine.lock"
_LOOK_S = 1.0


def lock_path() -> Path:
    """Return the lock's file: ROOFLINE_MACHINE_LOCK, else one in the folder for temporary files that all users
    share.
    """
    return Path(os.environ.get("ROOFLINE_MACHINE_LOCK") or Path(tempfile.gettempdir()) / LOCK_NAME)


@contextlib.contextmanager
def machine_lock(wait_s: float, say: Callable[[str], None], path: Path | None = None) -> Iterator[bool]:
    """Hold the machine while the block runs; gives False, without it, when another holds it for longer than `wait_s`.

    The lock belongs to the open file: a process that is killed lets go of it. The file itself stays.
    """
    place = path or lock_path()
    descriptor = _opened(place)
    try:
        is_told = False
        end = time.monotonic() + wait_s
        while not _taken(descriptor):
            if time.monotonic() >= end:
                yield False
                return
            if not is_told:
                say(f"another benchmark runs on this machine ({place}): waiting up to {wait_s / 60:g} minutes")
                is_told = True
            time.sleep(_LOOK_S)
        yield True
    finally:
        os.close(descriptor)


def _opened(path: Path) -> int:
    """Open the lock's file, another user's too, and never through a link."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    except PermissionError:
        # Linux refuses to create over another user's file in a sticky folder; to lock it, reading is enough.
        return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with contextlib.suppress(PermissionError):
        os.fchmod(descriptor, 0o666)  # whatever the umask says: the next user must be able to open it
    return descriptor


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
