"""One pytest session of ours: options, target, timer, and the run in the store."""

from __future__ import annotations

import datetime
import json
import os
import platform
import uuid
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import plugin
from plugin.calibration.cpu_calibration import cpu_device
from plugin.instruments import Instruments
from plugin.machine.canary import CanaryKeeper, CanaryLedger
from plugin.machine.environment import capture_environment, command_line, git_state
from plugin.machine.facts import find_machine
from plugin.machine.state_warnings import warnings
from plugin.options import BenchOptions
from plugin.target import Target, resolve_target
from results.export import export_documents, export_run_json
from results.records import EnvironmentInfo, HardwareProfile, ProcessInfo, Record, RunInfo, RunStatus
from results.state_records import CanaryReading, NoiseFloor
from roofline_model.errors import StoreError

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
        self.process = ProcessInfo()
        self.ended: list[ProcessInfo] = []
        """Workers that did not end by themselves, with how they ended."""
        self.target: Target = resolve_target(options, lambda: cpu_device(find_machine(), report))
        self.instruments = Instruments(options, folder, self.target)

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
        """Where results go, as the user would type it; a password in a URL is not shown."""
        text = str(self.options.db)
        if "://" in text:
            head, _, rest = text.partition("://")
            return f"{head}://{rest.rpartition('@')[2]}"
        return os.path.relpath(text, self.folder) if text.startswith(str(self.folder)) else text

    def open(self) -> RunInfo:
        """Begin the run: find or measure the chip, open the store, write the run's row. Does nothing the second time."""
        if self.run is not None:
            return self.run
        from results.store import open_store

        hardware = self.target.hardware
        self._store = open_store(self.options.db)
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

    def _environment(self) -> EnvironmentInfo:
        """Return the facts of this machine, with what should be mended first where cases will be measured on it."""
        machine = find_machine()
        found = capture_environment(machine, self.target.device if self.target.can_measure else machine.kind)
        measures = self.target.can_measure and not self.instruments.is_simulated and not self.options.predict_only
        if measures and (remarks := warnings(self.instruments.sensors, machine, self.target.device)):
            return replace(found, facts={**found.facts, "warnings": remarks})
        return found

    def add(self, record: Record) -> None:
        """Commit one record. Raises `StoreError`, after which the session ends and `close` rescues what it holds."""
        self._unsaved = record
        self._store.add_record(record)
        self._unsaved = None
        self.records.append(record)
        if record.measurement is not None:
            self.flag_records(self._ledger.add_record(record.record_id), "quarantined")

    @cached_property
    def canary(self) -> CanaryKeeper | None:
        """The canary of the process that measures, made at the first case; None where there is none."""
        return self.instruments.make_canary(
            self.earlier_canary_times, self.add_canary, process_ordinal=self.process.ordinal, utc_now=utc_now
        )

    def look_at_canary_once_more(self) -> None:
        """Run the canary after the last case, so that it is bracketed too; nothing where no case was measured."""
        keeper = self.__dict__.get("canary")  # not made for this
        if keeper is not None:
            keeper.look()

    def declared(self, pending: Any) -> None:
        """Note what is known of a case: declared, or measured by now. Only a worker, which may die of it, tells anyone."""

    def add_canary(self, reading: CanaryReading) -> None:
        """Commit one reading of the canary kernel. Raises `StoreError`."""
        assert self.run is not None
        self._store.add_canary(self.run.run_id, reading)
        self.canaries.append(reading)
        self.flag_records(self._ledger.add_reading(reading), "quarantined")

    def earlier_canary_times(self, kernel: str) -> list[float]:
        """Return healthy readings of this canary kernel in earlier runs on this machine and software, newest first."""
        assert self.run is not None
        return list(self._store.canary_times(self.run.environment.class_hash, kernel))

    def flag_records(self, record_ids: Iterable[str], flag: str) -> None:
        """Add a flag to measurements that are stored already, and to the ones the summary shows."""
        wanted = set(record_ids)
        if not wanted:
            return
        self._store.flag_records(wanted, flag)
        for index, record in enumerate(self.records):
            measured = record.measurement
            if record.record_id in wanted and measured is not None and flag not in measured.flags:
                self.records[index] = replace(record, measurement=replace(measured, flags=(*measured.flags, flag)))

    def end_process(self, process: ProcessInfo, end_reason: str) -> None:
        """Commit how a worker ended. Raises `StoreError`."""
        assert self.run is not None
        self._store.end_process(self.run.run_id, process, end_reason)
        self.ended.append(replace(process, end_reason=end_reason))

    def close(self, exit_code: int, is_partial: bool = False) -> None:
        """End the run; a session that never began one leaves no trace. A partial run is never `latest`."""
        if self.run is None:
            return
        if self._unsaved is None:
            self.look_at_canary_once_more()
        interrupted = is_partial or exit_code in (2, 3) or exit_code > 128 or self._unsaved is not None
        status: RunStatus = "interrupted" if interrupted else "complete"
        try:
            if self._unsaved is not None:
                raise StoreError("a record could not be stored")
            self._store.finish_run(self.run.run_id, status=status, exit_code=exit_code, finished_at=utc_now())
            if self.options.json_path is not None:
                write_json(self.options.json_path, export_run_json(self._store, self.run.run_id))
        except StoreError as error:
            raise StoreError(f"{error} {self._rescue(status, exit_code)}") from None
        finally:
            self._store.close()

    def _rescue(self, status: RunStatus, exit_code: int) -> str:
        """Write what this process still knows of the run beside the database; return where, as a sentence."""
        assert self.run is not None
        run = replace(self.run, status=status, exit_code=exit_code, finished_at=utc_now())
        records = [*self.records, *([self._unsaved] if self._unsaved is not None else [])]
        target = str(self.options.db)
        path = self.folder / f"{run.run_id}.rescued.json" if "://" in target else Path(f"{target}.rescued.json")
        hardware = self.target.hardware
        profile = HardwareProfile(hardware.key, hardware.name, self._profile_hash, hardware.to_dict())
        try:
            write_json(path, export_documents(run, [profile], records, canaries=self.canaries))
        except StoreError as error:
            return f"({len(records)} records could not be rescued either: {error})"
        return f"({len(records)} records are in {path}; `roofline import` reads it)"


def write_json(path: Path, document: dict[str, Any]) -> None:
    """Write a file in one step: the old one stays until the new one is whole. Raises `StoreError`."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(json.dumps(document, indent=1, allow_nan=False) + "\n", encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        raise StoreError(f"{path} cannot be written ({error.strerror})") from None


def new_run_id() -> str:
    """Return 32 random hex digits: the first few already tell two runs apart."""
    return uuid.uuid4().hex


def utc_now() -> str:
    """Return the current time in UTC, ISO 8601 with microseconds."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")
