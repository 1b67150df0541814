"""The results database as the API reads it: opened when it is first needed, read-only, a connection for each look."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

from reports.api.http.problem import ProblemError
from roofline_model.core.errors import DatabaseAwayError, StoreError

if TYPE_CHECKING:
    from results.store.store import ResultStore

T = TypeVar("T")
Mark = tuple[tuple[int, int, int], ...]

KEPT_ANSWERS = 8
"""A run of 5,000 cases, its report or its rankings take some ten megabytes each."""

NO_DATABASE = (
    "there is no results database where this server looks: measure first, `pytest bench_cases`, or start it with --db"
)
SCHEMA_ASKED_EVERY_S = 1.0
"""Of a PostgreSQL server; a file says by its mark that it may be another one by now."""


class StoreAccess:
    """One database for all requests. Safe between threads: each look opens a connection of its own (or takes one of the
    pool's).
    """

    def __init__(self, target: str | Path | None) -> None:
        self._target = target
        self._lock = Lock()
        self._store: ResultStore | None = None
        self._answers: dict[Any, Any] = {}
        self._checked: Mark | float | None = None
        """The mark of the file, or the time, when the schema of what is open was found to be ours."""
        self._failed_at_s = 0.0
        self._failure: DatabaseAwayError | None = None

    @contextmanager
    def reading(self) -> Iterator[ResultStore]:
        """Give the open store; ends the request with 404 where there is no database, 503 where it cannot be read."""
        try:
            yield self._opened()
        except DatabaseAwayError as error:
            raise ProblemError(503, error.slug, self._problem_text(error), headers={"Retry-After": "5"}) from None
        except StoreError as error:
            self.close()  # the next request opens it anew: it may have been upgraded or put back meanwhile
            raise self._problem(error) from None

    def answer(self, question: Hashable, make: Callable[[ResultStore], T]) -> T:
        """Return what `make` makes of the store for a question; kept while nothing is written.

        Nothing says so of PostgreSQL: there it is made each time. Ends the request as `reading`.
        """
        with self.reading() as store:
            mark = self.change_mark()
            if mark is None:
                return make(store)
            key = mark, question
            with self._lock:
                answer: T | None = self._answers.get(key)
            if answer is None:
                answer = make(store)
                with self._lock:
                    self._answers[key] = answer
                    while len(self._answers) > KEPT_ANSWERS:
                        del self._answers[next(iter(self._answers))]
            return answer

    def is_readable(self) -> bool | None:
        """Return whether the database can be read now; None in the first second, before anything was loaded for it."""
        if self._store is None and "results.store.store" not in sys.modules:
            return None
        try:
            self._opened().schema_version()
        except (StoreError, ProblemError):
            return False
        return True

    def change_mark(self) -> Mark | None:
        """Return what changes whenever a SQLite database is written: its file's and its log's; None for PostgreSQL."""
        from results.store.target import parse_target

        path = parse_target(self._target).path
        if path is None:
            return None
        marks = []
        for file in (path, path.with_name(f"{path.name}-wal")):
            with suppress(OSError):  # no log: nobody is writing
                status = file.stat()
                marks.append((status.st_ino, status.st_size, status.st_mtime_ns))
        return tuple(marks)

    def close(self) -> None:
        """Close the store, if it is open."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            store.close()

    def _opened(self) -> ResultStore:
        """Return the store, its schema found to be ours since the file changed last."""
        asked_at_s = time.monotonic()
        with self._lock:
            if self._failure is not None and self._failed_at_s > asked_at_s:
                # Of who asked while this one waited for the lock: each of many would wait for the server as long again.
                raise DatabaseAwayError(str(self._failure))
            try:
                return self._checked_store()
            except DatabaseAwayError as error:
                self._failure, self._failed_at_s = error, time.monotonic()
                raise
            except StoreError as error:
                raise self._problem(error) from None

    def _checked_store(self) -> ResultStore:
        from results.store.store import (
            open_store,  # SQLAlchemy takes a quarter of a second: not before the server answers
        )

        mark = self.change_mark()
        if self._store is not None and not self._is_known(mark) and not _has_our_schema(self._store):
            self._close()  # replaced, upgraded or taken away: opening it says which
        if self._store is None:
            self._store = open_store(self._target, create=False, read_only=True)
            self._checked = None
        if not self._is_known(mark):
            self._checked = time.monotonic() if mark is None else mark
        return self._store

    def _is_known(self, mark: Mark | None) -> bool:
        if mark is None:
            return isinstance(self._checked, float) and time.monotonic() - self._checked < SCHEMA_ASKED_EVERY_S
        return bool(mark) and mark == self._checked

    def _problem(self, error: StoreError) -> ProblemError:
        """Return 404 where the file is not there, else 503 with the error's words."""
        if self._is_missing():
            return ProblemError(404, "no-database", NO_DATABASE)
        return ProblemError(503, error.slug, self._problem_text(error))

    def _is_missing(self) -> bool:
        from results.store.target import parse_target

        try:
            path = parse_target(self._target).path
            if path is not None:
                os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return True
        except (OSError, ValueError, StoreError):  # something is there, or cannot be: the error's own words say it
            return False
        return False

    def _problem_text(self, error: StoreError) -> str:
        from results.store.target import parse_target

        try:
            target = parse_target(self._target)
        except StoreError:  # the target itself is wrong: who started the server reads it there
            return "the results database that this server was given cannot be one; its log says why"
        return without_place(str(error), target.name)


def _has_our_schema(store: ResultStore) -> bool:
    """Return whether an open database still is one of today's schema; raises `DatabaseAwayError` where that cannot be
    asked.
    """
    from results.store.schema import SCHEMA_VERSION

    try:
        return store.schema_version() == SCHEMA_VERSION
    except DatabaseAwayError:
        raise
    except StoreError:
        return False


def without_place(text: str, name: str) -> str:
    """Return a message of the store called `name` without where it is: that is for who runs the server, not for who
    asks it.
    """
    places = [name] if "://" in name else [os.path.abspath(name), name]
    for place in places:
        text = re.sub(rf",? e\.g\. {re.escape(place)}[/\\]\S+", "", text)  # an example of a place is one, too
        text = text.replace(place, "the results database")
        folder = os.path.dirname(place)
        if len(folder) > 1 and "://" not in name:
            text = text.replace(folder, "its folder")
    return text.replace("--roofline-db", "--db")
