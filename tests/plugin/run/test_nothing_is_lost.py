"""Nothing finished is lost: killed runs, lost databases, values and names that cannot be stored."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time

import pytest
import warm_start

from plugin.run import session
from results import open_store

OPTIONS = ("--hw", "b10", "--roofline-timer", "simulated", "--roofline-db", "r.db", "-p", "no:cacheprovider")


def stored(folder):
    """Return the newest run in r.db and its records by test name."""
    with open_store(folder / "r.db", read_only=True) as store:
        run = store.runs()[0]
        return run, {record.test_id.split("::")[-1]: record for record in store.records(run.run_id)}


def test_killed_in_the_middle_keeps_every_finished_case(pytester):
    pytester.makepyfile(
        """
        import time
        import pytest
        from pathlib import Path
        from roofline_model import OpCost

        @pytest.mark.parametrize("i", range(6))
        def test_case(roofline, i):
            if i == 4:
                Path("reached").write_text("")
                time.sleep(60)
            roofline.measure(lambda: None, work=OpCost(read_bytes=1e6))
        """
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-q", *OPTIONS], cwd=pytester.path, stdout=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 60
    while not (pytester.path / "reached").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    run, records = stored(pytester.path)
    assert run.status == "running"  # never `latest`: it did not finish
    assert sorted(records) == [f"test_case[{i}]" for i in range(4)]


def test_a_database_lost_in_mid_run_is_rescued_and_said(pytester):
    pytester.makepyfile(
        """
        from pathlib import Path
        import pytest
        from roofline_model import OpCost

        @pytest.mark.parametrize("i", range(4))
        def test_case(roofline, i):
            if i == 2:
                for name in ("r.db", "r.db-wal", "r.db-shm"):
                    Path(name).unlink(missing_ok=True)
            roofline.measure(lambda: None, work=OpCost(read_bytes=1e6))
        """
    )
    result = pytester.runpytest_inprocess(*OPTIONS)
    assert result.ret == 2
    (line,) = [line for line in result.stderr.lines if line.startswith("ERROR: ")]
    assert "the database file was removed or replaced while the run was writing" in line
    (rescued,) = pytester.path.glob("????????.rescued.json")
    assert f"(records in {rescued}: 3; `roofline import` reads it)" in line
    with open_store(pytester.path / "new.db") as store:
        from results.exchange.exported.load import import_file

        report = import_file(store, rescued)
        assert report.added == 3
        assert store.runs()[0].status == "interrupted"
    before = rescued.read_bytes()
    pytester.runpytest_inprocess(*OPTIONS)  # and lost once more
    assert len(list(pytester.path.glob("????????.rescued.json"))) == 2
    assert rescued.read_bytes() == before


def test_a_database_that_cannot_grow_says_so_and_names_what_it_lacks(pytester):
    pytester.makepyfile(
        """
        import os, resource
        import pytest
        from roofline_model import OpCost

        @pytest.mark.parametrize("i", range(4))
        def test_case(roofline, i):
            roofline.measure(lambda: None, work=OpCost(read_bytes=1e6))
            if i == 2:  # no file may become longer than the database's log is now
                resource.setrlimit(resource.RLIMIT_FSIZE, (os.stat("r.db-wal").st_size, resource.RLIM_INFINITY))
        """
    )
    done = warm_start.run("pytest", "-q", *OPTIONS, cwd=pytester.path)
    assert done.returncode == 2, done.stdout
    (line,) = [line for line in (done.stdout + done.stderr).splitlines() if "ERROR: " in line]
    (rescued,) = pytester.path.glob("????????.rescued.json")
    assert line.startswith("ERROR: ")
    assert "(disk I/O error)" in line or "disk is full" in line
    assert line.endswith(f"(records in {rescued}: 3, in the database: 2; `roofline import` reads it)")
    run, records = stored(pytester.path)
    assert (run.status, len(records)) == ("running", 2)


@pytest.mark.parametrize("takes", [True, False])
def test_what_no_database_takes_goes_to_another_folder_or_is_counted(pytester, monkeypatch, takes):
    pytester.makepyfile(
        """
        from pathlib import Path
        import pytest
        from roofline_model import OpCost

        @pytest.mark.parametrize("i", range(3))
        def test_case(roofline, i):
            roofline.measure(lambda: None, work=OpCost(read_bytes=1e6))
            if i == 1:
                Path("r.db").unlink()
        """
    )
    temporary = pytester.mkdir("temporary")
    for folder in [pytester.path] if takes else [pytester.path, temporary]:
        (folder / "01234567.rescued.json").mkdir()  # so no file of that name can be written there
    monkeypatch.setattr(session, "new_run_id", lambda: "0123456789abcdef" * 2)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    result = pytester.runpytest_inprocess(*OPTIONS)
    assert result.ret == 2
    if takes:
        rescued = temporary / "01234567.rescued.json"
        assert f"(records in {rescued}: 2; `roofline import` reads it)" in result.stderr.str()
        assert rescued.stat().st_mode & 0o777 == 0o600  # the folder of temporary files is everybody's
    else:
        assert "records that could not be rescued either: 2: " in result.stderr.str()


def test_a_file_that_cannot_be_written_whole_leaves_no_part(tmp_path):
    program = """
import resource, signal, sys
from pathlib import Path

from plugin.run.session import write_json
from roofline_model.core.errors import StoreError
from roofline_model.core.finding import finding
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    write_json(Path("run.json"), {"text": "x" * 5000})
except StoreError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stdout == "run.json cannot be written (File too large)\n", done.stderr
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_stored_fails_its_own_test_only(pytester):
    pytester.makepyfile(
        """
        from roofline_model import OpCost, gemm

        def test_extra(roofline):
            roofline.declare(gemm(1, 8, 8).case("mine"), gemm(1, 8, 8), extra={"scale": object()})

        def test_unprintable(roofline):
            class Mute(Exception):
                def __str__(self):
                    raise ValueError

            def kernel():
                raise Mute

            roofline.measure(kernel, work=OpCost(read_bytes=1e6))

        def test_next(roofline):
            roofline.measure(lambda: None, work=OpCost(read_bytes=1e6))
        """
    )
    result = pytester.runpytest_inprocess(*OPTIONS)
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(["*declare: extra must hold JSON values only: *"])
    run, records = stored(pytester.path)
    assert run.status == "complete"
    assert records["test_unprintable"].reason == "Mute: (unprintable message)"
    assert records["test_next"].status == "measured"


def test_names_that_would_be_stored_alike_are_refused(pytester):
    pytester.makepyfile(
        """
        import pytest
        from roofline_model import InvalidValueError

        @pytest.mark.parametrize("names", [("a b", "a_b"), ("x" * 120 + "1", "x" * 120 + "2")])
        def test_alike(roofline, names):
            with pytest.raises(InvalidValueError, match="the same once stored"):
                roofline.compare({name: (lambda: None) for name in names})

        def test_nothing_left(roofline):
            with pytest.raises(InvalidValueError, match="no letter or digit"):
                roofline.measure(lambda: None, name="\u03b1")

        def test_a_contestant_that_writes_to_its_arguments_harms_no_other(roofline):
            import numpy as np
            from roofline_model import OpCost

            def mutator(x):
                result = x * 2
                x[:] = 0
                return result

            with pytest.raises(AssertionError, match="mutator"):
                x = np.ones(4)
                roofline.compare(
                    {"mutator": mutator, "innocent": lambda x: x * 2}, args=(x,), reference=np.full(4, 2.0), work=OpCost(read_bytes=64)
                )
        """
    )
    pytester.runpytest_inprocess(*OPTIONS).assert_outcomes(passed=4)
