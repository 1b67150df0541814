"""The child side of isolation: a pytest that collects the user's tests and then runs single ones when it is told to.

It stores what it measures itself and prints nothing. The pytest that started it gets the reports of the tests over a
pipe; when that pytest is gone, it ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import importlib
import os
import pickle
import signal
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing import parent_process
from typing import Any

import pytest

import roofline_pytest
from plugin.isolation.device_errors import lost_device_reason
from plugin.isolation.worker_session import WorkerStart
from roofline_model.core.errors import RooflineError
from roofline_model.core.finding import Finding, finding

PLUGIN_NAME = "roofline_bench_worker"
DUMP_SIGNAL = signal.SIGUSR2
"""Makes a worker write its Python stack to the crash file; works while C code holds the interpreter."""

Message = tuple[str, Any]
"""Kind and content: ready, report (a test's), warning, note (a line to show), declared (the record of a case that this
process may die of), restart-clock (what took time is not the running case's), broken (the database's error and the
record that it did not take), internal-error, done (a `EndOfTest`).
"""


@dataclass(frozen=True, slots=True)
class EndOfTest:
    """How a test ended in a worker."""

    missing: Finding | None = None
    """Why the worker did not collect it."""
    lost_device: str | None = None
    """The error that cost the process its device."""
    stop: str | None = None
    """Why the session shall stop."""
    ending: BaseException | None = None
    """pytest.exit or Ctrl-C, which end the run."""
    uses_torch: bool = field(default_factory=lambda: "torch" in sys.modules)


class WorkerHooks:
    """The worker's end of the pipe, and the hooks that turn pytest into a worker."""

    def __init__(self, config: pytest.Config, start: WorkerStart, pipe: Any, crash_file: int) -> None:
        self.start = start
        self.test_id = ""
        self._config = config
        self._pipe = pipe
        self._crash_file = crash_file
        self._stdout = sys.stdout
        self._collect_errors: list[str] = []
        self._lost_device: str | None = None

    # The link ------------------------------------------------------------------------------------------------

    def send(self, kind: str, content: Any = None) -> None:
        """Send a message to the parent; end at once if the parent is gone.

        So does a process that a test forked and that came back into pytest: its messages would count as the worker's.
        """
        try:
            if os.getpid() != self.start.process.pid:
                os._exit(1)
            self._pipe.send((kind, content))
        except OSError:
            os._exit(1)

    def _commands(self) -> Iterator[tuple[str, str | None]]:
        """Yield the tests to run, each with its follower, until the parent says stop or is gone."""
        try:
            while (command := self._pipe.recv()) is not None:
                yield command
        except (OSError, EOFError):  # a test closed every descriptor it could find
            os._exit(1)

    # Starting ------------------------------------------------------------------------------------------------

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        """Let a crash leave its Python stack where the parent finds it, whatever the test captures or closes."""
        faulthandler.enable(file=self._crash_file)
        faulthandler.register(DUMP_SIGNAL, file=self._crash_file, all_threads=True, chain=False)
        drop_cache_writers(config)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Give the tests their standard output back; pytest's reporter keeps the null device it was made with."""
        sys.stdout = self._stdout

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Keep why a file could not be collected: its tests will be missing here."""
        if report.failed:
            self._collect_errors.append(f"{report.nodeid}: {_last_line(report.longreprtext)}")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run what the parent asks for, one test after the other, until it says stop or is gone."""
        for name in self.start.preload:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
        try:
            roofline_pytest.load(self._config).session.open()
        except RooflineError as error:
            self.send("broken", (str(error), None))
        items = {item.nodeid: item for item in session.items}
        self.send("ready")
        for test_id, following_id in self._commands():
            self.test_id = test_id
            end = self._run(items.get(test_id), items.get(following_id or ""))
            self.send("done", end)
            if end.ending is not None:
                break
        return True

    def _run(self, item: pytest.Item | None, nextitem: pytest.Item | None) -> EndOfTest:
        """Run one test, None: one that is not known here; its reports are sent while it runs."""
        if item is None:
            folder = str(self._config.rootpath)
            return EndOfTest(missing=why_not_collected(self.start.rootdir, folder, self._collect_errors[:3]))
        self._lost_device = None
        ending: BaseException | None = None
        try:
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=nextitem)
        except pytest.exit.Exception as error:
            ending = pytest.exit.Exception(str(error.msg), error.returncode)
        except KeyboardInterrupt as error:
            ending = KeyboardInterrupt(_last_line(str(error)))
        stop = item.session.shouldstop or item.session.shouldfail
        return EndOfTest(lost_device=self._lost_device, stop=str(stop) if stop else None, ending=ending)

    # While a test runs ---------------------------------------------------------------------------------------

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
        """Notice an error that has cost this process its device: nothing after it may be measured here."""
        if call.excinfo is not None and self._lost_device is None:
            self._lost_device = lost_device_reason(call.excinfo.value)
        return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Send a phase's report."""
        self.send("report", plain(self._config.hook.pytest_report_to_serializable(config=self._config, report=report)))

    def pytest_warning_recorded(
        self, warning_message: warnings.WarningMessage, when: str, nodeid: str, location: Any
    ) -> None:
        """Send a test's warning; those of collecting the parent has seen itself."""
        if when == "runtest":
            shown = warning_message
            kind = shown.category.__module__, shown.category.__qualname__
            self.send("warning", (str(shown.message), kind, shown.filename, shown.lineno, location))

    def pytest_internalerror(self, excrepr: Any) -> None:
        """Send the last line of an error inside pytest or a plugin: this process ends of it."""
        self.send("internal-error", _last_line(str(excrepr)))


def attach(config: pytest.Config, pickled_start: bytes, pipe: Any, crash: Any) -> None:
    """Turn this pytest into a worker, before it is configured."""
    _end_with_parent()
    start: WorkerStart = pickle.loads(pickled_start)
    start = replace(start, process=replace(start.process, pid=os.getpid()))
    vars(config.option).update(start.options)
    switch_off(config, start.process.ordinal)
    hooks = WorkerHooks(config, start, pipe, crash.fileno())
    sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - until the session starts: pytest's reporter takes it
    config.pluginmanager.register(hooks, PLUGIN_NAME)


def _end_with_parent() -> None:
    """Make this process end when its parent does, even by SIGKILL and even while a test hangs in C code.

    Where the system cannot do that (it is not Linux) this process ends with its next message.
    """
    set_parent_death_signal = 1  # PR_SET_PDEATHSIG of linux/prctl.h
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL, 0, 0, 0)
    parent = parent_process()
    if parent is None or not parent.is_alive():
        os._exit(1)


def plain(value: Any) -> Any:
    """Return a report as text, numbers, lists, tuples and dicts of them; another object (a user's property) becomes
    its text: the parent may not be able to load it.
    """
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    if isinstance(value, Mapping):
        return {plain(key): plain(content) for key, content in value.items()}
    if isinstance(value, list | tuple):
        parts = [plain(part) for part in value]
        return parts if isinstance(value, list) else tuple(parts)
    try:
        return None if value is None else repr(value)[:1000]
    except Exception:
        return f"<{type(value).__name__} that cannot be shown>"


def why_not_collected(rootdir: str, worker_rootdir: str, errors: Sequence[str]) -> Finding:
    """Return why a worker knows a test by another name, or not at all; `errors` of collecting its files, if any."""
    if errors:
        return finding("not-collected-by-worker", kind="error", error="; ".join(errors))
    if worker_rootdir == rootdir:
        return finding("not-collected-by-worker", kind="otherwise")
    return finding("rootdir-of-worker-differs", worker_folder=worker_rootdir, folder=rootdir)


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


_OFF: dict[str, Any] = {
    # files: junit, pytest's log file, pytest-benchmark, -html, -json-report, -reportlog, pastebin
    "xmlpath": None, "log_file": os.devnull, "htmlpath": None, "json_report": False, "report_log": None, "pastebin": None,
    "benchmark_json": None, "benchmark_save": None, "benchmark_autosave": None, "benchmark_compare": None, "benchmark_compare_fail": None,
    "benchmark_histogram": None, "benchmark_cprofile": None, "benchmark_only": False, "benchmark_enable": False, "benchmark_disable": True,
    # pytest's cache: selections by it are made by the parent; here they would select anew
    "lf": False, "failedfirst": False, "newfirst": False, "stepwise": False, "stepwise_skip": False, "stepwise_reset": False, "cacheclear": False,
    # when to stop is the parent's to say
    "maxfail": 0, "continue_on_collection_errors": True,
    # other processes, debuggers, displays
    "numprocesses": None, "dist": "no", "tx": [], "looponfail": False, "usepdb": False, "trace": False, "setupshow": False, "setupplan": False,
    "durations": None, "no_summary": True, "no_header": True,
    # ours: the run, its file and its counts belong to the parent
    "roofline_bench_json": None, "roofline_bench_require_measured": None, "roofline_bench_processes": None, "roofline_bench_isolate": "none", "roofline_bench_profile": None,
}  # fmt: skip
_WRITERS_OF_THE_CACHE = ("lfplugin", "nfplugin", "stepwiseplugin", "stepwise")


def switch_off(config: pytest.Config, ordinal: int) -> None:
    """Switch off what is not a worker's; call it before `config` is configured."""
    option_values = vars(config.option)
    for name, value in _OFF.items():
        if name in option_values:
            setattr(config.option, name, value)
    if option_values.get("basetemp"):  # pytest empties that folder when it starts, and another process is using it
        config.option.basetemp = f"{config.option.basetemp}-worker-{ordinal}"


def drop_cache_writers(config: pytest.Config) -> None:
    """Remove the plugins that would write what this process, which ran only some tests, knows; call it once
    configured.
    """
    for name in _WRITERS_OF_THE_CACHE:
        plugin = config.pluginmanager.get_plugin(name)
        if plugin is not None:
            config.pluginmanager.unregister(plugin)
