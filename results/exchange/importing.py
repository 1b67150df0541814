"""The door: any file that can be imported, read whole and checked before anything is stored, and never stored twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from results.exchange.exported.export import ExportedRun
from results.exchange.exported.import_checks import check_run
from results.exchange.exported.load import ImportReport, add_exported, parse_exports, reading_errors
from results.exchange.files import OURS, Recognised, recognise
from results.exchange.foreign import ForeignFile, Stated, printable
from results.exchange.kernel_rows import KIND as KERNEL_TABLE
from results.exchange.to_records import ForeignRun, to_records
from results.store.query import runs_of_records

if TYPE_CHECKING:
    from results.records.records import Record
    from results.store.store import ResultStore

Advance = Callable[[str, int, int], None]
"""What is done now, steps done, all steps."""


@dataclass(frozen=True, slots=True)
class ReadFile:
    """A file that was read and checked; nothing of it is stored yet. One of the two is filled."""

    path: Path
    kind: str
    exported: tuple[ExportedRun, ...] = ()
    foreign: ForeignRun | None = None


def read_any(path: str | Path, stated: Stated | None = None, *, advance: Advance | None = None) -> ReadFile:
    """Return the contents of a file; foreign measurements come with their predictions.

    Raises `InvalidValueError` for a file that is none of the known ones, `StoreError` naming file, record and field
    where it is one but damaged, `RooflineError` for a model or format that nobody knows.
    """
    file, identity = Path(path), stated or Stated()
    tell = advance or (lambda what, done, total: None)
    recognised = recognise(file)
    with reading_errors(file, is_ours=recognised.kind == OURS):
        if recognised.kind == OURS:
            return ReadFile(file, OURS, exported=tuple(parse_exports(recognised.content)))
        foreign = _foreign(recognised, identity, tell)
        run = to_records(
            foreign, identity, started_at=_modified(file), advance=lambda done, total: tell("predicting", done, total)
        )
        check_run(ExportedRun(run.run, run.profiles, run.records))
    return ReadFile(file, foreign.kind, foreign=run)


def store_read(store: ResultStore, read: ReadFile) -> ImportReport:
    """Add what a file holds to the store, each run all or nothing; what is there already keeps every number."""
    if read.foreign is None:
        return add_exported(store, read.exported)
    foreign = read.foreign
    owners = runs_of_records(store, [record.record_id for record in foreign.records])
    # The same measurement may have come with another file: it stays where it is.
    elsewhere = {identity: run for identity, run in owners.items() if run != foreign.run.run_id}
    records = [record for record in foreign.records if record.record_id not in elsewhere]
    run_ids = dict.fromkeys(elsewhere.values())
    stored_records = [record for run in dict.fromkeys(owners.values()) for record in store.records(run)]
    stored_records = [record for record in stored_records if record.record_id in owners]
    read_now = {record.record_id: _predicted(record) for record in foreign.records}
    differing = sum(_predicted(record) != read_now[record.record_id] for record in stored_records)
    added = present = 0
    if records:
        added, present = store.add_run(foreign.run, foreign.profiles, records)
        run_ids = dict.fromkeys((foreign.run.run_id, *run_ids))
    duplicates = present + len(elsewhere) + foreign.repeated_count
    return ImportReport(tuple(run_ids), added, duplicates, differing, stored_records=tuple(stored_records))


def as_stored(foreign: ForeignRun, report: ImportReport) -> ForeignRun:
    """Return a run as the store has it after the import: what was there already keeps its chip and its predictions."""
    stored_by_id = {record.record_id: record for record in report.stored_records}
    records = tuple(stored_by_id.get(record.record_id, record) for record in foreign.records)
    chip = foreign.chip
    keys = {prediction.hardware_key for record in records for prediction in record.predictions}
    if chip is not None and keys != {chip.key}:
        chip = None
    return replace(foreign, records=records, chip=chip)


def _predicted(record: Record) -> list[tuple[str, str, float]]:
    return [(each.kind, each.hardware_key, each.time_s) for each in record.predictions]


def import_any(store: ResultStore, path: str | Path, stated: Stated | None = None) -> ImportReport:
    """Read a file and add what it holds to the store. Raises as `read_any` and `StoreError` as `add_run`."""
    return store_read(store, read_any(path, stated))


def _foreign(recognised: Recognised, stated: Stated, tell: Advance) -> ForeignFile:
    from results.exchange import llama_bench
    from results.exchange.kernel_rows import read_kernel_rows
    from results.exchange.llama_rows import read_llama_bench
    from results.exchange.pytest_benchmark import KIND as PYTEST_BENCHMARK
    from results.exchange.pytest_benchmark import read_pytest_benchmark
    from results.exchange.vllm_bench import read_vllm

    name = printable(recognised.path.name)[:160]
    if recognised.kind == KERNEL_TABLE:
        return read_kernel_rows(recognised.path, lambda done, total: tell("predicting", done, total))
    if recognised.kind == PYTEST_BENCHMARK:
        return read_pytest_benchmark(recognised.content, name, stated)
    if recognised.form == "csv":
        return read_llama_bench(llama_bench.rows_of_csv(recognised.path), name, stated)
    if recognised.form == "markdown":
        return read_llama_bench(llama_bench.rows_of_markdown(recognised.content.splitlines()), name, stated)
    prefix = "line " if recognised.form == "json lines" else ""
    numbered = [
        (f"{prefix}{i + 1}" if prefix else f"[{i}]" if len(recognised.content) > 1 else "", entry)
        for i, entry in enumerate(recognised.content)
    ]
    if recognised.kind == llama_bench.KIND:
        located = [(where or "[0]", entry) for where, entry in numbered]
        return read_llama_bench(llama_bench.rows_of_objects(located), name, stated)
    return read_vllm(numbered, name, stated)


def _modified(path: Path) -> str:
    return datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat(timespec="microseconds")
