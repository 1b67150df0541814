"""The child side of isolation: a pytest that collects the user's tests and then runs single ones when it is told to.

It prints nothing, writes no file and no database. Everything it finds goes over a pipe to the pytest that started it,
see `worker_protocol.py`; when that pytest is gone, it ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import importlib
import os
import signal
import sys
import threading
import warnings
from typing import Any

import pytest

from plugin.isolation.device_errors import lost_device_reason
from plugin.isolation.worker_protocol import Message, receive, send, warning_to_plain

VARIABLE = "ROOFLINE_WORKER"
"""Set for a worker: `read descriptor,write descriptor,crash descriptor,parent's process id`."""
PLUGIN_NAME = "roofline_bench_worker"
DUMP_SIGNAL = signal.SIGUSR2
"""Makes a worker write its Python stack to the crash file; works while C code holds the interpreter."""


class WorkerHooks:
    """The worker's end of the pipes, and the hooks that turn pytest into a worker."""

    def __init__(self, config: pytest.Config, read_from: int, write_to: int, crash_file: int) -> None:
        self._config = config
        self._read_from = read_from
        self._write_to = write_to
        self._crash_file = crash_file
        self._stdout = sys.stdout
        self._collect_errors: list[str] = []
        self._lost_device: str | None = None
        self.test_id = ""
        self.start: Message = {}
        self._pid = os.getpid()
        os.register_at_fork(after_in_child=self._cut_off)

    # The link ------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Connect to the parent and wait for the run of this worker."""
        self.send({"kind": "hello"})
        self.start = self._receive()

    def send(self, message: Message) -> None:
        """Send a message to the parent; end at once if the parent is gone.

        So does a process that a test forked and that came back into pytest: its messages would count as the worker's.
        """
        try:
            if os.getpid() != self._pid:  # forked in C, where Python tells nobody
                os._exit(1)
            send(self._write_to, {**message, "test": self.test_id})
        except OSError:
            os._exit(1)

    def ask(self, message: Message) -> Message:
        """Send a message to the parent and wait for its answer."""
        self.send(message)
        return self._receive()

    def _receive(self) -> Message:
        try:
            message = receive(self._read_from) if os.getpid() == self._pid else None
        except OSError:  # a test closed every descriptor it could find
            message = None
        if message is None:
            os._exit(1)
        return message

    def _cut_off(self) -> None:
        """Close the pipes in a process that a test forks: only the worker itself may speak and listen."""
        for descriptor in (self._read_from, self._write_to):
            with contextlib.suppress(OSError):
                os.close(descriptor)
        self._read_from = self._write_to = -1  # the numbers may be given to files of the child

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
        for name in self.start["preload"]:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
        items = {item.nodeid: item for item in session.items}
        self.send({"kind": "ready", "count": len(items)})
        while (command := self._receive())["kind"] == "run":
            self.test_id = command["test"]
            item = items.get(self.test_id)
            if item is None:
                missing = {"missing": self._collect_errors[:3], "rootdir": str(self._config.rootpath)}
                self.send({"kind": "done", **missing, "torch": "torch" in sys.modules})
                continue
            answer = self._run(item, items.get(command["next"]))
            self.send(answer)
            if answer.get("exit") is not None or answer.get("interrupt") is not None:
                break
        return True

    def _run(self, item: pytest.Item, nextitem: pytest.Item | None) -> Message:
        """Run one test; its reports and records are sent while it runs. Returns how it ended."""
        self._lost_device = None
        answer: Message = {"kind": "done"}
        try:
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=nextitem)
        except pytest.exit.Exception as error:
            answer |= {"exit": str(error.msg), "returncode": error.returncode}
        except KeyboardInterrupt as error:
            answer |= {"interrupt": _last_line(str(error))}
        stop = item.session.shouldstop or item.session.shouldfail
        return answer | {
            "lost_device": self._lost_device,
            "stop": str(stop) if stop else None,
            "torch": "torch" in sys.modules,
        }

    # While a test runs ---------------------------------------------------------------------------------------

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
        """Notice an error that has cost this process its device: nothing after it may be measured here."""
        if call.excinfo is not None and self._lost_device is None:
            self._lost_device = lost_device_reason(call.excinfo.value)
        return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Send a phase's report."""
        plain = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self.send({"kind": "report", "report": plain})

    def pytest_warning_recorded(
        self, warning_message: warnings.WarningMessage, when: str, nodeid: str, location: Any
    ) -> None:
        """Send a test's warning; those of collecting the parent has seen itself."""
        if when == "runtest":
            self.send(
                {
                    "kind": "warning",
                    "warning": warning_to_plain(warning_message),
                    "location": location,
                }
            )

    def pytest_internalerror(self, excrepr: Any) -> None:
        """Send the last line of an error inside pytest or a plugin: this process ends of it."""
        self.send({"kind": "internal-error", "text": _last_line(str(excrepr))})


def attach(config: pytest.Config) -> None:
    """Turn this pytest into a worker, before it is configured. Called where the variable is set."""
    read_from, write_to, crash_file, parent = (int(part) for part in os.environ.pop(VARIABLE).split(","))
    for descriptor in (read_from, write_to, crash_file):
        os.set_inheritable(descriptor, False)  # the programs a test starts shall not keep the pipe open
    _end_with(parent)
    hooks = WorkerHooks(config, read_from, write_to, crash_file)
    hooks.begin()
    vars(config.option).update(hooks.start["options"])
    switch_off(config, hooks.start["process"]["ordinal"])
    sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - until the session starts: pytest's reporter takes it
    config.pluginmanager.register(hooks, PLUGIN_NAME)


def _end_with(parent: int) -> None:
    """Make this process end when its parent does, even by SIGKILL and even while a test hangs in C code."""
    set_parent_death_signal = 1  # PR_SET_PDEATHSIG of linux/prctl.h
    try:
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL, 0, 0, 0)
    except (OSError, AttributeError):  # not Linux
        threading.Thread(target=_watch, args=(parent,), daemon=True).start()
    if os.getppid() != parent:
        os._exit(1)


def _watch(parent: int) -> None:
    pause = threading.Event()
    while os.getppid() == parent:
        pause.wait(1.0)
    os._exit(1)


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
