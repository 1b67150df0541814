"""A worker calls the tests by the names pytest's own process gives them, whatever paths the arguments hold; each pass
draws its own noise.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from plugin.isolation.supervisor import worker_arguments
from plugin.isolation.worker import why_not_collected
from results import open_store
from roofline_model.core.finding import finding

SUITE = """
    from roofline_model import OpCost

    def test_one(roofline):
        roofline.measure(lambda: None, work=OpCost(read_bytes=1e6), name="one")
"""
WORDS = (
    "perf",
    "--hw",
    "b10",
    "--roofline-no-canary",
    "--roofline-timer",
    "simulated:noise=0.01",
    "-p",
    "no:cacheprovider",
)


@pytest.fixture
def suite(pytester, monkeypatch):
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)  # these tests may run under -n themselves
    monkeypatch.delenv("PYTEST_XDIST_WORKER_COUNT", raising=False)
    (pytester.path / "perf").mkdir()
    (pytester.path / "perf" / "test_one.py").write_text(
        "\n".join(line[4:] for line in SUITE.splitlines()), encoding="utf-8"
    )
    return pytester


def test_a_database_elsewhere_that_does_not_exist_yet(suite, tmp_path_factory):
    """Once it exists it is one of the paths from which pytest finds its rootdir; the suite has no ini file."""
    db = tmp_path_factory.mktemp("elsewhere") / "new.db"
    done = suite.runpytest_subprocess(*WORDS, "--roofline-processes", "2", "--roofline-db", str(db))
    done.assert_outcomes(passed=2)
    with open_store(db, read_only=True) as store:
        first, second = (record.measurement.samples_s for record in store.records(store.runs()[0].run_id))
    assert set(first).isdisjoint(second)  # fresh processes of an imaginary device are no clones


def test_another_rootdir_is_said(suite, monkeypatch):
    monkeypatch.setenv("WHERE", ".")
    suite.makeconftest("import os\nos.environ['WHERE'] = '..'")  # from then on: for the worker
    words = ("--roofline-processes", "1", "--roofline-db=r.db", f"--rootdir={suite.path}/$WHERE")
    done = suite.runpytest_subprocess(*WORDS, *words)
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines([f"*rootdir {suite.path.parent} instead of {suite.path}; *"])


def config(inipath=None, args=("perf", "-q"), plugins=()):
    return SimpleNamespace(
        rootpath=Path("/suite/kernels"), inipath=inipath, invocation_params=SimpleNamespace(args=args, plugins=plugins)
    )


def test_what_the_user_wrote_comes_last_and_the_ini_file_is_the_one_that_was_read():
    assert worker_arguments(config()) == ["--rootdir=/suite/kernels", "perf", "-q"]
    arguments = worker_arguments(config(Path("/suite/pytest.ini"), plugins=("extra",)))
    assert arguments == ["--rootdir=/suite/kernels", "-c", "/suite/pytest.ini", "perf", "-q", "-p", "extra"]


def test_the_same_rootdir_is_not_blamed():
    assert why_not_collected("/suite/kernels", "/suite/kernels", ()).value("kind") == "otherwise"
    reason = why_not_collected("/suite/kernels", "/suite", ())
    assert reason == finding("rootdir-of-worker-differs", worker_folder="/suite", folder="/suite/kernels")
    assert why_not_collected("/suite/kernels", "/suite", ("no", "way")) == finding(
        "not-collected-by-worker", kind="error", error="no; way"
    )
