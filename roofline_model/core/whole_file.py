"""Write a file that is whole or not there, and leave nothing of it behind, not even after a kill.

What is half written lies under a temporary name that its writer holds a lock on. Whoever writes beside it next removes
what nobody holds any more.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

_TEMPORARY = re.compile(r".*-held-[a-z0-9_]{8}|\.[0-9]+-[0-9a-f]{8}\.held\.tmp")
YOUNG_S = 60.0
"""A temporary name this new may not have its lock yet."""


def write_whole(path: Path, text: str, *, is_private: bool = False) -> None:
    """Write a UTF-8 file beside its place, on the disk, then under its name: until then an older one stays as it is.

    `is_private`: nobody but the user may read it. Raises `OSError`, leaving no part.
    """
    remove_abandoned(path.parent)
    # A short name of its own: a long one with something added to it may be longer than a name can be.
    partial = path.with_name(f".{os.getpid()}-{os.urandom(4).hex()}.held.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
    descriptor = os.open(partial, flags, 0o600 if is_private else 0o666)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            _hold(descriptor)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise


@contextlib.contextmanager
def held_folder(prefix: str, parent: Path | None = None) -> Iterator[Path]:
    """Give a temporary folder, under `parent` or where the system has such; at the end it goes, and with it those that
    killed processes left there under the same prefix.
    """
    place = Path(tempfile.gettempdir()) if parent is None else parent
    remove_abandoned(place, prefix)
    folder = Path(tempfile.mkdtemp(prefix=f"{prefix}held-", dir=place))
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _hold(descriptor)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def remove_abandoned(folder: Path, prefix: str = ".") -> None:
    """Remove what writers of this user began under temporary names in a folder and, being killed, left."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(prefix) and _TEMPORARY.fullmatch(entry.name) and not entry.is_symlink():
                with contextlib.suppress(OSError):
                    _remove_unheld(Path(entry.path))


def _remove_unheld(path: Path) -> None:
    status = path.stat()
    if status.st_uid != os.getuid() or time.time() - status.st_mtime < YOUNG_S:
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        if not _hold(descriptor):
            return  # its writer lives
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    finally:
        os.close(descriptor)


def _hold(descriptor: int) -> bool:
    """Lock what is open until it is closed or its process ends; return whether that was possible."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # somebody holds it, or this file system has no locks
        return False
    return True
