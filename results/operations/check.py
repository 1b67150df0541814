"""Is a database whole: its pages and references by its own means, and every value by reading it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sqlalchemy import Connection

from results.exchange.exported.export import stored_whole
from results.exchange.exported.import_checks import check_run
from results.records.plain_form import FormError
from results.records.records import RunInfo
from results.store.store import ResultStore
from roofline_model.core.errors import StoreError

_MAX_LINES = 20
"""Of one look of SQLite; more of the same say no more."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong."""

    kind: str
    """storage, reference or value."""
    where: str
    """Table, or run."""
    what: str


def check_store(
    store: ResultStore, progress: Callable[[str, int, int], None] = lambda what, done, total: None
) -> list[Problem]:
    """Return the faults of a database, none if it is intact; reads only, and takes as long as exporting every run.

    PostgreSQL checks pages and references by itself.
    """
    problems = store.query(lambda connection: [*_sqlite_faults(connection)])
    runs = store.runs()
    for number, run in enumerate(runs):
        progress(f"run {run.run_id[:8]}", number, len(runs))
        problems += _values(store, run)
    return problems


def _sqlite_faults(connection: Connection) -> Iterator[Problem]:
    if connection.dialect.name != "sqlite":
        return
    for line in connection.exec_driver_sql(f"PRAGMA integrity_check({_MAX_LINES})").scalars():
        if line != "ok":
            yield Problem("storage", "", line)
    for table, _, parent, _ in connection.exec_driver_sql("PRAGMA foreign_key_check").fetchmany(_MAX_LINES):
        yield Problem("reference", table, f"a row without its {parent}")


def _values(store: ResultStore, run: RunInfo) -> list[Problem]:
    """Read all that belongs to a run, and ask what an import would."""
    try:
        check_run(stored_whole(store, run))
    except (FormError, StoreError) as error:
        return [Problem("value", f"run {run.run_id[:8]}", str(error))]
    return []
