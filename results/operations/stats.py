"""Size of a database and of its tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, func, select, text

from results.store.store import ResultStore
from results.store.write import MEASUREMENT, RUN, TABLES


@dataclass(frozen=True, slots=True)
class TableSize:
    """One table."""

    name: str
    row_count: int
    size_bytes: int | None
    """With its indexes; None where the database does not tell (SQLite)."""


@dataclass(frozen=True, slots=True)
class StoreStats:
    """A whole database."""

    tables: tuple[TableSize, ...]
    size_bytes: int
    """The SQLite file, without its log; in PostgreSQL our tables and their indexes."""
    free_bytes: int | None
    """Of it, pages that are free for new rows; `--vacuum` gives them back. None: PostgreSQL does not tell cheaply."""
    sample_bytes: int
    """Samples and clocks of all measurements: what `roofline prune` can drop."""
    run_counts: Mapping[str, int]
    """Runs by status."""
    first_started_at: str | None
    last_started_at: str | None


def stats_of(store: ResultStore) -> StoreStats:
    """Return the sizes of a database, seen at one moment."""
    return store.query(_stats)


def _stats(connection: Connection) -> StoreStats:
    is_sqlite = connection.dialect.name == "sqlite"
    tables = []
    for name, table in TABLES.items():
        rows = int(connection.execute(select(func.count()).select_from(table)).scalar_one())
        tables.append(TableSize(name, rows, None if is_sqlite else _postgres_bytes(connection, name)))
    if is_sqlite:
        page_bytes = _pragma(connection, "page_size")
        size, free = page_bytes * _pragma(connection, "page_count"), page_bytes * _pragma(connection, "freelist_count")
    else:
        size, free = sum(counted_table.size_bytes or 0 for counted_table in tables), None
    lengths = func.length(MEASUREMENT.c.samples) + func.coalesce(func.length(MEASUREMENT.c.clocks), 0)
    sample_bytes = int(connection.execute(select(func.coalesce(func.sum(lengths), 0))).scalar_one())
    first, last = connection.execute(select(func.min(RUN.c.started_at), func.max(RUN.c.started_at))).one()
    by_status = select(RUN.c.status, func.count()).group_by(RUN.c.status).order_by(RUN.c.status)
    counts = {str(status): int(count) for status, count in connection.execute(by_status)}
    return StoreStats(tuple(tables), size, free, sample_bytes, counts, first, last)


def _pragma(connection: Connection, name: str) -> int:
    return int(connection.exec_driver_sql(f"PRAGMA {name}").scalar_one())


def _postgres_bytes(connection: Connection, table: str) -> int:
    statement = text("SELECT pg_total_relation_size(to_regclass(quote_ident(:name)))")
    return int(connection.execute(statement, {"name": table}).scalar_one())
