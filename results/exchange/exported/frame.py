"""Stored runs as a pandas data frame, for notebooks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from results.exchange.exported.export import flat_lots
from results.exchange.exported.flat import COLUMNS
from results.store.query import RecordQuery, find_records
from results.store.store import open_store
from roofline_model.core.errors import InvalidValueError

if TYPE_CHECKING:
    import pandas


def load_frame(
    target: str | Path | None = None, run: str | None = "", *, case: str = "", since: str = "", until: str = ""
) -> pandas.DataFrame:
    """Return one row per record, columns as in the CSV export; the database is only read.

    `run`: id, label, `latest`, …; None for all runs. By default `latest`, or all runs where `case`, `since` or `until` is
    given. Times are seconds, other units end the column names. Nothing found is a frame without rows. Raises `StoreError` where there is
    no database or no run, `UnknownNameError` for a run nobody knows, `InvalidValueError` for what is not a date.
    """
    import pandas

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
    return pandas.DataFrame(rows, columns=list(COLUMNS))
