"""A store of any size: real rows of one run, cloned by the database itself, night after
night.
"""

from __future__ import annotations

import datetime
from dataclasses import replace
from pathlib import Path

from sqlalchemy import Connection, Table, insert, literal, select, text

from benchmarks.store.sample_record import measured_record, run_info
from results.records.records import Record, RunInfo
from results.store.schema import MEASUREMENT, PREDICTION, PROCESS, RECORD, RUN
from results.store.store import ResultStore, open_store

FIRST_NIGHT = datetime.datetime(2020, 1, 1, 3, tzinfo=datetime.UTC)


def nights(run_count: int, case_count: int, samples_kept: int = 10) -> tuple[RunInfo, list[Record]]:
    """Return the first run and its records: `case_count` cases, of each measurement the first `samples_kept`
    samples.
    """
    run = replace(run_info(), started_at=_started_at(0), git_branch="main", status="complete", exit_code=0)
    records = []
    for number in range(case_count):
        record = measured_record(run.run_id, number)
        assert record.measurement is not None
        samples = record.measurement.samples_s[:samples_kept]
        measurement = replace(record.measurement, samples_s=samples, sample_count=len(samples))
        records.append(replace(record, measurement=measurement, created_at=_started_at(0)))
    return run, records


def fill(target: str | Path, run_count: int, case_count: int) -> RunInfo:
    """Put `run_count` runs of the same `case_count` cases into an empty database; return the last run.

    Every tenth is of the branch `stable`, the others of `main`. Ids follow each other as if runs had been stored in
    turn.
    """
    run, records = nights(run_count, case_count)
    with open_store(target) as store:
        store.add_run(run, [], records)
        store.transact("cloning runs", lambda connection: _clone(connection, run, run_count, case_count))
        _analyze(store)
        return store.runs(limit=1)[0]


def _clone(connection: Connection, run: RunInfo, run_count: int, case_count: int) -> None:
    process_pk = connection.execute(select(PROCESS.c.id).where(PROCESS.c.run_id == run.run_id)).scalar_one()
    first_pk = connection.execute(select(RECORD.c.id).order_by(RECORD.c.id).limit(1)).scalar_one()
    of_first = RECORD.c.id.between(first_pk, first_pk + case_count - 1)
    for number in range(1, run_count):
        suffix = f"{number:08x}"
        new_run, shift = suffix + run.run_id[8:], number * case_count
        run_changes = {
            "run_id": literal(new_run),
            "started_at": literal(_started_at(number)),
            "git_branch": literal("stable" if number % 10 == 0 else "main"),
        }
        _copy(connection, RUN, RUN.c.run_id == run.run_id, run_changes)
        new_process = {"id": PROCESS.c.id + number, "run_id": literal(new_run)}
        _copy(connection, PROCESS, PROCESS.c.id == process_pk, new_process)
        record_changes = {
            "id": RECORD.c.id + shift,
            "record_id": text(f"substr(record_id, 1, 24) || '{suffix}'"),
            "run_id": literal(new_run),
            "process_id": literal(process_pk + number),
            "created_at": literal(_started_at(number)),
        }
        _copy(connection, RECORD, of_first, record_changes)
        for child in (MEASUREMENT, PREDICTION):
            of_child = child.c.record_pk.between(first_pk, first_pk + case_count - 1)
            _copy(connection, child, of_child, {"record_pk": child.c.record_pk + shift})
    if connection.dialect.name == "postgresql":
        for table in (PROCESS, RECORD):
            name = table.name
            connection.execute(
                text(f"SELECT setval(pg_get_serial_sequence('{name}', 'id'), (SELECT max(id) FROM {name}))")
            )


def _copy(connection: Connection, table: Table, where: object, changes: dict[str, object]) -> None:
    columns = [changes.get(column.name, column) for column in table.c]
    chosen = select(*columns).select_from(table).where(where)  # type: ignore[arg-type, call-overload]
    connection.execute(insert(table).from_select([column.name for column in table.c], chosen))


def _analyze(store: ResultStore) -> None:
    """Let PostgreSQL count its rows, as it does by itself within a minute; SQLite plans well without."""
    store.transact(
        "counting", lambda connection: connection.dialect.name == "postgresql" and connection.execute(text("ANALYZE"))
    )


def _started_at(number: int) -> str:
    return (FIRST_NIGHT + datetime.timedelta(days=number)).isoformat(timespec="microseconds")
