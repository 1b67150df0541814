"""What workers store themselves: nothing finished is lost with a worker, its parent or the database; one run of many
processes is judged as one.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing

import pytest

from results import open_store

COMMON = ("--hw", "b10", "--roofline-db", "r.db", "-p", "no:cacheprovider", "-p", "no:hypothesispytest")
SIMULATED = (*COMMON, "--roofline-timer", "simulated", "--roofline-processes", "1")
REAL = (*COMMON, "--roofline-force-measure", "--roofline-max-seconds", "0.001")
LOST = {
    "removed": "[os.unlink(name) for name in ('r.db', 'r.db-wal', 'r.db-shm')]",
    "full": "resource.setrlimit(resource.RLIMIT_FSIZE, (os.stat('r.db-wal').st_size, resource.RLIM_INFINITY))",
}


def stored(folder):
    with open_store(folder / "r.db", read_only=True) as store:
        run = store.runs()[0]
        return run, store.records(run.run_id), store.canaries(run.run_id)


@pytest.mark.parametrize("how", LOST)
def test_a_database_that_a_worker_loses_ends_the_run_and_every_record_is_kept_elsewhere(pytester, how):
    pytester.makepyfile(
        f"""
        import os, resource
        import pytest
        from roofline_model import OpCost

        @pytest.mark.parametrize("i", range(4))
        def test_case(roofline, i):
            if i == 2:
                {LOST[how]}
            roofline.measure(lambda: None, work=OpCost(read_bytes=1e6))
        """
    )
    result = pytester.runpytest_subprocess(*SIMULATED)
    assert result.ret == 2
    (line,) = [line for line in result.stderr.lines if line.startswith("ERROR: ")]
    (rescued,) = pytester.path.glob("*.rescued.json")
    assert str(rescued) in line
    names = [record["test_id"].partition("::")[2] for record in json.loads(rescued.read_text())["records"]]
    assert sorted(names) == ["test_case[0]", "test_case[1]", "test_case[2]"]


def test_a_fast_canary_in_a_later_worker_puts_the_cases_of_a_slow_one_in_doubt(pytester):
    pytester.makeconftest(
        """
        import multiprocessing, os
        import plugin.run.instruments

        if multiprocessing.parent_process() is not None:
            time_s = 1e-3 if os.path.exists("first") else 3e-3
            open("first", "w").close()
            plugin.run.instruments.make_canary_kernel = lambda *_: ("made-up", lambda: time_s)
        """
    )
    pytester.makepyfile(
        """
        import pytest
        from roofline_model import OpCost

        @pytest.mark.parametrize("name", ["slow", "fast"])
        def test_case(roofline, name):
            roofline.measure(lambda: None, work=OpCost(read_bytes=1e6), name=name)
        """
    )
    result = pytester.runpytest_subprocess(*REAL, "--roofline-isolate", "case")
    result.assert_outcomes(passed=2)
    _, records, canaries = stored(pytester.path)
    quarantined = {record.case.kernel: "quarantined" in record.measurement.flags for record in records}
    assert quarantined == {"slow": True, "fast": False}
    slow = {(reading.process_ordinal, reading.is_slow) for reading in canaries}
    assert slow == {(1, True), (2, False)}
    assert "1 of 2 cases is quarantined" in " ".join(result.outlines)


MANY = """
    import pytest
    from roofline_model import OpCost

    @pytest.mark.parametrize("i", range(3000))
    def test_case(roofline, i):
        roofline.measure(lambda: None, work=OpCost(read_bytes=1e6), name=f"k{i}")
    """
TELLS = """
    import multiprocessing, os

    def pytest_runtest_logreport(report):
        if report.when == "teardown" and multiprocessing.parent_process() is None:
            with open("finished", "a") as file:
                print(report.nodeid, file=file)

    def pytest_collection_finish(session):
        if multiprocessing.parent_process() is not None:
            with open("worker", "w") as file:
                print(os.getpid(), file=file)
    """


@pytest.mark.parametrize("victim", ["pytest", "worker"])
@pytest.mark.parametrize("kills", [1, pytest.param(25, marks=pytest.mark.full)])
def test_kill_minus_nine_loses_no_finished_case_and_doubles_none(pytester, victim, kills):
    pytester.makeconftest(TELLS)
    pytester.makepyfile(MANY)
    finished, worker = pytester.path / "finished", pytester.path / "worker"
    chance = random.Random(seed := time.time_ns() % 10**9)
    for _ in range(kills):
        finished.write_text("")
        command = [sys.executable, "-m", "pytest", "-q", *REAL, "--roofline-no-canary", "--maxfail", "1"]
        process = subprocess.Popen(command, cwd=pytester.path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        count, deadline = chance.randint(1, 30), time.monotonic() + 120
        while finished.read_text().count("\n") < count and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(chance.uniform(0, 0.1))
        os.kill(process.pid if victim == "pytest" else int(worker.read_text()), signal.SIGKILL)
        process.wait(120)
        run, records, _ = stored(pytester.path)
        assert run.status == ("running" if victim == "pytest" else "interrupted"), seed
        measured = Counter(record.test_id for record in records if record.status == "measured")
        said = finished.read_text().split("\n")[: -1 if victim == "pytest" else -2]  # the worker's last one failed
        assert measured.keys() >= set(said), seed
        assert set(measured.values()) == {1}, seed
        assert len(records) - len(measured) <= 1, seed
        with closing(sqlite3.connect(pytester.path / "r.db")) as raw:
            assert raw.execute("PRAGMA integrity_check").fetchone() == ("ok",), seed
