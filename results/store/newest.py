"""Newest records of every case: those of a few runs, in a few queries, whatever the size of the database."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import Connection, func, select

from results.records.records import Record, RunInfo
from results.store import read, rows
from results.store.schema import CASE, RECORD, RUN
from results.store.write import in_parts
from roofline_model.operators.case import Case

if TYPE_CHECKING:
    from results.store.store import ResultStore

NIGHT_COUNT = 12
"""Nights that are read of a case: twice as many as are pooled, because some are doubtful or of another branch."""
LOST_NIGHT_COUNT = 2
"""Nights that are read of what was predicted, skipped or failed: only the newest attempt is told."""


@dataclass(frozen=True, slots=True)
class NewestRecords:
    """Records of the newest runs of every case, and those runs."""

    runs: Mapping[str, RunInfo]
    """By run id; only runs that a record is of."""
    records: tuple[Record, ...]
    """Without samples, in the order they were stored."""


def newest_records(
    store: ResultStore, is_meant: Callable[[Case], bool] | None = None, *, night_count: int = NIGHT_COUNT
) -> NewestRecords:
    """Return the records of the newest `night_count` runs that measured each case on each chip, and its newest other
    ones.

    `is_meant`: which cases are asked about; None: all. Raises `StoreError` where the store cannot be read.
    """
    return store.query(lambda connection: _newest(connection, is_meant, night_count))


def measuring_runs(store: ResultStore) -> list[RunInfo]:
    """Return of each chip that runs asked for the newest run, not by force, that measured something, in no order.

    Raises `StoreError` where the store cannot be read.
    """
    has_measured = select(RECORD.c.id).where(RECORD.c.run_id == RUN.c.run_id, RECORD.c.status == "measured").exists()
    recency = func.row_number().over(
        partition_by=RUN.c.hardware_key, order_by=(RUN.c.started_at.desc(), RUN.c.run_id.desc())
    )
    placed = select(RUN.c.run_id, recency.label("place")).where(has_measured, ~RUN.c.is_forced).subquery()
    first = select(placed.c.run_id).where(placed.c.place == 1)
    return store.query(lambda connection: read.read_runs(connection, read.select_runs().where(RUN.c.run_id.in_(first))))


def _newest(connection: Connection, is_meant: Callable[[Case], bool] | None, night_count: int) -> NewestRecords:
    cases = connection.execute(select(CASE)).mappings()
    case_ids = [row["id"] for row in cases if is_meant is None or is_meant(rows.case_of(row))]
    pks: list[int] = []
    for part in in_parts(case_ids):
        pks += _pks(connection, part, night_count)
    records: list[Record] = []
    for part in in_parts(sorted(pks)):
        records += read.read_chosen(connection, RECORD.c.id.in_(part), with_samples=False)
    runs: list[RunInfo] = []
    for part in in_parts(sorted({record.run_id for record in records})):
        runs += read.read_runs(connection, read.select_runs().where(RUN.c.run_id.in_(part)))
    return NewestRecords({run.run_id: run for run in runs}, tuple(records))


def _pks(connection: Connection, case_ids: Sequence[int], night_count: int) -> list[int]:
    """Return the rows of the newest nights of some cases: by case and chip, measured ones apart from the others."""
    is_measured = RECORD.c.status == "measured"
    run_rank = func.dense_rank().over(
        partition_by=(RECORD.c.case_id, RUN.c.hardware_key, is_measured),
        order_by=(RUN.c.started_at.desc(), RUN.c.run_id.desc()),
    )
    ranked = (
        select(RECORD.c.id, is_measured.label("is_measured"), run_rank.label("night"))
        .select_from(RECORD.join(RUN, RUN.c.run_id == RECORD.c.run_id))
        .where(RECORD.c.case_id.in_(case_ids))
        .subquery()
    )
    limit = (ranked.c.is_measured & (ranked.c.night <= night_count)) | (ranked.c.night <= LOST_NIGHT_COUNT)
    return list(connection.execute(select(ranked.c.id).where(limit)).scalars())
