"""A run as a file: JSON that `load.py` turns back into exactly the same run, or CSV with one row per record."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TextIO

from results.flat import COLUMNS, flat_rows
from results.plain_form import to_plain
from roofline_model.errors import StoreError

if TYPE_CHECKING:
    from results.records import HardwareProfile, ProcessInfo, Record, RunInfo
    from results.state_records import CanaryReading, NoiseFloor
    from results.store import ResultStore

EXPORT_FORMAT = "roofline-bench run"
EXPORT_VERSION = 2
"""1: format, schema_version, run, profiles, records (2026).
2: processes, canaries, noise_floors; energy, state, attribution, clocks_hz and counts of a measurement (2026).
Old versions keep loading for ever (tests/golden)."""

_FORMULA_STARTS = ("=", "+", "-", "@")

_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
"""Control characters, line ends, marks that turn the writing direction, and halves of surrogate pairs (they come from
file names that are not UTF-8 and cannot be written to a file)."""


def export_run_json(store: ResultStore, run_id: str) -> dict[str, Any]:
    """Return one run with all that belongs to it as strict JSON values; the same run gives the same document.

    With it go the chip descriptions that its predictions used and the noise floors of its machine and software.
    Raises `UnknownNameError` for an unknown run.
    """
    run = _run(store, run_id)
    records = store.records(run_id)
    hashes = dict.fromkeys(prediction.profile_hash for record in records for prediction in record.predictions)
    profiles = [profile for profile in map(store.profile, hashes) if profile is not None]
    return export_documents(
        run,
        profiles,
        records,
        processes=store.processes(run_id),
        canaries=store.canaries(run_id),
        noise_floors=list(store.noise_floors(run.environment.class_hash).values()),
    )


def export_documents(
    run: RunInfo,
    profiles: Sequence[HardwareProfile],
    records: Sequence[Record],
    *,
    processes: Sequence[ProcessInfo] = (),
    canaries: Sequence[CanaryReading] = (),
    noise_floors: Sequence[NoiseFloor] = (),
) -> dict[str, Any]:
    """Return the document of `export_run_json` from values in memory: it rescues a run whose database is lost.

    `import_file` reads it like any other export. Processes of the records need not be given again.
    """
    all_processes = dict.fromkeys([*processes, *(record.process for record in records)])
    return {
        "format": EXPORT_FORMAT,
        "schema_version": EXPORT_VERSION,
        "run": to_plain(run),
        "profiles": [to_plain(profile) for profile in profiles],
        "processes": [to_plain(process) for process in all_processes],
        "records": [to_plain(record) for record in records],
        "canaries": [to_plain(reading) for reading in canaries],
        "noise_floors": [to_plain(floor) for floor in noise_floors],
    }


def write_csv(store: ResultStore, run_id: str, stream: TextIO) -> None:
    """Write one row per record, units in the headers, an empty cell where nothing is known. Samples are not in it.

    A cell cannot act on who opens it: control characters, line ends and characters that turn the writing direction are
    shown escaped (a line end as \\n), and text that a spreadsheet would run as a formula (it begins with = + - or @)
    gets a leading apostrophe. Numbers are written as they are, whole numbers of bytes without a fraction. The exact
    texts are in the JSON export.
    Open `stream` with newline="". Raises `UnknownNameError` for an unknown run.
    """
    run = _run(store, run_id)
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in flat_rows(run, store.records(run_id, with_samples=False)):
        writer.writerow([_cell(name, value) for name, value in row.items()])


def _run(store: ResultStore, run_id: str) -> RunInfo:
    run = store.resolve_run(run_id)
    if run.run_id != run_id:
        raise StoreError(f"{run_id[:40]!r} is not the whole id of a run: resolve_run gives it")
    return run


def _cell(column: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        if column.endswith("_bytes") and value.is_integer():
            return str(int(value))
        return repr(value)  # the shortest text that reads back as the same float
    if isinstance(value, int):
        return str(value)
    text = _UNSEEN.sub(lambda match: match.group().encode("unicode_escape").decode("ascii"), str(value))
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else text
