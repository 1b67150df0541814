"""Which stored records a question means: words of a case, a time, a run. Answered in lots, so that a year fits into
memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from sqlalchemy import Connection, select

from results.records.records import Record, RunInfo
from results.store import read, rows
from results.store.schema import CASE, PREDICTION, RECORD, RUN
from results.store.write import in_parts, present_record_runs
from roofline_model.core.errors import InvalidValueError
from roofline_model.operators.case import Case, is_meant

if TYPE_CHECKING:
    from results.store.store import ResultStore


@dataclass(frozen=True, slots=True)
class RecordQuery:
    """Conditions on stored records: words of a case, dates, runs. Each narrows the result."""

    words: tuple[str, ...] = ()
    """Each has to stand in the case's id, its operator or its sizes; capitals do not matter."""
    since: str = ""
    """Runs that started then or later: a date, or a date and time in ISO 8601 (UTC unless it says otherwise)."""
    until: str = ""
    """Runs that started before; a date alone means its whole day."""
    run_id: str = ""
    """Of this run only."""

    def __post_init__(self) -> None:
        start, end = self.bounds
        if start and end and start >= end:
            raise InvalidValueError(f"nothing lies between --since {self.since} and --until {self.until}: swap them")

    @property
    def bounds(self) -> tuple[str, str]:
        """Start and end as stored run times compare; empty where open."""
        return _moment(self.since, "--since", is_end=False), _moment(self.until, "--until", is_end=True)

    def fits(self, case: Case) -> bool:
        """Return whether a case is meant."""
        return is_meant(case, self.words)


@dataclass(frozen=True, slots=True)
class FoundRun:
    """A run with the records that a query chose, by their rows."""

    run: RunInfo
    record_pks: tuple[int, ...]


def find_records(store: ResultStore, query: RecordQuery) -> list[FoundRun]:
    """Return the runs that hold records of a query, oldest first, and which; the records themselves are not read
    yet.
    """
    return store.query(lambda connection: _matching_runs(connection, query))


def read_lots(store: ResultStore, run: FoundRun, *, with_samples: bool) -> Iterator[list[Record]]:
    """Yield the records of a run that were found, in the order they were stored, some hundred at a time."""
    for pks in in_parts(run.record_pks):
        yield store.query(partial(read.read_chosen, chosen=RECORD.c.id.in_(pks), with_samples=with_samples))


def profile_hashes(store: ResultStore, run: FoundRun) -> list[str]:
    """Return the hashes of the chip descriptions that the predictions of these records used, each once."""

    def hashes(connection: Connection) -> list[str]:
        seen: dict[str, None] = {}
        for pks in in_parts(run.record_pks):
            chosen = PREDICTION.c.record_pk.in_(pks)
            statement = select(PREDICTION.c.profile_hash).where(chosen).order_by(PREDICTION.c.record_pk)
            seen.update(dict.fromkeys(connection.execute(statement).scalars()))
        return list(seen)

    return store.query(hashes)


def runs_of_records(store: ResultStore, record_ids: Sequence[str]) -> dict[str, str]:
    """Return which of the record ids are stored, and the run that each belongs to."""
    return store.query(lambda connection: present_record_runs(connection, record_ids))


def _matching_runs(connection: Connection, query: RecordQuery) -> list[FoundRun]:
    start, end = query.bounds
    statement = read.select_runs().order_by(RUN.c.started_at, RUN.c.run_id)
    if query.run_id:
        statement = statement.where(RUN.c.run_id == query.run_id)
    if start:
        statement = statement.where(RUN.c.started_at >= start)
    if end:
        statement = statement.where(RUN.c.started_at < end)
    runs = read.read_runs(connection, statement)
    by_run = _record_pks_by_word(connection, query) if query.words else None
    found_runs = []
    for run in runs:
        pks = _record_pks(connection, run.run_id) if by_run is None else sorted(by_run.get(run.run_id, ()))
        if pks or (query.run_id and by_run is None):  # a run that holds nothing is still that run
            found_runs.append(FoundRun(run, tuple(pks)))
    return found_runs


def _record_pks(connection: Connection, run_id: str) -> list[int]:
    statement = select(RECORD.c.id).where(RECORD.c.run_id == run_id).order_by(RECORD.c.id)
    return list(connection.execute(statement).scalars())


def _record_pks_by_word(connection: Connection, query: RecordQuery) -> dict[str, list[int]]:
    """Return run id → rows of the records whose case is meant."""
    # Cases are few beside records, and only `Case` knows what their ids look like: chosen here, joined there.
    cases = connection.execute(select(CASE)).mappings()
    case_ids = [row["id"] for row in cases if query.fits(rows.case_of(row))]
    record_pks: dict[str, list[int]] = {}
    for part in in_parts(case_ids):
        of_cases = RECORD.c.case_id.in_(part)
        for row in connection.execute(select(RECORD.c.run_id, RECORD.c.id).where(of_cases)):
            record_pks.setdefault(row.run_id, []).append(row.id)
    return record_pks


def _moment(text: str, option: str, *, is_end: bool) -> str:
    """Return a date as runs store theirs: UTC, ISO 8601 with microseconds, so that texts compare like times."""
    if not text:
        return ""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InvalidValueError(
            f"{option} is {text[:40]!r}, not a date such as 2026-11-21 or 2026-11-21T18:00"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    try:
        if is_end and len(text.strip()) == len("2026-11-21"):
            moment += timedelta(days=1)
        return moment.astimezone(UTC).isoformat(timespec="microseconds")
    except OverflowError:
        raise InvalidValueError(f"{option} is {text[:40]!r}, too far from today") from None
