"""A disk that becomes full at every write in turn: one line says so, and what was acknowledged before is there.

A limit on the size of files stands for the disk: a write beyond it fails half-way, as on a full disk. One process that
has loaded everything forks a writer for each size; the sizes go up until a writer gets through.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

HEAD = """
import errno, json, os, resource, signal, sqlite3, sys, uuid
from contextlib import closing
from pathlib import Path
from results import Measurement, Method, Record, RunInfo, open_store
from roofline_model.core.errors import RooflineError
from roofline_model.operators.case import Case

MEASUREMENT = Measurement((1e-5,) * 300, 1, 1e-5, 1e-5, 1e-5, 1e-5, 0.0, 1e-5, 1e-5, 300, None, None, "converged")
RUN = RunInfo("a" * 32, "2026-03-01T10:00:00+00:00")
COUNT = 12

def record_of(number):
    case = Case("gemv", (("M", 1), ("N", number % 7 + 1), ("K", 64)), (("a", "BF16"), ("b", "BF16")), "matmul")
    return Record(uuid.uuid4().hex, RUN.run_id, case, "measured", created_at="2026-03-01T10:00:00+00:00",
                  method=Method("monotonic", "1", {}), measurement=MEASUREMENT)

def limited(work, size):
    # Return what a child acknowledged, and how it ended: an error of ours in one line, or "done".
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # Python's own choice; pytest's worker has it, too
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        try:
            work(writer)
            end = "done"
        except RooflineError as error:
            end = str(error)
        except BaseException as error:
            end = f"CRASH {error!r}"
        os.write(writer, b"\\n" + end.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        ids, _, end = pipe.read().decode().rpartition("\\n")
    os.waitpid(child, 0)
    return [ids[start:start + 32] for start in range(0, len(ids) - 31, 32)], end

folder, step = Path(sys.argv[1]), int(sys.argv[2])
failures, size = [], 0
"""
DATABASE = (
    HEAD
    + """
while True:
    path = folder / f"{size}.db"

    def work(acknowledged):
        with open_store(path) as store:
            store.begin_run(RUN)
            for number in range(COUNT):
                record = record_of(number)
                store.add_record(record)
                os.write(acknowledged, record.record_id.encode())
            store.finish_run(RUN.run_id, status="complete", exit_code=0, finished_at="2026-03-01T11:00:00+00:00")

    ids, end = limited(work, size)
    assert not end.startswith("CRASH"), (size, end)
    if path.exists() and path.stat().st_size:
        with open_store(path) as store:  # the disk has room again
            found = [record.record_id for run in store.runs() for record in store.records(run.run_id)]
            statuses = {run.status for run in store.runs()}
        with closing(sqlite3.connect(path)) as raw:
            assert raw.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    else:
        found, statuses = [], set()
    assert set(found) >= set(ids) and len(found) == len(set(found)), size
    assert (end == "done") == (statuses == {"complete"}), (size, end, statuses)
    if end == "done":
        break
    failures.append(end)
    size += step
print(json.dumps(failures))
"""
)
FILES = (
    HEAD
    + """
from plugin.run.session import write_json
from roofline_cli.screen.output_file import write_text

document = {"records": ["x" * 400] * 20}
while True:
    paths = [folder / "kept.json", folder / "kept.html", folder / f"{size}.json", folder / f"{size}.html"]
    for path in paths[:2]:
        path.write_text("the last one")
    ends = []
    for path in paths:

        def work(acknowledged):
            write_json(path, document) if path.suffix == ".json" else write_text(path, json.dumps(document))

        end = limited(work, size)[1]
        assert not end.startswith("CRASH"), (size, path.name, end)
        whole = path.exists() and path.read_text() != "the last one"
        assert whole == (end == "done")  # never half of it
        if whole:
            assert json.loads(path.read_text()) == document
        elif path.name.startswith("kept"):
            assert path.read_text() == "the last one"
        else:
            assert not path.exists()
        ends.append(end)
    assert not [item for item in folder.iterdir() if item not in paths and item.suffix not in (".json", ".html")]
    if ends == ["done"] * 4:
        break
    failures += ends
    size += step
print(json.dumps(failures))
"""
)


def failures(folder, code, step):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, str(folder), str(step)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=550,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize("step", [60_000, pytest.param(4096, marks=pytest.mark.full)])
def test_a_database_that_cannot_grow_keeps_what_it_acknowledged(tmp_path, step):
    lines = failures(tmp_path, DATABASE, step)
    assert len(lines) > 3
    for line in lines:
        assert "\n" not in line
        assert "space" in line or "disk" in line


@pytest.mark.parametrize("step", [2500, pytest.param(97, marks=pytest.mark.full)])
def test_a_file_is_written_whole_or_not_at_all(tmp_path, step):
    assert len(failures(tmp_path, FILES, step)) > 4
