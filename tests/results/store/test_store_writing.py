"""Transactions: one per record, safe from kill -9, from other processes and from rows deleted under our feet."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import results
from results.records.records import ProcessInfo, Record, RunInfo
from results.store.store import ResultStore, open_store
from roofline_model.core.errors import StoreError

ROOT = Path(results.__file__).parents[1]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}

WRITER = """
import sys, uuid
from results import Measurement, Method, ProcessInfo, Record, RunInfo, open_store
from roofline_model.operators.case import Case
target, run_id, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
print("ready"); sys.stdin.readline()
with open_store(target) as store:
    store.begin_run(RunInfo(run_id, "2026-03-01T10:00:00"))
    measurement = Measurement((1e-5,) * 500, 1, 1e-5, 1e-5, 1e-5, 1e-5, 0.0, 1e-5, 1e-5, 500, None, None, "converged")
    for number in range(count):
        case = Case("gemv", (("M", 1), ("N", number % 7 + 1), ("K", 64)), (("a", "BF16"), ("b", "BF16")), "matmul")
        record = Record(uuid.uuid4().hex, run_id, case, "measured", method=Method("monotonic", "1", {}), measurement=measurement)
        store.add_record(record)
        print(record.record_id)
    store.finish_run(run_id, status="complete", exit_code=0, finished_at="2026-03-01T11:00:00")
"""


def start_writer(target: Path | str, run_id: str, count: int) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(WRITER), str(target), run_id, str(count)],
        env=ENVIRONMENT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_kill_minus_nine_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "results.db"
    process = start_writer(path, "a" * 32, 1_000_000)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    acknowledged = [process.stdout.readline().strip() for _ in range(40)]
    process.send_signal(signal.SIGKILL)
    rest, _ = process.communicate()
    lines = rest.split("\n")
    acknowledged += lines[:-1]  # the last line may be cut short
    assert process.returncode == -signal.SIGKILL
    with open_store(path) as store:
        stored = store.records("a" * 32)
        assert {record.record_id for record in stored} >= set(acknowledged)
        assert all(record.measurement is not None and len(record.measurement.samples_s) == 500 for record in stored)
        assert store.resolve_run("aaaa").status == "running"
    with sqlite3.connect(path) as raw:
        assert raw.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert raw.execute("PRAGMA foreign_key_check").fetchall() == []


def test_four_processes_opening_a_new_database_at_once(target: Path | str) -> None:
    processes = [start_writer(target, f"{number:x}" * 32, 5) for number in range(4)]
    for process in processes:  # all are past their imports: now they race
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    ended = [(process.communicate(timeout=60)[1], process.returncode) for process in processes]
    assert ended == [("", 0)] * 4
    with open_store(target) as store:
        assert len(store.runs()) == 4
        assert [len(store.records(run.run_id)) for run in store.runs()] == [5] * 4
    if isinstance(target, Path):
        assert sorted(item.name for item in target.parent.iterdir()) == ["results.db"]


def test_threads_share_a_store(store: ResultStore, run: RunInfo, make_record: Callable[..., Record]) -> None:
    given = [make_record(run.run_id, process=ProcessInfo(number % 4)) for number in range(40)]

    def add(mine: list[Record]) -> None:
        for record in mine:
            store.add_record(record)

    threads = [threading.Thread(target=add, args=(given[start::4],)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    key = lambda record: record.record_id  # noqa: E731
    assert sorted(store.records(run.run_id), key=key) == sorted(given, key=key)


def test_two_stores_on_one_database(
    target: Path | str, make_run: Callable[..., RunInfo], make_record: Callable[..., Record]
) -> None:
    run = make_run()
    with open_store(target) as first, open_store(target) as two:
        first.begin_run(run)
        records = [make_record(run.run_id) for _ in range(4)]
        for store, record in zip((first, two, first, two), records, strict=True):
            store.add_record(record)  # the same case, method and process: found, not inserted twice
        assert first.records(run.run_id) == two.records(run.run_id) == records


def test_rows_deleted_by_somebody_else_are_made_again(
    tmp_path: Path, make_run: Callable[..., RunInfo], make_record: Callable[..., Record]
) -> None:
    run = make_run()
    with open_store(tmp_path / "r.db") as store:
        store.begin_run(run)
        store.add_record(make_record(run.run_id))
        with sqlite3.connect(tmp_path / "r.db") as raw:
            raw.execute("PRAGMA foreign_keys = ON")
            raw.execute("DELETE FROM record")
            raw.execute('DELETE FROM "case"')
            raw.execute("DELETE FROM method")
        again = make_record(run.run_id)
        store.add_record(again)
        assert store.records(run.run_id) == [again]


def test_deleting_a_run_deletes_what_belongs_to_it_and_only_that(
    tmp_path: Path, make_run: Callable[..., RunInfo], make_record: Callable[..., Record]
) -> None:
    gone, other_run = make_run(), make_run()
    with open_store(tmp_path / "r.db") as store:
        for run in (gone, other_run):
            store.begin_run(run)
            store.add_record(make_record(run.run_id))
        with sqlite3.connect(tmp_path / "r.db") as raw:
            raw.execute("PRAGMA foreign_keys = ON")
            raw.execute("DELETE FROM run WHERE run_id = ?", (gone.run_id,))
            for table in ("process", "record", "measurement", "prediction"):
                assert raw.execute(f"SELECT count(*) FROM {table}").fetchone() == (1,), table
        assert len(store.records(other_run.run_id)) == 1
        with pytest.raises(StoreError, match="begin_run"):
            store.add_record(make_record(gone.run_id))  # remembered, but no longer there


def test_ids_are_never_given_twice(store: ResultStore, run: RunInfo, make_record: Callable[..., Record]) -> None:
    record = make_record(run.run_id)
    store.add_record(record)
    with pytest.raises(StoreError, match="already in"):
        store.begin_run(run)
    with pytest.raises(StoreError, match="already in"):
        store.add_record(record)
    assert store.records(run.run_id) == [record]


def test_a_record_needs_its_run(store: ResultStore, make_record: Callable[..., Record]) -> None:
    with pytest.raises(StoreError, match="begin_run"):
        store.add_record(make_record("0" * 32))
    with pytest.raises(StoreError, match="begin_run"):
        store.finish_run("0" * 32, status="complete", exit_code=0, finished_at=None)


def test_finishing_a_run_changes_only_its_end(store: ResultStore, make_run: Callable[..., RunInfo]) -> None:
    from dataclasses import replace

    run = make_run(label="nightly")
    store.begin_run(run)
    store.finish_run(run.run_id, status="interrupted", exit_code=2, finished_at="2026-03-01T12:00:00")
    assert store.runs() == [replace(run, status="interrupted", exit_code=2, finished_at="2026-03-01T12:00:00")]


def test_a_profile_is_stored_once(store: ResultStore, profile: results.HardwareProfile) -> None:
    store.add_profile(profile)
    store.add_profile(profile)
    assert store.profile(profile.profile_hash) == profile
    assert store.profile("nobody") is None


def test_the_history_key_is_stored_as_the_record_computes_it(
    tmp_path: Path, make_run: Callable[..., RunInfo], make_record: Callable[..., Record]
) -> None:
    run = make_run()
    with open_store(tmp_path / "r.db") as store:
        store.begin_run(run)
        record = make_record(run.run_id)
        store.add_record(record)
    with sqlite3.connect(tmp_path / "r.db") as raw:
        stored = raw.execute("SELECT history_key FROM record").fetchone()
    assert stored == (record.history_key(run.environment.class_hash),)
