"""Writing 5,000 records of 100 samples to a file: what `roofline export` takes for a large run, in each format."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.store.sample_record import again, measured_record, run_info
from benchmarks.timing.rows import Row
from results import open_store
from results.exchange.exported.export import write_json, write_rows
from results.exchange.exported.parquet import write_parquet
from results.store.query import FoundRun, RecordQuery, find_records
from results.store.store import ResultStore

RECORD_COUNT = 5_000
AIM_S = 10.0
_CASES = 100


def measure(folder: Path, *, quick: bool) -> list[Row]:
    """Fill one database and write it once in each format; with a question over all runs first."""
    count, aim_s = (RECORD_COUNT // 50, None) if quick else (RECORD_COUNT, AIM_S)
    run = run_info()
    kinds = [measured_record(run.run_id, seed) for seed in range(_CASES)]
    with open_store(folder / "export.db") as store:
        store.add_run(run, [], [again(kinds[number % _CASES]) for number in range(count)])
        ways: dict[str, Callable[[list[FoundRun]], object]] = {
            "JSON with all samples": partial(_json, store, folder / "run.json"),
            "CSV": partial(_csv, store, folder / "run.csv"),
            "Parquet": lambda records: write_parquet(store, records, folder / "run.parquet"),
        }
        rows = []
        for name, write in ways.items():
            begin = time.perf_counter()
            write(find_records(store, RecordQuery(("gemv",))))
            rows.append(Row(f"export {count:,} records as {name}", time.perf_counter() - begin, 1, aim_s))
    return rows


def _json(store: ResultStore, path: Path, runs: list[FoundRun]) -> None:
    with path.open("w", encoding="utf-8") as stream:
        write_json(store, runs, stream, is_part=False)


def _csv(store: ResultStore, path: Path, runs: list[FoundRun]) -> None:
    with path.open("w", encoding="utf-8", newline="") as stream:
        write_rows(store, runs, stream)
