"""Reading runs and records back into their types: a handful of queries per run, whatever its size."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, Select, Table, func, select

from results.records.records import EnvironmentInfo, HardwareProfile, Measurement, ProcessInfo, Record, RunInfo
from results.records.state_records import CanaryReading, NoiseFloor
from results.store import rows
from results.store.write import (
    ATTRIBUTION,
    CANARY,
    CASE,
    ENERGY,
    ENVIRONMENT,
    FLOOR,
    MEASUREMENT,
    METHOD,
    PREDICTION,
    PROCESS,
    PROFILE,
    RECORD,
    RUN,
    STATE,
    TELEMETRY,
    in_parts,
)

T = TypeVar("T")

NEWEST_FIRST = (RUN.c.started_at.desc(), RUN.c.run_id.desc())


def select_runs() -> Select[Any]:
    """Return the query of all runs; narrow and order it."""
    return select(RUN)


def read_runs(connection: Connection, statement: Select[Any]) -> list[RunInfo]:
    """Return the runs of a query made from `select_runs`."""
    run_rows = connection.execute(statement).mappings().all()
    # Years of nights share a few environments: each is read and taken apart once.
    environments: dict[int, EnvironmentInfo] = {}
    for part in in_parts(sorted({row["environment_id"] for row in run_rows})):
        of_runs = select(ENVIRONMENT).where(ENVIRONMENT.c.id.in_(part))
        environments |= {row["id"]: rows.environment_from(row) for row in connection.execute(of_runs).mappings()}
    return [rows.run_from(row, environments[row["environment_id"]]) for row in run_rows]


def read_run(connection: Connection, run_id: str) -> RunInfo | None:
    """Return the run of exactly this id, or None."""
    infos = read_runs(connection, select_runs().where(RUN.c.run_id == run_id))
    return infos[0] if infos else None


def count_runs(connection: Connection) -> int:
    """Return how many runs there are."""
    return int(connection.execute(select(func.count()).select_from(RUN)).scalar_one())


def read_profile(connection: Connection, profile_hash: str) -> HardwareProfile | None:
    """Return the chip description of this hash, or None."""
    row = connection.execute(select(PROFILE).where(PROFILE.c.profile_hash == profile_hash)).mappings().first()
    return None if row is None else rows.profile_from(row)


def read_records(connection: Connection, run_id: str, *, with_samples: bool) -> list[Record]:
    """Return the records of a run in the order they were committed."""
    return read_chosen(connection, RECORD.c.run_id == run_id, with_samples=with_samples)


def read_chosen(connection: Connection, chosen: ColumnElement[bool], *, with_samples: bool) -> list[Record]:
    """Return the records that a condition on their own columns chooses, in the order they were committed."""
    record_rows = connection.execute(select(RECORD).where(chosen).order_by(RECORD.c.id)).mappings().all()
    cases = _by_id(connection, CASE, rows.case_from, select(RECORD.c.case_id).where(chosen))
    methods = _by_id(connection, METHOD, rows.method_from, select(RECORD.c.method_id).where(chosen))
    processes = _by_id(connection, PROCESS, rows.process_from, select(RECORD.c.process_id).where(chosen))
    measurements = _measurements(connection, chosen, with_samples=with_samples)
    predictions = _grouped(connection, PREDICTION, rows.prediction_from, chosen)
    telemetry = _grouped(connection, TELEMETRY, rows.telemetry_from, chosen)
    return [
        rows.record_from(
            row,
            case=cases[row["case_id"]],
            process=processes[row["process_id"]],
            method=None if row["method_id"] is None else methods[row["method_id"]],
            measurement=measurements.get(row["id"]),
            predictions=tuple(predictions.get(row["id"], ())),
            telemetry=tuple(telemetry.get(row["id"], ())),
        )
        for row in record_rows
    ]


def read_processes(connection: Connection, run_id: str) -> list[ProcessInfo]:
    """Return the processes of a run in the order they were first seen."""
    statement = select(PROCESS).where(PROCESS.c.run_id == run_id).order_by(PROCESS.c.id)
    return [rows.process_from(row) for row in connection.execute(statement).mappings()]


def read_canaries(connection: Connection, run_id: str) -> list[CanaryReading]:
    """Return the canary readings of a run in the order they were committed."""
    statement = select(CANARY).where(CANARY.c.run_id == run_id).order_by(CANARY.c.id)
    return [rows.canary_from(row) for row in connection.execute(statement).mappings()]


def read_canary_times(connection: Connection, class_hash: str, kernel: str, limit: int) -> list[float]:
    """Return the times of the newest healthy readings of a kernel in an environment class, newest first."""
    statement = (
        select(CANARY.c.time_s)
        .where(CANARY.c.class_hash == class_hash, CANARY.c.kernel == kernel, CANARY.c.is_slow.is_(False))
        .order_by(CANARY.c.created_at.desc(), CANARY.c.id.desc())
        .limit(limit)
    )
    return list(connection.execute(statement).scalars())


def read_noise_floors(connection: Connection, class_hash: str) -> dict[tuple[str, str], NoiseFloor]:
    """Return the newest noise floor of every case and method of an environment class, by case key and method hash."""
    statement = (
        select(FLOOR)
        .where(FLOOR.c.class_hash == class_hash)
        .order_by(FLOOR.c.case_key, FLOOR.c.method_hash, FLOOR.c.created_at, FLOOR.c.id)
    )
    floors = (rows.floor_from(row) for row in connection.execute(statement).mappings())
    return {(floor.case_key, floor.method_hash): floor for floor in floors}


def _measurements(connection: Connection, chosen: ColumnElement[bool], *, with_samples: bool) -> dict[int, Measurement]:
    energies = _parts(connection, ENERGY, rows.energy_from, chosen)
    states = _parts(connection, STATE, rows.state_from, chosen)
    attributions = _parts(connection, ATTRIBUTION, rows.attribution_from, chosen)
    columns = [column for column in MEASUREMENT.c if with_samples or column.name not in ("samples", "clocks")]
    measurements = {}
    for row in connection.execute(select(*columns).join(RECORD).where(chosen)).mappings():
        pk = row["record_pk"]
        measurements[pk] = rows.measurement_from(row, energies.get(pk), states.get(pk), attributions.get(pk))
    return measurements


def _parts(
    connection: Connection, table: Table, build: Callable[[rows.Row], T], chosen: ColumnElement[bool]
) -> dict[int, T]:
    statement = select(table).join(RECORD).where(chosen)
    return {row["record_pk"]: build(row) for row in connection.execute(statement).mappings()}


def _by_id(connection: Connection, table: Table, build: Callable[[rows.Row], T], wanted: Select[Any]) -> dict[int, T]:
    statement = select(table).where(table.c.id.in_(wanted))
    return {row["id"]: build(row) for row in connection.execute(statement).mappings()}


def _grouped(
    connection: Connection, table: Table, build: Callable[[rows.Row], T], chosen: ColumnElement[bool]
) -> dict[int, list[T]]:
    statement = select(table).join(RECORD).where(chosen).order_by(table.c.record_pk, table.c.ordinal)
    groups: dict[int, list[T]] = defaultdict(list)
    for row in connection.execute(statement).mappings():
        groups[row["record_pk"]].append(build(row))
    return groups
