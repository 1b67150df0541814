"""A PostgreSQL server that goes away while a run measures: nothing is lost, nothing is stored twice."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
import warm_start

import results
from results.records.records import ProcessInfo, Record, RunInfo
from results.records.state_records import CanaryReading, NoiseFloor
from results.store import connection
from results.store.connection import is_passing
from results.store.delivery import outbox
from results.store.delivery.outbox import deliver_files, deliver_waiting
from results.store.delivery.spool import Change, Spool, read_spool, spool_files
from results.store.store import ResultStore, open_store
from roofline_model.core.errors import DatabaseAwayError, StoreError
from roofline_model.core.finding import reason_text

ROOT = Path(results.__file__).parents[1]


@pytest.fixture(autouse=True)
def _quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "RETRY_WAITS_S", (0.02, 0.05))
    monkeypatch.setattr(outbox, "DELIVER_EVERY_S", 1000.0)


@pytest.fixture
def url(postgres_server: Callable[..., str]) -> str:
    return postgres_server(with_tables=True, durable=True)


def stored(url: str, run_id: str) -> list[Record]:
    with open_store(url, read_only=True) as store:
        return store.records(run_id)


def test_what_a_killed_server_does_not_take_is_kept_and_delivered_once(
    mortal_postgres: Any,
    url: str,
    tmp_path: Path,
    make_run: Callable[..., RunInfo],
    make_record: Callable[..., Record],
    profile: results.HardwareProfile,
) -> None:
    run = make_run()
    records = [make_record(run.run_id, process=ProcessInfo(number)) for number in range(4)]
    canary = CanaryReading(0, 0, "2026-03-01T10:00:00.000000+00:00", "copy", 1e-3, None, False)
    floor = NoiseFloor("c", "k", "m", 0.01, None, 4, "2026-03-01T10:00:00.000000+00:00")
    with open_store(url, spool=tmp_path / "spool") as store:
        store.begin_run(run)
        for record in records[:2]:
            store.add_record(record)
        mortal_postgres.kill()
        assert store.canary_times("c", "copy") == []  # none is known now
        store.add_profile(profile)
        for record in records[2:]:
            store.add_record(record)
        store.add_canary(run.run_id, canary)
        store.rejudge_canaries(run.run_id, [replace(canary, is_slow=True, reference_s=5e-4)])
        assert store.flag_records([records[0].record_id, records[3].record_id], "quarantined") == 0
        store.end_process(run.run_id, ProcessInfo(9), "killed by SIGSEGV")
        store.add_noise_floors([floor])
        store.finish_run(run.run_id, status="complete", exit_code=0, finished_at="2026-03-01T11:00:00+00:00")
        assert store.record_ids(run.run_id) == {record.record_id for record in records[2:]}
        left = store.deliver()
        assert left is not None
        assert left.record_count == 2
        assert left.finding.value("record_count") == 2
    (path,) = spool_files(tmp_path / "spool")
    assert (tmp_path / "spool" / ".gitignore").read_text() == "*\n"
    copy = tmp_path / path.name
    shutil.copy(path, copy)
    mortal_postgres.start()
    with open_store(url, spool=tmp_path / "spool") as store:
        (delivery,) = deliver_waiting(store, tmp_path / "spool")
        assert (delivery.outcome, delivery.record_count, delivery.added_count) == ("delivered", 2, 2)
        (again,) = deliver_files(store, [copy])  # a file that was copied, or whose removal was lost in a power cut
        assert (again.outcome, again.record_count, again.added_count) == ("delivered", 2, 0)
        assert spool_files(tmp_path / "spool") == []
        delivered = store.records(run.run_id)
        flagged = [record.record_id for record in delivered if "quarantined" in record.measurement.flags]  # type: ignore[union-attr]
        assert flagged == [records[0].record_id, records[3].record_id]
        assert [record.record_id for record in delivered] == [record.record_id for record in records]
        assert delivered[2] == records[2]
        assert store.resolve_run(run.run_id).status == "complete"
        assert store.canaries(run.run_id) == [replace(canary, is_slow=True, reference_s=5e-4)]
        assert store.noise_floors("c") == {("k", "m"): floor}
        assert store.processes(run.run_id)[-1] == ProcessInfo(9, end_reason="killed by SIGSEGV")
        assert store.profile(profile.profile_hash) == profile


def test_a_server_that_is_back_gets_everything_in_order(
    mortal_postgres: Any,
    url: str,
    tmp_path: Path,
    make_run: Callable[..., RunInfo],
    make_record: Callable[..., Record],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outbox, "DELIVER_EVERY_S", 0.0)
    run = make_run()
    records = [make_record(run.run_id) for _ in range(3)]
    with open_store(url, spool=tmp_path) as store:
        store.begin_run(run)
        mortal_postgres.kill()
        store.add_record(records[0])
        store.add_record(records[1])
        assert len(spool_files(tmp_path)) == 1
        mortal_postgres.start()
        store.add_record(records[2])  # delivers the two others first
        assert spool_files(tmp_path) == []
        assert store.records(run.run_id) == records
        assert store.deliver() is None


def test_a_restart_that_is_quick_enough_needs_no_file(
    mortal_postgres: Any,
    url: str,
    tmp_path: Path,
    make_run: Callable[..., RunInfo],
    make_record: Callable[..., Record],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outbox, "RETRY_WAITS_S", (0.05,) * 600)
    run = make_run()
    record = make_record(run.run_id)
    with open_store(url, spool=tmp_path) as store:
        store.begin_run(run)
        mortal_postgres.kill()
        starter = threading.Timer(0.2, mortal_postgres.start)
        starter.start()
        store.add_record(record)
        starter.join()
        assert spool_files(tmp_path) == []
        assert store.records(run.run_id) == [record]


def test_without_a_folder_to_keep_it_in_a_server_that_is_away_is_an_error(
    mortal_postgres: Any, url: str, make_run: Callable[..., RunInfo]
) -> None:
    with open_store(url) as store:
        mortal_postgres.kill()
        with pytest.raises(DatabaseAwayError, match=r"start PostgreSQL|not there at the moment"):
            store.begin_run(make_run())
        with pytest.raises(StoreError, match=r"start PostgreSQL|not there at the moment"):
            store.runs()


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


def test_a_run_whose_server_dies_ends_as_it_would_have_and_the_next_one_delivers(
    mortal_postgres: Any, url: str, tmp_path: Path
) -> None:
    (tmp_path / "test_it.py").write_text(INNER)

    def run(**environment: str) -> subprocess.CompletedProcess[str]:
        options = "--hw b10 --roofline-timer simulated --roofline-json run.json -p no:cacheprovider"
        env = {**os.environ, "PYTHONPATH": str(ROOT), "ROOFLINE_DB": url, **environment}
        return warm_start.run("pytest", "-q", *options.split(), cwd=tmp_path, env=env)

    done = run(POSTMASTER=str(mortal_postgres.pid))
    assert done.returncode == 0, done.stdout
    (path,) = spool_files(tmp_path / ".roofline" / "spool")
    assert f"kept in {path}: 2" in done.stdout
    document = json.loads((tmp_path / "run.json").read_text())
    assert len(document["records"]) == 4
    mortal_postgres.start()
    done = run()
    assert done.returncode == 0, done.stdout
    assert f"2 new ({path.name})" in done.stdout
    with open_store(url, read_only=True) as store:
        runs = store.runs()
        assert [stored_run.status for stored_run in runs] == ["complete", "complete"]
        assert [len(store.records(stored_run.run_id)) for stored_run in runs] == [4, 4]
    assert spool_files(tmp_path / ".roofline" / "spool") == []


def test_rows_that_somebody_holds_are_waited_for_and_then_kept(
    url: str,
    tmp_path: Path,
    make_run: Callable[..., RunInfo],
    make_record: Callable[..., Record],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "LOCK_TIMEOUT_S", 0.1)  # "0.1s" is 100 ms to PostgreSQL
    run = make_run()
    record = make_record(run.run_id)
    with open_store(url, spool=tmp_path) as store, open_store(url) as other:
        store.begin_run(run)

        def hold(held: sa.Connection) -> None:
            held.execute(sa.text("LOCK TABLE measurement IN ACCESS EXCLUSIVE MODE"))
            store.add_record(record)

        other.transact("holding", hold)
        assert store.record_ids(run.run_id) == {record.record_id}
        assert len(spool_files(tmp_path)) == 1
        assert store.deliver() is None
        assert store.records(run.run_id) == [record]


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
    locked = sqlite3.OperationalError("database is locked")
    assert not is_passing(sa.exc.OperationalError("INSERT", None, locked))
    assert not is_passing(ValueError("no"))
    assert is_passing(sa.exc.TimeoutError("QueuePool limit reached"))


# The file itself ------------------------------------------------------------------------------------------------


@pytest.fixture
def spooled(tmp_path: Path, make_run: Callable[..., RunInfo], make_record: Callable[..., Record]) -> Path:
    """A file with a run and two records for the database `here`."""
    run = make_run()
    spool = Spool(tmp_path / "spool", "here")
    spool.note_run(run)
    for _ in range(2):
        spool.add(Change(run.run_id, make_record(run.run_id)))
    spool.close()
    assert spool.path is not None
    return spool.path


def test_a_file_says_which_database_it_is_for_and_no_secret(tmp_path: Path, make_run: Callable[..., RunInfo]) -> None:
    from results.store.target import parse_target

    target = parse_target("postgresql://bob:s3cr3t@db.example:5433/bench?sslmode=require&password=s3cr3t")
    spool = Spool(tmp_path, target.place)
    run = make_run()
    spool.add(Change(run.run_id, run))
    assert spool.path is not None
    text = spool.path.read_text()
    assert json.loads(text.splitlines()[0])["place"] == "postgresql://db.example:5433/bench"
    assert "s3cr3t" not in text
    assert "bob" not in text


def test_a_last_line_that_was_cut_off_is_said(spooled: Path, store: ResultStore) -> None:
    whole, text = read_spool(spooled), spooled.read_bytes()
    assert (whole.record_count, whole.torn_bytes) == (2, 0)
    spooled.write_bytes(text[:-1])
    assert read_spool(spooled) == whole  # only the end of the line is missing
    spooled.write_bytes(text[:-40])
    cut = read_spool(spooled)
    assert cut.changes == whole.changes[:-1]
    assert cut.torn_bytes == len(text.splitlines()[-1]) - 39
    (delivery,) = deliver_files(store, [spooled])
    assert (delivery.outcome, delivery.added_count, delivery.torn_bytes) == ("delivered", 1, cut.torn_bytes)
    assert delivery.finding is not None
    assert delivery.finding.code == "torn-spool"
    assert not spooled.exists()


def test_a_first_line_that_was_cut_off_is_said(spooled: Path) -> None:
    spooled.write_bytes(spooled.read_bytes()[:20])
    assert (read_spool(spooled).changes, read_spool(spooled).torn_bytes) == ((), 20)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"\x00\x01\n", "it is not JSON"),
        (b"[]\n", "it is not an object"),
        (b'{"run_id": "a", "kind": "drop-table", "value": {}}\n', "no kind of change"),
        (b'{"run_id": "a", "kind": "run-end", "value": {"status": "excellent"}}\n', "not one of"),
    ],
)
def test_a_damaged_file_stays_and_nothing_of_it_is_stored(
    spooled: Path, store: ResultStore, line: bytes, message: str
) -> None:
    spooled.write_bytes(spooled.read_bytes() + line)
    (delivery,) = deliver_files(store, [spooled])
    assert delivery.outcome == "failed"
    assert "line 5 is damaged" in reason_text(delivery.reason)
    assert message in reason_text(delivery.reason)
    assert spooled.exists()
    assert store.runs() == []


def test_a_file_for_another_database_or_in_use_is_left_alone(
    spooled: Path, store: ResultStore, make_run: Callable[..., RunInfo]
) -> None:
    (delivery,) = deliver_waiting(store, spooled.parent)
    assert (delivery.outcome, delivery.reason.value("database")) == ("other-database", "here")
    spooled.unlink()
    writer = Spool(spooled.parent, store.place)
    run = make_run()
    writer.add(Change(run.run_id, run))
    (delivery,) = deliver_waiting(store, spooled.parent)
    assert delivery.outcome == "in-use"
    writer.close()
    (delivery,) = deliver_waiting(store, spooled.parent)
    assert delivery.outcome == "delivered"
    assert store.runs() == [run]
    assert deliver_waiting(store, spooled.parent / "nowhere") == []


def test_the_file_of_a_killed_writer_is_free(tmp_path: Path, store: ResultStore) -> None:
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom results.store.delivery.spool import Spool\nfrom "
        "results.store.delivery.spool import Change\n"
        "from results.records.records import RunInfo\n"
        "run = RunInfo('a' * 32, '2026-03-01T10:00:00')\nspool = Spool(Path(sys.argv[1]), sys.argv[2])\n"
        "spool.add(Change(run.run_id, run))\nprint('kept', flush=True)\ntime.sleep(60)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "s"), store.place],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "kept\n"
    assert [delivery.outcome for delivery in deliver_waiting(store, tmp_path / "s")] == ["in-use"]
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert [delivery.outcome for delivery in deliver_waiting(store, tmp_path / "s")] == ["delivered"]
    assert [run.run_id for run in store.runs()] == ["a" * 32]


def test_a_disk_that_is_full_says_so_and_the_file_stays_whole(
    tmp_path: Path, make_run: Callable[..., RunInfo], make_record: Callable[..., Record]
) -> None:
    run = make_run()
    spool = Spool(tmp_path, "here")
    spool.add(Change(run.run_id, make_record(run.run_id)))
    assert spool.path is not None
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (spool.path.stat().st_size + 100, before[1]))
        with pytest.raises(StoreError, match=r"cannot be written .*: free some space"):
            spool.add(Change(run.run_id, make_record(run.run_id)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert len(read_spool(spool.path).changes) == 1
    spool.add(Change(run.run_id, make_record(run.run_id)))
    spool.close()
    assert len(read_spool(spool.path).changes) == 2


def test_a_spool_that_cannot_be_written_is_told(tmp_path: Path, make_run: Callable[..., RunInfo]) -> None:
    (tmp_path / "file").write_text("")
    run = make_run()
    spool = Spool(tmp_path / "file" / "spool", "here")
    with pytest.raises(StoreError, match="cannot be written"):
        spool.add(Change(run.run_id, run))
