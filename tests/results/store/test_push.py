"""Runs pushed to another database: every value, once, in both directions; a server that goes away loses nothing."""

from __future__ import annotations

import json
import math
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
import warm_start

import results
from results.exchange.exported.export import export_run_json
from results.records.records import ProcessInfo, Record, RunInfo
from results.records.state_records import CanaryReading, NoiseFloor
from results.store import connection, write
from results.store.connection import is_passing
from results.store.push import PushedRun, finished_runs, push
from results.store.store import ResultStore, open_store
from roofline_model.core.errors import DatabaseAwayError, StoreError

ROOT = Path(results.__file__).parents[1]
ENDED = {"status": "complete", "exit_code": 0, "finished_at": "2026-03-01T11:00:00.000000+00:00"}


@pytest.fixture
def source(
    tmp_path: Path,
    make_run: Callable[..., RunInfo],
    make_record: Callable[..., Record],
    profile: results.HardwareProfile,
) -> Iterator[ResultStore]:
    """Two finished runs with all that belongs to one and what is hard to carry, and one in progress."""
    with open_store(tmp_path / "source.db") as store:
        store.add_profile(profile)
        for _ in range(2):
            run = make_run(label="it's \x1b[2J <b>")
            store.begin_run(run)
            records = [
                make_record(
                    run.run_id,
                    process=ProcessInfo(number % 2),
                    extra={"nan": math.nan, "text": "\ud800", "order": {"z": 1, "a": 2}},
                )
                for number in range(5)
            ]
            for record in records:
                store.add_record(record)
            store.flag_records([records[3].record_id], "quarantined")
            store.end_process(run.run_id, ProcessInfo(9), "killed by SIGSEGV")
            store.add_canary(run.run_id, CanaryReading(0, 0, run.started_at, "copy", 1e-3, 5e-4, True))
            floor = NoiseFloor(run.environment.class_hash, "k", "m", 0.01, None, 4, run.started_at)
            store.add_noise_floors([floor])
            store.finish_run(run.run_id, status="complete", exit_code=0, finished_at="2026-03-01T11:00:00+00:00")
        begun = make_run()
        store.begin_run(begun)
        store.add_record(make_record(begun.run_id))
        yield store


def pushed(source: ResultStore, target: ResultStore) -> list[PushedRun]:
    return list(push(source, target, finished_runs(source)))


def same(source: ResultStore, target: ResultStore, run: RunInfo) -> bool:
    return repr(export_run_json(source, run.run_id)) == repr(export_run_json(target, run.run_id))


def test_there_and_back_is_the_same_and_comes_once(
    source: ResultStore, store: ResultStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write, "AT_ONCE", 2)  # several lots
    assert [each.added_count for each in pushed(source, store)] == [5, 5]
    assert [each.added_count for each in pushed(source, store)] == [0, 0]
    assert {run.run_id for run in store.runs()} == {run.run_id for run in finished_runs(source)}
    with open_store(tmp_path / "back.db") as back:
        assert [each.added_count for each in pushed(store, back)] == [5, 5]
        for run in finished_runs(source):
            assert same(source, store, run)
            assert same(source, back, run)


def test_a_push_that_was_broken_off_goes_on_and_half_a_run_is_no_finished_one(
    source: ResultStore, store: ResultStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write, "AT_ONCE", 2)
    real = store.add_run
    calls = iter(range(100))

    def broken(*arguments: Any, **named: Any) -> tuple[int, int]:
        if next(calls) == 3:
            raise KeyboardInterrupt
        return real(*arguments, **named)

    monkeypatch.setattr(store, "add_run", broken)
    with pytest.raises(KeyboardInterrupt):
        pushed(source, store)
    (half,) = store.runs()
    assert half.status == "running"
    assert len(store.records(half.run_id)) == 4
    assert [each.added_count for each in pushed(source, store)] == [1, 5]
    assert all(same(source, store, run) for run in finished_runs(source))


def test_what_the_target_holds_besides_stays_and_new_records_follow(
    source: ResultStore, store: ResultStore, make_run: Callable[..., RunInfo], make_record: Callable[..., Record]
) -> None:
    mine = make_run()
    store.begin_run(mine)
    store.add_record(make_record(mine.run_id))
    before = store.records(mine.run_id)
    pushed(source, store)
    late = make_record(mine.run_id)
    store.add_record(late)
    assert store.records(mine.run_id) == [*before, late]


def test_a_run_in_progress_is_pushed_by_name_only_and_ends_later(
    source: ResultStore, store: ResultStore, make_record: Callable[..., Record]
) -> None:
    (begun,) = [run for run in source.runs() if run.status == "running"]
    assert [each.added_count for each in push(source, store, [begun])] == [1]
    assert store.resolve_run(begun.run_id).status == "running"
    source.add_record(make_record(begun.run_id))
    source.finish_run(begun.run_id, status="interrupted", exit_code=2, finished_at="2026-03-01T11:00:00+00:00")
    assert sorted(each.added_count for each in pushed(source, store)) == [1, 5, 5]
    assert same(source, store, begun)


def test_the_same_database_is_refused(source: ResultStore) -> None:
    with pytest.raises(StoreError, match="same database"):
        pushed(source, source)


def test_a_server_that_goes_away_is_an_error_and_the_next_push_sends_all(
    mortal_postgres: Any, postgres_server: Callable[..., str], source: ResultStore
) -> None:
    with open_store(postgres_server(with_tables=True, durable=True)) as store:
        pushing = push(source, store, finished_runs(source))
        assert next(pushing).added_count == 5
        mortal_postgres.kill()
        with pytest.raises(DatabaseAwayError, match=r"start PostgreSQL|not there at the moment"):
            next(pushing)
        with pytest.raises(StoreError, match=r"start PostgreSQL|not there at the moment"):
            store.runs()
        mortal_postgres.start()
        assert [each.added_count for each in pushed(source, store)] == [0, 5]
        assert all(same(source, store, run) for run in finished_runs(source))


def test_rows_that_somebody_holds_make_the_run_wait(
    postgres_server: Callable[..., str], source: ResultStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "LOCK_TIMEOUT_S", 0.1)  # "0.1s" is 100 ms to PostgreSQL
    url = postgres_server(with_tables=True)
    with open_store(url) as store, open_store(url) as other:

        def hold(held: sa.Connection) -> None:
            held.execute(sa.text("LOCK TABLE measurement IN ACCESS EXCLUSIVE MODE"))
            with pytest.raises(DatabaseAwayError, match="locked by another session"):
                pushed(source, store)

        other.transact("holding", hold)
        assert sum(each.added_count for each in pushed(source, store)) == 10


# A run that names a server ---------------------------------------------------------------------------------------

INNER = """
import os, signal, time, psutil, pytest
from contextlib import suppress
from roofline_model import OpCost

@pytest.mark.parametrize("i", range(4))
def test_case(roofline, i):
    if i == 2 and os.environ.get("POSTMASTER"):
        server = psutil.Process(int(os.environ["POSTMASTER"]))
        server.send_signal(signal.SIGQUIT)
        with suppress(psutil.NoSuchProcess):
            while server.status() != "zombie":
                time.sleep(0.005)
    roofline.measure(lambda: None, work=OpCost(read_bytes=1e6))
"""


def test_a_run_whose_server_dies_ends_as_it_would_have_and_the_next_one_pushes_it(
    mortal_postgres: Any, postgres_server: Callable[..., str], tmp_path: Path
) -> None:
    url = postgres_server(with_tables=True, durable=True)
    (tmp_path / "test_it.py").write_text(INNER)

    def run(*more: str, **environment: str) -> subprocess.CompletedProcess[str]:
        options = "--hw b10 --roofline-timer simulated --roofline-json run.json -p no:cacheprovider"
        env = {**os.environ, "PYTHONPATH": str(ROOT), "ROOFLINE_DB": url, **environment}
        return warm_start.run("pytest", "-q", *options.split(), *more, cwd=tmp_path, env=env)

    done = run(POSTMASTER=str(mortal_postgres.pid))
    assert done.returncode == 0, done.stdout
    (path,) = (tmp_path / ".roofline" / "unpushed").glob("*.db")
    assert (path.parent / ".gitignore").read_text() == "*\n"
    assert f"the run is in {path}" in done.stdout
    assert len(json.loads((tmp_path / "run.json").read_text())["records"]) == 4
    with open_store(path, read_only=True) as local:
        (waiting,) = local.runs()
        assert waiting.status == "complete"
    mortal_postgres.start()
    done = run("--roofline-baseline", "latest")
    assert done.returncode == 0, done.stdout
    assert "are stored now: 4 new" in done.stdout
    with open_store(url, read_only=True) as store:
        runs = store.runs()
        assert [stored_run.status for stored_run in runs] == ["complete", "complete"]
        assert [len(store.records(stored_run.run_id)) for stored_run in runs] == [4, 4]
    with open_store(path, read_only=True) as local:
        assert local.runs() == []
    done = run("--roofline-baseline", "latest")  # read from the server, where the local file holds this run alone
    assert done.returncode == 0, done.stdout
    assert runs[0].run_id[:8] in done.stdout


def test_a_server_that_refuses_the_run_for_good_fails_it_and_the_run_is_named(
    postgres_server: Callable[..., str], tmp_path: Path
) -> None:
    url = postgres_server(with_tables=True)
    code = INNER.replace("import os,", "import os, psycopg,").replace(
        "    if i == 2 and",
        "    if i == 2:\n        with psycopg.connect(os.environ['PLAIN']) as raw:\n"
        "            raw.execute('DROP TABLE record CASCADE')\n    if i == 2 and",
    )
    (tmp_path / "test_it.py").write_text(code)
    env = {**os.environ, "PYTHONPATH": str(ROOT), "ROOFLINE_DB": url, "PLAIN": url.replace("+psycopg", "")}
    done = warm_start.run("pytest", "-q", "--hw", "b10", "--roofline-timer", "simulated", cwd=tmp_path, env=env)
    assert done.returncode == 2, done.stdout
    (path,) = (tmp_path / ".roofline" / "unpushed").glob("*.db")
    assert f"the run is in {path}" in done.stdout + done.stderr
    with open_store(path, read_only=True) as local:
        (run,) = local.runs()
        assert (run.status, len(local.records(run.run_id))) == ("complete", 4)


@pytest.mark.parametrize(
    ("message", "state", "passes"),
    [
        ('connection to server at "db" failed: Connection refused', None, True),
        ("the connection is lost", None, True),
        ("terminating connection due to administrator command", "57P01", True),
        ("could not extend file: No space left on device", "53100", True),
        ("deadlock detected", "40P01", True),
        ("cannot execute INSERT in a read-only transaction", "25006", True),
        ("canceling statement due to user request", "57014", False),
        ('password authentication failed for user "bob"', None, False),
        ('database "bench" does not exist', None, False),
        ("division by zero", "22012", False),
    ],
)
def test_what_passes_by_itself(message: str, state: str | None, passes: bool) -> None:
    class OperationalError(Exception):
        sqlstate = state

    assert is_passing(sa.exc.DBAPIError("INSERT", None, OperationalError(message))) is passes


def test_an_error_of_sqlite_never_passes_for_a_server_that_is_away() -> None:
    import sqlite3

    locked = sqlite3.OperationalError("database is locked")
    assert not is_passing(sa.exc.OperationalError("INSERT", None, locked))
    assert not is_passing(ValueError("no"))
    assert is_passing(sa.exc.TimeoutError("QueuePool limit reached"))
