"""Stored runs as a pandas data frame, for notebooks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from results.exchange.exported.export import flat_lots
from results.exchange.exported.flat import COLUMNS
from results.store.query import RecordQuery, find_records
from results.store.store import open_store
from roofline_model.core.errors import InvalidValueError
from roofline_model.operators.case import Case

if TYPE_CHECKING:
    import pandas


FIRST_COLUMNS = (
    "case_id",
    "op",
    "shape",
    "format",
    "kernel",
    "status",
    "median_s",
    "expected_time_s",
    "expected_error_ratio",
    "ideal_time_s",
    "speedup_ratio",
    "run_id",
)
"""What a frame shows unless all columns are asked for. `format` is what people read, `INT4 (W4A16)`."""
_SAME_WORK = ["run_id", "op", "shape", "cache", "mode"]


def load_frame(
    target: str | Path | None = None,
    run: str | None = "",
    *,
    case: str = "",
    since: str = "",
    until: str = "",
    columns: Literal["first", "all"] = "first",
) -> pandas.DataFrame:
    """Return one row per record; the database is only read.

    `columns`: the twelve of `FIRST_COLUMNS`, or `all` of the CSV export. `speedup_ratio` is the fastest BF16 median of
    the same run, shape, cache state and mode over the median of the row.

    `run`: id, label, `latest`, …; None for all runs. By default `latest`, or all runs where `case`, `since` or `until`
    is given. Times are seconds, other units end the column names. Nothing found is a frame without rows. Raises
    `StoreError` where there is no database or no run, `UnknownNameError` for a run nobody knows, `InvalidValueError`
    for what is not a date.
    """
    import pandas

    if columns not in ("first", "all"):
        raise InvalidValueError(f"columns must be first or all, got {str(columns)[:40]!r}")
    if run == "":
        run = None if case or since or until else "latest"
    try:
        query = RecordQuery(tuple(case.split()), since, until)
    except InvalidValueError as error:  # written for the command line
        raise InvalidValueError(str(error).replace("--", "")) from None
    with open_store(target, create=False, read_only=True) as store:
        run_id = "" if run is None else store.resolve_run(run).run_id
        runs = find_records(store, replace(query, run_id=run_id))
        rows = [row for lot in flat_lots(store, runs) for row in lot]
    frame = pandas.DataFrame(rows, columns=list(COLUMNS))
    return frame if columns == "all" else _first_columns(frame)


def _first_columns(frame: pandas.DataFrame) -> pandas.DataFrame:
    is_baseline = (frame["weight_format"] == "BF16") & (frame["activation_format"] == "BF16")
    baselines = frame["median_s"].where(is_baseline).groupby([frame[name] for name in _SAME_WORK], dropna=False)
    return frame.assign(
        format=[_format_name(formats) for formats in frame["formats"]],
        speedup_ratio=baselines.transform("min") / frame["median_s"],
    )[list(FIRST_COLUMNS)]


def _format_name(formats: str) -> str:
    pairs = tuple(pair.partition("=")[::2] for pair in formats.split(",") if pair)
    return Case("any", (), pairs, "any").precision_label
