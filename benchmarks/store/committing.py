"""One commit of a measured record with 100 samples into SQLite, beside the least a commit of these bytes can cost."""

from __future__ import annotations

import sqlite3
import struct
import time
from contextlib import closing
from pathlib import Path
from statistics import median

from benchmarks.store.sample_record import SAMPLE_COUNT, again, measured_record, run_info
from benchmarks.timing.interleave import interleaved
from benchmarks.timing.rows import Row
from results import Record, open_store

COMMIT_AIM_S = 0.001


def measure(folder: Path, *, quick: bool) -> list[Row]:
    """Commit record after record, in turn with a bare sqlite3 row; the median over commits."""
    rounds = 60 if quick else 1000
    run = run_info()
    seen = measured_record(run.run_id)
    fresh = iter([measured_record(run.run_id, seed) for seed in range(1, rounds + 2)])
    with (
        open_store(folder / "commit.db") as store,
        closing(sqlite3.connect(folder / "bare.db", isolation_level=None)) as bare,
    ):
        store.begin_run(run)
        for statement in ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=NORMAL"):
            bare.execute(statement)
        bare.execute("CREATE TABLE sample (id INTEGER PRIMARY KEY, samples BLOB)")
        assert seen.measurement is not None
        blob = struct.pack(f"{SAMPLE_COUNT}d", *seen.measurement.samples_s)

        def commit(record: Record) -> float:
            begin = time.perf_counter()
            store.add_record(record)
            return time.perf_counter() - begin

        def floor() -> float:
            begin = time.perf_counter()
            bare.execute("BEGIN")
            bare.execute("INSERT INTO sample (samples) VALUES (?)", (blob,))
            bare.execute("COMMIT")
            return time.perf_counter() - begin

        contestants = {"seen": lambda: commit(again(seen)), "fresh": lambda: commit(next(fresh)), "floor": floor}
        for contestant in contestants.values():
            contestant()
        seconds = {name: median(values) for name, values in interleaved(contestants, rounds).items()}
    rival = "bare sqlite3, one row"
    return [
        Row(
            f"commit of one record, {SAMPLE_COUNT} samples",
            seconds["seen"],
            rounds,
            COMMIT_AIM_S,
            rival,
            seconds["floor"],
            "the rival is no equal: it is what a commit of the samples alone costs on this disk",
        ),
        Row("… of a case never stored before", seconds["fresh"], rounds, COMMIT_AIM_S, rival, seconds["floor"]),
    ]
