"""Importing 10,000 results at once into SQLite: an exported run, or the nights of another machine."""

from __future__ import annotations

import sqlite3
import struct
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from statistics import median

from benchmarks.store.sample_record import SAMPLE_COUNT, again, measured_record, run_info
from benchmarks.timing.interleave import interleaved
from benchmarks.timing.rows import Row
from results import open_store

IMPORT_AIM_S = 3.0


def measure(folder: Path, *, quick: bool) -> list[Row]:
    """Add a run of 10,000 records (`quick`: 500) of 100 cases, in turn with bare rows of the same samples."""
    count, rounds = (500, 2) if quick else (10_000, 3)
    seen = [measured_record("", seed) for seed in range(100)]
    assert seen[0].measurement is not None
    blob = struct.pack(f"{SAMPLE_COUNT}d", *seen[0].measurement.samples_s)

    def ours() -> float:
        run = run_info()
        records = [replace(again(seen[number % 100]), run_id=run.run_id) for number in range(count)]
        with open_store(folder / "import.db") as store:
            begin = time.perf_counter()
            store.add_run(run, [], records)
            return time.perf_counter() - begin

    def floor() -> float:
        with closing(sqlite3.connect(folder / "bare.db", isolation_level=None)) as bare:
            bare.execute("CREATE TABLE IF NOT EXISTS sample (id INTEGER PRIMARY KEY, samples BLOB)")
            begin = time.perf_counter()
            bare.execute("BEGIN")
            bare.executemany("INSERT INTO sample (samples) VALUES (?)", ((blob,) for _ in range(count)))
            bare.execute("COMMIT")
            return time.perf_counter() - begin

    open_store(folder / "import.db").close()
    seconds = {name: median(values) for name, values in interleaved({"ours": ours, "floor": floor}, rounds).items()}
    return [
        Row(
            f"import of {count:,} records, {SAMPLE_COUNT} samples each",
            seconds["ours"],
            rounds,
            IMPORT_AIM_S if not quick else None,
            "bare sqlite3, one row each",
            seconds["floor"],
            "the rival is no equal: it stores the samples alone",
        ),
    ]
