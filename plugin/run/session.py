"""One pytest session of ours: options, target, timer, and the run in the store."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import plugin
from plugin.calibrate.cpu_calibration import cpu_device
from plugin.machine.canary import CanaryKeeper, CanaryLedger
from plugin.machine.environment import capture_environment, command_line, git_state
from plugin.machine.facts import find_machine
from plugin.machine.state_warnings import warnings
from plugin.run.benchmark_bridge import replace_samples
from plugin.run.instruments import Instruments
from plugin.run.options import BenchOptions
from plugin.run.target import Target, resolve_target
from plugin.run.visits import VisitPool
from plugin.timers.clock import utc_now
from results.exchange.exported.export import ExportedRun, export_document, export_run_json
from results.records.records import EnvironmentInfo, HardwareProfile, ProcessInfo, Record, RunInfo, RunStatus
from results.records.state_records import CanaryReading, NoiseFloor
from results.store.target import parse_target
from roofline_model.chips.hardware import doubt_of_ideals
from roofline_model.core.errors import DatabaseAwayError, StoreError
from roofline_model.core.finding import Finding, advice_text, finding, short_text, stored_form
from roofline_model.core.whole_file import write_whole

if TYPE_CHECKING:
    from results.store.store import ResultStore

Report = Callable[[str], None]


class BenchSession:
    """Owns the run: opened at the first case, every record committed as it comes, closed with the exit code."""

    def __init__(self, options: BenchOptions, folder: Path, report: Report, run_id: str | None = None) -> None:
        self.options = options
        self.folder = folder
        self.records: list[Record] = []
        self.floors: dict[tuple[str, str], NoiseFloor] = {}
        self._ledger = CanaryLedger()
        self.run: RunInfo | None = None
        self._run_id = run_id
        self._report = report
        self._store: Any = None
        self._server: ResultStore | None = None
        """The database named, where that is no file: earlier runs are read there, and this one is pushed there."""
        self._unsaved: Record | None = None
        self._failure: StoreError | None = None
        self.process = ProcessInfo()
        self.ended: list[ProcessInfo] = []
        """Workers that did not end by themselves, with how they ended."""
        self.target: Target = resolve_target(options, lambda: cpu_device(find_machine(), report))
        self.instruments = Instruments(options, folder, self.target)
        self.visits = VisitPool(self)
        self.benchmark_rows: dict[str, Any] = {}
        """Id of a record → its row in pytest-benchmark, None without one."""

    @cached_property
    def profile(self) -> HardwareProfile:
        """The chip that the predictions use, as it is stored."""
        hardware = self.target.hardware
        return HardwareProfile(hardware.key, hardware.name, hardware.content_hash, hardware.to_dict())

    @property
    def canaries(self) -> Sequence[CanaryReading]:
        """All readings of the canary, as judged by now."""
        return self._ledger.readings

    @property
    def database(self) -> str:
        """Address of the database, as the user would type it; a password in a URL is masked."""
        text = str(self.options.db)
        if "://" in text:
            return parse_target(text).name
        return os.path.relpath(text, self.folder) if text.startswith(str(self.folder)) else text

    def open(self) -> RunInfo:
        """Begin the run: find or measure the chip, open the store, write the run's row.

        Does nothing the second time.
        """
        if self.run is not None:
            return self.run
        hardware = self.target.hardware
        self._server = self.open_server(self.options.db)
        self._store = self.open_store()
        started = utc_now()
        commit, branch, dirty = git_state(self.folder)
        self.process = ProcessInfo(0, os.getpid(), platform.node(), started)
        run = RunInfo(
            run_id=self._run_id or new_run_id(),
            started_at=started,
            label=self.options.run_label,
            hardware_key=hardware.key,
            is_forced=self.target.is_forced,
            command=command_line(),
            git_commit=commit,
            git_branch=branch,
            git_is_dirty=dirty,
            plugin_version=plugin.__version__,
            environment=self._environment(),
        )
        self._store.begin_run(run)
        self.run = run  # only now: a run that could not begin has nothing to end
        self.floors = (self._server or self._store).noise_floors(run.environment.class_hash)
        self._store.add_profile(self.profile)
        return self.run

    @property
    def local_file(self) -> Path:
        """The SQLite file that this run is written to as it goes."""
        return parse_target(self.options.db).local_file(self.folder)

    def catch_up(self, *, with_samples: bool = True) -> None:
        """Take over what all processes have stored of this run, and quarantine what their canary readings show
        together. Raises `StoreError`.
        """
        assert self.run is not None
        with self._noting():
            self.records = self._store.records(self.run.run_id, with_samples=with_samples)
            stored_readings = self._store.canaries(self.run.run_id)
        self._ledger = CanaryLedger()
        measured = [record for record in self.records if record.measurement is not None]
        quarantined: list[str] = []
        for each in sorted([*stored_readings, *measured], key=lambda each: each.created_at):
            if isinstance(each, Record):
                quarantined += self._ledger.add_record(each.record_id)
            else:
                quarantined += self._ledger.add_reading(each)
        with self._noting():
            self._store.rejudge_canaries(self.run.run_id, self.canaries)
        self.flag_records(quarantined, "quarantined")

    def open_server(self, url: str | None) -> ResultStore | None:
        """Open the server that earlier runs are read from; None where a file holds them. Raises `StoreError`."""
        from results.store.store import open_store

        return open_store(url) if parse_target(url).path is None else None

    def open_store(self) -> ResultStore:
        """Open the file of this run. Raises `StoreError`."""
        from results.store.store import open_store

        return open_store(self.local_file)

    def _environment(self) -> EnvironmentInfo:
        """Return the facts of this machine, with what should be mended first where cases will be measured on it."""
        machine = find_machine()
        info = capture_environment(machine, self.target.device if self.target.can_measure else machine.kind)
        measures = self.target.can_measure and not self.options.is_simulated and not self.options.predict_only
        remarks = warnings(self.instruments.sensors, machine, self.target.device) if measures else []
        remarks += [doubt] if (doubt := doubt_of_ideals(self.target.hardware)) is not None else []
        if remarks:
            return replace(info, facts={**info.facts, "warnings": [stored_form(item) for item in remarks]})
        return info

    def add(self, record: Record) -> None:
        """Commit one record. Raises `StoreError`, after which the session ends and `close` writes what it holds."""
        self._unsaved = record
        with self._noting():
            self._store.add_record(record)
        self._unsaved = None
        self.records.append(record)
        if record.measurement is not None:
            self.flag_records(self._ledger.add_record(record.record_id), "quarantined")
        self.visits.stored(record)

    def complete(self, record: Record) -> None:
        """Replace a stored record by the same one with more samples; flags that it got meanwhile stay. Raises
        `StoreError`.
        """
        index = next(i for i, stored in enumerate(self.records) if stored.record_id == record.record_id)
        record = with_flags_of(record, self.records[index])
        with self._noting():
            self._store.complete_record(record)
        self.records[index] = record
        row = self.benchmark_rows.get(record.record_id)
        if row is not None and record.measurement is not None:
            replace_samples(row, record.measurement.samples_s)

    @cached_property
    def canary(self) -> CanaryKeeper | None:
        """The canary of the process that measures, made at the first case; None where there is none."""
        return self.instruments.make_canary(
            self.earlier_canary_times, self.add_canary, process_ordinal=self.process.ordinal, utc_now=utc_now
        )

    def repeat_canary(self) -> None:
        """Run the canary after the last case, so that it is bracketed too; nothing where no case was measured."""
        keeper = self.__dict__.get("canary")  # not made for this
        if keeper is not None:
            keeper.look()

    def declared(self, pending: Any) -> None:
        """Note what is known of a case: declared, or measured by now.

        Only a worker, which may die of it, tells anyone.
        """

    def add_canary(self, reading: CanaryReading) -> None:
        """Commit one reading of the canary kernel, and what it shows of earlier ones. Raises `StoreError`."""
        assert self.run is not None
        quarantined = self._ledger.add_reading(reading)
        with self._noting():
            self._store.add_canary(self.run.run_id, self.canaries[-1])
            self._store.rejudge_canaries(self.run.run_id, self._ledger.rejudged)
        self.flag_records(quarantined, "quarantined")

    def earlier_canary_times(self, kernel: str) -> list[float]:
        """Return healthy readings of this canary kernel in earlier runs on this machine and software, newest first.

        None is known while their server is away.
        """
        assert self.run is not None
        with contextlib.suppress(DatabaseAwayError):
            return list((self._server or self._store).canary_times(self.run.environment.class_hash, kernel))
        return []

    def flag_records(self, record_ids: Iterable[str], flag: str) -> None:
        """Add a flag to measurements that are stored already, and to the ones the summary shows."""
        flagged_ids = set(record_ids)
        if not flagged_ids:
            return
        with self._noting():
            self._store.flag_records(flagged_ids, flag)
        for index, record in enumerate(self.records):
            measured = record.measurement
            if record.record_id in flagged_ids and measured is not None and flag not in measured.flags:
                self.records[index] = replace(record, measurement=replace(measured, flags=(*measured.flags, flag)))

    def end_process(self, process: ProcessInfo, end_reason: str) -> None:
        """Commit how a worker ended. Raises `StoreError`."""
        assert self.run is not None
        with self._noting():
            self._store.end_process(self.run.run_id, process, end_reason)
        self.ended.append(replace(process, end_reason=end_reason))

    def bury(self, declared: Iterable[Record], reason: str) -> None:
        """Store the cases that a worker had declared and not stored when it died. Raises `StoreError`."""
        assert self.run is not None
        with self._noting():
            stored_ids = self._store.record_ids(self.run.run_id)
        for record in declared:
            if record.record_id in stored_ids:
                continue
            if record.status == "measured":
                self.add(replace(record, extra={**record.extra, "test_failure": reason}))
            else:
                self.add(replace(record, reason=reason))

    def lose(self, error: str, unsaved: Record | None) -> StoreError:
        """Note that the database refused a worker, perhaps a record; return the error with which the run ends."""
        self._failure, self._unsaved = StoreError(error), unsaved
        return self._failure

    def close(self, exit_code: int, is_partial: bool = False) -> None:
        """End the run; a session that never began one leaves no trace. A partial run is never `latest`.

        Raises `StoreError` with the first thing that could not be stored, and where the run is instead.
        """
        if self.run is None or self.is_forked:
            return
        try:
            if self._failure is None:
                with contextlib.suppress(StoreError), self._noting():  # told below, with where the run is
                    # The record that a Ctrl-C or a signal kept from being stored, unless its transaction was over.
                    if (lost := self._unsaved) and lost.record_id not in self._store.record_ids(self.run.run_id):
                        self.add(lost)
                    self.visits.close(may_visit=not is_partial and exit_code in (0, 1))
                    self.repeat_canary()
            interrupted = is_partial or exit_code in (2, 3) or exit_code > 128 or self._failure is not None
            status: RunStatus = "interrupted" if interrupted else "complete"
            if self._failure is None:
                with contextlib.suppress(StoreError), self._noting():
                    self._store.finish_run(self.run.run_id, status=status, exit_code=exit_code, finished_at=utc_now())
            if self._failure is not None:
                raise StoreError(f"{self._failure} ({short_text(self._exported(status, exit_code))})") from None
            if self.options.json_path is not None:
                write_json(self.options.json_path, export_run_json(self._store, self.run.run_id))
            if self._server is not None:
                self._push(self._server)
        finally:
            self._store.close()
            if self._server is not None:
                self._server.close()

    @property
    def is_forked(self) -> bool:
        """Whether this is a process that a test forked and that came back into pytest: the run is not its own."""
        return self.process.pid is not None and self.process.pid != os.getpid()

    @contextlib.contextmanager
    def _noting(self) -> Iterator[None]:
        """Keep the first error of the database: what fails after it fails because of it."""
        try:
            yield
        except StoreError as error:
            self._failure = self._failure or error
            raise

    def _push(self, server: ResultStore) -> None:
        """Bring this run and earlier ones that waited to their server; what it holds leaves the local file.

        A server that is away is told, and the runs wait. Raises `StoreError` where it refuses them for good.
        """
        from results.operations.run_care import delete_run
        from results.store.push import finished_runs, push

        assert self.run is not None
        waited_counts = []
        try:
            for pushed in push(self._store, server, finished_runs(self._store)):
                waited_counts += [pushed.added_count] if pushed.run.run_id != self.run.run_id else []
                with contextlib.suppress(StoreError):  # one that stays is found on the server by the next push
                    delete_run(self._store, pushed.run.run_id)
        except StoreError as error:
            item = finding("unpushed", reason=str(error), file=str(self.local_file))
            if not isinstance(error, DatabaseAwayError):
                raise StoreError(short_text(item)) from None
            self._report(f"warning: {advice_text(item)}")
        if waited_counts:
            self._report(short_text(finding("pushed", record_count=sum(waited_counts))))

    def _exported(self, status: RunStatus, exit_code: int) -> Finding:
        """Write the run in this process's memory as one export file to another folder; return where it is."""
        assert self.run is not None
        run = replace(self.run, status=status, exit_code=exit_code, finished_at=utc_now())
        records = list({each.record_id: each for each in [*self.records, self._unsaved] if each is not None}.values())
        document = export_document(ExportedRun(run, (self.profile,), (), tuple(records), canaries=tuple(self.canaries)))
        try:
            stored_ids = self._store.record_ids(self.run.run_id)
        except StoreError:
            stored_ids = set()
        stored_count = sum(record.record_id in stored_ids for record in records) or None
        first_error = ""
        for folder in (self.folder, Path(tempfile.gettempdir())):
            path = folder / f"{self.run.run_id[:8]}.rescued.json"
            try:
                write_json(path, document, is_private=True)  # the folder of temporary files is everybody's
            except StoreError as error:
                first_error = first_error or str(error)
                continue
            return finding(
                "results-rescued", kind="rescued", file=str(path), record_count=len(records), stored_count=stored_count
            )
        lost_count = len(records) - (stored_count or 0)
        return finding(
            "results-rescued", kind="lost", lost_count=lost_count, stored_count=stored_count, error=first_error
        )


def write_json(path: Path, document: dict[str, Any], *, is_private: bool = False) -> None:
    """Write a file in one step: the old one stays until the new one is whole. Raises `StoreError`, leaving no part."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(document, indent=1, allow_nan=False) + "\n", is_private=is_private)
    except OSError as error:
        raise StoreError(f"{path} cannot be written ({error.strerror})") from None


def with_flags_of(record: Record, stored: Record) -> Record:
    """Return the record with the flags in hindsight (`quarantined`) that its stored form was given."""
    if record.measurement is None or stored.measurement is None or "quarantined" not in stored.measurement.flags:
        return record
    flags = tuple(dict.fromkeys([*record.measurement.flags, "quarantined"]))
    return replace(record, measurement=replace(record.measurement, flags=flags))


def new_run_id() -> str:
    """Return 32 random hex digits: the first few already tell two runs apart."""
    return uuid.uuid4().hex
