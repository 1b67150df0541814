"""Writing what is learnt beside and after the records: how processes ended, canaries, noise floors, doubts in hindsight.

Like `write.py`, inside a transaction that somebody else began.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy import Connection, bindparam, select, update

from results.records.records import ProcessInfo, Record
from results.records.state_records import CanaryReading, NoiseFloor
from results.store import rows
from results.store.write import (
    CANARY,
    FLOOR,
    MEASUREMENT,
    PROCESS,
    RECORD,
    class_hash_of,
    in_parts,
    insert_new,
    insert_process,
    present_record_runs,
)
from roofline_model.core.errors import StoreError


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
        insert_new(connection, CANARY, rows.canary_values(reading, run_id, class_hash))


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
        insert_new(connection, FLOOR, rows.floor_values(floor))


def add_flag(connection: Connection, record_ids: Sequence[str], flag: str) -> int:
    """Add a flag behind the others of these records' measurements; return how many did not carry it yet.

    A record without a measurement has no flags and is passed over. Raises `StoreError` for a record that is not there.
    """
    added = 0
    for some in in_parts(record_ids):
        # Locked, and in one order: two who flag the same records neither undo nor wait for each other for ever.
        # (SQLite needs no lock, a writing transaction is alone.)
        statement = (
            select(RECORD.c.record_id, RECORD.c.id, MEASUREMENT.c.flags)
            .join_from(RECORD, MEASUREMENT)
            .where(RECORD.c.record_id.in_(some))
            .order_by(RECORD.c.id)
            .with_for_update(of=MEASUREMENT)
        )
        found = connection.execute(statement).all()
        unmeasured = sorted(set(some) - {row.record_id for row in found})
        missing = sorted(set(unmeasured) - present_record_runs(connection, unmeasured).keys())
        if missing:
            raise StoreError(f"record {missing[0][:40]!r} is not in the database: only stored records can be flagged")
        changed = [{"pk": row.id, "flags": [*row.flags, flag]} for row in found if flag not in row.flags]
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
