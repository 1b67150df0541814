"""One pytest session of ours: options, target, timer, and the run in the store."""

from __future__ import annotations

import datetime
import json
import os
import platform
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import plugin
from plugin.calibration import cpu_device
from plugin.environment import capture_environment, command_line, git_state
from plugin.machine import available_memory_bytes, find_machine
from plugin.nvml import NvmlDevice, open_nvml_device
from plugin.options import BenchOptions
from plugin.stopping import MedianInterval
from plugin.target import Target, resolve_target
from plugin.timers import MonotonicTimer, ReplayTimer, SimulatedTimer, Timer
from results.export import export_documents, export_run_json
from results.records import HardwareProfile, Method, ProcessInfo, Record, RunInfo, RunStatus
from roofline_model.errors import InvalidValueError, StoreError, UnsupportedError

Report = Callable[[str], None]


class BenchSession:
    """Owns the run: opened at the first case, every record committed as it comes, closed with the exit code."""

    def __init__(self, options: BenchOptions, folder: Path, report: Report, run_id: str | None = None) -> None:
        self.options = options
        self.folder = folder
        self.records: list[Record] = []
        self.run: RunInfo | None = None
        self._run_id = run_id
        self._report = report
        self._store: Any = None
        self._profile_hash = ""
        self._replay: ReplayTimer | None = None
        self._nvml: NvmlDevice | None = None
        self._unsaved: Record | None = None
        self.process = ProcessInfo()
        self.target: Target = resolve_target(options, lambda: cpu_device(find_machine(), report))
        if options.timer.startswith("replay:"):
            self._replay = ReplayTimer.from_file(folder / options.timer.partition(":")[2])
        self._check_timer_name()

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
        machine = find_machine()
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
            environment=capture_environment(machine, self.target.device if self.target.can_measure else machine.kind),
        )
        self._store.begin_run(run)
        self.run = run  # only now: a run that could not begin has nothing to end
        self._profile_hash = hardware.content_hash
        self._store.add_profile(HardwareProfile(hardware.key, hardware.name, self._profile_hash, hardware.to_dict()))
        if (
            self.target.device == "cuda"
            and self.target.can_measure
            and self.options.power is not False
            and not self._is_simulated
        ):
            self._nvml, _ = open_nvml_device()
        return self.run

    def add(self, record: Record) -> None:
        """Commit one record. Raises `StoreError`, after which the session ends and `close` rescues what it holds."""
        self._unsaved = record
        self._store.add_record(record)
        self._unsaved = None
        self.records.append(record)

    def close(self, exit_code: int, is_partial: bool = False) -> None:
        """End the run; a session that never began one leaves no trace. A partial run is never `latest`."""
        if self.run is None:
            return
        interrupted = is_partial or exit_code in (2, 3) or self._unsaved is not None
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
            write_json(path, export_documents(run, [profile], records))
        except StoreError as error:
            return f"({len(records)} records could not be rescued either: {error})"
        return f"({len(records)} records are in {path}; `roofline import` reads it)"

    # What a case needs to be measured ------------------------------------------------------------------------

    @property
    def _is_simulated(self) -> bool:
        return self.options.timer.partition(":")[0] in ("simulated", "replay")

    @property
    def nvml(self) -> NvmlDevice | None:
        """The GPU's sensors, or None on a CPU or where power is off."""
        return self._nvml

    def make_timer(self) -> Timer:
        """Return a fresh timer of the kind asked for."""
        kind, _, rest = self.options.timer.partition(":")
        if kind == "simulated":
            return SimulatedTimer.from_text(rest)
        if kind == "replay":
            assert self._replay is not None
            return ReplayTimer(self._replay.samples_by_case, self._replay.source)
        if self.target.device == "cuda":
            from plugin.cuda import CudaEventTimer

            return CudaEventTimer.create()
        return MonotonicTimer()

    def make_rule(self) -> MedianInterval:
        """Return a fresh stopping rule with the user's target and budget."""
        return MedianInterval(target_ratio=self.options.target_ci_ratio, max_seconds=self.options.max_seconds)

    def method(self, timer: Timer, cold: bool) -> Method:
        """Return how a case is measured; equal methods may be compared."""
        rule = self.make_rule()
        settings = {
            "target_ci_ratio": rule.target_ratio,
            "max_seconds": rule.max_seconds,
            "min_samples": rule.min_samples,
            "min_sample_s": timer.min_sample_s,
            "cache": "rotation" if cold else "none",
            "timer": self.options.timer if self._is_simulated else timer.name,
        }
        return Method(timer.name, plugin.METHOD_VERSION, settings)

    def cache_bytes(self) -> float | None:
        """Return the cache that cold has to defeat: this device's own, not the predicted chip's."""
        if self.target.device == "cuda" and not self._is_simulated:
            from plugin.cuda import l2_cache_bytes

            return l2_cache_bytes()
        if self.target.device == "cpu":
            return find_machine().cache_bytes
        level = self.target.hardware.last_level_cache
        return None if level is None else level.capacity_bytes

    def free_bytes(self) -> float | None:
        """Return the memory that operands may come from."""
        if self.target.device == "cuda" and not self._is_simulated:
            from plugin.cuda import free_device_bytes

            return free_device_bytes()
        return available_memory_bytes()

    def _check_timer_name(self) -> None:
        kind = self.options.timer.partition(":")[0]
        if kind not in ("auto", "monotonic", "cuda-event", "simulated", "replay"):
            raise InvalidValueError(
                f"--roofline-timer {kind!r} is unknown; use auto, monotonic, cuda-event, simulated[:…] or replay:FILE"
            )
        if kind == "simulated":
            SimulatedTimer.from_text(self.options.timer.partition(":")[2])
        if kind == "monotonic" and self.target.device == "cuda":
            raise UnsupportedError(
                "--roofline-timer monotonic cannot time a GPU, whose work goes on after a call returns; use cuda-event"
            )
        if kind == "cuda-event" and self.target.device == "cpu":
            raise UnsupportedError("--roofline-timer cuda-event needs kernels on a GPU; use monotonic on a CPU")


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
