"""One pytest session of ours: options, target, timer, and the run in the store."""

from __future__ import annotations

import contextlib
import os
import platform
import uuid
from collections.abc import Callable, Iterable, Iterator
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
from plugin.run.rescue import rescue, write_json
from plugin.run.target import Target, resolve_target
from plugin.run.visits import VisitPool
from plugin.timers.clock import utc_now
from results.exchange.exported.export import export_documents, export_run_json
from results.records.records import EnvironmentInfo, HardwareProfile, ProcessInfo, Record, RunInfo, RunStatus
from results.records.state_records import CanaryReading, NoiseFloor
from results.store.target import SPOOL_FOLDER, parse_target
from roofline_model.chips.hardware import doubt_of_ideals
from roofline_model.core.errors import StoreError
from roofline_model.core.finding import Finding, advice_text, finding, reason_text, short_text, stored_form

if TYPE_CHECKING:
    from results.store.delivery.outbox import Undelivered

Report = Callable[[str], None]


class BenchSession:
    """Owns the run: opened at the first case, every record committed as it comes, closed with the exit code."""

    def __init__(self, options: BenchOptions, folder: Path, report: Report, run_id: str | None = None) -> None:
        self.options = options
        self.folder = folder
        self.records: list[Record] = []
        self.canaries: list[CanaryReading] = []
        self.floors: dict[tuple[str, str], NoiseFloor] = {}
        self._ledger = CanaryLedger()
        self.run: RunInfo | None = None
        self._run_id = run_id
        self._report = report
        self._store: Any = None
        self._profile_hash = ""
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

    @property
    def is_open(self) -> bool:
        """Whether the run has begun."""
        return self.run is not None

    @property
    def profile_hash(self) -> str:
        """Content hash of the chip the predictions use."""
        return self._profile_hash

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
        self._store = self.open_store()
        self._deliver_waiting()
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
        self.floors = self._store.noise_floors(run.environment.class_hash)
        self._profile_hash = hardware.content_hash
        self._store.add_profile(HardwareProfile(hardware.key, hardware.name, self._profile_hash, hardware.to_dict()))
        return self.run

    def open_store(self) -> Any:
        """Return the opened database of this run. Raises `StoreError`."""
        from results.store.store import open_store

        return open_store(self.options.db, spool=self.folder / SPOOL_FOLDER)

    def catch_up(self, *, with_samples: bool = True) -> None:
        """Take over what all processes have stored of this run, and quarantine what their canary readings show
        together. Raises `StoreError`.
        """
        assert self.run is not None
        with self._noting():
            self.records = self._store.records(self.run.run_id, with_samples=with_samples)
            stored_readings = self._store.canaries(self.run.run_id)
        self._ledger, self.canaries = CanaryLedger(), []
        measured = [record for record in self.records if record.measurement is not None]
        quarantined: list[str] = []
        for each in sorted([*stored_readings, *measured], key=lambda each: each.created_at):
            if isinstance(each, Record):
                quarantined += self._ledger.add_record(each.record_id)
            else:
                quarantined += self.judge_canary(each)
        with self._noting():
            self._store.rejudge_canaries(self.run.run_id, self.canaries)
        self.flag_records(quarantined, "quarantined")

    def _deliver_waiting(self) -> None:
        """Send what earlier runs had to keep back while this database was away, and say so; this run goes on whatever
        comes.
        """
        if not (self.folder / SPOOL_FOLDER).is_dir():
            return
        from results.store.delivery.outbox import deliver_waiting

        try:
            deliveries = deliver_waiting(self._store, self.folder / SPOOL_FOLDER)
        except StoreError as error:
            self._report(f"warning: {error}")
            return
        for delivery in deliveries:
            if delivery.finding is not None:
                self._report(f"warning: {advice_text(delivery.finding)}")
            if delivery.outcome == "delivered":
                self._report(
                    short_text(finding("delivered", record_count=delivery.added_count, file=delivery.path.name))
                )
            elif delivery.outcome == "failed":
                self._report(f"warning: {reason_text(delivery.reason)}")

    def _environment(self) -> EnvironmentInfo:
        """Return the facts of this machine, with what should be mended first where cases will be measured on it."""
        machine = find_machine()
        info = capture_environment(machine, self.target.device if self.target.can_measure else machine.kind)
        measures = self.target.can_measure and not self.instruments.is_simulated and not self.options.predict_only
        remarks = warnings(self.instruments.sensors, machine, self.target.device) if measures else []
        remarks += [doubt] if (doubt := doubt_of_ideals(self.target.hardware)) is not None else []
        if remarks:
            return replace(info, facts={**info.facts, "warnings": [stored_form(item) for item in remarks]})
        return info

    def add(self, record: Record) -> None:
        """Commit one record. Raises `StoreError`, after which the session ends and `close` rescues what it holds."""
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
        quarantined = self.judge_canary(reading)
        with self._noting():
            self._store.add_canary(self.run.run_id, self.canaries[-1])
            self._store.rejudge_canaries(self.run.run_id, self._ledger.rejudged)
        self.flag_records(quarantined, "quarantined")

    def judge_canary(self, reading: CanaryReading) -> list[str]:
        """Note a reading beside the earlier ones, all as judged by now; return the records that it quarantines."""
        quarantined = self._ledger.add_reading(reading)
        self.canaries = list(self._ledger.readings)
        return quarantined

    def earlier_canary_times(self, kernel: str) -> list[float]:
        """Return healthy readings of this canary kernel in earlier runs on this machine and software, newest first."""
        assert self.run is not None
        return list(self._store.canary_times(self.run.environment.class_hash, kernel))

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
                with contextlib.suppress(StoreError), self._noting():  # told below, with the rescue
                    self._store_interrupted_run()
                    self.visits.close(may_visit=not is_partial and exit_code in (0, 1))
                    self.repeat_canary()
            interrupted = is_partial or exit_code in (2, 3) or exit_code > 128 or self._failure is not None
            status: RunStatus = "interrupted" if interrupted else "complete"
            delivery = None
            if self._failure is None:
                with contextlib.suppress(StoreError), self._noting():
                    self._store.finish_run(self.run.run_id, status=status, exit_code=exit_code, finished_at=utc_now())
                    delivery = self._deliver()
            if self._failure is not None:
                raise StoreError(f"{self._failure} ({short_text(self._rescue(status, exit_code))})") from None
            if self.options.json_path is not None:
                document = (
                    export_run_json(self._store, self.run.run_id)
                    if delivery is None
                    else self._end_document(status, exit_code)
                )
                write_json(self.options.json_path, document)
        finally:
            self._store.close()

    @property
    def is_forked(self) -> bool:
        """Whether this is a process that a test forked and that came back into pytest: the run is not its own."""
        return self.process.pid is not None and self.process.pid != os.getpid()

    def _store_interrupted_run(self) -> None:
        """Store the record that a Ctrl-C or a signal kept from being stored, unless its transaction was over."""
        assert self.run is not None
        if self._unsaved is not None and self._unsaved.record_id not in self._store.record_ids(self.run.run_id):
            self.add(self._unsaved)

    @contextlib.contextmanager
    def _noting(self) -> Iterator[None]:
        """Keep the first error of the database: what fails after it fails because of it."""
        try:
            yield
        except StoreError as error:
            self._failure = self._failure or error
            raise

    def _deliver(self) -> Undelivered | None:
        """Send what the database would not take during the run; what it still does not take stays in its file, and is
        said.
        """
        undelivered: Undelivered | None = self._store.deliver()
        if undelivered is not None:
            self._report(f"warning: {advice_text(undelivered.finding)}")
        return undelivered

    def _end_document(self, status: RunStatus, exit_code: int) -> dict[str, Any]:
        """Return the run in this process's memory as an exported run."""
        assert self.run is not None
        run = replace(self.run, status=status, exit_code=exit_code, finished_at=utc_now())
        records = list({each.record_id: each for each in [*self.records, self._unsaved] if each is not None}.values())
        hardware = self.target.hardware
        profile = HardwareProfile(hardware.key, hardware.name, self._profile_hash, hardware.to_dict())
        return export_documents(run, [profile], records, canaries=self.canaries)

    def _rescue(self, status: RunStatus, exit_code: int) -> Finding:
        """Write what this process still knows of the run as a file; return where it is."""
        assert self.run is not None
        document = self._end_document(status, exit_code)
        try:
            stored = self._store.record_ids(self.run.run_id)
        except StoreError:
            stored_count = None
        else:
            stored_count = sum(record["record_id"] in stored for record in document["records"])
        return rescue(
            document,
            run_id=self.run.run_id,
            database=str(self.options.db),
            folder=self.folder,
            stored_count=stored_count,
        )


def with_flags_of(record: Record, stored: Record) -> Record:
    """Return the record with the flags in hindsight (`quarantined`) that its stored form was given."""
    if record.measurement is None or stored.measurement is None or "quarantined" not in stored.measurement.flags:
        return record
    flags = tuple(dict.fromkeys([*record.measurement.flags, "quarantined"]))
    return replace(record, measurement=replace(record.measurement, flags=flags))


def new_run_id() -> str:
    """Return 32 random hex digits: the first few already tell two runs apart."""
    return uuid.uuid4().hex
