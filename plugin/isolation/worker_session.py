"""The session of a worker: the run is the parent's, and what is found goes to the parent instead of a database."""

from __future__ import annotations

import base64
import pickle
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

from plugin.isolation.worker_protocol import Message
from plugin.run.options import BenchOptions
from plugin.run.session import BenchSession, Report
from results.records.plain_form import from_plain, to_plain
from results.records.records import ProcessInfo, Record, RunInfo
from results.records.state_records import CanaryReading


class Link(Protocol):
    """Pipe interface of a worker's session."""

    start: Message
    test_id: str
    """The test that runs now."""

    def send(self, message: Message) -> None:
        """Tell the parent."""
        ...

    def ask(self, message: Message) -> Message:
        """Tell the parent and wait for its answer."""
        ...


class WorkerSession(BenchSession):
    """Like `BenchSession` for the fixture; opens no database, begins no run, ends none."""

    def __init__(self, options: BenchOptions, folder: Path, report: Report, link: Link) -> None:
        super().__init__(options, folder, report)
        self._link = link
        self.target.load_hardware = lambda: unpack(link.start["hardware"])

    def open(self) -> RunInfo:
        """Take over the parent's run; every worker is a process of its own in it."""
        if self.run is None:
            self.run = from_plain(RunInfo, self._link.start["run"], "run")
            self.process = from_plain(ProcessInfo, self._link.start["process"], "process")
            self.instruments.pass_number = self._link.start["pass"]
            self.visits.is_on = self._link.start.get("visits", True)
            self._profile_hash = self.target.hardware.content_hash
        return self.run

    def add(self, record: Record) -> None:
        """Send a record to the parent, which commits it."""
        self._link.send({"kind": "record", "record": to_plain(record)})
        self.records.append(record)
        self.visits.stored(record)

    def complete(self, record: Record) -> None:
        """Send a record with more samples to the parent, which replaces the stored one."""
        self._link.send({"kind": "completed", "record": to_plain(record)})
        self.records = [record if stored.record_id == record.record_id else stored for stored in self.records]

    def declared(self, pending: Any) -> None:
        """Announce the case to the parent, which stores it with its prediction if it kills this process.

        May be called again once the case is measured: a crash later in the same test then costs only what came after.
        """
        record = pending.record(self, self._link.test_id, ("failed", "the worker died"))
        if record is not None:
            self._link.send({"kind": "declared", "case_key": record.case.case_key, "record": to_plain(record)})

    def add_canary(self, reading: CanaryReading) -> None:
        """Send a reading to the parent, which commits it and judges it beside those of other workers."""
        self._link.send({"kind": "canary", "reading": to_plain(reading)})
        self.judge_canary(reading)

    def earlier_canary_times(self, kernel: str) -> list[float]:
        """Ask the parent, which has the database."""
        return [float(value) for value in self._link.ask({"kind": "canary-times", "kernel": kernel})["times"]]

    def flag_records(self, record_ids: Iterable[str], flag: str) -> None:
        """Let the parent flag records that it has stored."""
        self._link.send({"kind": "flag", "record_ids": sorted(record_ids), "flag": flag})

    def end_process(self, process: ProcessInfo, end_reason: str) -> None:
        """A worker has no workers."""

    def close(self, exit_code: int, is_partial: bool = False) -> None:
        """Visit the last cases and bracket them; the parent ends the run."""
        self.visits.close()
        self.repeat_canary()


def pack(value: Any) -> str:
    """Return a value of ours as text for the start message; only the parent writes it, only its worker reads it."""
    return base64.b64encode(pickle.dumps(value)).decode("ascii")


def unpack(text: str) -> Any:
    """Return the value that `pack` encoded."""
    return pickle.loads(base64.b64decode(text))
