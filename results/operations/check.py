"""Is a database whole: its pages, its references, its indexes, and every value in it.

What was worked out from other values is worked out again: statistics from samples, keys from what they identify.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from sqlalchemy import Connection, inspect, select, text

from results.exchange.exported.import_checks import check_parts, check_profile, check_run, differing_statistics
from results.records.plain_form import FormError
from results.records.records import HardwareProfile, Record, RunInfo
from results.store.rows import case_from
from results.store.schema import Base
from results.store.store import ResultStore
from results.store.write import CASE, RECORD, TABLES
from roofline_model.core.errors import StoreError

_MOST = 20
"""Problems of one kind that are listed; more of the same say no more."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong."""

    kind: str
    """storage, reference, index, value, statistic or key."""
    where: str
    """Table, or run."""
    what: str


def check_store(
    store: ResultStore,
    *,
    with_values: bool = True,
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> list[Problem]:
    """Return the faults of a database, none if it is intact; reads only.

    `with_values` reads every value of every run, which takes as long as exporting them all, and has SQLite compare its
    indexes with their tables, too.
    """
    problems = store.query(
        lambda connection: [*_storage(connection, with_values), *_references(connection), *_indexes(connection)]
    )
    if with_values:
        problems += store.query(lambda connection: [*_case_keys(connection)])
        runs = store.runs()
        for number, run in enumerate(runs):
            progress(f"run {run.run_id[:8]}", number, len(runs))
            try:
                records = store.records(run.run_id)
                problems += _statistics(run, records)
                problems += store.query(partial(_history_keys, run=run, records=records))
                for profile in _profiles(store, records):
                    check_profile(profile, f"profile {profile.profile_hash}")
                check_run(run, records)
                class_hash = run.environment.class_hash
                floors = tuple(store.noise_floors(class_hash).values())
                check_parts(store.processes(run.run_id), store.canaries(run.run_id), floors, class_hash)
            except FormError as error:
                problems.append(Problem("value", f"run {run.run_id[:8]}", str(error)))
            except StoreError as error:
                problems.append(Problem("value", f"run {run.run_id[:8]}", str(error)))
    return problems


def _storage(connection: Connection, with_indexes: bool) -> Iterator[Problem]:
    """SQLite looks at every page and constraint of its file; PostgreSQL checks pages by itself as it reads them."""
    if connection.dialect.name == "sqlite":
        looking = (
            "integrity_check" if with_indexes else "quick_check"
        )  # the same, without comparing indexes with tables
        scalars = connection.exec_driver_sql(f"PRAGMA {looking}({_MOST})").scalars()
        yield from (Problem("storage", "", line) for line in scalars if line != "ok")


def _statistics(run: RunInfo, records: Sequence[Record]) -> Iterator[Problem]:
    """Find statistics that their samples do not have (stored ≠ worked out); pruned samples tell nothing."""
    for record in records:
        wrong = () if record.measurement is None else differing_statistics(record.measurement)
        if wrong:
            each = ", ".join(f"{name} {value:g} ≠ {right:g}" for name, value, right in wrong)
            yield Problem("statistic", f"run {run.run_id[:8]}", f"{record.record_id[:12]}: {each}")


def _profiles(store: ResultStore, records: Sequence[Record]) -> list[HardwareProfile]:
    """Return the chips that predictions of the records are for."""
    hashes = dict.fromkeys(prediction.profile_hash for record in records for prediction in record.predictions)
    return [profile for profile in map(store.profile, hashes) if profile is not None]


def _case_keys(connection: Connection) -> Iterator[Problem]:
    for row in connection.execute(select(CASE)).mappings():
        try:
            right = case_from(row).case_key
        except (ValueError, TypeError, KeyError) as error:
            yield Problem("value", "case", f"row {row['id']}: {error}")
            continue
        if row["case_key"] != right:
            yield Problem("key", "case", f"row {row['id']}: case_key is {row['case_key'][:40]}, of its values {right}")


def _history_keys(connection: Connection, *, run: RunInfo, records: Sequence[Record]) -> list[Problem]:
    statement = select(RECORD.c.record_id, RECORD.c.history_key).where(RECORD.c.run_id == run.run_id)
    stored = dict(connection.execute(statement).all())
    class_hash = run.environment.class_hash
    return [
        Problem("key", f"run {run.run_id[:8]}", f"{record.record_id[:12]}: history_key is not that of its values")
        for record in records
        if stored.get(record.record_id) != record.history_key(class_hash)
    ]


def _references(connection: Connection) -> Iterator[Problem]:
    """Find rows whose parent is missing."""
    for name, table in TABLES.items():
        for constraint in table.foreign_key_constraints:
            (link,) = constraint.elements
            parent, column = link.column, link.parent
            statement = (
                select(column)
                .select_from(table.outerjoin(parent.table, column == parent))
                .where(column.is_not(None), parent.is_(None))
                .limit(_MOST)
            )
            missing = connection.execute(statement).scalars().all()
            if missing:
                rows_text = (
                    f"{_MOST} or more rows"
                    if len(missing) == _MOST
                    else f"{len(missing)} row{'s' * (len(missing) != 1)}"
                )
                yield Problem(
                    "reference", name, f"{rows_text} without their {parent.table.name} (first: {str(missing[0])[:40]})"
                )


def _indexes(connection: Connection) -> Iterator[Problem]:
    """Find indexes that are missing or, in PostgreSQL, left invalid: queries are right without them, and slow."""
    inspector = inspect(connection)
    for name, table in Base.metadata.tables.items():
        existing = {str(index["name"]) for index in inspector.get_indexes(name)}
        for index in table.indexes:
            if str(index.name) not in existing:
                yield Problem("index", name, f"index {index.name} is missing")
    if connection.dialect.name == "postgresql":
        invalid = (
            "SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid "
            "JOIN pg_class t ON t.oid = i.indrelid WHERE NOT i.indisvalid AND t.relname = ANY(:names)"
        )
        for scalar in connection.execute(text(invalid), {"names": list(TABLES)}).scalars():
            yield Problem("index", "", f"index {scalar} is invalid: REINDEX INDEX {scalar}")
