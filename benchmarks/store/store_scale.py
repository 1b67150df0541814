"""The store at a million results: opening, the newest run, one run's records, one case's history, and an upgrade."""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from statistics import median

from benchmarks.store.large_store import fill
from benchmarks.timing.rows import Row
from results import open_store
from results.history.reading import read_series
from results.records.metrics import METRICS
from results.store.migrate import upgrade
from results.store.target import parse_target

OPEN_AIM_S = 0.05
HISTORY_AIM_S = 0.1


def measure(folder: Path, *, quick: bool) -> list[Row]:
    """Fill a SQLite file (half a gigabyte; `quick`: 20,000 results) and ask it what the commands ask."""
    runs, cases = (200, 100) if quick else (1000, 1000)
    rounds = 5 if quick else 11
    database = folder / "large.db"
    last = fill(database, runs, cases)
    count = f"{runs * cases:,} results"

    def opened() -> None:
        open_store(database).close()

    with open_store(database, read_only=True) as store:
        case_key = store.records(last.run_id, with_samples=False)[cases // 2].case.case_key
        latest = _seconds(rounds, lambda: store.resolve_run("latest"))
        records = _seconds(rounds, lambda: store.records(last.run_id, with_samples=False))
        history = _seconds(rounds, lambda: read_series(store, METRICS["time"], case_key=case_key))
    rows = [
        Row(f"open a database of {count}", _seconds(rounds, opened), rounds, OPEN_AIM_S),
        Row("… the newest complete run", latest, rounds),
        Row(f"… the {cases:,} records of a run", records, rounds),
        Row(f"… one case's {runs:,} results", history, rounds, HISTORY_AIM_S),
    ]
    return [*rows, _upgraded(database, folder, count)]


def _upgraded(database: Path, folder: Path, count: str) -> Row:
    """Take today's tables back to schema 1 by hand and upgrade them again."""
    old = folder / "old.db"
    shutil.copy(database, old)
    with closing(sqlite3.connect(old)) as raw:
        for table in ("energy", "machine_state", "attribution", "canary", "noise_floor"):
            raw.execute(f"DROP TABLE {table}")
        for table, column in (
            ("process", "role"),
            ("process", "end_reason"),
            ("measurement", "clocks"),
            ("measurement", "effective_sample_count"),
            ("measurement", "outlier_count"),
            ("prediction", "terms_s"),
        ):
            raw.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
        raw.execute("UPDATE alembic_version SET version_num = '0001'")
        raw.commit()
    begin = time.perf_counter()
    upgrade(parse_target(old))
    seconds = time.perf_counter() - begin
    old.unlink()
    return Row(f"upgrade of {count} from schema 1, its backup included", seconds, 1)


def _seconds(rounds: int, work: Callable[[], object]) -> float:
    """Return the median time of a call after a first one."""
    work()
    taken = []
    for _ in range(rounds):
        begin = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begin)
    return median(taken)
