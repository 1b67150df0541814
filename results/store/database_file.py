"""The database file as it was opened: a file that is deleted, moved or replaced keeps taking writes that nobody can read."""

from __future__ import annotations

import os
from pathlib import Path

from roofline_model.core.errors import StoreError


class DatabaseFile:
    """Which file a store has open, so that its name can be asked whether it still leads there.

    SQLite writes to the file it opened, whatever its name leads to by now: without this question every later commit
    would succeed and be lost.
    """

    def __init__(self, path: Path) -> None:
        """Remember the file at `path`; it must be open already, or its number could be given to another file.

        Raises `StoreError` when it is gone.
        """
        self._shown = path
        self._path = path.absolute()  # the working folder may change while the store is open
        self._identity = self._look()
        self.check()

    def check(self) -> None:
        """Raise `StoreError` when the file is gone, was emptied, or is another one. Costs one system call."""
        found = self._look()
        if found is None or found != self._identity:
            raise StoreError(
                f"{self._shown}: the database file was removed or replaced while the run was writing; what was stored "
                "since it was opened is not there: leave the file alone until the run ends, and run again"
            )

    def _look(self) -> tuple[int, int] | None:
        try:
            status = os.stat(self._path)
        except (OSError, ValueError):
            return None
        return (status.st_dev, status.st_ino) if status.st_size else None
