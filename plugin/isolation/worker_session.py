"""The session of a worker: a part of the parent's run, stored by the worker itself."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plugin.run.options import BenchOptions
from plugin.run.session import BenchSession, Report
from results.records.records import ProcessInfo, Record, RunInfo
from results.records.state_records import CanaryReading
from roofline_model.chips.hardware import Device
from roofline_model.core.errors import StoreError

if TYPE_CHECKING:
    from plugin.isolation.worker import WorkerHooks


@dataclass(frozen=True, slots=True)
class WorkerStart:
    """What a worker has to know of the run that it is a part of."""

    run: RunInfo
    process: ProcessInfo
    """Without the process's id, which is not known before it starts."""
    database: str
    hardware: Device
    rootdir: str
    options: Mapping[str, Any]
    """Values of pytest's options, among them those that plugins have settled (a seed)."""
    pass_ordinal: int
    """Which of a case's fresh processes this is, from 1."""
    may_visit: bool
    """Whether cases may be visited again: not where each has a process of its own."""
    preload: tuple[str, ...]
    """Modules to import before the first test."""


class WorkerSession(BenchSession):
    """Like `BenchSession`, but begins no run and ends none."""

    def __init__(self, options: BenchOptions, folder: Path, report: Report, link: WorkerHooks) -> None:
        super().__init__(replace(options, db=link.start.database), folder, report)
        self._link = link
        self._url = options.db
        self.target.load_hardware = lambda: link.start.hardware

    def open(self) -> RunInfo:
        """Take over the parent's run and what is stored of it; every worker is a process of its own in it."""
        if self.run is None:
            start = self._link.start
            self._store = self.open_store()
            with contextlib.suppress(StoreError):  # its canary readings are the reference
                self._server = self.open_server(self._url)
            self.run, self.process = start.run, start.process
            self.instruments.pass_number, self.visits.is_on = start.pass_ordinal, start.may_visit
            self.catch_up(with_samples=False)
        return self.run

    def complete(self, record: Record) -> None:
        """Replace a stored record by one with more samples; their time is not the running case's."""
        super().complete(record)
        self._link.send("restart-clock")

    def add_canary(self, reading: CanaryReading) -> None:
        """Commit a reading; its time is not the running case's."""
        super().add_canary(reading)
        self._link.send("restart-clock")

    def declared(self, pending: Any) -> None:
        """Announce the case to the parent, which stores it with its prediction if this process dies of it.

        May be called again once the case is measured: a crash later in the same test then costs only what came after.
        """
        record = pending.record(self, self._link.test_id, ("failed", "the worker died"))
        if record is not None:
            self._link.send("declared", record)

    def close(self, exit_code: int, is_partial: bool = False) -> None:
        """Visit the last cases and bracket them; the parent ends the run."""
        if self.run is None:
            return
        with contextlib.suppress(StoreError):  # the parent has been told
            self.visits.close()
            self.repeat_canary()
        self._store.close()
        if self._server is not None:
            self._server.close()

    @contextlib.contextmanager
    def _noting(self) -> Iterator[None]:
        """Tell the parent of the first error of the database, with the record that it does not take: the run ends."""
        try:
            with super()._noting():
                yield
        except StoreError as error:
            self._link.send("broken", (str(error), self._unsaved))
            raise
