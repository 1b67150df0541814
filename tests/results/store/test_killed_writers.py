"""kill -9 at random moments, in commits and in migrations; many writers to one server that is killed, too."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import results
from results.store.migrate import upgrade
from results.store.push import push
from results.store.store import open_store
from results.store.target import parse_target

ROOT = Path(results.__file__).parents[1]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}

HEAD = """
import json, os, random, shutil, signal, sqlite3, sys, time, uuid
from contextlib import closing
from pathlib import Path
import alembic.command
import sqlalchemy
from results import Measurement, Method, Record, RunInfo, open_store
from results.store.migrate import upgrade
from results.store.schema import SCHEMA_VERSION
from results.store.target import parse_target
from roofline_model.operators.case import Case

MEASUREMENT = Measurement((1e-5,) * 500, 1, 1e-5, 1e-5, 1e-5, 1e-5, 0.0, 1e-5, 1e-5, 500, None, None, "converged")

def record_of(run_id, number):
    case = Case("gemv", (("M", 1), ("N", number % 7 + 1), ("K", 64)), (("a", "BF16"), ("b", "BF16")), "matmul")
    return Record(uuid.uuid4().hex, run_id, case, "measured", created_at="2026-03-01T10:00:00+00:00",
                  method=Method("monotonic", "1", {}), measurement=MEASUREMENT)
"""

NEXT_SCRIPT = """
import sqlalchemy as sa
from alembic import op
revision, down_revision, branch_labels, depends_on = "0002", "0001", None, None

def upgrade():
    with op.batch_alter_table("run") as batch:  # rebuilds the table
        batch.alter_column("label", existing_type=sa.Text(), nullable=True)
        batch.add_column(sa.Column("note", sa.Text()))
"""

# One process that has loaded everything forks a writer for each moment: a fresh Python would cost a second each.
KILLER = (
    HEAD
    + f"NEXT = {NEXT_SCRIPT!r}"
    + """
folder, kills, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
chance = random.Random(seed)

def write(path, acknowledged, count=1_000_000):
    with open_store(path) as store:
        run_id = uuid.uuid4().hex
        store.begin_run(RunInfo(run_id, "2026-03-01T10:00:00+00:00"))
        for number in range(count):
            record = record_of(run_id, number)
            store.add_record(record)
            os.write(acknowledged, record.record_id.encode())

scripts = folder / "versions"
scripts.mkdir()
(scripts / "next_schema.py").write_text(NEXT)

def migrate(path, acknowledged):
    upgrade(parse_target(path), target_version=SCHEMA_VERSION + 1, folders=[scripts])
    os.write(acknowledged, b"m" * 32)

def write_some(path, acknowledged):
    write(path, acknowledged, 20)

def killed(work, path, longest_s):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            work(path, writer)
        finally:
            os._exit(0)
    os.close(writer)
    time.sleep(chance.uniform(0, longest_s))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with os.fdopen(reader, "rb") as pipe:
        data = pipe.read()
    return [data[start:start + 32].decode() for start in range(0, len(data) - 31, 32)]

def whole(path):
    with closing(sqlite3.connect(path)) as raw:
        assert raw.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert raw.execute("PRAGMA foreign_key_check").fetchall() == []

def seconds(work, path):
    begin = time.monotonic()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        work(path, writer)
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    os.close(reader)
    return time.monotonic() - begin

acknowledged, path = [], folder / "commits.db"
longest_s = 2 * seconds(write_some, folder / "timed.db")  # by what this machine needs for opening and 20 commits
(folder / "timed.db").unlink()
for _ in range(kills):
    acknowledged += killed(write, path, longest_s)
    with open_store(path) as store:  # the newest run: what earlier ones had was looked at when they were killed
        runs = store.runs()
        stored_ids = {record_id for run in runs for record_id in store.record_ids(run.run_id)}
        found = [record for run in runs[:1] for record in store.records(run.run_id)]
    whole(path)
    ids = [record.record_id for record in found]
    assert len(ids) == len(set(ids)) and stored_ids >= set(acknowledged)
    assert all(len(record.measurement.samples_s) == 500 for record in found)

golden = folder / "golden.db"
devnull = os.open(os.devnull, os.O_WRONLY)
write(golden, devnull, 4)
shutil.copy(golden, folder / "timed.db")
longest_s = 1.2 * seconds(migrate, folder / "timed.db")
done = 0
for number in range(kills):
    path = folder / f"migrated-{number}.db"
    shutil.copy(golden, path)
    done += len(killed(migrate, path, longest_s))
    migrate(path, devnull)  # goes on where it was broken off
    with closing(sqlite3.connect(path)) as raw:
        assert raw.execute("SELECT count(*), sum(length(samples)) FROM measurement").fetchone() == (4, 4 * 500 * 8)
        assert raw.execute("SELECT note FROM run").fetchall() == [(None,)]
    whole(path)
    assert sorted(item.name for item in folder.glob(f"{path.name}*.partial")) in ([], [f"{path.name}.schema-{SCHEMA_VERSION}.backup.partial"])
print(json.dumps({"acknowledged": len(acknowledged), "migrated": done}))
"""
)


@pytest.mark.parametrize("kills", [pytest.param(3, id="some"), pytest.param(50, id="hundred", marks=pytest.mark.full)])
def test_sqlite_survives_kill_minus_nine_in_commits_and_in_migrations(tmp_path: Path, kills: int) -> None:
    seed = time.time_ns() % 10**9
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", KILLER, str(tmp_path), str(kills), str(seed)],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=550,
        check=False,
    )
    assert done.returncode == 0, f"seed {seed}: {done.stderr[-3000:]}"
    counts = json.loads(done.stdout)
    if kills >= 10:  # of few, a busy machine may kill all before the first commit, or none in the middle
        assert counts["acknowledged"] > kills
        assert counts["migrated"] < kills


# Forked from one process that has loaded everything, before it opens anything.
WRITERS = (
    HEAD
    + """
folder, writers, count = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])

def write(number):
    acknowledged = os.open(folder / f"acknowledged-{number}", os.O_WRONLY | os.O_CREAT)
    run_id = f"{number:032x}"
    with open_store(folder / "r.db") as store:
        store.begin_run(RunInfo(run_id, "2026-03-01T10:00:00+00:00"))
        for step in range(count):
            record = record_of(run_id, step)
            store.add_record(record)
            os.write(acknowledged, record.record_id.encode())
        store.finish_run(run_id, status="complete", exit_code=0, finished_at="2026-03-01T11:00:00+00:00")

children = []
for number in range(writers):
    child = os.fork()
    if child == 0:
        code = 1
        try:
            write(number)
            code = 0
        finally:
            sys.stderr.flush()
            os._exit(code)
    children.append(child)
print(children[0], flush=True)
print(json.dumps([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]))
"""
)

PUSHER = """
import sys
from results import finished_runs, open_store, push
from roofline_model.core.errors import DatabaseAwayError
try:
    with open_store(sys.argv[1], read_only=True) as here, open_store(sys.argv[2]) as there:
        for pushed in push(here, there, finished_runs(here)):
            print(pushed.run.run_id, flush=True)
except DatabaseAwayError:
    print("away")
"""


def ids_in(path: Path) -> list[str]:
    """What a writer acknowledged by now."""
    data = path.read_text() if path.exists() else ""
    return [data[start : start + 32] for start in range(0, len(data) - 31, 32)]


def pushing(source: Path, url: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "ignore", "-c", PUSHER, str(source), url]
    return subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize(
    ("writers", "count"),
    [pytest.param(8, 40, id="few"), pytest.param(16, 500, id="fleet", marks=pytest.mark.full)],
)
def test_every_acknowledged_result_of_many_writers_is_pushed_once(
    mortal_postgres: Any, postgres_server: Callable[..., str], tmp_path: Path, writers: int, count: int
) -> None:
    writing = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", WRITERS, str(tmp_path), str(writers), str(count)],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert writing.stdout is not None
    victim = int(writing.stdout.readline())
    deadline = time.monotonic() + 120
    while len(ids_in(tmp_path / "acknowledged-0")) < count // 4:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    os.kill(victim, signal.SIGKILL)
    output, errors = writing.communicate(timeout=550)
    assert (json.loads(output), errors) == ([-signal.SIGKILL] + [0] * (writers - 1), "")
    acknowledged = [record_id for number in range(writers) for record_id in ids_in(tmp_path / f"acknowledged-{number}")]
    assert len(acknowledged) >= (writers - 1) * count + count // 4

    url = postgres_server(durable=True)  # empty: the two that push race to make the tables, too
    first, second = pushing(tmp_path / "r.db", url), pushing(tmp_path / "r.db", url)
    assert first.stdout is not None
    assert first.stdout.readline() not in ("", "away\n")
    mortal_postgres.kill()  # in the middle of the push
    second.kill()
    _, errors = first.communicate(timeout=120)
    assert errors == ""
    second.communicate(timeout=120)
    mortal_postgres.start()
    again = pushing(tmp_path / "r.db", url)
    output, errors = again.communicate(timeout=550)
    assert errors == ""
    assert len(output.split()) == writers - 1
    with open_store(url, read_only=True) as store, open_store(tmp_path / "r.db", read_only=True) as here:
        pushed = {run.run_id: store.records(run.run_id) for run in store.runs()}
        assert {run.status for run in store.runs()} == {"complete"}
        for run in (run for run in here.runs() if run.status == "complete"):
            assert pushed.pop(run.run_id) == here.records(run.run_id)
        assert pushed == {}
        (killed,) = [run for run in here.runs() if run.status == "running"]
        stored = [record.record_id for run in here.runs() for record in here.records(run.run_id)]
    assert len(stored) == len(set(stored))
    assert set(stored) >= set(acknowledged)
    with open_store(url) as store, open_store(tmp_path / "r.db", read_only=True) as here:  # what was killed, by name
        (last,) = push(here, store, [killed])
        assert last.added_count == len(here.records(killed.run_id)) >= count // 4
        assert store.records(killed.run_id) == here.records(killed.run_id)
        assert next(push(here, store, [killed])).added_count == 0


def test_a_backup_that_was_broken_off_does_not_stand_in_the_way(tmp_path: Path) -> None:
    path, scripts = tmp_path / "r.db", tmp_path / "versions"
    open_store(path).close()
    scripts.mkdir()
    (scripts / "next_schema.py").write_text(NEXT_SCRIPT)
    (tmp_path / "r.db.schema-1.backup.partial").write_bytes(b"half")
    upgrade(parse_target(path), target_version=2, folders=[scripts])
    assert sorted(item.name for item in tmp_path.glob("r.db*")) == ["r.db", "r.db.schema-1.backup"]
