"""A whole store copied into another database, SQLite or PostgreSQL, exactly, and compared afterwards.

Row ids stay, so the same command continues a copy that was interrupted and brings an older one up to date. While it
runs the target holds whole records only, and runs that are not copied to their end count as running there: `latest`
never means half a run. A target with anything in it that the source does not hold is refused before the first write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sqlalchemy import Connection, Table, bindparam, func, select, text, update

from results.operations.content import (
    CHILDREN,
    PARENTS,
    Row,
    TableContent,
    all_rows,
    canonical,
    content_of,
    id_ranges,
    key_of,
    rows_between,
)
from results.operations.identity import check_same_store
from results.store.store import ResultStore
from results.store.write import RECORD, RUN, TABLES
from roofline_model.core.errors import StoreError

Progress = Callable[[str, int, int], None]
"""What is done now, steps done, all steps."""

MAY_CHANGE = {
    "run": frozenset({"status", "exit_code", "finished_at"}),
    "process": frozenset({"end_reason"}),
    "measurement": frozenset({"flags", "samples", "clocks"}),
    "canary": frozenset({"is_slow", "reference_s"}),
}
"""Columns that a stored row changes in later: how a run ended, doubts in hindsight, samples that were dropped."""


@dataclass(frozen=True, slots=True)
class TableCopy:
    """Rows copied to one table, and the contents of both sides afterwards."""

    name: str
    added_count: int
    updated_count: int
    source: TableContent
    target: TableContent

    @property
    def is_equal(self) -> bool:
        """Whether both sides hold the same rows, value for value."""
        return self.source == self.target


def copy_store(
    source: ResultStore, target: ResultStore, progress: Progress = lambda what, done, total: None
) -> list[TableCopy]:
    """Bring `target` to exactly what `source` holds now and return what was done, table by table, parents first.

    Raises `StoreError` for the same database twice and for a target that holds what the source does not.
    """
    if source.place == target.place:
        raise StoreError(f"{target.name} is the same database as {source.name}: name another one to copy to")

    def copy(reading: Connection) -> list[TableCopy]:
        _steady(reading)
        target.query(lambda there: check_same_store(reading, there, source.name, target.name))
        copying = _Copying(reading, target, progress)
        copying.parents()
        copying.records()
        copying.ends_of_runs()
        compared = target.query(lambda there: _contents(reading, there, progress))
        return [TableCopy(name, copying.added[name], copying.updated[name], *sides) for name, sides in compared.items()]

    return source.query(copy)


class _Copying:
    """One copy in progress: what was added and updated by now."""

    def __init__(self, reading: Connection, target: ResultStore, progress: Progress) -> None:
        self._reading = reading
        self._target = target
        self._progress = progress
        self.added = dict.fromkeys(TABLES, 0)
        self.updated = dict.fromkeys(TABLES, 0)
        self._added_runs: set[object] = set()

    def parents(self) -> None:
        """Copy the tables that records point to, canaries and noise floors."""
        self._target.transact("copying", self._reserve_ids)
        for number, table in enumerate(PARENTS):
            self._progress(f"copying {table.name}", number, len(PARENTS))
            for rows, low, high in _portions(self._reading, table):
                parent_rows = [_not_over(row) for row in rows] if table is RUN else rows
                self._target.transact(
                    "copying",
                    lambda there, table=table, rows=parent_rows, low=low, high=high: self._bring(
                        there, table, rows, low, high
                    ),  # type: ignore[misc]
                )

    def records(self) -> None:
        """Copy the records, each portion with all that belongs to it in one transaction."""
        total = int(self._reading.execute(select(func.count()).select_from(RECORD)).scalar_one())
        done = 0
        for low, high in id_ranges(self._reading, RECORD):
            portion = {table.name: rows_between(self._reading, table, low, high) for table in (RECORD, *CHILDREN)}

            def bring(
                there: Connection, low: int = low, high: int = high, portion: dict[str, list[Row]] = portion
            ) -> None:
                for table in (RECORD, *CHILDREN):
                    self._bring(there, table, portion[table.name], low, high)

            self._target.transact("copying", bring)
            done += len(portion[RECORD.name])
            self._progress("copying records", done, total)

    def ends_of_runs(self) -> None:
        """Copy how the runs ended, now that all their records are there."""
        runs = all_rows(self._reading, RUN)
        self._target.transact("copying", lambda there: self._bring(there, RUN, runs, None, None))

    def _reserve_ids(self, there: Connection) -> None:
        """Let ids that PostgreSQL gives out itself begin behind those that are copied."""
        if there.dialect.name != "postgresql":
            return
        for table in (*PARENTS, RECORD):
            if "id" in table.c:
                last = self._reading.execute(select(func.max(table.c.id))).scalar()
                if last is not None:
                    sequence = f"pg_get_serial_sequence('\"{table.name}\"', 'id')"
                    last_value = (
                        f"(SELECT last_value FROM pg_sequences WHERE schemaname || '.' || sequencename = {sequence})"
                    )
                    there.execute(text(f"SELECT setval({sequence}, greatest({int(last)}, coalesce({last_value}, 1)))"))

    def _bring(self, there: Connection, table: Table, rows: list[Row], low: int | None, high: int | None) -> None:
        """Insert what is missing, update what may have changed; anything else is another store's."""
        present = all_rows(there, table) if low is None or high is None else rows_between(there, table, low, high)
        by_key = {key_of(table, row): row for row in present}
        new, changed = [], []
        for row in rows:
            before = by_key.pop(key_of(table, row), None)
            if before is None:
                new.append(dict(row))
            elif canonical(before) != canonical(row):
                changed.append(self._change(table, before, row))
        if by_key:
            raise self._other(table)
        if new:
            there.execute(table.insert(), new)
        self.added[table.name] += len(new)
        if table is RUN:
            self._added_runs.update(key_of(table, row) for row in new)
        for values in (row_values for row_values in changed if row_values):
            self._update(there, table, values)
            # How a run ended follows its records: of one that was added just now that is no second change.
            self.updated[table.name] += table is not RUN or key_of(table, values) not in self._added_runs

    def _change(self, table: Table, before: Row, row: Row) -> Row:
        different = {name for name in row if canonical({name: row[name]}) != canonical({name: before[name]})}
        if table is RUN and row["status"] == "running":  # while it is copied: its end stays as it is there
            different -= MAY_CHANGE["run"]
        if different - MAY_CHANGE.get(table.name, frozenset()):
            raise self._other(table)
        if not different:
            return {}
        return {name: row[name] for name in {*different, *(column.name for column in table.primary_key)}}

    def _update(self, there: Connection, table: Table, values: Row) -> None:
        keys = [column.name for column in table.primary_key]
        where = [table.c[name] == bindparam(f"key_{name}") for name in keys]
        bound = {f"key_{name}": values[name] for name in keys}
        there.execute(
            update(table).where(*where).values({name: values[name] for name in values if name not in keys}), bound
        )

    def _other(self, table: Table) -> StoreError:
        return StoreError(
            f"{self._target.name} holds other rows of {table.name} than the source: somebody wrote there meanwhile; "
            "copy to an empty database"
        )


def _not_over(row: Row) -> Row:
    return {**row, "status": "running", "exit_code": None, "finished_at": None}


def _portions(reading: Connection, table: Table) -> Iterator[tuple[list[Row], int | None, int | None]]:
    if "id" not in table.c:
        yield all_rows(reading, table), None, None
        return
    for low, high in id_ranges(reading, table):
        yield rows_between(reading, table, low, high), low, high


def _steady(connection: Connection) -> None:
    """See one state of the database for as long as the connection reads (SQLite does by itself)."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"))


def _contents(here: Connection, there: Connection, progress: Progress) -> dict[str, tuple[TableContent, TableContent]]:
    _steady(there)
    tables = (*PARENTS, RECORD, *CHILDREN)
    compared = {}
    for number, table in enumerate(tables):
        progress(f"comparing {table.name}", number, len(tables))
        compared[table.name] = (content_of(here, table), content_of(there, table))
    return compared
