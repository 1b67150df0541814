"""The results database as the API reads it: opened when it is first needed, read-only, a connection for each look."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from reports.api.kept_runs import Mark, change_mark
from reports.api.problem import ProblemError
from roofline_model.errors import DatabaseAwayError, StoreError

if TYPE_CHECKING:
    from results.store import ResultStore


class StoreAccess:
    """One database for all requests. Safe between threads: each look opens a connection of its own (or takes one of the pool's)."""

    def __init__(self, target: str | Path | None) -> None:
        self._target = target
        self._lock = Lock()
        self._store: ResultStore | None = None

    @contextmanager
    def reading(self) -> Iterator[ResultStore]:
        """Give the open store; ends the request with 404 where there is no database, 503 where it cannot be read."""
        try:
            yield self._opened()
        except DatabaseAwayError:
            raise
        except StoreError as error:
            self.close()  # the next request opens it anew: it may have been upgraded or put back meanwhile
            raise ProblemError(503, error.slug, str(error).replace("--roofline-db", "--db")) from None

    def is_readable(self) -> bool | None:
        """Return whether the database can be read now; None in the first second, before anything was loaded for it."""
        if self._store is None and "results.store" not in sys.modules:
            return None
        try:
            self._opened().schema_version()
        except (StoreError, ProblemError):
            return False
        return True

    def change_mark(self) -> Mark | None:
        """Return what changes whenever the database is written; None where nothing says so (PostgreSQL)."""
        from results.target import parse_target

        return change_mark(parse_target(self._target).path)

    def close(self) -> None:
        """Close the store, if it is open."""
        with self._lock:
            store, self._store = self._store, None
        if store is not None:
            store.close()

    def _opened(self) -> ResultStore:
        from results.store import open_store  # SQLAlchemy takes a quarter of a second: not before the server answers
        from results.target import parse_target

        with self._lock:
            if self._store is None:
                try:
                    self._store = open_store(self._target, create=False, read_only=True)
                except DatabaseAwayError:
                    raise
                except StoreError as error:
                    path, message = parse_target(self._target).path, str(error).replace("--roofline-db", "--db")
                    if path is not None and not path.exists():
                        raise ProblemError(404, "no-database", message) from None
                    raise ProblemError(503, error.slug, message) from None
            return self._store
