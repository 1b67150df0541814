"""Runs as a file: JSON that `load.py` turns back into exactly the same runs, or CSV with one row per record.

Whole runs and what a query found are written the same way, some hundred records at a time.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, TextIO

from results.cases.run import stored_profiles
from results.exchange.exported.flat import COLUMNS, Row, flat_rows
from results.records.plain_form import to_plain
from roofline_model.core.errors import StoreError

if TYPE_CHECKING:
    from results.records.records import HardwareProfile, ProcessInfo, Record, RunInfo
    from results.records.state_records import CanaryReading, NoiseFloor
    from results.store.query import FoundRun
    from results.store.store import ResultStore

EXPORT_FORMAT = "roofline-bench run"
RUNS_FORMAT = "roofline-bench runs"
"""A list of such documents, `runs`: what a query found in several runs."""
EXPORT_VERSION = 1

_FORMULA_STARTS = ("=", "+", "-", "@")

_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
"""Control characters, line ends, marks that turn the writing direction, and halves of surrogate pairs (they come from
file names that are not UTF-8 and cannot be written to a file)."""


@dataclass(frozen=True, slots=True)
class ExportedRun:
    """Contents of an export."""

    run: RunInfo
    profiles: tuple[HardwareProfile, ...]
    """Chip descriptions that its predictions used."""
    processes: tuple[ProcessInfo, ...]
    """All of the run, those that stored no record too; those of its records need not be among them."""
    records: tuple[Record, ...]
    canaries: tuple[CanaryReading, ...] = ()
    noise_floors: tuple[NoiseFloor, ...] = ()
    """Of the run's environment class."""


def stored_whole(store: ResultStore, run: RunInfo) -> ExportedRun:
    """Return a stored run with all that belongs to it."""
    records = store.records(run.run_id)
    return ExportedRun(
        run,
        tuple(stored_profiles(store, records).values()),
        tuple(store.processes(run.run_id)),
        tuple(records),
        tuple(store.canaries(run.run_id)),
        tuple(store.noise_floors(run.environment.class_hash).values()),
    )


def export_run_json(store: ResultStore, run_id: str) -> dict[str, Any]:
    """Return one run with all that belongs to it as strict JSON values; the same run gives the same document.

    Raises `UnknownNameError` for an unknown run.
    """
    run = store.resolve_run(run_id)
    if run.run_id != run_id:
        raise StoreError(f"{run_id[:40]!r} is not the whole id of a run: resolve_run gives it")
    return export_document(stored_whole(store, run))


def export_document(exported: ExportedRun) -> dict[str, Any]:
    """Return the document of `export_run_json` from values in memory: it rescues a run whose database is lost.

    `import_file` reads it like any other export.
    """
    processes = dict.fromkeys([*exported.processes, *(record.process for record in exported.records)])
    document = to_plain(replace(exported, processes=tuple(processes)))
    return {"format": EXPORT_FORMAT, "schema_version": EXPORT_VERSION, **document}


def write_json(store: ResultStore, runs: Sequence[FoundRun], stream: TextIO, *, is_part: bool) -> None:
    """Write what was found as strict JSON: the document of `export_run_json` for one run, a list of them for several.

    `is_part`: records are left out, so that each run is written as unfinished; an import of the whole run completes it.
    """
    if len(runs) == 1:
        _write_run(store, runs[0], stream, is_part=is_part)
    else:
        stream.write(f'{{"format": {json.dumps(RUNS_FORMAT)}, "schema_version": {EXPORT_VERSION}, "runs": [\n')
        for number, run in enumerate(runs):
            stream.write(",\n" if number else "")
            _write_run(store, run, stream, is_part=is_part)
        stream.write("]}")
    stream.write("\n")


def _write_run(store: ResultStore, stored_run: FoundRun, stream: TextIO, *, is_part: bool) -> None:
    from results.store.query import profile_hashes, read_lots

    run = replace(stored_run.run, status="running", exit_code=None, finished_at=None) if is_part else stored_run.run
    profiles = (store.profile(profile_hash) for profile_hash in profile_hashes(store, stored_run))
    records = chain.from_iterable(read_lots(store, stored_run, with_samples=True))
    lists: dict[str, Iterable[object]] = {
        "profiles": (profile for profile in profiles if profile is not None),
        "processes": store.processes(run.run_id),
        "records": records,
        "canaries": store.canaries(run.run_id),
        "noise_floors": store.noise_floors(run.environment.class_hash).values(),
    }
    stream.write(
        f'{{"format": {json.dumps(EXPORT_FORMAT)},\n"schema_version": {EXPORT_VERSION},\n"run": {_dumped(run)}'
    )
    for name, items in lists.items():
        stream.write(f",\n{json.dumps(name)}: [")
        for number, item in enumerate(items):
            stream.write(f"{',' if number else ''}\n{_dumped(item)}")
        stream.write("]")
    stream.write("}")


def _dumped(value: object) -> str:
    return json.dumps(to_plain(value), allow_nan=False)


def write_rows(store: ResultStore, runs: Iterable[FoundRun], stream: TextIO) -> None:
    """Write CSV: one row per record, units in the headers, an empty cell where nothing is known. Samples are not in it.

    A cell cannot act on who opens it: control characters, line ends and characters that turn the writing direction are
    shown escaped (a line end as \\n), and text that a spreadsheet would run as a formula (it begins with = + - or @)
    gets a leading apostrophe. Numbers are written as they are, whole numbers of bytes without a fraction. The exact
    texts are in the JSON export.
    Open `stream` with newline="".
    """
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(COLUMNS)
    for rows in flat_lots(store, runs):
        writer.writerows([_cell(name, value) for name, value in row.items()] for row in rows)


def flat_lots(store: ResultStore, runs: Iterable[FoundRun]) -> Iterator[list[Row]]:
    """Yield the flat rows of what was found, a few hundred at a time."""
    from results.store.query import read_lots

    for stored_run in runs:
        for records in read_lots(store, stored_run, with_samples=False):
            yield list(flat_rows(stored_run.run, records))


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
