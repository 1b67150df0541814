"""Is a database whole: its pages, its references, its indexes, and every value in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sqlalchemy import Connection, inspect, select, text

from results.exchange.exported.import_checks import check_parts, check_run
from results.records.plain_form import FormError
from results.store.schema import Base
from results.store.store import ResultStore
from results.store.write import TABLES
from roofline_model.core.errors import StoreError

_MOST = 20
"""Problems of one kind that are listed; more of the same say no more."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong."""

    kind: str
    """storage, reference, index or value."""
    where: str
    """Table, or run."""
    what: str


def check_store(
    store: ResultStore,
    *,
    with_values: bool = True,
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> list[Problem]:
    """Return the faults of a database, none if it is intact; reads only.

    `with_values` reads every value of every run, which takes as long as exporting them all.
    """
    problems = store.query(lambda connection: [*_storage(connection), *_references(connection), *_indexes(connection)])
    if with_values:
        runs = store.runs()
        for number, run in enumerate(runs):
            progress(f"run {run.run_id[:8]}", number, len(runs))
            try:
                check_run(run, store.records(run.run_id))
                check_parts(store.processes(run.run_id), store.canaries(run.run_id), (), "")
            except FormError as error:
                problems.append(Problem("value", f"run {run.run_id[:8]}", str(error)))
            except StoreError as error:
                problems.append(Problem("value", f"run {run.run_id[:8]}", str(error)))
    return problems


def _storage(connection: Connection) -> Iterator[Problem]:
    """SQLite looks at every page and index of its file; PostgreSQL checks pages by itself as it reads them."""
    if connection.dialect.name == "sqlite":
        scalars = connection.exec_driver_sql(f"PRAGMA integrity_check({_MOST})").scalars()
        yield from (Problem("storage", "", line) for line in scalars if line != "ok")


def _references(connection: Connection) -> Iterator[Problem]:
    """Find rows whose parent is missing."""
    for name, table in TABLES.items():
        for constraint in table.foreign_key_constraints:
            (link,) = constraint.elements
            parent, column = link.column, link.parent
            statement = (
                select(column)
                .select_from(table.outerjoin(parent.table, column == parent))
                .where(column.is_not(None), parent.is_(None))
                .limit(_MOST)
            )
            missing = connection.execute(statement).scalars().all()
            if missing:
                rows_text = (
                    f"{_MOST} or more rows"
                    if len(missing) == _MOST
                    else f"{len(missing)} row{'s' * (len(missing) != 1)}"
                )
                yield Problem(
                    "reference", name, f"{rows_text} without their {parent.table.name} (first: {str(missing[0])[:40]})"
                )


def _indexes(connection: Connection) -> Iterator[Problem]:
    """Find indexes that are missing or, in PostgreSQL, left invalid: queries are right without them, and slow."""
    inspector = inspect(connection)
    for name, table in Base.metadata.tables.items():
        existing = {str(index["name"]) for index in inspector.get_indexes(name)}
        for index in table.indexes:
            if str(index.name) not in existing:
                yield Problem("index", name, f"index {index.name} is missing")
    if connection.dialect.name == "postgresql":
        invalid = (
            "SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid "
            "JOIN pg_class t ON t.oid = i.indrelid WHERE NOT i.indisvalid AND t.relname = ANY(:names)"
        )
        for scalar in connection.execute(text(invalid), {"names": list(TABLES)}).scalars():
            yield Problem("index", "", f"index {scalar} is invalid: REINDEX INDEX {scalar}")
