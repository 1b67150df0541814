"""Write a file that is whole or not there."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def write_whole(path: Path, text: str, *, is_private: bool = False) -> None:
    """Write a UTF-8 file beside its place, on the disk, then under its name: until then an older one stays as it is.

    `is_private`: nobody but the user may read it. Raises `OSError`, leaving no part.
    """
    # A short name of its own: a long one with something added to it may be longer than a name can be.
    partial = path.with_name(f".{os.getpid()}-{os.urandom(4).hex()}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
    descriptor = os.open(partial, flags, 0o600 if is_private else 0o666)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise
