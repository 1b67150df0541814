"""A run as a file: JSON that `load.py` turns back into exactly the same run, or CSV with one row per record."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Any, TextIO

from results.flat import COLUMNS, flat_rows
from results.plain_form import to_plain
from roofline_model.errors import StoreError

if TYPE_CHECKING:
    from results.records import RunInfo
    from results.store import ResultStore

EXPORT_FORMAT = "roofline-bench run"
EXPORT_VERSION = 1
"""1: format, schema_version, run, profiles, records (2026). Old versions keep loading for ever (tests/golden)."""


def export_run_json(store: ResultStore, run_id: str) -> dict[str, Any]:
    """Return one run, its chip descriptions and its records as strict JSON values; the same run gives the same document.

    Raises `UnknownNameError` for an unknown run.
    """
    run = _run(store, run_id)
    records = store.records(run_id)
    hashes = dict.fromkeys(prediction.profile_hash for record in records for prediction in record.predictions)
    profiles = [profile for profile in map(store.profile, hashes) if profile is not None]
    return {
        "format": EXPORT_FORMAT,
        "schema_version": EXPORT_VERSION,
        "run": to_plain(run),
        "profiles": [to_plain(profile) for profile in profiles],
        "records": [to_plain(record) for record in records],
    }


def write_csv(store: ResultStore, run_id: str, stream: TextIO) -> None:
    """Write one row per record, units in the headers, an empty cell where nothing is known. Samples are not in it.

    Open `stream` with newline="". Raises `UnknownNameError` for an unknown run.
    """
    run = _run(store, run_id)
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in flat_rows(run, store.records(run_id, with_samples=False)):
        writer.writerow([_cell(value) for value in row.values()])


def _run(store: ResultStore, run_id: str) -> RunInfo:
    run = store.resolve_run(run_id)
    if run.run_id != run_id:
        raise StoreError(f"{run_id[:40]!r} is not the whole id of a run: resolve_run gives it")
    return run


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    # repr of a float is the shortest text that reads back as the same float.
    text = repr(value) if isinstance(value, float) else str(value)
    # A lone surrogate (a file name that is not UTF-8) cannot be written to a file; it is shown escaped.
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
