"""pytest's hooks, wired to the session: attach, measure, store, show. No arithmetic here."""

from __future__ import annotations

import contextlib
import difflib
import os
import shlex
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from plugin.calibrate.cpu_calibration import CALIBRATION_SHAPES, calibration_note
from plugin.isolation import device_share
from plugin.isolation.isolation import (
    Isolation,
    PassItem,
    add_passes,
    decide,
    followers,
    remember_as_tests,
)
from plugin.isolation.supervisor import CannotStartError, Supervisor
from plugin.isolation.worker import PLUGIN_NAME
from plugin.isolation.worker_session import WorkerSession
from plugin.pytest_glue.fixtures import RooflineFixture
from plugin.run import benchmark_bridge
from plugin.run.baseline import BaselineCheck
from plugin.run.options import BenchOptions
from plugin.run.pending import clean, failure
from plugin.run.session import BenchSession
from plugin.run.target import Target
from plugin.run.visits import FAILED_VISIT
from plugin.samples.correctness import WrongResultError
from plugin.sensors.nvml import number_like_nvml
from plugin.terminal import summary as terminal
from plugin.terminal.progress import Progress
from plugin.timers.profiler import ncu_commands
from roofline_model.core.errors import InvalidValueError, RooflineError
from roofline_model.core.finding import advice_text, finding, from_stored
from roofline_model.core.units import counted
from roofline_pytest import is_ours

_fixture_key: pytest.StashKey[RooflineFixture] = pytest.StashKey()


class RooflineHooks:
    """One per pytest session that uses us; registered by `roofline_pytest.load`."""

    def __init__(self, config: pytest.Config, usage_error: type[Exception]) -> None:
        self.config = config
        self.usage_error = usage_error
        self._options: BenchOptions | None = None
        self._session: BenchSession | None = None
        self._progress: Progress | None = None
        self._deselected: list[str] = []
        self._our_ids: set[str] = set()
        self._isolation: Isolation | None = None
        self._supervisor: Supervisor | None = None
        self._followers: dict[pytest.Item, pytest.Item | None] = {}
        self._signals = EndOnSignal()
        self._baseline: BaselineCheck | None = None
        self._link = config.pluginmanager.get_plugin(PLUGIN_NAME)  # set in a worker of ours
        number_like_nvml(os.environ)
        self._device = device_share.claim_device(os.environ) if _is_xdist_worker(config) else None

    @property
    def options(self) -> BenchOptions:
        """The parsed options; raises a `RooflineError` for a bad one."""
        if self._options is None:
            self._options = BenchOptions.from_pytest_config(self.config)
            if self.config.pluginmanager.hasplugin("dsession") or _is_xdist_worker(self.config):
                _check_for_xdist(self._options)
        return self._options

    @property
    def session(self) -> BenchSession:
        """The session, made on first use; no database is opened and nothing measured by making it."""
        if self._session is None:
            folder = Path(str(self.config.invocation_params.dir))
            if self._link is not None:
                self._session = WorkerSession(self.options, folder, self._report, self._link)
            else:
                self._session = BenchSession(self.options, folder, self._report)
                _share_machine(self.config, self.options, self._session.target)
        return self._session

    @property
    def target(self) -> Target:
        """Which chip, which device, may it measure."""
        return self.session.target

    @property
    def isolation(self) -> Isolation:
        """Isolation of this session's cases; raises a `RooflineError` for contradictory options."""
        if self._isolation is None:
            self._isolation = decide(self.options, self.target, self.config)
        return self._isolation

    def fixture(self, request: pytest.FixtureRequest, benchmark: Any) -> Iterator[RooflineFixture]:
        """Give a test its fixture object and keep it for the report."""
        self.session.open()
        fixture = RooflineFixture(self.session, request, benchmark)
        request.node.stash[_fixture_key] = fixture
        yield fixture

    # Before the tests ----------------------------------------------------------------------------------------

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        """Remember what -k left out, to name the nearest when nothing is left."""
        self._deselected += [item.name for item in items if is_ours(item)]

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Add the passes of `--roofline-processes` now that everybody (`-k`, `--lf`, `--sw` …) has selected what to
        run.

        pytest-benchmark gets its replaying timer before it makes its fixtures.
        """
        roofline_items = [item for item in session.items if is_ours(item)]
        if roofline_items and self._link is None and not self.config.pluginmanager.hasplugin("dsession"):
            try:
                add_passes(session.items, roofline_items, self.isolation.process_count or 1)
            except RooflineError as error:
                raise self.usage_error(str(error)) from None
        for item in session.items:
            if is_ours(item):
                self._our_ids.add(item.nodeid)
                if not isinstance(item, PassItem):
                    benchmark_bridge.attach_timer(item)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """Open the run before the first test, so that calibration is shown and is nobody's set-up time."""
        roofline_items = [item for item in session.items if is_ours(item)]
        is_controller = self.config.pluginmanager.hasplugin("dsession")
        if not roofline_items or session.config.option.collectonly or is_controller or self._link is not None:
            return
        try:
            run = self.session.open()
            isolation = self.isolation
            if self.options.baseline is not None:
                self._baseline = BaselineCheck.begin(self.options, run, self._report)
        except RooflineError as error:
            raise self.usage_error(str(error)) from None
        chip = self.target.hardware
        facts = run.environment.facts
        software = f"torch {facts['torch']}" if facts.get("torch") else "no torch"
        driver = f" · driver {facts['driver']}" if facts.get("driver") else ""
        sensors = self.session.instruments.sensors
        clock_hz = sensors.sm_clock_hz() if sensors is not None else None
        driver += f" · SM clock {clock_hz / 1e6:.0f} MHz" if clock_hz else ""
        self._report(
            f"{chip.key} ({chip.name}) · {software}{driver} · {chip.bandwidth.value / 1e9:.4g} GB/s · run "
            f"{run.run_id[:8]} → {self.session.database}"
        )
        is_timing_kernels = self.options.shapes == CALIBRATION_SHAPES
        if note := calibration_note(chip, is_timing_kernels=is_timing_kernels):
            self._report(note)
        for item in map(from_stored, facts.get("warnings", ())):
            self._report(f"warning: {advice_text(item)}")
        if self.options.profiler is not None:
            for command in ncu_commands(roofline_items):
                self._report(command, prefix="")
        if self.options.power and (missing := self.session.instruments.no_sensors_reason):
            self._report(f"--roofline-power: power and energy stay empty: {advice_text(missing)}")
        if self.target.why_not is not None:
            self._report(f"predictions only: {advice_text(self.target.why_not)}")
        if self.config.pluginmanager.hasplugin("benchmark") and all(
            is_ours(i) for i in session.items if "benchmark" in getattr(i, "fixturenames", ())
        ):
            benchmark_bridge.show_few_columns(self.config)
        if self._live_reporter() is not None:
            self._progress = Progress(len(roofline_items), 1.5 * self.options.max_seconds + 0.3)
        if not _is_xdist_worker(self.config):
            self._signals.install()
        if isolation.kind != "none":
            self._followers = followers(roofline_items)
            self._supervisor = Supervisor(self.config, self.session, isolation, self._report)
            try:
                self._supervisor.ready_worker()
            except CannotStartError as error:
                raise session.Interrupted(str(error)) from None
            except RooflineError as error:
                raise self.usage_error(str(error)) from None
        if isolation.process_count:
            count = isolation.process_count
            several = f"{count} fresh processes, one after the other" if count > 1 else "one fresh process"
            self._report(f"every case is measured in {several}")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """Hand a roofline test to a worker where cases are isolated; leave every other test to pytest."""
        if self._supervisor is None or item not in self._followers:
            return None
        try:
            self._supervisor.run(item, self._followers[item], nextitem)
        except CannotStartError as error:
            item.session.shouldstop = str(error)
        except RooflineError as error:  # the disk is full, the database is gone: measuring on would be for nothing
            raise self.usage_error(str(error)) from None
        if self._progress is not None:
            self._progress.finished_one()
        return True

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Show the live line; outside the phases of a test, where pytest would capture it."""
        reporter = self._live_reporter()
        if reporter is not None and self._progress is not None and nodeid in self._our_ids:
            name = nodeid.rpartition("::")[2]
            reporter.rewrite(self._progress.line(name, reporter._tw.fullwidth - 1), erase=True)

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: Any) -> tuple[str, str, str] | None:
        """Leave no dot behind the live line; failures keep their letter."""
        if report.nodeid not in self._our_ids or report.failed or self._live_reporter() is None:
            return None
        if report.skipped:
            return "skipped", "", "SKIPPED"
        return ("passed", "", "PASSED") if report.when == "call" else ("", "", "")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Any:
        """Let one case measure at a time on a device that xdist workers may share; watch over a case without a
        worker.
        """
        if not is_ours(item) or self._link is not None:
            return (yield)
        turn: Any = contextlib.nullcontext()
        if _is_xdist_worker(self.config):
            turn = device_share.one_at_a_time(Path(str(self.config.invocation_params.dir)), self._device or "cpu")
        watch: Any = contextlib.nullcontext() if self.config.option.usepdb else alarm(self.options.timeout_s)
        with turn, watch:
            return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self, nextitem: pytest.Item | None) -> None:
        """Take the last samples of open cases before the fixtures of the session end."""
        if nextitem is None and self._session is not None:
            try:
                self._session.visits.end_tests()
            except RooflineError as error:
                raise self.usage_error(str(error)) from None

    def pytest_enter_pdb(self) -> None:
        """Let a person look at a case for as long as they like; a worker has no keyboard for them."""
        if self._link is not None:
            pytest.fail("breakpoint() in a worker process has no terminal: add --roofline-isolate none", pytrace=False)
        signal.setitimer(signal.ITIMER_REAL, 0)  # the watchdog's

    # After each test -----------------------------------------------------------------------------------------

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
        """Commit the records of a test as soon as its call phase is over.

        A wrong result is told in its own line: it lies in the kernel, and no frame of ours or of pytest's says where.
        """
        report = yield
        if call.when != "call" or _fixture_key not in item.stash:
            return report
        is_brief = self.config.option.tbstyle == "auto"  # pytest's default; --tb long and short are what they say
        if is_brief and report.failed and call.excinfo is not None and call.excinfo.errisinstance(WrongResultError):
            report.longrepr = call.excinfo.getrepr(style="value")
            if report.longrepr.reprcrash is not None:  # pytest's summary cuts a line behind the name of the class
                report.longrepr.reprcrash.message = str(call.excinfo.value)
        fixture = item.stash[_fixture_key]
        if self.session.is_forked:  # a test forked, and its child came back into pytest: the run is not its own
            os._exit(1)
        try:
            for record in fixture.records(item.nodeid, failure(report, call)):
                self.session.add(record)
        except RooflineError as error:  # the disk is full, the database is gone: measuring on would be for nothing
            raise self.usage_error(str(error)) from None
        if self._progress is not None:
            self._progress.finished_one()
        return report

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> Iterator[None]:
        """Close the run before pytest-benchmark saves and compares: cases that are visited again get their row here."""
        self._close_run(session, exitstatus)
        return (yield)

    def _close_run(self, session: pytest.Session, exitstatus: int) -> None:
        """Close the run, and fail one that measured too little."""
        remember_as_tests(self.config, session.items)
        if self._session is None or self.config.pluginmanager.hasplugin("dsession"):
            return
        if self._link is not None:
            self._session.close(0)
            return
        if self._supervisor is not None:
            self._supervisor.finish()
        if self._too_few() and exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        is_partial = bool(session.shouldstop or session.shouldfail)  # -x, --maxfail, pytest.exit
        try:
            self._session.close(int(session.exitstatus), is_partial)
        except RooflineError as error:
            self._end_line()
            raise self.usage_error(str(error)) from None
        finally:
            self._signals.restore()
        if any(record.extra.get(FAILED_VISIT) for record in self._session.records):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        if self._baseline is not None and self._baseline.finish(self._session.records) and not exitstatus:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        if hasattr(self.config, "workeroutput"):
            self.config.workeroutput["roofline_bench_lines"] = self._lines_for_controller()

    # The summary ---------------------------------------------------------------------------------------------

    def _end_line(self) -> None:
        """End the line of dots, so that an error does not continue it."""
        reporter = self.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            if reporter._tw.width_of_current_line:  # `ensure_newline` knows nothing of the dots under -q
                reporter._tw.line()
            reporter.flush()

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the table, the verdicts and what to do next; last, below pytest-benchmark's table."""
        if self.config.option.no_summary:  # pytest 9 asks for the summaries all the same
            return
        if self._session is None or self._session.run is None:
            self._explain_nothing(terminalreporter)
            return
        records = self._session.records
        run = self._session.run
        terminalreporter.section("roofline")
        tables = terminal.summary_lines(records, floors=self._session.floors)
        chip = self._session.target.hardware if any(record.measurement for record in records) else None
        doubts = terminal.flag_lines(records, self._session.canaries, self._session.ended, chip=chip)
        for line in [*tables, *doubts]:
            terminalreporter.write_line(line.text, **({line.colour: True} if line.colour else {}))
        assert run is not None
        terminalreporter.write_line(
            f"{terminal.count_line(records)} · run {run.run_id[:8]}{f' ({clean(run.label)})' if run.label else ''} → "
            f"{self._session.database}"
        )
        named = f" --db {shlex.quote(self._session.database)}" if self.config.option.roofline_bench_db else ""
        terminalreporter.write_line(f"Next: roofline report --run {run.run_id[:8]}{named}  # or `roofline show`")
        for line in self._baseline.lines if self._baseline is not None else ():
            terminalreporter.write_line(line.text, **({line.colour: True} if line.colour else {}))
        if self._too_few():
            terminalreporter.write_line(self._too_few(), red=True)

    def _too_few(self) -> str:
        """Return that fewer cases were measured than had to be; empty where enough were."""
        needed = self.options.require_measured or 0
        measured_count = sum(record.status == "measured" for record in self.session.records)
        is_too_few = measured_count < needed
        return f"ERROR: --roofline-require-measured={needed}: only {measured_count} measured" if is_too_few else ""

    def _lines_for_controller(self) -> list[str]:
        """Return the lines that the xdist controller shows for this worker's own run."""
        assert self._session is not None
        if self._session.run is None:
            return []
        name = os.environ.get("PYTEST_XDIST_WORKER", "")
        lines = [
            (
                f"{name}: {terminal.count_line(self._session.records)} · run {self._session.run.run_id[:8]} → "
                f"{self._session.database}"
            )
        ]
        if self.target.why_not is not None and self.target.why_not.code == "cpu-shared-by-workers":
            lines.append(f"nothing was measured: {advice_text(self.target.why_not)}")
        return lines

    def _explain_nothing(self, reporter: Any) -> None:
        keyword_expression = self.config.option.keyword
        if self._our_ids or not self._deselected or not keyword_expression or self.config.option.collectonly:
            return
        nearest = difflib.get_close_matches(keyword_expression, self._deselected, n=3, cutoff=0.1)
        reporter.write_line(
            f"-k {keyword_expression!r} selects none of {counted(len(self._deselected), 'case')}; nearest: "
            f"{', '.join(nearest) or self._deselected[0]}",
            yellow=True,
        )

    def _report(self, text: str, *, prefix: str = "roofline: ") -> None:
        if self._link is not None:
            self._link.send("note", text)
            return
        reporter = self.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is None:
            return
        capture = self.config.pluginmanager.get_plugin("capturemanager")
        with capture.global_and_fixture_disabled() if capture else contextlib.nullcontext():
            reporter.ensure_newline()
            reporter.write_line(f"{prefix}{text}")

    def _live_reporter(self) -> Any:
        """Return pytest's reporter when a live line makes sense: a terminal, and neither -v nor -q."""
        reporter = self.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is None or self.config.option.verbose != 0 or not reporter.isatty:
            return None
        return reporter


def _is_xdist_worker(config: pytest.Config) -> bool:
    """Not by its variables: a pytest that a test under xdist starts inherits those and is no worker."""
    return hasattr(config, "workerinput")


def _check_for_xdist(options: BenchOptions) -> None:
    if options.require_measured is not None or options.json_path is not None or options.baseline is not None:
        raise InvalidValueError(
            "--roofline-require-measured, --roofline-json and --roofline-baseline need one process: under xdist (-n) "
            "each worker keeps a run of its own"
        )
    if options.process_count is not None:
        raise InvalidValueError(
            "--roofline-processes measures in fresh processes of one pytest, one after the other: leave out -n"
        )


def _share_machine(config: pytest.Config, options: BenchOptions, target: Target) -> None:
    """Under xdist: refuse more workers than GPUs, and let several workers on one CPU predict only."""
    if not target.can_measure or options.predict_only or options.is_simulated:
        return
    if config.pluginmanager.hasplugin("dsession") and target.device == "cuda":
        devices = device_share.visible_devices(os.environ, device_share.installed_devices())
        device_share.refuse_too_many(device_share.controller_worker_count(config), devices)
    worker = device_share.xdist_worker(os.environ) if _is_xdist_worker(config) else None
    if worker is not None and worker[1] > 1 and target.device == "cpu":
        target.why_not = finding("cpu-shared-by-workers")


_ENDING = (signal.SIGTERM, signal.SIGHUP)


class EndOnSignal:
    """While installed, SIGTERM or SIGHUP ends pytest like Ctrl-C: the run is closed as interrupted, exit code 128 +
    signal.

    A second signal finds the default action again and kills at once. A handler that somebody else installed stays.
    """

    def __init__(self) -> None:
        self._installed: list[signal.Signals] = []

    def install(self) -> None:
        """Install the handlers, in the main thread only (Python allows no other)."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in _ENDING:
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, self._end)
                self._installed.append(number)

    def restore(self) -> None:
        """Give the signals their default action back."""
        while self._installed:
            signal.signal(self._installed.pop(), signal.SIG_DFL)

    def _end(self, number: int, frame: FrameType | None) -> None:
        self.restore()
        pytest.exit(f"{signal.Signals(number).name}: the run was ended from outside", returncode=128 + number)


@contextlib.contextmanager
def alarm(limit_s: float) -> Iterator[None]:
    """Fail the test whose code runs inside for longer than `limit_s`: the watchdog of a case that has no worker.

    It reaches Python code and system calls, not a hang inside C code. Does nothing outside the main thread or where
    somebody else (pytest-timeout) uses the timer.
    """
    is_free = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
        and signal.getitimer(signal.ITIMER_REAL)[0] == 0
    )
    if not is_free:
        yield
        return

    def ring(number: int, frame: Any) -> None:
        pytest.fail(f"timeout after {limit_s:g} s: raise it with --roofline-timeout SECONDS")

    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
