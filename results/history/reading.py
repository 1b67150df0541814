"""Series of cases out of the database: a few queries, however many records there are, and no samples."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Select, Text, cast, func, select

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
    return _named(typed, store.query(lambda connection: _cases(connection, select(CASE).order_by(CASE.c.id))))


def read_series(store: ResultStore, metric: Metric, *, case_key: str | None = None) -> Series:
    """Return the stored series of a metric, of one case or of all."""
    return store.query(lambda connection: _read_series(connection, metric, case_key))


def _named(typed: str, cases: list[Case]) -> Case:
    lowered = typed.lower()
    exact = [case for case in cases if lowered in (case_name(case).lower(), case.id.lower())]
    matches = exact or [case for case in cases if lowered and is_meant(case, lowered.split())]
    if matches:
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


def _cases(connection: Connection, statement: Select[Any]) -> list[Case]:
    """Return the cases of a query, those that differ in the order of dimensions only once."""
    cases = (rows.case_of(row) for row in connection.execute(statement).mappings())
    return list({case.case_key: case for case in cases}.values())


def _only(typed: str, cases: list[Case]) -> Case:
    if len(cases) == 1:
        return cases[0]
    raise SeveralCasesError(typed, cases)


def _read_series(connection: Connection, metric: Metric, case_key: str | None) -> Series:
    cases = _cases_by_id(connection, case_key)
    if not cases:
        return Series([], {})
    methods = {
        row.id: (row.method_hash, row.version)
        for row in connection.execute(select(METHOD.c.id, METHOD.c.method_hash, METHOD.c.version))
    }
    chosen = _narrowed(select(*_columns(metric)).select_from(_joined(metric)), cases, case_key)
    series_rows: Iterable[Any] = connection.execute(chosen)
    if metric.key == "error":
        series_rows = _likeliest(series_rows)
    chips = _chips(connection, cases, case_key)
    observations = []
    for row in series_rows:
        # By position: there may be hundreds of thousands of rows.
        run_id, case_id, method_id, history_key, ordinal, flags, clock_hz, *stated = row[1:]
        value, predictor = _value(stated, row, cases[case_id], metric)
        if value is None:
            continue
        method_hash, version = methods.get(method_id, ("", ""))
        flagged = _flags(flags)
        chip = chips.get(history_key, "")
        observations.append(
            Observation(
                cases[case_id],
                run_id,
                ordinal,
                history_key,
                chip,
                method_hash,
                version,
                value,
                flagged,
                clock_hz,
                predictor,
            )
        )
    runs = _runs(connection, {observation.run_id for observation in observations})
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


def _columns(metric: Metric) -> list[Any]:
    """Return the columns to read of a record: `Observation`'s fields in order, then those of the metric."""
    columns = [
        RECORD.c.id,
        RECORD.c.run_id,
        RECORD.c.case_id,
        RECORD.c.method_id,
        RECORD.c.history_key,
        PROCESS.c.ordinal,
        cast(MEASUREMENT.c.flags, Text),
        MEASUREMENT.c.sm_clock_hz,
    ]
    if metric.key == "time":
        return [*columns, MEASUREMENT.c.median_s]
    if metric.key == "energy":
        return [*columns, MEASUREMENT.c.energy_j]
    if metric.key == "error":
        return [
            *columns,
            PREDICTION.c.error_ratio,
            PREDICTION.c.model_version,
            PREDICTION.c.profile_hash,
            PREDICTION.c.kind,
        ]
    return [*columns, RECORD.c.extra]


def _joined(metric: Metric) -> Any:
    joined = RECORD.join(MEASUREMENT, MEASUREMENT.c.record_pk == RECORD.c.id).join(
        PROCESS, PROCESS.c.id == RECORD.c.process_id
    )
    return joined.join(PREDICTION, PREDICTION.c.record_pk == RECORD.c.id) if metric.key == "error" else joined


def _narrowed(statement: Select[Any], cases: Iterable[int], case_key: str | None) -> Select[Any]:
    statement = statement.where(RECORD.c.status == "measured").order_by(RECORD.c.id)
    if case_key is not None:
        statement = statement.where(RECORD.c.case_id.in_(list(cases)))
    return statement


def _likeliest(series_rows: Iterable[Any]) -> Iterable[Any]:
    """Return one row per record: the expected prediction's, else the ideal one's; without an error, none."""
    chosen: dict[int, Any] = {}
    for row in series_rows:
        if row.error_ratio is not None and (row.id not in chosen or row.kind == "expected"):
            chosen[row.id] = row
    return chosen.values()


def _runs(connection: Connection, run_ids: set[str]) -> dict[str, RunInfo]:
    """Return the runs of these ids. Few: asked for by id; many: all of them are read."""
    statement = read.select_runs()
    if len(run_ids) <= AT_ONCE:
        statement = statement.where(RUN.c.run_id.in_(sorted(run_ids)))
    return {run.run_id: run for run in read.read_runs(connection, statement) if run.run_id in run_ids}


def _chips(connection: Connection, cases: Iterable[int], case_key: str | None) -> dict[str, str]:
    """Return the chip of every history key: that of the ideal prediction of its first record."""
    firsts = select(func.min(RECORD.c.id)).group_by(RECORD.c.history_key)
    if case_key is not None:
        firsts = firsts.where(RECORD.c.case_id.in_(list(cases)))
    statement = (
        select(RECORD.c.history_key, PREDICTION.c.hardware_key)
        .join(PREDICTION, PREDICTION.c.record_pk == RECORD.c.id)
        .where(RECORD.c.id.in_(firsts), PREDICTION.c.kind == "ideal")
    )
    return {row[0]: row[1] for row in connection.execute(statement)}


def _value(stored_values: list[Any], row: Any, case: Case, metric: Metric) -> tuple[float | None, str]:
    """Return the metric of a row, and what predicted. `stored_values`: the columns that the metric added."""
    if metric.key in ("time", "energy"):
        return stored_values[0], ""
    if metric.key == "error":
        return stored_values[0], predictor_name(stored_values[1], stored_values[2])
    if not isinstance(stored_values[0], Mapping) or "model" not in stored_values[0]:
        return None, ""
    return model_value(Record(str(row.id), row.run_id, case, "measured", extra=stored_values[0]), metric), ""
