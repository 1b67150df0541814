"""A run as a pandas data frame, for notebooks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from results.flat import COLUMNS, flat_rows
from results.store import open_store

if TYPE_CHECKING:
    import pandas


def load_frame(target: str | Path | None = None, run: str = "latest") -> pandas.DataFrame:
    """Return one row per record of a run, columns as in the CSV export; the database is only read.

    Raises `StoreError` where there is no database or no run, `UnknownNameError` for a run nobody knows.
    """
    import pandas

    with open_store(target, create=False, read_only=True) as store:
        info = store.resolve_run(run)
        records = store.records(info.run_id, with_samples=False)
    return pandas.DataFrame(list(flat_rows(info, records)), columns=list(COLUMNS))
