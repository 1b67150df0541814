"""Rows of a database in a fixed order, value for value, and a hash over them that is the same on SQLite and
PostgreSQL.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Table, func, select

from results.store.schema import Base
from results.store.write import RECORD

Row = dict[str, Any]

PORTION_ROWS = 500
"""Records read at once: with ten thousand samples each that is 80 MB at most."""

CHILDREN = tuple(table for table in Base.metadata.sorted_tables if "record_pk" in table.c)
"""Tables whose rows belong to one record."""
PARENTS = tuple(table for table in Base.metadata.sorted_tables if table is not RECORD and table not in CHILDREN)
"""The others, those first that others point to."""


@dataclass(frozen=True, slots=True)
class TableContent:
    """Row count of a table, and a hash of all values in the order of their keys."""

    row_count: int
    content_hash: str


def key_of(table: Table, row: Row) -> tuple[Any, ...]:
    """Return the primary key of a row."""
    return tuple(row[column.name] for column in table.primary_key)


def canonical(row: Row) -> str:
    """Return a text that is equal for equal rows only, NaN included; the types of the columns made the values equal."""
    return repr([(name, row[name]) for name in sorted(row)])


def all_rows(connection: Connection, table: Table) -> list[Row]:
    """Return every row of a table, by its key as Python sorts it (a database sorts text by its own rules)."""
    rows = [dict(row) for row in connection.execute(select(table)).mappings()]
    return sorted(rows, key=lambda row: key_of(table, row))


def rows_between(connection: Connection, table: Table, low: int, high: int) -> list[Row]:
    """Return the rows whose id, or whose record's, is in `low` … `high`, in the order of their keys."""
    column = _id_column(table)
    statement = select(table).where(column.between(low, high)).order_by(*table.primary_key)
    return [dict(row) for row in connection.execute(statement).mappings()]


def id_ranges(connection: Connection, table: Table, portion: int = PORTION_ROWS) -> Iterator[tuple[int, int]]:
    """Yield ranges of ids that together cover every row of the table, `portion` rows or fewer each."""
    column = _id_column(table)
    low = connection.execute(select(func.min(column))).scalar()
    while low is not None:
        ids = select(column).where(column >= low).order_by(column).limit(portion).subquery()
        high = connection.execute(select(func.max(ids.c[0]))).scalar_one()
        yield low, high
        low = connection.execute(select(func.min(column)).where(column > high)).scalar()


def content_of(connection: Connection, table: Table) -> TableContent:
    """Return count and hash of a table; equal on both databases for equal rows."""
    digest, count = hashlib.sha256(), 0
    for rows in _portions(connection, table):
        for row in rows:
            digest.update(canonical(row).encode("utf-8", "surrogatepass"))
            count += 1
    return TableContent(count, digest.hexdigest())


def _portions(connection: Connection, table: Table) -> Iterator[list[Row]]:
    if table in CHILDREN:
        # By the ids of the records: children of one record are never in two portions.
        for low, high in id_ranges(connection, RECORD):
            yield rows_between(connection, table, low, high)
    elif "id" in table.c:
        for low, high in id_ranges(connection, table):
            yield rows_between(connection, table, low, high)
    else:
        yield all_rows(connection, table)


def _id_column(table: Table) -> Any:
    return table.c.record_pk if table in CHILDREN else table.c.id
