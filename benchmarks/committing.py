"""One commit of a measured record with 100 samples into SQLite, beside the least a commit of these bytes can cost."""

from __future__ import annotations

import sqlite3
import struct
import time
from contextlib import closing
from pathlib import Path
from statistics import median

from benchmarks.interleave import interleaved
from benchmarks.rows import Row
from benchmarks.sample_record import SAMPLE_COUNT, again, measured_record, run_info
from results import open_store

COMMIT_AIM_S = 0.001


def measure(folder: Path, *, quick: bool) -> list[Row]:
    """Commit record after record, in turn with a bare sqlite3 row; the median over commits."""
    rounds = 60 if quick else 1000
    run = run_info()
    models = [measured_record(run.run_id, seed) for seed in range(64)]
    with (
        open_store(folder / "commit.db") as store,
        closing(sqlite3.connect(folder / "bare.db", isolation_level=None)) as bare,
    ):
        store.begin_run(run)
        for statement in ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=NORMAL"):
            bare.execute(statement)
        bare.execute("CREATE TABLE sample (id INTEGER PRIMARY KEY, samples BLOB)")
        records = iter([again(models[number % 64]) for number in range(rounds + 64)])
        blob = struct.pack(f"{SAMPLE_COUNT}d", *models[0].measurement.samples_s)  # type: ignore[union-attr]

        def ours() -> float:
            record = next(records)
            begin = time.perf_counter()
            store.add_record(record)
            return time.perf_counter() - begin

        def floor() -> float:
            begin = time.perf_counter()
            bare.execute("BEGIN")
            bare.execute("INSERT INTO sample (samples) VALUES (?)", (blob,))
            bare.execute("COMMIT")
            return time.perf_counter() - begin

        for _ in range(64):  # each case once: its row is shared by all later records of the case
            ours()
            floor()
        seconds = interleaved({"ours": ours, "floor": floor}, rounds)
    return [
        Row(
            f"commit of one record, {SAMPLE_COUNT} samples", median(seconds["ours"]), rounds, COMMIT_AIM_S,
            "bare sqlite3, one row", median(seconds["floor"]), "the rival is no equal: it is what WAL costs on this disk for the samples alone",
        )
    ]  # fmt: skip
