"""Reading runs and records back into their types: a handful of queries per run, whatever its size."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, Select, Table, func, select

from results.records.records import (
    EnvironmentInfo,
    HardwareProfile,
    Measurement,
    Method,
    PredictionRecord,
    ProcessInfo,
    Record,
    RunInfo,
    TelemetrySample,
)
from results.records.state_records import CanaryReading, EnergyReading, KernelAttribution, MachineState, NoiseFloor
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
from results.store.write import in_parts

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
        environments |= {
            row["id"]: rows.value_of(EnvironmentInfo, row) for row in connection.execute(of_runs).mappings()
        }
    return [rows.value_of(RunInfo, row, environment=environments[row["environment_id"]]) for row in run_rows]


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
    return None if row is None else rows.value_of(HardwareProfile, row)


def read_records(connection: Connection, run_id: str, *, with_samples: bool) -> list[Record]:
    """Return the records of a run in the order they were committed."""
    return read_chosen(connection, RECORD.c.run_id == run_id, with_samples=with_samples)


def read_chosen(connection: Connection, chosen: ColumnElement[bool], *, with_samples: bool) -> list[Record]:
    """Return the records that a condition on their own columns chooses, in the order they were committed."""
    record_rows = connection.execute(select(RECORD).where(chosen).order_by(RECORD.c.id)).mappings().all()
    cases = _by_id(connection, CASE, rows.case_of, select(RECORD.c.case_id).where(chosen))
    methods = _by_id(connection, METHOD, partial(rows.value_of, Method), select(RECORD.c.method_id).where(chosen))
    processes = _by_id(
        connection, PROCESS, partial(rows.value_of, ProcessInfo), select(RECORD.c.process_id).where(chosen)
    )
    measurements = _measurements(connection, chosen, with_samples=with_samples)
    predictions = _grouped(connection, PREDICTION, PredictionRecord, chosen)
    telemetry = _grouped(connection, TELEMETRY, TelemetrySample, chosen)
    return [
        rows.value_of(
            Record,
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
    return [rows.value_of(ProcessInfo, row) for row in connection.execute(statement).mappings()]


def read_canaries(connection: Connection, run_id: str) -> list[CanaryReading]:
    """Return the canary readings of a run in the order they were committed."""
    statement = select(CANARY).where(CANARY.c.run_id == run_id).order_by(CANARY.c.id)
    return [rows.value_of(CanaryReading, row) for row in connection.execute(statement).mappings()]


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
        select(NOISE_FLOOR)
        .where(NOISE_FLOOR.c.class_hash == class_hash)
        .order_by(NOISE_FLOOR.c.case_key, NOISE_FLOOR.c.method_hash, NOISE_FLOOR.c.created_at, NOISE_FLOOR.c.id)
    )
    floors = (rows.value_of(NoiseFloor, row) for row in connection.execute(statement).mappings())
    return {(floor.case_key, floor.method_hash): floor for floor in floors}


def _measurements(connection: Connection, chosen: ColumnElement[bool], *, with_samples: bool) -> dict[int, Measurement]:
    energies = _parts(connection, ENERGY, EnergyReading, chosen)
    states = _parts(connection, STATE, MachineState, chosen)
    attributions = _parts(connection, ATTRIBUTION, KernelAttribution, chosen)
    columns = [column for column in MEASUREMENT.c if with_samples or column.name not in ("samples", "clocks")]
    measurements = {}
    for row in connection.execute(select(*columns).join(RECORD).where(chosen)).mappings():
        pk = row["record_pk"]
        parts = {"energy": energies.get(pk), "state": states.get(pk), "attribution": attributions.get(pk)}
        measurements[pk] = rows.measurement_of(row, **parts)
    return measurements


def _parts(connection: Connection, table: Table, kind: type[T], chosen: ColumnElement[bool]) -> dict[int, T]:
    statement = select(table).join(RECORD).where(chosen)
    return {row["record_pk"]: rows.value_of(kind, row) for row in connection.execute(statement).mappings()}


def _by_id(connection: Connection, table: Table, build: Callable[[rows.Row], T], wanted: Select[Any]) -> dict[int, T]:
    statement = select(table).where(table.c.id.in_(wanted))
    return {row["id"]: build(row) for row in connection.execute(statement).mappings()}


def _grouped(connection: Connection, table: Table, kind: type[T], chosen: ColumnElement[bool]) -> dict[int, list[T]]:
    statement = select(table).join(RECORD).where(chosen).order_by(table.c.record_pk, table.c.ordinal)
    groups: dict[int, list[T]] = defaultdict(list)
    for row in connection.execute(statement).mappings():
        groups[row["record_pk"]].append(rows.value_of(kind, row))
    return groups
