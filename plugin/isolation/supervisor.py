"""Runs roofline tests in workers: hands them out, logs their reports, replaces who dies.

A worker stores what it measures itself. One that dies or does not come back costs the case it was measuring, which is
stored here as failed. When the last test is over, the run is read back as all processes have stored it.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import pytest

from plugin.isolation.isolation import Isolation, measured, pass_of
from plugin.isolation.replay_item import finish_here, replay_benchmark
from plugin.isolation.worker import EndOfTest, Message
from plugin.isolation.worker_process import WorkerDiedError, WorkerProcess
from plugin.isolation.worker_session import WorkerStart
from plugin.run.session import BenchSession
from plugin.timers.clock import time, utc_now
from results.records.records import ProcessInfo, Record
from roofline_model.core.errors import StoreError
from roofline_model.core.finding import advice_text

STARTUP_LIMIT_S = 300.0
"""For a worker to import, collect and be ready; the per-case watchdog starts after it."""
IMPORT_LIMIT_S = 120.0
"""A fresh worker's first case may spend this long in imports (torch, Triton) on top of the watchdog's limit."""
END_LIMIT_S = 20.0
"""For a worker's fixtures to end; it is killed then."""
MAX_FAILED_STARTS = 3
_STACK_LINES = 20


class CannotStartError(Exception):
    """Workers die before they are ready; the text is one line."""


@dataclass(slots=True)
class _Running:
    """State of the test that a worker runs now."""

    item: pytest.Item
    """As pytest shows it: the test, or one of its further passes."""
    phases: dict[str, Any] = field(default_factory=dict)
    """Name of each phase that was reported → whether it passed."""
    declared: dict[str, Record] = field(default_factory=dict)
    """Last announcement of each case, by its record's id."""
    end: EndOfTest | None = None


@dataclass(slots=True)
class Supervisor:
    """Owns the worker of a run. `run` measures one test; `finish` ends the worker and reads the run back."""

    config: pytest.Config
    session: BenchSession
    isolation: Isolation
    report: Callable[[str], None]
    _worker: WorkerProcess | None = None
    _process: ProcessInfo = field(default_factory=ProcessInfo)
    _started: int = 0
    _cases_of_worker: int = 0
    _pass: int = 1
    """Of `--roofline-processes`: which of a case's fresh processes is asked for."""
    _uses_torch: bool = False
    _failed_starts: int = 0
    """Workers in a row that died, or were stopped by somebody else's watchdog, before they were ready."""
    _passed: list[tuple[pytest.Item, int]] = field(default_factory=list)
    """Tests that passed, each with its worker's ordinal."""

    def run(self, item: pytest.Item, following: pytest.Item | None, nextitem: Any) -> None:
        """Run a test in the worker and log it.

        `following` is what this worker will be asked for next, None for nothing; `nextitem` is pytest's own next test.
        Raises `CannotStartError`, and `StoreError` where the database takes no more results.
        """
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        running = _Running(item)
        self._pass = pass_of(item)
        began_s = time.time()
        if self.isolation.kind == "case":
            following = None
        try:
            worker = self.ready_worker()
            worker.send((measured(item).nodeid, following.nodeid if following else None))
            self._listen(worker, running)
        except WorkerDiedError as death:
            self._bury(running, death, began_s)
        except pytest.fail.Exception as error:  # a watchdog of somebody else's, such as pytest-timeout's
            self._bury(running, WorkerDiedError.was(f"stopped: {error}"), began_s)
        except BaseException:  # Ctrl-C, SIGTERM, a lost database
            self.kill()
            raise
        self._conclude(running, nextitem)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        if following is None:
            self.close()

    def close(self) -> None:
        """Let the worker finish its fixtures and look at the canary once more, then end it.

        Does nothing without one.
        """
        worker, self._worker = self._worker, None
        if worker is None:
            return
        until_s = time.monotonic() + END_LIMIT_S
        try:
            worker.send(None)
            while (message := worker.wait(until_s)) is not None:
                self._serve(message)
        except (WorkerDiedError, pytest.fail.Exception):
            pass  # as it should, or somebody else's watchdog has waited long enough
        finally:
            worker.kill()

    def finish(self) -> None:
        """End the worker; give the session what all workers have stored, and pytest-benchmark its rows."""
        for step in (self.close, self.session.catch_up):
            with contextlib.suppress(StoreError):  # the session has noted it
                step()
        samples_s: dict[tuple[int, str], Sequence[float]] = {}
        for record in self.session.records:
            if record.measurement is not None:  # of several in one test the first counts
                samples_s.setdefault((record.process.ordinal, record.test_id), record.measurement.samples_s)
        for item, ordinal in self._passed:
            replay_benchmark(item, samples_s.get((ordinal, measured(item).nodeid), ()))

    def kill(self) -> None:
        """End the worker at once."""
        if self._worker is not None:
            self._worker.kill()
            self._worker = None

    # A worker's start ----------------------------------------------------------------------------------------

    def ready_worker(self) -> WorkerProcess:
        """Return the worker, started where none lives. Raises `CannotStartError`.

        Call it before the first test as well: no test's own time limit then pays for the start.
        """
        if self._worker is not None and (end := self._worker.end()) is not None:
            self._note_end(f"{end} between two cases")  # what the last one left running; the next is not to blame
            self.kill()
        while self._worker is None:
            worker = self._start()
            try:
                self._await_ready(worker)
            except WorkerDiedError as death:
                self._give_up(worker, death)
            except pytest.fail.Exception as error:
                stopped = WorkerDiedError.was(f"stopped before ready: {error}")
                self._give_up(worker, stopped)
                raise stopped from None
            except BaseException:
                worker.kill()
                raise
            else:
                self._worker, self._failed_starts = worker, 0
        return self._worker

    def _give_up(self, worker: WorkerProcess, death: WorkerDiedError) -> None:
        """End a worker that is not ready. Raises `CannotStartError` for the third in a row."""
        worker.kill()
        self._note_end(death.end)
        self._failed_starts += 1
        if self._failed_starts == MAX_FAILED_STARTS:
            last_words = worker.output_tail().rpartition("\n")[2].strip()[:200]
            raise CannotStartError(
                f"roofline: {MAX_FAILED_STARTS} workers in a row were never ready; the last: {death}"
                f"{f' ({last_words})' if last_words else ''}; raise a time limit that stopped it, or measure in pytest's "
                "own process with --roofline-isolate none"
            )

    def _start(self) -> WorkerProcess:
        session = self.session
        assert session.run is not None
        self._started += 1
        self._cases_of_worker = 0
        self._process = ProcessInfo(self._started, None, session.process.host, utc_now(), role="worker")
        start = WorkerStart(
            run=session.run,
            process=self._process,
            database=str(session.local_file),
            hardware=session.target.hardware,
            rootdir=str(self.config.rootpath),
            options=_plain_options(self.config),
            pass_ordinal=self._pass,
            may_visit=self.isolation.kind != "case",
            preload=("torch",) if self._uses_torch or session.instruments.runs_on_gpu else (),
        )
        folder = Path(str(self.config.invocation_params.dir))
        worker = WorkerProcess.start(worker_arguments(self.config), folder, start, self.config.option.capture != "fd")
        self._process = replace(self._process, pid=worker.process.pid)
        return worker

    def _await_ready(self, worker: WorkerProcess) -> None:
        until_s = worker.started_s + STARTUP_LIMIT_S
        while (message := worker.wait(until_s)) is not None:
            if message[0] == "ready":
                return
            self._serve(message)
        raise WorkerDiedError.was(f"not ready after {STARTUP_LIMIT_S:g} s{_at(worker.stack())}")

    # A test's messages ---------------------------------------------------------------------------------------

    def _listen(self, worker: WorkerProcess, running: _Running) -> None:
        """Take messages until the test is done. Raises `WorkerDiedError`."""
        began_s = time.monotonic()
        limit_s = self.session.options.timeout_s
        until_s = began_s + limit_s
        while running.end is None:
            message = worker.wait(until_s)
            if message is not None:
                self._take(running, message)
                if message[0] == "restart-clock":
                    until_s = time.monotonic() + limit_s
                continue
            stack = worker.stack()
            is_importing = self._cases_of_worker == 0 and any("importlib._bootstrap" in line for line in stack)
            if is_importing and time.monotonic() < began_s + limit_s + IMPORT_LIMIT_S:
                until_s = time.monotonic() + min(limit_s, 5.0)
                continue
            end = f"timeout after {limit_s:g} s"
            raise WorkerDiedError(end, f"{end}: raise it with --roofline-timeout SECONDS{_at(stack)}")

    def _take(self, running: _Running, message: Message) -> None:
        kind, content = message
        if kind == "report":
            report = self.config.hook.pytest_report_from_serializable(config=self.config, data=content)
            report.nodeid, report.location = running.item.nodeid, running.item.location
            self._log(running, report)
        elif kind == "declared":
            running.declared[content.record_id] = content
        elif kind == "warning":
            self._warn(running.item.nodeid, *content)
        elif kind == "done":
            running.end = content
        else:
            self._serve(message)

    def _serve(self, message: Message) -> None:
        """Do what a worker asks for, whichever test it runs. Raises `WorkerDiedError`, and `StoreError` for a database
        that takes no more results.
        """
        kind, content = message
        if kind == "note":
            self.report(content)
        elif kind == "broken":
            raise self.session.lose(*content)
        elif kind == "internal-error":
            raise WorkerDiedError(f"broke down: {content}")

    def _log(self, running: _Running, report: pytest.TestReport) -> None:
        running.phases[report.when] = report.passed
        running.item.ihook.pytest_runtest_logreport(report=report)

    def _warn(self, nodeid: str, text: str, kind: tuple[str, str], filename: str, line: int, location: Any) -> None:
        module, name = kind
        category = getattr(sys.modules.get(module), name, None)
        if not (isinstance(category, type) and issubclass(category, Warning)):
            category = UserWarning  # of a class that is not known here
        shown = warnings.WarningMessage(UserWarning(text), category, filename, line)
        self.config.hook.pytest_warning_recorded.call_historic(
            kwargs={"warning_message": shown, "when": "runtest", "nodeid": nodeid, "location": location}
        )

    # The end of a test ---------------------------------------------------------------------------------------

    def _conclude(self, running: _Running, nextitem: Any) -> None:
        """Do what pytest does after a test here: the fixtures of other tests, requests to stop."""
        item, end = running.item, running.end or EndOfTest(uses_torch=False)
        self._uses_torch = self._uses_torch or end.uses_torch
        self._cases_of_worker += 1
        if end.missing is not None:
            self._fail(running, advice_text(end.missing), [], "", time.time())
        if running.phases.get("call"):
            self._passed.append((item, self._process.ordinal))
        finish_here(item, nextitem)
        if end.lost_device is not None:
            self._note_end(f"lost its device: {end.lost_device}")
            self.kill()
        if end.stop is not None:
            item.session.shouldstop = end.stop
        if end.ending is not None:
            self.kill()
            raise end.ending

    def _bury(self, running: _Running, death: WorkerDiedError, began_s: float) -> None:
        """Store and log what a dead worker leaves behind: its case failed, what it had measured before stays."""
        worker, reason = self._worker, str(death)
        self.kill()
        stack: list[str] = []
        output = ""
        if worker is not None:  # else it was never ready
            stack, output = worker.crash_stack(), worker.output_tail()
            self._note_end(death.end)
        self.session.bury(running.declared.values(), reason)
        if "teardown" not in running.phases:  # else the test was over; the next one gets a fresh worker
            self._fail(running, reason, stack, output, began_s)

    def _fail(self, running: _Running, reason: str, stack: Sequence[str], output: str, began_s: float) -> None:
        """Log the phase in which the worker was lost as failed."""
        phase: Literal["call", "teardown"] = "teardown" if "call" in running.phases else "call"
        text = "\n".join([reason, *(["", "Innermost frame first:", *_own_frames(stack)] if stack else [])])
        call = pytest.CallInfo.from_call(lambda: pytest.fail(reason), when=phase)
        call.start, call.duration = began_s, max(0.0, call.stop - began_s)
        report = pytest.TestReport.from_item_and_call(running.item, call)
        report.longrepr = text
        report.sections += [("Worker output", output)] if output else []
        self._log(running, report)
        if phase == "call":
            nothing = pytest.CallInfo.from_call(lambda: None, when="teardown")
            self._log(running, pytest.TestReport.from_item_and_call(running.item, nothing))

    def _note_end(self, end: str) -> None:
        self.session.end_process(self._process, end[:300])


def _own_frames(stack: Sequence[str]) -> list[str]:
    """Return the frames of the test and what it called, without pytest's below them."""
    own_frames = list(itertools.takewhile(lambda line: "/_pytest/" not in line, stack))
    return (own_frames or list(stack))[:_STACK_LINES]


def _at(stack: Sequence[str]) -> str:
    return f", at {stack[0]}" if stack else ""


def worker_arguments(config: pytest.Config) -> list[str]:
    """Return the arguments of a worker of this pytest: the user's own, behind the rootdir and the ini file found here.

    From the user's arguments alone a worker may find others: pytest takes every word of them that is an existing path
    for a test's, and the results database of `--roofline-db FILE` exists by the time a worker starts. Ours go first:
    whatever stands last on a command line may be an option that takes the next word.
    """
    invocation = config.invocation_params
    ini = [] if config.inipath is None else ["-c", str(config.inipath)]
    plugins = [part for name in invocation.plugins or () for part in ("-p", str(name))]
    return [f"--rootdir={config.rootpath}", *ini, *map(str, invocation.args), *plugins]


def _plain_options(config: pytest.Config) -> dict[str, Any]:
    """Return the values of pytest's options here, among them those that plugins have settled (a seed)."""
    return {
        n: value for n, value in vars(config.option).items() if value is None or isinstance(value, str | int | float)
    }
