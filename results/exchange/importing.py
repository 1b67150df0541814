"""The door: any file that can be imported, read whole and checked before anything is stored, and never stored twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from results.exchange import llama_bench
from results.exchange.exported.import_checks import check_run
from results.exchange.exported.load import ImportReport, add_exported, parse_exports, reading_errors
from results.exchange.files import OURS, recognise
from results.exchange.foreign import ReadFile, Stated, printable
from results.exchange.kernel_rows import KIND as KERNEL_TABLE
from results.exchange.kernel_rows import read_kernel_rows
from results.exchange.llama_rows import read_llama_bench
from results.exchange.pytest_benchmark import KIND as PYTEST_BENCHMARK
from results.exchange.pytest_benchmark import read_pytest_benchmark
from results.exchange.to_records import to_records
from results.exchange.vllm_bench import read_vllm
from results.store.query import runs_of_records

if TYPE_CHECKING:
    from results.records.records import Record
    from results.store.store import ResultStore

Advance = Callable[[str, int, int], None]
"""What is done now, steps done, all steps."""


_READERS = {PYTEST_BENCHMARK: read_pytest_benchmark, llama_bench.KIND: read_llama_bench, "vllm": read_vllm}


def read_any(path: str | Path, stated: Stated | None = None, *, advance: Advance | None = None) -> ReadFile:
    """Return the contents of a file, read and checked; nothing of it is stored yet. Foreign measurements come with
    their predictions.

    Raises `InvalidValueError` for a file that is none of the known ones, `StoreError` naming file, record and field
    where it is one but damaged, `RooflineError` for a model or format that nobody knows.
    """
    file, stated = Path(path), stated or Stated()
    tell = partial(advance or (lambda what, done, total: None), "predicting")
    recognised = recognise(file)
    with reading_errors(file, is_ours=recognised.kind == OURS):
        if recognised.kind == OURS:
            return ReadFile(tuple(parse_exports(recognised.content)))
        if recognised.kind == KERNEL_TABLE:
            foreign = read_kernel_rows(file, tell)
        else:
            foreign = _READERS[recognised.kind](recognised.content, printable(file.name)[:160], stated)
        modified = datetime.fromtimestamp(file.stat().st_mtime, UTC).isoformat(timespec="microseconds")
        read = to_records(foreign, stated, started_at=modified, advance=tell)
        check_run(read.runs[0])
    return read


def store_read(store: ResultStore, read: ReadFile) -> ImportReport:
    """Add what a file holds to the store, each run all or nothing; what is there already keeps every number."""
    if not read.kind:
        return add_exported(store, read.runs)
    (exported,) = read.runs
    owners = runs_of_records(store, [record.record_id for record in exported.records])
    stored = [record for run in dict.fromkeys(owners.values()) for record in store.records(run)]
    stored = [record for record in stored if record.record_id in owners]
    given = {record.record_id: _predicted(record) for record in exported.records}
    differing = sum(_predicted(record) != given[record.record_id] for record in stored)
    # The same measurement may have come with another file: it stays where it is.
    run_ids = dict.fromkeys(run for run in owners.values() if run != exported.run.run_id)
    records = [record for record in exported.records if owners.get(record.record_id) not in run_ids]
    added = 0
    if records:
        added, _ = store.add_run(exported.run, exported.profiles, records)
        run_ids = dict.fromkeys((exported.run.run_id, *run_ids))
    duplicates = len(exported.records) - added + read.repeated_count
    return ImportReport(tuple(run_ids), added, duplicates, differing, stored_records=tuple(stored))


def as_stored(read: ReadFile, report: ImportReport) -> ReadFile:
    """Return a foreign file as the store has it after the import: what was there already keeps its chip and its
    predictions.
    """
    stored = {record.record_id: record for record in report.stored_records}
    records = tuple(stored.get(record.record_id, record) for record in read.records)
    keys = {prediction.hardware_key for record in records for prediction in record.predictions}
    chip = read.chip if read.chip is not None and keys == {read.chip.key} else None
    return replace(read, runs=(replace(read.runs[0], records=records),), chip=chip)


def _predicted(record: Record) -> list[tuple[str, str, float]]:
    return [(each.kind, each.hardware_key, each.time_s) for each in record.predictions]


def import_any(store: ResultStore, path: str | Path, stated: Stated | None = None) -> ImportReport:
    """Read a file and add what it holds to the store. Raises as `read_any` and `StoreError` as `add_run`."""
    return store_read(store, read_any(path, stated))
