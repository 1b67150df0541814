"""Writing to a server that may be away: try again, then keep on the disk, then deliver as soon as it is back."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import RLock

from results.records.records import Record, RunInfo
from results.store.connection import RETRY_WAITS_S
from results.store.delivery.changes import Change
from results.store.delivery.spool import Spool
from roofline_model.core.errors import DatabaseAwayError
from roofline_model.core.finding import Finding, finding

DELIVER_EVERY_S = 30.0
"""While changes wait, a write looks for the server this often: looking for one that does not answer takes 10 s."""


@dataclass(frozen=True, slots=True)
class Undelivered:
    """What the database has not taken yet."""

    path: Path
    change_count: int
    record_count: int
    reason: str
    """What the last try to deliver it said."""

    @property
    def finding(self) -> Finding:
        """What to tell the user."""
        return finding("undelivered", reason=self.reason, record_count=self.record_count, file=str(self.path))


class Outbox:
    """Takes one write after the other; what the database does not take is in the spool, and stays in its order."""

    def __init__(self, spool: Spool, send: Callable[[Sequence[Change]], int]) -> None:
        """`send` makes changes in one transaction, each once however often it is called; it raises `DatabaseAwayError`."""
        self._spool = spool
        self._send = send
        self._lock = RLock()
        self._next_look_s = 0.0
        self._reason = ""

    def write(self, change: Change, attempt: Callable[[], None]) -> None:
        """Make the change by `attempt`, else by `send` a moment later, else keep it.

        Raises what else goes wrong, and `StoreError` when the disk cannot keep the change either.
        """
        with self._lock:
            if isinstance(change.content, RunInfo):
                self._spool.note_run(change.content)
            if self._spool.changes and (time.monotonic() < self._next_look_s or self.deliver() is not None):
                self._spool.add(change)
                return
            try:
                attempt()
            except DatabaseAwayError as error:
                self._reason = str(error)
            else:
                return
            for wait_s in RETRY_WAITS_S:
                time.sleep(wait_s)
                try:
                    self._send([change])
                except DatabaseAwayError as error:
                    self._reason = str(error)
                else:
                    return
            self._spool.add(change)
            self._next_look_s = time.monotonic() + DELIVER_EVERY_S

    def deliver(self) -> Undelivered | None:
        """Send what waits; return what still does, or None. Raises `StoreError` when the database refuses it for good."""
        with self._lock:
            if not self._spool.changes:
                return None
            try:
                self._send(self._spool.changes)
            except DatabaseAwayError as error:
                self._reason = str(error)
                self._next_look_s = time.monotonic() + DELIVER_EVERY_S
                return self._undelivered()
            self._spool.remove()
            return None

    def record_ids(self, run_id: str) -> set[str]:
        """Return the ids of the records of a run that wait."""
        return self._spool.record_ids(run_id)

    def close(self) -> None:
        """Let go of the file, so that others may deliver it."""
        self._spool.close()

    def _undelivered(self) -> Undelivered:
        assert self._spool.path is not None
        records = sum(isinstance(change.content, Record) for change in self._spool.changes)
        return Undelivered(self._spool.path, len(self._spool.changes), records, self._reason)
