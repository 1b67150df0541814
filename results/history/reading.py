"""Series of cases out of the database: a few queries, however many records there are, and no samples."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sqlalchemy import Column, Connection, Select, Text, cast, func, select

from results.history.points import Observation, case_name, model_value, predictor_name
from results.records.metrics import Metric
from results.records.records import Record, RunInfo
from results.store import read, rows
from results.store.rows import texts
from results.store.schema import CASE, MEASUREMENT, METHOD, PREDICTION, PROCESS, RECORD, RUN
from results.store.write import AT_ONCE
from roofline_model.core.errors import InvalidValueError, UnknownNameError
from roofline_model.operators.case import Case, is_meant

if TYPE_CHECKING:
    from results.store.store import ResultStore

SHORTEST_PREFIX = 4
_LISTED = 6


class SeveralCasesError(InvalidValueError):
    """A name that several stored cases match; `cases` has them, in the order they were first stored."""

    def __init__(self, typed: str, cases: list[Case]) -> None:
        shown = ", ".join(f"{case_name(case)} ({case.case_key[:8]})" for case in cases[:_LISTED])
        more = ", …" if len(cases) > _LISTED else ""
        super().__init__(
            f"{typed[:60]!r} names several cases ({len(cases)}): {shown}{more}; give more of the id, or a key"
        )
        self.cases = tuple(cases)


@dataclass(frozen=True, slots=True)
class Series:
    """Everything that histories are made of."""

    observations: list[Observation]
    runs: dict[str, RunInfo]


def find_case(store: ResultStore, text: str) -> Case:
    """Return the case that a user means: its id (with or without operator), the first digits of its key, the pytest id
    of a test that ran it, or words.

    Words select the one case in whose operator, id and sizes all of them occur. Raises `UnknownNameError` naming the
    nearest cases, `SeveralCasesError` with the cases where several match.
    """
    typed = " ".join(text.split())
    if re.fullmatch(rf"[0-9a-fA-F]{{{SHORTEST_PREFIX},16}}", typed):
        of_key = select(CASE).where(CASE.c.case_key.startswith(typed.lower())).limit(_LISTED + 1)
        by_key = store.query(lambda connection: _cases(connection, of_key))
        if by_key:
            return _only(typed, by_key)
    of_test = select(CASE).where(CASE.c.id.in_(select(RECORD.c.case_id).where(RECORD.c.test_id == typed)))
    by_test = store.query(lambda connection: _cases(connection, of_test.limit(_LISTED + 1)))
    if by_test:
        return _only(typed, by_test)
    cases = store.query(lambda connection: _cases(connection, select(CASE).order_by(CASE.c.id)))
    lowered = typed.lower()
    exact = [case for case in cases if lowered in (case_name(case).lower(), case.id.lower())]
    if matches := exact or [case for case in cases if lowered and is_meant(case, lowered.split())]:
        return _only(typed, matches)
    raise UnknownNameError(
        "case",
        typed,
        {case_name(case) for case in cases},
        aliases={case.op for case in cases},
        fix=(
            "A case is named by its pytest id, the first digits of its key, or words of its id; `roofline history "
            "--all` looks at all."
        ),
    )


def read_series(store: ResultStore, metric: Metric, *, case_key: str | None = None) -> Series:
    """Return the stored series of a metric, of one case or of all."""
    return store.query(lambda connection: _read_series(connection, metric, case_key))


def _cases(connection: Connection, statement: Select[Any]) -> list[Case]:
    """Return the cases of a query, those that differ in the order of dimensions only once."""
    cases = (rows.case_of(row) for row in connection.execute(statement).mappings())
    return list({case.case_key: case for case in cases}.values())


def _only(typed: str, cases: list[Case]) -> Case:
    if len(cases) == 1:
        return cases[0]
    raise SeveralCasesError(typed, cases)


_COMMON = (
    RECORD.c.id,
    RECORD.c.run_id,
    RECORD.c.case_id,
    RECORD.c.method_id,
    RECORD.c.history_key,
    PROCESS.c.ordinal,
    cast(MEASUREMENT.c.flags, Text),
    MEASUREMENT.c.sm_clock_hz,
)
"""Columns of every series."""
_VALUES: dict[str, tuple[Column[Any], ...]] = {
    "time": (MEASUREMENT.c.median_s,),
    "energy": (MEASUREMENT.c.energy_j,),
    "error": (
        PREDICTION.c.error_ratio,
        PREDICTION.c.model_version,
        PREDICTION.c.profile_hash,
        PREDICTION.c.kind,
    ),
}
"""Metric → its columns; those of a whole model are in `extra`."""


def _read_series(connection: Connection, metric: Metric, case_key: str | None) -> Series:
    cases = _cases_by_id(connection, case_key)
    if not cases:
        return Series([], {})
    methods = {
        row.id: (row.method_hash, row.version)
        for row in connection.execute(select(METHOD.c.id, METHOD.c.method_hash, METHOD.c.version))
    }
    joined = RECORD.join(MEASUREMENT, MEASUREMENT.c.record_pk == RECORD.c.id)
    joined = joined.join(PROCESS, PROCESS.c.id == RECORD.c.process_id)
    if metric.key == "error":
        joined = joined.join(PREDICTION, PREDICTION.c.record_pk == RECORD.c.id)
    columns = (*_COMMON, *_VALUES.get(metric.key, (RECORD.c.extra,)))
    statement = select(*columns).select_from(joined).where(RECORD.c.status == "measured").order_by(RECORD.c.id)
    # The chip of a history key is that of the ideal prediction of its first record.
    firsts = select(func.min(RECORD.c.id)).group_by(RECORD.c.history_key)
    if case_key is not None:
        of_case = RECORD.c.case_id.in_(list(cases))
        statement, firsts = statement.where(of_case), firsts.where(of_case)
    of_firsts = (
        select(RECORD.c.history_key, PREDICTION.c.hardware_key)
        .join(PREDICTION, PREDICTION.c.record_pk == RECORD.c.id)
        .where(RECORD.c.id.in_(firsts), PREDICTION.c.kind == "ideal")
    )
    chips = {row[0]: row[1] for row in connection.execute(of_firsts)}
    series_rows: Iterable[Any] = connection.execute(statement)
    if metric.key == "error":
        series_rows = _likeliest(series_rows)
    observations = []
    for row in series_rows:
        # By position: there may be hundreds of thousands of rows.
        run_id, case_id, method_id, history_key, ordinal, flags, clock_hz, value, *predictor = row[1:]
        if metric.key not in _VALUES:
            is_of_model = isinstance(value, Mapping) and "model" in value
            record = Record(str(row.id), run_id, cases[case_id], "measured", extra=value if is_of_model else {})
            value = model_value(record, metric)
        if value is None:
            continue
        observations.append(
            Observation(
                cases[case_id],
                run_id,
                ordinal,
                history_key,
                chips.get(history_key, ""),
                *methods.get(method_id, ("", "")),
                value,
                _flags(flags),
                clock_hz,
                predictor_name(*predictor[:2]) if predictor else "",
            )
        )
    run_ids = {observation.run_id for observation in observations}
    select_runs = read.select_runs()
    if len(run_ids) <= AT_ONCE:  # of more all runs are read
        select_runs = select_runs.where(RUN.c.run_id.in_(sorted(run_ids)))
    runs = {run.run_id: run for run in read.read_runs(connection, select_runs) if run.run_id in run_ids}
    return Series(observations, runs)


@lru_cache(maxsize=1024)
def _flags(text: str) -> tuple[str, ...]:
    """Return stored flags. The same few lists come again and again; raises `ValueError` for what is none."""
    return texts("flags", json.loads(text))


def _cases_by_id(connection: Connection, case_key: str | None) -> dict[int, Case]:
    statement = select(CASE) if case_key is None else select(CASE).where(CASE.c.case_key == case_key)
    first: dict[str, Case] = {}
    cases = {}
    for row in connection.execute(statement.order_by(CASE.c.id)).mappings():
        case = rows.case_of(row)
        # One case, whatever the order of its dimensions: histories are by key, and the names are the first one's.
        cases[row["id"]] = first.setdefault(row["case_key"], case)
    return cases


def _likeliest(series_rows: Iterable[Any]) -> Iterable[Any]:
    """Return one row per record: the expected prediction's, else the ideal one's; without an error, none."""
    chosen: dict[int, Any] = {}
    for row in series_rows:
        if row.error_ratio is not None and (row.id not in chosen or row.kind == "expected"):
            chosen[row.id] = row
    return chosen.values()
