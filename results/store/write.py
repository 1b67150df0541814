"""Writing a record and the rows it shares with others, inside a transaction that somebody else began."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any, TypeVar

from sqlalchemy import Connection, Select, Table, bindparam, select, update
from sqlalchemy.dialects import sqlite

from results.records.records import HardwareProfile, ProcessInfo, Record, RunInfo, RunStatus
from results.records.state_records import CanaryReading, NoiseFloor
from results.store import rows
from results.store.schema import (
    ATTRIBUTION,
    CANARY,
    CASE,
    ENERGY,
    ENVIRONMENT,
    MEASUREMENT,
    METHOD,
    NOISE_FLOOR,
    PREDICTION,
    PROCESS,
    PROFILE,
    RECORD,
    RUN,
    STATE,
    TELEMETRY,
)
from roofline_model.core.errors import StoreError

T = TypeVar("T")

AT_ONCE = 500
"""Ids in one statement, records read at once: well under every limit on bound parameters, and some megabytes with all
samples."""


class KnownIds:
    """Row ids this store has seen committed, so that the thousandth record of a case needs no query.

    Ids of the transaction in progress are kept apart until `keep`: after a rollback they would name rows that are not
    there.
    """

    def __init__(self) -> None:
        self._committed: dict[Hashable, Any] = {}
        self._pending: dict[Hashable, Any] = {}

    def of(self, key: Hashable, look_up: Callable[[], T]) -> T:
        """Return the id stored under `key`, looked up where this store has not seen it."""
        if key in self._committed:
            return self._committed[key]  # type: ignore[no-any-return]
        if key not in self._pending:
            self._pending[key] = look_up()
        return self._pending[key]  # type: ignore[no-any-return]

    def keep(self) -> None:
        """The transaction was committed."""
        self._committed.update(self._pending)
        self._pending.clear()

    def drop_pending(self) -> None:
        """The transaction was rolled back."""
        self._pending.clear()

    def forget(self) -> None:
        """Somebody may have deleted rows: look everything up again."""
        self._committed.clear()
        self._pending.clear()


def insert_record(connection: Connection, known_ids: KnownIds, record: Record) -> None:
    """Insert one record and whatever it shares with others.

    Raises `StoreError` for a run that was never begun; the database refuses a record id it already has.
    """
    inserted = connection.execute(RECORD.insert(), _record_values(connection, known_ids, record))
    assert inserted.inserted_primary_key is not None
    for table, values in _child_values(record, inserted.inserted_primary_key[0]):
        connection.execute(table.insert(), values)


def insert_records(connection: Connection, known_ids: KnownIds, records: Sequence[Record]) -> None:
    """Insert many records as `insert_record` does, a few statements for hundreds of them."""
    if not connection.dialect.insert_executemany_returning_sort_by_parameter_order:  # SQLite before 3.35
        for record in records:
            insert_record(connection, known_ids, record)
        return
    statement = RECORD.insert().returning(RECORD.c.id, sort_by_parameter_order=True)
    for part in in_parts(records):
        values = [_record_values(connection, known_ids, record) for record in part]
        inserted = connection.execute(statement, values).scalars().all()
        by_table: dict[Table, list[rows.Values]] = {}
        for record, record_pk in zip(part, inserted, strict=True):
            for table, its_values in _child_values(record, record_pk):
                by_table.setdefault(table, []).extend(its_values)
        for table, all_values in by_table.items():
            connection.execute(table.insert(), all_values)


def _record_values(connection: Connection, known_ids: KnownIds, record: Record) -> rows.Values:
    run_id, process, case, method = record.run_id, record.process, record.case, record.method
    class_hash = known_ids.of(("run", run_id), lambda: class_hash_of(connection, run_id))
    process_id = known_ids.of(("process", run_id, process), lambda: insert_process(connection, run_id, process))
    case_id = known_ids.of(
        ("case", case), lambda: _stored_or_inserted_id(connection, CASE, rows.case_row(case), ("content_hash",))
    )
    method_id = None
    if method is not None:
        of_method = rows.method_row(method)
        method_id = known_ids.of(
            ("method", of_method["method_hash"]),
            lambda: _stored_or_inserted_id(connection, METHOD, of_method, ("method_hash",)),
        )
    ids = {"process_id": process_id, "case_id": case_id, "method_id": method_id}
    return {**rows.row_of(record), "history_key": record.history_key(class_hash), **ids}


def _child_values(record: Record, record_pk: int) -> Iterator[tuple[Table, list[rows.Values]]]:
    """Yield the rows that belong to a record, by table; a part that was not read costs nothing."""
    measured = record.measurement
    if measured is not None:
        yield MEASUREMENT, [rows.measurement_row(measured, record_pk)]
        for table, part in ((ENERGY, measured.energy), (STATE, measured.state), (ATTRIBUTION, measured.attribution)):
            if part is not None:
                yield table, [rows.row_of(part, record_pk=record_pk)]
    for table, parts in ((PREDICTION, record.predictions), (TELEMETRY, record.telemetry)):
        if parts:
            yield table, [rows.row_of(part, record_pk=record_pk, ordinal=place) for place, part in enumerate(parts)]


def replace_record(connection: Connection, record: Record) -> None:
    """Replace what belongs to a stored record; flags that it has stay. Raises `StoreError` for one not there."""
    statement = select(RECORD.c.id, MEASUREMENT.c.flags).join_from(RECORD, MEASUREMENT, isouter=True)
    row = connection.execute(statement.where(RECORD.c.record_id == record.record_id)).one_or_none()
    if row is None:
        raise StoreError(f"record {record.record_id[:40]!r} is not in the database: only stored records are completed")
    for table in (ENERGY, STATE, ATTRIBUTION, PREDICTION, TELEMETRY, MEASUREMENT):
        connection.execute(table.delete().where(table.c.record_pk == row.id))
    facts = {"extra": dict(record.extra), "status": record.status, "reason": record.reason}
    connection.execute(update(RECORD).where(RECORD.c.id == row.id), facts)
    for table, children in _child_values(record, row.id):
        connection.execute(table.insert(), children)
    for flag in row.flags or ():
        if flag == "quarantined":
            add_flag(connection, [record.record_id], flag)


def insert_run(connection: Connection, run: RunInfo) -> None:
    """Insert a run; the database refuses a run id it already has."""
    connection.execute(RUN.insert(), _run_values(connection, run))


def hold_run(connection: Connection, run: RunInfo) -> None:
    """Insert a run unless it is there; until the transaction ends nobody else adds to it this way.

    Two who push or import the same run at once would both find its records missing.
    """
    insert_new(connection, RUN, _run_values(connection, run))
    connection.execute(select(RUN.c.run_id).where(RUN.c.run_id == run.run_id).with_for_update(key_share=True))


def _run_values(connection: Connection, run: RunInfo) -> rows.Values:
    environment = rows.environment_row(run.environment)
    identity = ("environment_hash", "class_hash")
    return rows.row_of(run, environment_id=_stored_or_inserted_id(connection, ENVIRONMENT, environment, identity))


def finish_run(
    connection: Connection, run_id: str, status: RunStatus, exit_code: int | None, finished_at: str | None
) -> None:
    """Store how a run ended. Raises `StoreError` for a run that was never begun."""
    values = {"status": status, "exit_code": exit_code, "finished_at": finished_at}
    if connection.execute(update(RUN).where(RUN.c.run_id == run_id), values).rowcount != 1:
        raise StoreError(f"run {run_id[:40]!r} is not in the database: begin_run has to come first")


def insert_profile(connection: Connection, profile: HardwareProfile) -> None:
    """Insert a hardware profile unless it is there."""
    insert_new(connection, PROFILE, rows.row_of(profile))


def present_record_runs(connection: Connection, record_ids: Sequence[str]) -> dict[str, str]:
    """Return which of the record ids the database already holds, and the run that each belongs to."""
    runs: dict[str, str] = {}
    for part in in_parts(record_ids):
        owned = select(RECORD.c.record_id, RECORD.c.run_id).where(RECORD.c.record_id.in_(part))
        runs.update((row.record_id, row.run_id) for row in connection.execute(owned))
    return runs


def insert_process(connection: Connection, run_id: str, process: ProcessInfo) -> int:
    """Insert a process of a run unless it is there, and return its row id.

    How it ended is noted where nothing was noted yet: a process is stored with its first record, and ends later.
    """
    row_id = _stored_or_inserted_id(connection, PROCESS, rows.process_row(process, run_id), ("run_id", "process_hash"))
    if process.end_reason:
        statement = update(PROCESS).where(PROCESS.c.id == row_id, PROCESS.c.end_reason == "")
        connection.execute(statement, {"end_reason": process.end_reason})
    return row_id


def class_hash_of(connection: Connection, run_id: str) -> str:
    """Return the environment class of a run. Raises `StoreError` for a run that was never begun."""
    statement = select(ENVIRONMENT.c.class_hash).join(RUN).where(RUN.c.run_id == run_id)
    class_hash: str | None = connection.execute(statement).scalar()
    if class_hash is None:
        raise StoreError(f"run {run_id[:40]!r} is not in the database: begin_run has to come first")
    return class_hash


def in_parts(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield ids, or records, in lots that fit one statement."""
    return (items[start : start + AT_ONCE] for start in range(0, len(items), AT_ONCE))


def _stored_or_inserted_id(connection: Connection, table: Table, values: rows.Values, identity: tuple[str, ...]) -> int:
    """Return the id of the row with these identity columns, inserting it when nobody did."""
    lookup, identity_values = _lookup(table, identity), {name: values[name] for name in identity}
    row_id: int | None = connection.execute(lookup, identity_values).scalar()
    if row_id is None and connection.dialect.insert_returning:
        statement = _insertion(connection.dialect.name, table).returning(table.c.id)
        row_id = connection.execute(statement, values).scalar()
    elif row_id is None:  # SQLite before 3.35
        insert_new(connection, table, values)
    # None: another process was first.
    return connection.execute(lookup, identity_values).scalar_one() if row_id is None else row_id


def insert_new(connection: Connection, table: Table, values: rows.Values) -> None:
    """Insert a row unless another process was first."""
    connection.execute(_insertion(connection.dialect.name, table), values)


# Statements are made once: making one costs as much as a lookup takes.


@cache
def _lookup(table: Table, identity: tuple[str, ...]) -> Select[Any]:
    return select(table.c.id).where(*(table.c[name] == bindparam(name) for name in identity))


@cache
def _insertion(dialect_name: str, table: Table) -> Any:
    """Return the statement that inserts a row unless one with its unique columns is there."""
    if dialect_name == "postgresql":
        from sqlalchemy.dialects import postgresql  # costs every other start 20 ms

        return postgresql.insert(table).on_conflict_do_nothing()
    return sqlite.insert(table).on_conflict_do_nothing()


def end_process(connection: Connection, run_id: str, process: ProcessInfo, end_reason: str) -> None:
    """Note how a process of a run ended, in its own row; one that ended before its first record gets one now.

    Raises `StoreError` for a run that was never begun.
    """
    class_hash_of(connection, run_id)
    row_id = insert_process(connection, run_id, process)
    connection.execute(update(PROCESS).where(PROCESS.c.id == row_id), {"end_reason": end_reason})


def insert_canaries(connection: Connection, run_id: str, readings: Iterable[CanaryReading]) -> None:
    """Insert canary readings of a run unless they are there. Raises `StoreError` for a run that was never begun."""
    class_hash = class_hash_of(connection, run_id)
    for reading in readings:
        insert_new(connection, CANARY, rows.row_of(reading, run_id=run_id, class_hash=class_hash))


def rejudge_canaries(connection: Connection, run_id: str, readings: Iterable[CanaryReading]) -> None:
    """Mark stored readings of a run as slow, with what they are compared with now; those that are slow already stay."""
    for reading in readings:
        connection.execute(
            update(CANARY).where(
                CANARY.c.run_id == run_id,
                CANARY.c.process_ordinal == reading.process_ordinal,
                CANARY.c.ordinal == reading.ordinal,
                CANARY.c.created_at == reading.created_at,
                CANARY.c.kernel == reading.kernel,
                CANARY.c.is_slow.is_(False),
            ),
            {"is_slow": True, "reference_s": reading.reference_s},
        )


def insert_floors(connection: Connection, floors: Iterable[NoiseFloor]) -> None:
    """Insert noise floors unless they are there."""
    for floor in floors:
        insert_new(connection, NOISE_FLOOR, rows.row_of(floor))


def add_flag(connection: Connection, record_ids: Sequence[str], flag: str) -> int:
    """Add a flag behind the others of these records' measurements; return how many did not carry it yet.

    A record without a measurement has no flags and is passed over. Raises `StoreError` for a record that is not there.
    """
    added = 0
    for part in in_parts(record_ids):
        # Locked, and in one order: two who flag the same records neither undo nor wait for each other for ever.
        # (SQLite needs no lock, a writing transaction is alone.)
        statement = (
            select(RECORD.c.record_id, RECORD.c.id, MEASUREMENT.c.flags)
            .join_from(RECORD, MEASUREMENT)
            .where(RECORD.c.record_id.in_(part))
            .order_by(RECORD.c.id)
            .with_for_update(of=MEASUREMENT)
        )
        matches = connection.execute(statement).all()
        unmeasured = sorted(set(part) - {row.record_id for row in matches})
        missing = sorted(set(unmeasured) - present_record_runs(connection, unmeasured).keys())
        if missing:
            raise StoreError(f"record {missing[0][:40]!r} is not in the database: only stored records can be flagged")
        changed = [{"pk": row.id, "flags": [*row.flags, flag]} for row in matches if flag not in row.flags]
        if changed:
            connection.execute(update(MEASUREMENT).where(MEASUREMENT.c.record_pk == bindparam("pk")), changed)
        added += len(changed)
    return added


def unite_flags(connection: Connection, records: Iterable[Record]) -> None:
    """Give stored measurements the flags that a later copy of their records carries: doubts are never lost."""
    by_flag: dict[str, list[str]] = {}
    for record in records:
        for flag in record.measurement.flags if record.measurement is not None else ():
            by_flag.setdefault(flag, []).append(record.record_id)
    for flag, record_ids in by_flag.items():
        add_flag(connection, record_ids, flag)
