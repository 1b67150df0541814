"""Stored runs as a pandas data frame, for notebooks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from results.export import flat_lots
from results.flat import COLUMNS
from results.query import RecordQuery, find_records
from results.store import open_store

if TYPE_CHECKING:
    import pandas


def load_frame(
    target: str | Path | None = None, run: str | None = "latest", *, case: str = "", since: str = "", until: str = ""
) -> pandas.DataFrame:
    """Return one row per record, columns as in the CSV export; the database is only read.

    `run` as everywhere, None for all runs; `case`, `since` and `until` narrow it as in `roofline export`. Nothing found
    is a frame without rows. Raises `StoreError` where there is no database or no run, `UnknownNameError` for a run nobody
    knows, `InvalidValueError` for what is no date.
    """
    import pandas

    with open_store(target, create=False, read_only=True) as store:
        run_id = "" if run is None else store.resolve_run(run).run_id
        found = find_records(store, RecordQuery(tuple(case.split()), since, until, run_id))
        rows = [row for lot in flat_lots(store, found) for row in lot]
    return pandas.DataFrame(rows, columns=list(COLUMNS))
