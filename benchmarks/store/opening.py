"""Opening a database that is up to date: what every `roofline` command and every pytest run pays before its work."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.store.sample_record import measured_record, run_info
from benchmarks.timing.interleave import differences, interleaved, run_seconds
from benchmarks.timing.rows import Row
from results import open_store


def measure(folder: Path, *, quick: bool) -> list[Row]:
    """Open in a process that has SQLAlchemy loaded already, and in fresh ones."""
    rounds, starts = (9, 3) if quick else (101, 15)
    database = folder / "open.db"
    run = run_info()
    with open_store(database) as store:
        store.begin_run(run)
        store.add_record(measured_record(run.run_id))

    def ours() -> float:
        begin = time.perf_counter()
        with open_store(database):
            return time.perf_counter() - begin

    def floor() -> float:
        begin = time.perf_counter()
        with closing(sqlite3.connect(database)) as connection:
            connection.execute("SELECT * FROM alembic_version").fetchall()
            return time.perf_counter() - begin

    ours(), floor()
    warm = interleaved({"ours": ours, "floor": floor}, rounds)
    code = f"from results import open_store; open_store({str(database)!r}).close()"
    programs = {"bare": "pass", "ours": code, "library": "import sqlalchemy"}
    fresh = interleaved({name: partial(run_seconds, ["-c", text], folder) for name, text in programs.items()}, starts)
    return [
        Row(
            "open an up-to-date database",
            median(warm["ours"]),
            rounds,
            None,
            "bare sqlite3 + one query",
            median(warm["floor"]),
        ),
        Row(
            "… in a fresh process, above bare Python",
            median(differences(fresh["ours"], fresh["bare"])),
            starts,
            None,
            "import sqlalchemy",
            median(differences(fresh["library"], fresh["bare"])),
        ),
    ]
