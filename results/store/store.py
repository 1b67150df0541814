"""The store: the one door to the database. `open_store` opens it, `ResultStore` keeps and gives back records."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import TypeVar

from sqlalchemy import Connection, select
from sqlalchemy.exc import IntegrityError

from results.records.flags import FLAGS
from results.records.records import HardwareProfile, ProcessInfo, Record, RunInfo, RunStatus
from results.records.state_records import CanaryReading, NoiseFloor
from results.store import read, run_names, write
from results.store.connection import WRITING, DatabaseFile, make_engine, prepare_place, translated
from results.store.migrate import ensure_current, read_version
from results.store.schema import RECORD
from results.store.target import StoreTarget, parse_target
from roofline_model.core.errors import InvalidValueError, StoreError

T = TypeVar("T")


def open_store(target: str | Path | None = None, *, create: bool = True, read_only: bool = False) -> ResultStore:
    """Open the results database, creating or upgrading it where allowed.

    `target`: a path, sqlite:///PATH or postgresql+psycopg://HOST/NAME; None means the variable ROOFLINE_DB, else
    `.roofline/results.db` under the working folder. `read_only` creates and changes nothing at all.
    Raises `StoreError` (one line, naming the fix) when it cannot be used; nothing is damaged.
    """
    parsed = parse_target(target)
    prepare_place(parsed, create=create and not read_only, writing=not read_only)
    return ResultStore(parsed, create=create and not read_only, read_only=read_only)


class ResultStore:
    """An open database. Use it as a context manager; safe to share between threads, not between forked processes."""

    def __init__(self, target: StoreTarget, *, create: bool, read_only: bool) -> None:
        self._target = target
        self._read_only = read_only
        self._engine = make_engine(target, mode="ro" if read_only else "rw")
        try:
            ensure_current(target, self._engine, create=create, read_only=read_only)
            self._file = None if read_only or target.path is None else self._opened_file(target.path)
        except BaseException:
            self._engine.dispose()
            raise
        self._writer = self._engine.execution_options(**{WRITING: True})
        self._known_ids = write.KnownIds()
        self._writing = Lock()
        self._pid = os.getpid()

    def __enter__(self) -> ResultStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def name(self) -> str:
        """Address of the database without a password, safe to show."""
        return self._target.name

    @property
    def place(self) -> str:
        """Which database this is, whoever opens it and how."""
        return self._target.place

    def close(self) -> None:
        """Close every connection; what was committed is in the database file itself afterwards."""
        self._engine.dispose()

    def schema_version(self) -> int:
        """Return the schema version of the database."""
        version = self.query(lambda connection: read_version(connection, self._target))
        if version is None:
            raise StoreError(f"{self.name} is empty: its tables were removed while it was open")
        return version

    # Writing -------------------------------------------------------------------------------------------------

    def begin_run(self, run: RunInfo) -> None:
        """Store a run before its records. Raises `StoreError` when its id is already there or its label means another
        run.
        """
        run_names.check_label(run.label)

        def insert(connection: Connection) -> None:
            if self._present(connection, run.run_id) is not None:
                raise StoreError(f"run {run.run_id[:40]} is already in {self.name}: every run needs an id of its own")
            write.insert_run(connection, run)

        self.transact("storing the run", insert)

    def finish_run(self, run_id: str, *, status: RunStatus, exit_code: int | None, finished_at: str | None) -> None:
        """Store how a run ended. Raises `StoreError` for an unknown run, and when the file was replaced meanwhile."""
        self.transact(
            "finishing the run",
            lambda connection: write.finish_run(connection, run_id, status, exit_code, finished_at),
        )

    def add_profile(self, profile: HardwareProfile) -> None:
        """Store the chip description that predictions use; one that is already there is left alone."""
        self.transact("storing the profile", lambda connection: write.insert_profile(connection, profile))

    def add_record(self, record: Record) -> None:
        """Store one record in a transaction of its own: once this returns, a killed process does not lose it.

        Raises `StoreError` for a run that was not begun, for a record id that is already there, and when the database
        file is no longer the one that was opened.
        """

        def insert(connection: Connection) -> None:
            write.insert_record(connection, self._known_ids, record)

        def insert_again(connection: Connection) -> None:
            if write.present_record_runs(connection, [record.record_id]):
                raise StoreError(
                    f"record {record.record_id[:40]} is already in {self.name}: every record needs an id of its own"
                )
            insert(connection)

        try:
            self.transact("storing the record", insert, translate_integrity=False)
        except IntegrityError:
            # Either the record is there already, or rows that this store remembers were deleted meanwhile.
            self._known_ids.forget()
            self.transact("storing the record", insert_again)

    def complete_record(self, record: Record) -> None:
        """Replace a stored record's measurement, predictions and facts by those of the same record with more samples.

        Flags that it was given meanwhile stay. Raises `StoreError` for a record that is not there.
        """
        self.transact("completing the record", lambda connection: write.replace_record(connection, record))

    def add_run(
        self,
        run: RunInfo,
        profiles: Iterable[HardwareProfile],
        records: Iterable[Record],
        *,
        processes: Iterable[ProcessInfo] = (),
        canaries: Iterable[CanaryReading] = (),
        noise_floors: Iterable[NoiseFloor] = (),
    ) -> tuple[int, int]:
        """Store a whole run at once (an import) and return how many records were added and how many were there already.

        All or nothing. What is there already keeps every number; a running run takes over the end of this one, a
        process how it ended, a measurement the flags and a canary the judgement it was given since. Raises `StoreError`
        when a record id belongs to another run already, or the label means another run.
        """
        run_names.check_label(run.label)
        new_records = list(records)

        def insert(connection: Connection) -> tuple[int, int]:
            write.hold_run(connection, run)
            present = self._present(connection, run.run_id)
            if present is not None and present.status == "running" and run.status != "running":
                write.finish_run(connection, run.run_id, run.status, run.exit_code, run.finished_at)
            for profile in profiles:
                write.insert_profile(connection, profile)
            for process in processes:
                write.insert_process(connection, run.run_id, process)
            readings = list(canaries)
            write.insert_canaries(connection, run.run_id, readings)
            write.rejudge_canaries(connection, run.run_id, [reading for reading in readings if reading.is_slow])
            write.insert_floors(connection, noise_floors)
            owners = write.present_record_runs(connection, [record.record_id for record in new_records])
            self._refuse_records_of_others(run, owners)
            write.unite_flags(connection, [record for record in new_records if record.record_id in owners])
            new: dict[str, Record] = {}
            for record in new_records:
                if record.record_id not in owners:
                    new.setdefault(record.record_id, record)
            write.insert_records(connection, self._known_ids, list(new.values()))
            return len(new), len(new_records) - len(new)

        self._known_ids.forget()
        return self.transact("storing the run", insert)

    def end_process(self, run_id: str, process: ProcessInfo, end_reason: str) -> None:
        """Store how a process of a run ended, in the row it has; one that never stored a record gets a row now.

        Raises `StoreError` for a run that was not begun.
        """
        self.transact("ending a process", lambda connection: write.end_process(connection, run_id, process, end_reason))

    def add_canary(self, run_id: str, reading: CanaryReading) -> None:
        """Store one canary reading of a run; one that is there already is left alone.

        Raises `StoreError` for a run that was not begun.
        """
        self.transact("storing the canary", lambda connection: write.insert_canaries(connection, run_id, [reading]))

    def rejudge_canaries(self, run_id: str, readings: Iterable[CanaryReading]) -> None:
        """Store what a later reading showed of these: `is_slow` and `reference_s` of readings that are stored already.

        A slow reading is never made healthy again; one that is not there is passed over.
        """
        slow = [reading for reading in readings if reading.is_slow]
        if slow:
            self.transact("judging the canary", lambda connection: write.rejudge_canaries(connection, run_id, slow))

    def add_noise_floors(self, floors: Iterable[NoiseFloor]) -> None:
        """Store noise floors, all or none; older ones of the same case and method stay, the newest counts."""
        self.transact("storing noise floors", lambda connection: write.insert_floors(connection, floors))

    def flag_records(self, record_ids: Iterable[str], flag: str) -> int:
        """Add a flag to stored measurements, all or none, and return how many did not carry it yet.

        Flags keep their order; a record without a measurement is passed over.
        Raises `InvalidValueError` for a flag that `flags.FLAGS` does not explain, `StoreError` for a record that is not
        there.
        """
        if flag not in FLAGS:
            raise InvalidValueError(f"a measurement cannot carry the flag {flag[:40]!r}: known are {', '.join(FLAGS)}")
        unique_ids = list(dict.fromkeys(record_ids))
        if not unique_ids:
            return 0
        return self.transact("flagging the records", lambda connection: write.add_flag(connection, unique_ids, flag))

    # Reading -------------------------------------------------------------------------------------------------

    def runs(self, limit: int | None = None) -> list[RunInfo]:
        """Return the runs, newest first."""
        statement = read.select_runs().order_by(*read.NEWEST_FIRST).limit(limit)
        return self.query(lambda connection: read.read_runs(connection, statement))

    def resolve_run(self, name: str) -> RunInfo:
        """Return the run called `name`: id or its first digits (4 or more), label (its newest), latest, latest~1, ….

        `latest` counts complete runs only. Raises `StoreError` or `UnknownNameError`, saying what there is.
        """
        return self.query(lambda connection: run_names.resolve(connection, name, self.name))

    def records(self, run_id: str, *, with_samples: bool = True) -> list[Record]:
        """Return the records of the run with exactly this id, in the order they were stored; none for an unknown id.

        Without samples `samples_s` is empty, and a long run is read several times faster.
        """
        return self.query(lambda connection: read.read_records(connection, run_id, with_samples=with_samples))

    def record_ids(self, run_id: str) -> set[str]:
        """Return the ids of the records of a run that are stored (in the file that still leads there).

        Raises `StoreError` when it cannot be read, or is no longer the file that was opened.
        """
        if self._file is not None:
            self._file.check()
        statement = select(RECORD.c.record_id).where(RECORD.c.run_id == run_id)
        return self.query(lambda connection: set(connection.execute(statement).scalars()))

    def profile(self, profile_hash: str) -> HardwareProfile | None:
        """Return the chip description of this hash, or None."""
        return self.query(lambda connection: read.read_profile(connection, profile_hash))

    def processes(self, run_id: str) -> list[ProcessInfo]:
        """Return the processes of the run with exactly this id, first seen first, with how each ended."""
        return self.query(lambda connection: read.read_processes(connection, run_id))

    def canaries(self, run_id: str) -> list[CanaryReading]:
        """Return the canary readings of the run with exactly this id, in the order they were stored."""
        return self.query(lambda connection: read.read_canaries(connection, run_id))

    def canary_times(self, class_hash: str, kernel: str, limit: int = 50) -> list[float]:
        """Return the seconds of up to `limit` healthy readings (not slow) of this kernel, newest first.

        All runs whose environment has this class hash count, the one in progress too once it has stored a reading.
        """
        return self.query(lambda connection: read.read_canary_times(connection, class_hash, kernel, limit))

    def noise_floors(self, class_hash: str) -> dict[tuple[str, str], NoiseFloor]:
        """Return the newest noise floor of every (case key, method hash) measured in this environment class."""
        return self.query(lambda connection: read.read_noise_floors(connection, class_hash))

    # Transactions --------------------------------------------------------------------------------------------

    def _present(self, connection: Connection, run_id: str) -> RunInfo | None:
        """Return the run that has this id already, inside a transaction that writes."""
        with translated(self._target, "reading", reading=True):
            return read.read_run(connection, run_id)

    def _refuse_records_of_others(self, run: RunInfo, owners: Mapping[str, str]) -> None:
        for record_id, owner in owners.items():
            if owner != run.run_id:
                raise StoreError(
                    f"record {record_id[:40]} of run {run.run_id[:12]} is already in {self.name} as one of run "
                    f"{owner[:12]}: "
                    "this is a changed copy of that run; import the file as it was exported. Nothing was imported."
                )

    def _opened_file(self, path: Path) -> DatabaseFile:
        """Open the file (the pool keeps it open) and remember which one it is."""
        with translated(self._target, "opening the database", reading=True), self._engine.connect():
            return DatabaseFile(path)

    def transact(self, doing: str, work: Callable[[Connection], T], *, translate_integrity: bool = True) -> T:
        """Return the result of `work` in one write transaction, all or nothing; `doing`: what it is, for an error."""
        if self._read_only:
            raise StoreError(f"{self.name} was opened read-only: open it with read_only=False to store results")
        self._refuse_fork()
        passed_on = () if translate_integrity else (IntegrityError,)
        with self._writing:
            try:
                with translated(self._target, doing, but=passed_on), self._writer.begin() as connection:
                    result = work(connection)
            except BaseException as error:
                self._known_ids.drop_pending()
                if self._file is not None and isinstance(error, StoreError):
                    self._file.check()  # a file that was taken away fails in many ways: this is the true cause
                raise
            self._known_ids.keep()
            if self._file is not None:
                self._file.check()
            return result

    def _refuse_fork(self) -> None:
        """Raise `StoreError` in a process that was forked since: SQLite's locks and PostgreSQL's socket are its
        parent's.
        """
        if os.getpid() != self._pid:
            raise StoreError(
                f"{self.name} was opened by the process that forked this one: open it again here, or end this process "
                "with os._exit"
            )

    def query(self, work: Callable[[Connection], T]) -> T:
        """Return the result of `work` on a reading connection, for the queries of this package."""
        self._refuse_fork()
        with translated(self._target, "reading", reading=True), self._engine.connect() as connection:
            return work(connection)
