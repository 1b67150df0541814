"""Create a database or bring an old one to today's schema, safely and by one process at a time.

Three traps of SQLite shape this file (each has a test): Alembic's batch mode rebuilds a table by dropping it, and with
foreign keys ON that deletes every child row; a failed migration is only rolled back inside an explicit transaction;
several processes opening a new file at once race.
Opening an up-to-date database costs one query; neither that nor a new one imports Alembic.
"""

from __future__ import annotations

import logging
import os
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from sqlalchemy import Connection, Engine, inspect, text

from results.store.connection import LACKS_TABLES, MAKE_A_RUN, REPLACE_IT, WRITING, make_engine, translated
from results.store.schema import METADATA, SCHEMA_VERSION, VERSION, VERSION_TABLE
from results.store.target import StoreTarget
from roofline_model.core.errors import OldSchemaError, RooflineError, StoreError

MIGRATIONS = Path(__file__).parent / "migrations"

ADVISORY_LOCK_KEY = 0x526F_6F66_6C69_6E65
"""The word "Roofline" as a 64-bit number: the lock that creators and upgraders of a PostgreSQL database share."""

PLACE_FAILED = "disk is full|disk I/O error"
"""What SQLite says when the file system, not a script, is at fault."""

Progress = Callable[[str, int, int], None]
"""What is done now, steps done, all steps."""

_BACKUP_PAGES = 4096
"""Copied between two signs of progress: 16 MiB."""

_log = logging.getLogger(__name__)


def read_version(connection: Connection, target: StoreTarget) -> int | None:
    """Return the schema version of the database, or None when it is empty.

    Raises `StoreError` when it belongs to something else or lacks tables of today's schema; nothing is changed.
    """
    if connection.dialect.name == "sqlite":
        tables = set(connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'table'").scalars())
        is_foreign = bool(tables)
    else:
        tables = set(inspect(connection).get_table_names())
        is_foreign = not tables.isdisjoint(METADATA.tables)
    if VERSION_TABLE not in tables:
        if not is_foreign:
            return None
        stored = None
    else:
        stored = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()
    our_tables = METADATA.tables.keys()
    is_ours = 2 * len(our_tables & tables) > len(our_tables)
    if is_ours and VERSION_TABLE in tables and not _is_version(stored):
        raise StoreError(
            f"{target.name} is damaged, {str(stored)[:40]!r} is not a schema version: nothing was changed; {REPLACE_IT}"
        )
    if stored is None or not is_ours:
        raise StoreError(
            f"{target.name} is a database of something else: nothing was changed; name another one with --roofline-db "
            "or ROOFLINE_DB"
        )
    missing = sorted(our_tables - tables) if int(stored) == SCHEMA_VERSION else []
    if missing:
        raise StoreError(f"{target.name} {LACKS_TABLES} {REPLACE_IT} (not there: {', '.join(missing)})")
    return int(stored)


def _is_version(stored: object) -> bool:
    text = str(stored)
    return text.isascii() and text.isdecimal() and 0 < len(text) < 10 and int(text) >= 1


def stored_version(target: StoreTarget) -> int | None:
    """Return the schema version of a database without changing it; None when it is empty or not there yet."""
    if target.path is not None and not os.path.exists(target.path):
        return None
    engine = make_engine(target, mode="ro")
    try:
        with translated(target, "opening the database", reading=True), engine.connect() as connection:
            return read_version(connection, target)
    finally:
        engine.dispose()


def ensure_current(target: StoreTarget, engine: Engine, *, create: bool, read_only: bool) -> None:
    """Leave the database at SCHEMA_VERSION, creating or upgrading it where allowed.

    Raises `StoreError` for a newer schema, an older one that may not be upgraded (read-only), an empty one with
    `create=False`.
    """
    if target.path is None or target.path.exists():
        with translated(target, "opening the database", reading=True), engine.connect() as connection:
            version = read_version(connection, target)
            if target.path is not None and version is not None and not read_only:
                _check_journal(connection, target.path)
        if version == SCHEMA_VERSION:
            return
        _refuse_newer(version, SCHEMA_VERSION, target)
        if read_only and version is not None:
            raise OldSchemaError(
                f"{target.name} has schema {version}, older than {SCHEMA_VERSION}: the next stored run upgrades it, or "
                "`roofline db upgrade` now (a copy is kept)",
            )
        if version is None and (read_only or not create):
            raise StoreError(f"{target.name} is empty: {MAKE_A_RUN}")
    upgrade(target)


def _silent(what: str, done: int, total: int) -> None:
    """Tell nobody."""


def upgrade(
    target: StoreTarget,
    *,
    target_version: int = SCHEMA_VERSION,
    folders: Sequence[Path] = (),
    progress: Progress = _silent,
) -> None:
    """Create the database, or upgrade it to schema `target_version`, under a lock that all processes share.

    `folders` are further places of migration scripts (tests use them); `progress` is told how far the copy and the
    scripts are. An older SQLite file is copied first, to
    `<file>.schema-<version>.backup`. Raises `StoreError`; whatever fails, the database is as it was.
    """
    if target.path is None:
        _upgrade_postgres(target, target_version, folders, progress)
    else:
        with exclusive_lock(target.path):
            _upgrade_sqlite(target, target.path, target_version, folders, progress)


def _upgrade_sqlite(
    target: StoreTarget, path: Path, target_version: int, folders: Sequence[Path], progress: Progress
) -> None:
    is_new = not path.exists()
    engine = make_engine(target, mode="rwc", foreign_keys=False)
    try:
        with translated(target, "preparing the database"):
            with engine.connect() as connection:
                version = read_version(connection, target)
            if version == target_version:
                return
            _refuse_newer(version, target_version, target)
            backup = None if version is None else _back_up(path, version, progress)
            with closing(engine.raw_connection()) as raw:
                raw.cursor().execute("PRAGMA journal_mode = WAL")
            writer = engine.execution_options(**{WRITING: True})
            with _explained(target, version, target_version, backup), writer.begin() as connection:
                if version is None:
                    _create(connection)
                else:
                    _run_scripts(connection, version, target_version, folders, progress)
                    progress("checking references", target_version, target_version)
                    _check_foreign_keys(connection)
    except BaseException:
        engine.dispose()
        if is_new:  # half a new database helps nobody
            for suffix in ("", "-wal", "-shm"):
                Path(f"{path}{suffix}").unlink(missing_ok=True)
        raise
    finally:
        engine.dispose()


def _upgrade_postgres(target: StoreTarget, target_version: int, folders: Sequence[Path], progress: Progress) -> None:
    engine = make_engine(target)
    try:
        with translated(target, "preparing the database"), engine.begin() as connection:
            # Freed by the end of the transaction, whichever way that comes.
            connection.execute(text("SET LOCAL lock_timeout = 0"))  # the upgrade before ours may take long
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": ADVISORY_LOCK_KEY})
            version = read_version(connection, target)
            if version == target_version:
                return
            _refuse_newer(version, target_version, target)
            with _explained(target, version, target_version, None):
                if version is None:
                    _create(connection)
                else:
                    _run_scripts(connection, version, target_version, folders, progress)
    finally:
        engine.dispose()


def _create(connection: Connection) -> None:
    """Make today's tables in an empty database: no script runs for it (Alembic's cookbook, "Building an Up to Date
    Database from Scratch").
    """
    METADATA.create_all(connection)
    VERSION.create(connection)
    connection.execute(VERSION.insert(), {"version_num": f"{SCHEMA_VERSION:04d}"})


def _run_scripts(
    connection: Connection, version: int, target_version: int, folders: Sequence[Path], progress: Progress
) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", _option(MIGRATIONS))
    if folders:
        places = [MIGRATIONS / "versions", *folders]
        # The older and the newer name of the same option.
        config.set_main_option("version_path_separator", "os")
        config.set_main_option("path_separator", "os")
        config.set_main_option("version_locations", os.pathsep.join(map(_option, places)))
    config.attributes["connection"] = connection
    versions = iter(range(version + 1, target_version + 1))

    def applied(**step: object) -> None:
        done = next(versions)
        progress(f"schema {done}", done - version, target_version - version)

    config.attributes["on_version_apply"] = applied
    progress(f"schema {version + 1}", 0, target_version - version)
    command.upgrade(config, f"{target_version:04d}")


def _option(path: Path) -> str:
    return str(path).replace("%", "%%")  # a % starts an interpolation in Alembic's configuration


def _check_foreign_keys(connection: Connection) -> None:
    broken = connection.exec_driver_sql("PRAGMA foreign_key_check").fetchall()
    if broken:
        tables = ", ".join(sorted({str(row[0]) for row in broken}))
        raise StoreError(f"the migration would leave {len(broken)} rows without their parent (in {tables})")


def _check_journal(connection: Connection, path: Path) -> None:
    """Put a database that lost its WAL mode (copied by VACUUM INTO, say) back into it."""
    if connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal":
        return
    connection.rollback()  # the mode cannot change inside a transaction
    with exclusive_lock(path):
        raw = connection.connection
        raw.cursor().execute("PRAGMA journal_mode = WAL")


@contextmanager
def _explained(target: StoreTarget, version: int | None, target_version: int, backup: Path | None) -> Iterator[None]:
    """Name what failed and that nothing was changed; database errors and bugs in a script alike."""
    try:
        yield
    except Exception as error:
        doing = "creating its tables" if version is None else f"upgrading it from schema {version} to {target_version}"
        backup_text = f"; a backup is at {backup}" if backup else ""
        cause = error if isinstance(error, RooflineError) else getattr(error, "orig", None) or error
        reason = (str(cause).splitlines() or [type(error).__name__])[0][:300]
        is_place = re.search(PLACE_FAILED, reason) is not None
        advice = "Free some space, or name another place with --roofline-db" if is_place else "Please report this"
        raise StoreError(
            target.redact(f"{target.name}: {doing} failed ({reason}); nothing was changed{backup_text}. {advice}.")
        ) from error


def _back_up(path: Path, version: int, progress: Progress) -> Path:
    """Copy the database, its write-ahead log included, and return the copy's path. Never overwrites one."""
    copy = path.with_name(f"{path.name}.schema-{version}.backup")
    number = 2
    while copy.exists():
        copy = path.with_name(f"{path.name}.schema-{version}.backup-{number}")
        number += 1
    partial = copy.with_name(copy.name + ".partial")
    try:
        partial.unlink(missing_ok=True)  # what an upgrade that was killed left
        # SQLite's own copy: reading the file directly would miss the log and drop this process's locks.
        with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(partial)) as sink:
            source.backup(
                sink,
                pages=_BACKUP_PAGES,
                progress=lambda state, remaining, total: progress("backup", total - remaining, total),
            )
        partial.replace(copy)
    except (OSError, sqlite3.Error) as error:
        partial.unlink(missing_ok=True)
        raise StoreError(
            f"{path} has to be upgraded, and its backup {copy} cannot be written ({error}): free space or change "
            "permissions; nothing was changed"
        ) from None
    _log.info("%s: upgrading from schema %s, backup at %s", path, version, copy)
    return copy


def _refuse_newer(version: int | None, newest: int, target: StoreTarget) -> None:
    if version is not None and version > newest:
        raise StoreError(
            f"another roofline-bench wrote {target.name} (schema {version}, this one knows {newest}): update this project "
            "(git pull, make venv) if that one is newer; of a file from before release 0.1.0, move it away: the next run "
            "makes a new one"
        )


POLL_S = 0.02


@contextmanager
def exclusive_lock(database: Path, *, wait_s: float = 60.0) -> Iterator[None]:
    """Hold `<database>.lock` while the body runs; the file is gone afterwards. A killed holder frees it by dying.

    Raises `StoreError` when another process holds it for `wait_s`, or when the folder cannot be written.
    """
    from filelock import FileLock, Timeout

    path = database.with_name(database.name + ".lock")
    # Where the file system knows no flock, a lock that is only a file would outlive a killed holder: an error instead.
    lock = FileLock(path, timeout=wait_s, poll_interval=POLL_S, fallback_to_soft=False)
    try:
        lock.acquire()
    except Timeout:
        raise StoreError(
            f"another process has been creating or upgrading {database} for {wait_s:g} s: wait for it or end it, then "
            "try again"
        ) from None
    except OSError as error:
        raise StoreError(
            f"{path.parent} cannot be written ({error.strerror}): choose another place with --roofline-db or "
            "ROOFLINE_DB"
        ) from None
    try:
        yield
    finally:
        # Unlinked while still held: whoever waits on the old file sees that it has no name left, and opens the new one.
        path.unlink(missing_ok=True)
        lock.release()
