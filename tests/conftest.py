"""No test notices whether pytest-xdist runs it (`make test`) or a pytest without it, nor how busy the machine is."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

import pytest
import warm_start
from _pytest.pytester import SysModulesSnapshot
from counts import FULL
from hypothesis import HealthCheck, settings
from run_makers import make

__all__ = ["make"]

# A worker of xdist must not hand its marks on: a pytest that a test starts would take itself for a worker, and
# pytest-benchmark would switch itself off. xdist itself reads none of them. And no test is about this terminal's width.
for _name in [name for name in os.environ if name.startswith("PYTEST_XDIST_") or name in ("COLUMNS", "LINES")]:
    del os.environ[_name]

# Threads of BLAS and OpenMP wait for each other by spinning: on cores that other tests use, a fit takes thrice the
# processor time, a small model twice. (NumPy and torch read it when they are imported.)
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

# Started in the background (`make test &`, a runner without a terminal) Python ignores SIGINT, and so would every
# process that a test interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# An example takes as long as the machine is busy; what should be quick is timed in benchmarks/. Every run draws other
# examples, so few in each are many in the end.
settings.register_profile(
    "roofline", max_examples=150 if FULL else 20, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("roofline")

_LOADED = pytest.StashKey[int]()
_MANY_MODULES = 100

# What a pytest that a test starts is not about. Schemathesis' plugin alone adds a second to each, Hypothesis' a
# quarter: they import all of theirs to find that they have nothing to say.
INNER_OPTIONS = "-p no:hypothesispytest -p no:schemathesis -p no:anyio -p no:syrupy"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Set what the collection makes aside from the garbage collector: it lasts to the end, and a test that collects
    garbage (every capture of a CUDA graph does) need not go through twelve thousand tests and their libraries.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
        gc.set_threshold(5_000, 10, 20)  # a tenth of the time went into looking for garbage


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Set aside what a test imported (torch, transformers, sympy: half a million objects): pytest itself collects
    garbage five times at the end of every run, those that tests start in this process among them.
    """
    loaded = item.config.stash.get(_LOADED, 0)
    if nextitem is None or nextitem.path != item.path or len(sys.modules) - loaded > _MANY_MODULES:
        item.config.stash[_LOADED] = len(sys.modules)
        gc.collect()
        gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Under xdist, begin with the files whose tests start processes: they take longest, and none should be left for the
    end.
    """
    if hasattr(config, "workerinput"):
        long = {item.path for item in items if _starts_processes(item)}
        items.sort(key=lambda item: item.path not in long)


def _starts_processes(item: pytest.Item) -> bool:
    return "pytester" in getattr(item, "fixturenames", ()) or hasattr(getattr(item, "module", None), "subprocess")


@pytest.fixture(autouse=True, scope="session")
def _quick_inner_runs() -> Iterator[None]:
    """Give pytests started by tests our options instead of the user's (`-n 8`, say), which are for this one, and byte
    code.
    """
    with pytest.MonkeyPatch.context() as patch:
        # A pytest run in this process ends with the modules forgotten that it imported. NumPy cannot be loaded twice,
        # SQLAlchemy warns: only what lies in the test's own folder is forgotten.
        patch.setattr(
            pytest.Pytester,
            "_Pytester__take_sys_modules_snapshot",
            lambda tester: SysModulesSnapshot(lambda name: not _is_under(sys.modules[name], tester.path)),
        )
        patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)  # else each compiles every module of ours anew
        patch.setenv("PYTEST_ADDOPTS", INNER_OPTIONS)
        yield


def _is_under(module: object, folder: Path) -> bool:
    return Path(getattr(module, "__file__", None) or "/").is_relative_to(folder)


@pytest.fixture
def pytester(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """The fixture of pytest, with our options in its environment (it takes all away), and with warm processes.

    `runpytest_subprocess` starts a warm process; `run(sys.executable, …)` a real one.
    """
    monkeypatch.setenv("PYTEST_ADDOPTS", INNER_OPTIONS)

    def popen(command: Sequence[str], stdout: IO, stderr: IO, stdin: object = pytest.Pytester.CLOSE_STDIN) -> object:
        if tuple(command[:2]) != (sys.executable, "-mpytest") or stdin is not pytest.Pytester.CLOSE_STDIN:
            return start(command, stdout, stderr, stdin)
        path = os.pathsep.join(filter(None, [os.getcwd(), os.environ.get("PYTHONPATH")]))
        environment = {**os.environ, "PYTHONPATH": path}
        return warm_start.popen("pytest", command[2:], Path.cwd(), environment, stdout, stderr)

    start = pytester.popen
    monkeypatch.setattr(pytester, "popen", popen)
    return pytester
