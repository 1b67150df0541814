"""A cache of the runs read last: the pages of one long list are not read from the database each anew.

Kept only as long as nothing was written: a SQLite file and its log say so by their size and time of change. Of
PostgreSQL nothing says so without asking, so nothing is kept.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reports.cases.summary import CaseSummary
    from results.records.records import RunInfo
    from results.records.state_records import CanaryReading
    from results.store.store import ResultStore

MOST_RUNS = 2
"""A run of 5,000 cases takes some ten megabytes."""

Mark = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class ReadRun:
    """A run with its cases, their processes pooled; samples are not read."""

    run: RunInfo
    cases: tuple[CaseSummary, ...]
    state_sentence: str
    """What the canary readings say; empty where there were none."""


class RunCache:
    """Reads runs and caches the last ones. Safe between threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._runs: OrderedDict[tuple[Mark, str], ReadRun] = OrderedDict()

    def read(self, store: ResultStore, run: RunInfo, mark: Mark | None) -> ReadRun:
        """Return a run; `mark` is of before the run was looked up (`change_mark`), None where nothing may be kept."""
        if mark is None:
            return _read(store, run)
        key = (mark, run.run_id)
        with self._lock:
            answer = self._runs.get(key)
            if answer is not None:
                self._runs.move_to_end(key)
                return answer
        answer = _read(store, run)
        with self._lock:
            self._runs[key] = answer
            while len(self._runs) > MOST_RUNS:
                self._runs.popitem(last=False)
        return answer


def change_mark(path: Path | None) -> Mark | None:
    """Return what changes whenever a SQLite database is written; None for one that is not a file."""
    if path is None:
        return None
    marks = []
    for file in (path, path.with_name(f"{path.name}-wal")):
        try:
            status = file.stat()
        except OSError:  # no log: nobody is writing
            continue
        marks.append((status.st_ino, status.st_size, status.st_mtime_ns))
    return tuple(marks)


def _read(store: ResultStore, run: RunInfo) -> ReadRun:
    from reports.cases.summary import run_summaries
    from reports.view.run_state import run_state

    records = store.records(run.run_id, with_samples=False)
    canaries: list[CanaryReading] = store.canaries(run.run_id)
    cases = run_summaries(run, records, store.noise_floors(run.environment.class_hash))
    sentence = run_state(run, cases, records, canaries).canary_sentence if canaries else ""
    return ReadRun(run, cases, sentence)
