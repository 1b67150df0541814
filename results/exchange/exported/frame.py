"""Stored runs as a pandas data frame, for notebooks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from results.exchange.exported.export import flat_lots
from results.exchange.exported.flat import COLUMNS
from results.records.flags import DOUBTFUL_FLAGS
from results.store.query import RecordQuery, find_records
from results.store.store import ResultStore, open_store
from roofline_model.core.errors import InvalidValueError, RooflineError
from roofline_model.operators.case import Case

if TYPE_CHECKING:
    import pandas


FIRST_COLUMNS = (
    "case_id",
    "op",
    "shape",
    "format",
    "kernel",
    "hardware",
    "cache",
    "mode",
    "timer",
    "status",
    "measured_s",
    "expected_s",
    "error_expected_ratio",
    "ideal_s",
    "speedup_ratio",
    "doubts",
    "run_id",
)
"""What a frame shows unless all columns are asked for. `format` is what people read, `INT4 (W4A16)`."""
_SAME_WORK = ["run_id", "hardware", "timer", "op", "shape", "cache", "mode"]


def load_frame(
    target: str | Path | None = None,
    run: str | None = "",
    *,
    case: str = "",
    since: str = "",
    until: str = "",
    columns: Literal["first", "all"] = "first",
    simulated: bool = False,
) -> pandas.DataFrame:
    """Return one row per record; the database is only read.

    `columns`: those of `FIRST_COLUMNS`, or `all` of the CSV export. `speedup_ratio` is the fastest BF16 median of the
    same run, chip, timer, shape, cache state and mode over the median of the row. `doubts`: the flags that put its time
    in doubt, joined by spaces; "" where none does. (`flags` is a property of every frame, so no column is called that.)

    `run`: id, label, `latest`, …; None for all runs. By default the latest, or all runs where `case`, `since` or
    `until` is given. Runs whose times a simulated or replayed timer gave are left out, unless `run` names one or
    `simulated` is true. Times are seconds, other units end the column names. Nothing found is a frame without rows.
    Raises `StoreError` where there is no database or no run, `UnknownNameError` for a run nobody knows,
    `InvalidValueError` for what is not a date.
    """
    if columns not in ("first", "all"):
        raise InvalidValueError(f"columns must be first or all, got {str(columns)[:40]!r}")
    if run == "" and (case or since or until):
        run = None
    try:
        query = RecordQuery(tuple(case.split()), since, until)
    except InvalidValueError as error:  # written for the command line
        raise InvalidValueError(str(error).replace("--", "")) from None
    with open_store(target, create=False, read_only=True) as store:
        for frame in _newest_first(store, query) if run == "" else [_frame(store, query, run)]:
            is_simulated = frame["run_id"].isin(frame["run_id"][frame["is_simulated"].astype(bool)])
            if simulated or not is_simulated.any():
                break
        if not simulated and not run:
            frame = frame[~is_simulated].reset_index(drop=True)
    return frame if columns == "all" else _first_columns(frame)


def _newest_first(store: ResultStore, query: RecordQuery) -> Iterator[pandas.DataFrame]:
    """Yield the frame of the latest run, then those of the runs before it."""
    yield _frame(store, query, "latest")
    for index in count(1):
        try:
            name = store.resolve_run(f"latest~{index}").run_id
        except RooflineError:  # there are no more
            return
        yield _frame(store, query, name)


def _frame(store: ResultStore, query: RecordQuery, run: str | None) -> pandas.DataFrame:
    import pandas

    run_id = "" if run is None else store.resolve_run(run).run_id
    lots = flat_lots(store, find_records(store, replace(query, run_id=run_id)))
    return pandas.DataFrame([row for lot in lots for row in lot], columns=list(COLUMNS))


def _first_columns(frame: pandas.DataFrame) -> pandas.DataFrame:
    is_baseline = (frame["weight_format"] == "BF16") & (frame["activation_format"] == "BF16")
    baselines = frame["measured_s"].where(is_baseline).groupby([frame[name] for name in _SAME_WORK], dropna=False)
    return frame.assign(
        format=[_format_name(formats) for formats in frame["formats"]],
        doubts=[_doubts(flags) for flags in frame["flags"]],
        speedup_ratio=baselines.transform("min") / frame["measured_s"],
    )[list(FIRST_COLUMNS)]


def _doubts(flags: object) -> str:
    given = flags.split(";") if isinstance(flags, str) else []  # pandas has NaN for a row without a measurement
    return " ".join(flag for flag in given if flag in DOUBTFUL_FLAGS)


def _format_name(formats: str) -> str:
    pairs = tuple(pair.partition("=")[::2] for pair in formats.split(",") if pair)
    return Case("any", (), pairs, "any").precision_label
