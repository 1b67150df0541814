"""Runs roofline tests in workers: hands them out, logs their reports, stores their records, replaces who dies.

A worker that dies or does not come back costs the case it was measuring; everything it sent before is kept.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from plugin.isolation.isolation import Isolation, pass_of, watchdog_s
from plugin.isolation.replay_item import finish_here, replay_benchmark
from plugin.isolation.worker_process import WorkerDiedError, WorkerProcess
from plugin.isolation.worker_protocol import Message, report_from, warning_from
from plugin.isolation.worker_session import pack
from plugin.run.session import BenchSession
from plugin.timers.clock import time, utc_now
from results.records.plain_form import from_plain, to_plain
from results.records.records import ProcessInfo, Record
from results.records.state_records import CanaryReading
from roofline_model.core.finding import Finding, advice_text, finding

STARTUP_LIMIT_S = 300.0
"""For a worker to import, collect and be ready; the per-case watchdog starts after it."""
IMPORT_LIMIT_S = 120.0
"""A fresh worker's first case may spend this long in imports (torch, Triton) on top of the watchdog's limit."""
END_LIMIT_S = 20.0
"""For a worker's fixtures to end; it is killed then."""
_STOPPED_EARLY = "stopped before ready"
MAX_FAILED_STARTS = 3
_ABOUT_A_TEST = ("report", "record", "declared", "done")
_STACK_LINES = 20


class CannotStartError(Exception):
    """Workers die before they are ready; the text is one line."""


@dataclass(slots=True)
class _Running:
    """State of the test that a worker runs now."""

    item: pytest.Item
    """As pytest shows it: the test, or one of its further passes."""
    worker_nodeid: str = ""
    """The test the worker was told to run."""
    reports: list[Any] = field(default_factory=list)
    declared: dict[str, Message] = field(default_factory=dict)
    """Last announcement of each case that is not stored yet, by case key."""
    stored: list[Record] = field(default_factory=list)
    done: Message | None = None


@dataclass(slots=True)
class Supervisor:
    """Owns the worker of a run. `run` measures one test; `close` ends the worker."""

    config: pytest.Config
    session: BenchSession
    isolation: Isolation
    report: Callable[[str], None]
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    _worker: WorkerProcess | None = None
    _process: ProcessInfo = field(default_factory=ProcessInfo)
    _started: int = 0
    _cases_of_worker: int = 0
    _pass: int = 1
    """Of `--roofline-processes`: which of a case's fresh processes is asked for."""
    _uses_torch: bool = False
    _interrupted_starts: int = 0
    """Workers in a row that somebody else's watchdog stopped before they were ready."""

    @property
    def limit_s(self) -> float:
        """Return the watchdog's limit for one case."""
        return watchdog_s(self.session.options)

    def run(self, item: pytest.Item, measured: pytest.Item, following: pytest.Item | None, nextitem: Any) -> None:
        """Run a test in the worker and log it as `item`.

        `measured` is the collected test, which differs from `item` for a further pass; `following` is what this worker
        will be asked for next, None for nothing; `nextitem` is pytest's own next test. Raises `CannotStartError`.
        """
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        running = _Running(item, measured.nodeid)
        self._pass = pass_of(item)
        began_s = time.time()
        try:
            worker = self._ready_worker()
            if self.isolation.kind == "case":
                following = None
            worker.send({"kind": "run", "test": running.worker_nodeid, "next": following.nodeid if following else None})
            self._listen(worker, running)
        except WorkerDiedError as death:
            self._bury(running, death, began_s)
        except pytest.fail.Exception as error:  # a watchdog of somebody else's, such as pytest-timeout's
            self._bury(running, self._stopped_by(error), began_s)
        except BaseException:  # Ctrl-C, SIGTERM, a lost database
            self.kill()
            raise
        self._conclude(running, nextitem)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        if following is None and self._worker is not None:
            self.close()

    def start(self) -> None:
        """Start the first worker before the first test, so that no test's own time limit pays for it. Raises
        `CannotStartError`.
        """
        self._ready_worker()

    def close(self) -> None:
        """Let the worker finish its fixtures and look at the canary once more, then end it.

        Does nothing without one.
        """
        worker, self._worker = self._worker, None
        if worker is None:
            return
        until_s = time.monotonic() + END_LIMIT_S
        try:
            worker.send({"kind": "stop"})
            while (message := worker.wait(until_s)) is not None:
                self._serve(worker, message)
        except WorkerDiedError:
            pass  # as it should
        finally:
            worker.kill()

    def kill(self) -> None:
        """End the worker at once."""
        if self._worker is not None:
            self._worker.kill()
            self._worker = None

    # A worker's start ----------------------------------------------------------------------------------------

    def _ready_worker(self) -> WorkerProcess:
        failed: list[str] = []
        if self._worker is not None and (end := self._worker.end()) is not None:
            self._note_end(f"{end} between two cases")  # what the last one left running; the next is not to blame
            self.kill()
        while self._worker is None:
            worker = self._start()
            try:
                self._introduce(worker)
                self._worker = worker
                self._interrupted_starts = 0
            except WorkerDiedError as death:
                worker.kill()
                failed.append(str(death))
                self._note_end(death.end)
                if len(failed) == MAX_FAILED_STARTS:
                    raise _start_error(failed, worker.output_tail()) from None
            except BaseException:
                worker.kill()
                raise
        return self._worker

    def _start(self) -> WorkerProcess:
        self._started += 1
        self._cases_of_worker = 0
        folder = Path(str(self.config.invocation_params.dir))
        passes_output = self.config.option.capture != "fd"
        arguments = worker_arguments(self.config)
        environment = {name: value for name, value in self.environment.items() if name != "PYTEST_CURRENT_TEST"}
        worker = WorkerProcess.start(arguments, folder, self._started, passes_output, environment)
        self._process = ProcessInfo(
            self._started, worker.process.pid, self.session.process.host, utc_now(), role="worker"
        )
        return worker

    def _introduce(self, worker: WorkerProcess) -> None:
        assert self.session.run is not None
        until_s = worker.started_s + STARTUP_LIMIT_S
        while (message := worker.wait(until_s)) is not None:
            if message["kind"] == "hello":
                worker.send(
                    {
                        "kind": "start",
                        "process": to_plain(self._process),
                        "options": _plain_options(self.config),
                        "pass": self._pass,
                        "visits": self.isolation.kind != "case",
                        "run": to_plain(self.session.run),
                        "hardware": pack(self.session.target.hardware),
                        "preload": ["torch"] if self._uses_torch or self.session.instruments.runs_on_gpu else [],
                    }
                )
            elif message["kind"] == "ready":
                return
            else:
                self._serve(worker, message)
        raise WorkerDiedError.was(f"not ready after {STARTUP_LIMIT_S:g} s{_at(worker.stack())}")

    # A test's messages ---------------------------------------------------------------------------------------

    def _listen(self, worker: WorkerProcess, running: _Running) -> None:
        """Take messages until the test is done. Raises `WorkerDiedError`."""
        began_s = time.monotonic()
        until_s = began_s + self.limit_s
        while running.done is None:
            message = worker.wait(until_s)
            if message is not None:
                self._take(worker, running, message)
                if message["kind"] in ("canary", "completed"):  # its time, or another case's, is not the case's
                    until_s = time.monotonic() + self.limit_s
                continue
            stack = worker.stack()
            is_importing = self._cases_of_worker == 0 and any("importlib._bootstrap" in line for line in stack)
            if is_importing and time.monotonic() < began_s + self.limit_s + IMPORT_LIMIT_S:
                until_s = time.monotonic() + min(self.limit_s, 5.0)
                continue
            end = f"timeout after {self.limit_s:g} s"
            raise WorkerDiedError(end, f"{end}: raise it with --roofline-timeout SECONDS{_at(stack)}")

    def _stopped_by(self, error: BaseException) -> WorkerDiedError:
        """Return the death of a worker that somebody else's time limit stopped. Raises `CannotStartError` for the third
        start.
        """
        if self._worker is not None:
            return WorkerDiedError.was(f"stopped: {error}")
        self._interrupted_starts += 1
        if self._interrupted_starts == MAX_FAILED_STARTS:
            self._note_end(_STOPPED_EARLY)
            raise CannotStartError(
                f"roofline: {MAX_FAILED_STARTS} workers in a row were stopped before they were ready ({error}): raise "
                "that "
                "limit, or measure in pytest's own process with --roofline-isolate none"
            ) from None
        return WorkerDiedError.was(f"{_STOPPED_EARLY}: {error}")

    def _take(self, worker: WorkerProcess, running: _Running, message: Message) -> None:
        kind = message["kind"]
        if kind in _ABOUT_A_TEST and message.get("test") != running.worker_nodeid:
            raise WorkerDiedError("mixed up its messages")
        if kind == "report":
            self._log(running, report_from(self.config, message["report"]))
        elif kind == "record":
            record = from_plain(Record, message["record"], "record")
            self.session.add(record)
            running.stored.append(record)
            running.declared.pop(record.case.case_key, None)
        elif kind == "declared":
            running.declared[message["case_key"]] = message["record"]
        elif kind == "warning":
            self._warn(running, message)
        elif kind == "done":
            running.done = message
        else:
            self._serve(worker, message)

    def _serve(self, worker: WorkerProcess, message: Message) -> None:
        """Do what a worker asks of the run, whichever test it runs. Raises `WorkerDiedError`."""
        kind = message["kind"]
        if kind == "canary":
            self.session.add_canary(from_plain(CanaryReading, message["reading"], "reading"))
        elif kind == "completed":
            self.session.complete(from_plain(Record, message["record"], "record"))
        elif kind == "canary-times":
            worker.send({"kind": "times", "times": self.session.earlier_canary_times(message["kernel"])})
        elif kind == "flag":
            self.session.flag_records(message["record_ids"], message["flag"])
        elif kind == "note":
            self.report(message["text"])
        elif kind == "internal-error":
            raise WorkerDiedError(f"broke down: {message['text']}")

    def _log(self, running: _Running, report: Any) -> None:
        report.nodeid = running.item.nodeid
        report.location = running.item.location
        running.reports.append(report)
        running.item.ihook.pytest_runtest_logreport(report=report)

    def _warn(self, running: _Running, message: Message) -> None:
        self.config.hook.pytest_warning_recorded.call_historic(
            kwargs={
                "warning_message": warning_from(message["warning"]),
                "when": "runtest",
                "nodeid": running.item.nodeid,
                "location": None if message["location"] is None else tuple(message["location"]),
            }
        )

    # The end of a test ---------------------------------------------------------------------------------------

    def _conclude(self, running: _Running, nextitem: Any) -> None:
        """Do what pytest does after a test here: pytest-benchmark's row, the fixtures of other tests, requests to
        stop.
        """
        end_message = running.done or {}
        self._uses_torch = self._uses_torch or bool(end_message.get("torch"))
        self._cases_of_worker += 1
        item = running.item
        if "missing" in end_message:
            reason = why_not_collected(self.config, end_message["rootdir"], end_message["missing"])
            self._fail(running, advice_text(reason), [], "", time.time())
        measured = next((record for record in running.stored if record.measurement is not None), None)
        passed = any(report.when == "call" and report.passed for report in running.reports)
        if measured is not None and measured.measurement is not None and passed:
            row = replay_benchmark(item, measured.measurement.samples_s)
            self.session.benchmark_rows[measured.record_id] = row
        finish_here(item, nextitem)
        lost_device = end_message.get("lost_device")
        if lost_device:
            self._note_end(f"lost its device: {lost_device}")
            self.kill()
        if end_message.get("stop"):
            item.session.shouldstop = end_message["stop"]
        if end_message.get("exit") is not None:
            self.kill()
            pytest.exit(end_message["exit"], returncode=end_message["returncode"])
        if end_message.get("interrupt") is not None:
            self.kill()
            raise KeyboardInterrupt(end_message["interrupt"])

    def _bury(self, running: _Running, death: WorkerDiedError, began_s: float) -> None:
        """Store and log what a dead worker leaves behind: its case failed, what it had measured before stays."""
        worker = self._worker
        self.kill()
        stack = worker.crash_stack() if worker else []
        output = worker.output_tail() if worker else ""
        reason = str(death)
        self._note_end(death.end)
        for plain in list(running.declared.values()):
            record = from_plain(Record, plain, "record")
            if record.status == "measured":
                record = replace(record, extra={**record.extra, "test_failure": reason})
            elif record.status == "failed":
                record = replace(record, reason=reason)
            self.session.add(record)
        if any(report.when == "teardown" for report in running.reports):
            return  # the test was over; the next one gets a fresh worker
        self._fail(running, reason, stack, output, began_s)

    def _fail(self, running: _Running, reason: str, stack: Sequence[str], output: str, began_s: float) -> None:
        """Log the phase in which the worker was lost as failed."""
        phases = {report.when for report in running.reports}
        phase = "teardown" if "call" in phases else "call"
        end_time = time.time()
        text = "\n".join([reason, *(["", "Innermost frame first:", *_own_frames(stack)] if stack else [])])
        item = running.item

        def log(when: str, outcome: str, longrepr: str | None, started: float) -> None:
            report = pytest.TestReport(
                nodeid=item.nodeid,
                location=item.location,
                keywords=dict.fromkeys(item.keywords, 1),
                outcome=outcome,  # type: ignore[arg-type]
                longrepr=longrepr,
                when=when,  # type: ignore[arg-type]
                sections=[("Worker output", output)] if output and longrepr else [],
                duration=max(0.0, end_time - started),
                start=started,
                stop=end_time,
            )
            running.reports.append(report)
            item.ihook.pytest_runtest_logreport(report=report)

        log(phase, "failed", text, began_s)
        if phase == "call":
            log("teardown", "passed", None, end_time)

    def _note_end(self, end: str) -> None:
        self.session.end_process(self._process, end[:300])


def _own_frames(stack: Sequence[str]) -> list[str]:
    """Return the frames of the test and what it called, without pytest's below them."""
    own_frames = list(itertools.takewhile(lambda line: "/_pytest/" not in line, stack))
    return (own_frames or list(stack))[:_STACK_LINES]


def _at(stack: Sequence[str]) -> str:
    return f", at {stack[0]}" if stack else ""


def _start_error(reasons: Sequence[str], output: str) -> CannotStartError:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    last = f" ({lines[-1][:200]})" if lines else ""
    return CannotStartError(
        f"roofline: {len(reasons)} workers in a row died before they were ready; the last: {reasons[-1]}{last}; "
        "--roofline-isolate none measures in pytest's own process"
    )


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


def why_not_collected(config: pytest.Config, worker_rootdir: str, errors: Sequence[str]) -> Finding:
    """Return why a worker knows a test by another name, or not at all; `errors` of collecting its files, if any."""
    if errors:
        return finding("not-collected-by-worker", error="; ".join(errors))
    if worker_rootdir == str(config.rootpath):
        return finding("collected-otherwise-by-worker")
    return finding("rootdir-of-worker-differs", worker_folder=worker_rootdir, folder=str(config.rootpath))
