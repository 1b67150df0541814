"""Connections to the database, and the translation of its errors into one line that names the fix."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import stat
import struct
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Literal

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError, SQLAlchemyError, StatementError, TimeoutError
from sqlalchemy.pool import NullPool, QueuePool

from results.records.plain_form import dumps, loads
from results.store.target import DEFAULT_DATABASE, UNPUSHED_FOLDER, StoreTarget
from roofline_model.core.errors import DatabaseAwayError, InvalidValueError, RooflineError, StoreError

BUSY_TIMEOUT_S = 30.0
CONNECT_TIMEOUT_S = 10
LOCK_TIMEOUT_S = 10
"""PostgreSQL: how long a write waits for rows that another session holds."""

SqliteMode = Literal["ro", "rw", "rwc"]

WRITING = "roofline_writing"
"""Execution option: the transaction takes the write lock at its start, so that it never has to be promoted."""

REPLACE_IT = "move it away and `roofline import` an exported run, or restore a backup"
LACKS_TABLES = "is damaged, a part of its tables is missing:"

MAKE_A_RUN = "`pytest bench_cases -k gemv` makes a run"


def make_engine(target: StoreTarget, *, mode: SqliteMode = "rw", foreign_keys: bool = True) -> Engine:
    """Return an engine; nothing is opened yet. `foreign_keys=False` is for migrations only (see migrate.py)."""
    if target.path is not None:
        return _sqlite_engine(target.path, mode, foreign_keys)
    try:
        return _postgres_engine(target.url or "", mode)
    except ModuleNotFoundError:
        raise StoreError(f"{target.name} needs psycopg: pip install -e '.[postgres]'") from None
    except (SQLAlchemyError, ValueError):
        raise StoreError(
            f"{target.name} is not a database URL: write postgresql+psycopg://USER@HOST:PORT/NAME, and the password in "
            "PGPASSFILE or PGPASSWORD"
        ) from None


def _postgres_engine(url: str, mode: SqliteMode) -> Engine:
    engine = create_engine(
        url,
        json_serializer=dumps,
        json_deserializer=loads,
        hide_parameters=True,
        pool_pre_ping=True,
        connect_args={"connect_timeout": CONNECT_TIMEOUT_S, **_KEEP_ALIVE},
    )
    # Read-only, the server itself refuses every write of this session, whatever the code above asks for.
    setting = "default_transaction_read_only = on" if mode == "ro" else f"lock_timeout = '{LOCK_TIMEOUT_S}s'"

    @event.listens_for(engine, "connect")
    def set_up(connection: Any, record: object) -> None:
        connection.execute(f"SET {setting}")
        connection.commit()  # a rollback would take the setting back

    return engine


_KEEP_ALIVE = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,
}
"""Seconds, and milliseconds for the last: a server whose network went away is given up after 25 s, not after TCP's own
quarter of an hour (libpq's connection parameters)."""


def _sqlite_engine(path: Path, mode: SqliteMode, foreign_keys: bool) -> Engine:
    absolute = path.absolute()

    def connect() -> sqlite3.Connection:
        uri = f"{absolute.as_uri()}?mode={mode}"
        # A plain read-only connection leaves -shm and -wal files beside a database nobody is writing, and fails in a
        # folder it cannot write. Without a -wal file there is nothing but the database itself, so it is read as it
        # lies.
        if mode == "ro" and not os.path.exists(f"{absolute}-wal"):
            uri += "&immutable=1"
        connection = sqlite3.connect(
            uri, uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute(f"PRAGMA foreign_keys = {'ON' if foreign_keys else 'OFF'}")
            # WAL with NORMAL: a killed process loses nothing that was committed; a power cut may lose the last commits.
            connection.execute("PRAGMA synchronous = NORMAL")
        except BaseException:
            connection.close()
            raise
        return connection

    # A reader opens anew for each look: whether somebody is writing can change in between.
    pool = NullPool if mode == "ro" else QueuePool
    engine = create_engine(
        "sqlite://",
        creator=connect,
        poolclass=pool,
        json_serializer=dumps,
        json_deserializer=loads,
        hide_parameters=True,
    )

    # The driver starts no transactions by itself (isolation_level=None): DDL belongs to ours and can be rolled back.
    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        is_writing = connection.get_execution_options().get(WRITING, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if is_writing else "BEGIN")

    return engine


def prepare_place(target: StoreTarget, *, create: bool, writing: bool) -> None:
    """Check (and with `create` make) the place of a SQLite file; PostgreSQL is checked by connecting.

    Raises `StoreError` for a folder, a place that cannot be written, a missing file that must not be made.
    The file itself is not opened: closing it would drop the locks of another connection of this process.
    """
    path = target.path
    if path is None:
        return
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        if path.is_symlink() and not (create and os.path.isdir(os.path.dirname(os.path.realpath(path)))):
            raise StoreError(
                f"{path} is a link to {os.path.realpath(path)}, which is not there: make that place or remove the link"
            ) from None
        if not create:
            raise StoreError(
                f"there is no results database at {path}: {MAKE_A_RUN}, --db PATH or ROOFLINE_DB names another"
            ) from None
        _make_folder(path)
        return
    except (OSError, ValueError) as error:
        raise _unusable(path, error) from None
    if stat.S_ISDIR(status.st_mode):
        raise StoreError(f"{path} is a folder: name a file in it, e.g. {path / 'results.db'}")
    if not stat.S_ISREG(status.st_mode):
        raise StoreError(f"{path} is not a file: name one, e.g. {DEFAULT_DATABASE}")
    if writing and not (os.access(path, os.W_OK) and os.access(path.absolute().parent, os.W_OK)):
        raise StoreError(
            f"{path} is read-only: choose another place with --roofline-db or ROOFLINE_DB, or change its permissions"
        )
    if not os.access(path, os.R_OK):
        raise StoreError(f"{path} cannot be read: change its permissions or name another file")


def _make_folder(path: Path) -> None:
    folder = path.absolute().parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        ignore = folder / ".gitignore"
        if folder.name in (DEFAULT_DATABASE.parent.name, UNPUSHED_FOLDER.name) and not ignore.exists():
            ignore.write_text("*\n", encoding="utf-8")
    except OSError as error:
        raise _unusable(path, error) from None
    if not os.access(folder, os.W_OK):
        raise StoreError(f"{folder} cannot be written: choose another place with --roofline-db or ROOFLINE_DB")


def _unusable(path: Path, error: OSError | ValueError) -> StoreError:
    why = getattr(error, "strerror", None) or str(error)
    shown = str(path) if len(str(path)) < 200 else f"{str(path)[:200]}…"
    return StoreError(f"{shown} cannot be used ({why}): choose another place with --roofline-db or ROOFLINE_DB")


@contextmanager
def translated(
    target: StoreTarget, doing: str, *, but: tuple[type[Exception], ...] = (), reading: bool = False
) -> Iterator[None]:
    """Turn an error of the database into a `StoreError`: one line, no SQL, no password. Errors in `but` pass through.

    It is a `DatabaseAwayError` when the same may succeed later.

    A value that cannot be what was stored means a damaged database when `reading`, else one that cannot be stored.
    """
    try:
        yield
    except InvalidValueError as error:
        raise (damaged(target, error) if reading else error) from None
    except RooflineError:
        raise
    except but:
        raise
    except (SQLAlchemyError, sqlite3.Error) as error:
        if reading and isinstance(_cause(error), _UNREADABLE):
            raise damaged(target, _cause(error)) from None
        raise _store_error(target, doing, error) from None
    except _UNREADABLE as error:
        if reading or isinstance(error, UnicodeDecodeError | json.JSONDecodeError):  # only what was stored is decoded
            raise damaged(target, error) from error
        if isinstance(error, LookupError | AttributeError):
            raise  # a fault of ours
        raise _not_storable(doing, error) from error


_UNREADABLE = (TypeError, ValueError, ArithmeticError, LookupError, AttributeError, struct.error, RecursionError)
"""What taking a stored value apart raises when it is not what was stored."""


def damaged(target: StoreTarget, error: BaseException) -> StoreError:
    """Return the error for a database with values that this package never stores."""
    reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    if isinstance(error, KeyError):
        reason = f"a row that others name is missing: {reason}"
    return StoreError(target.redact(f"{target.name} is damaged ({reason[:120]}): {REPLACE_IT}"))


def _cause(error: Exception) -> BaseException:
    return error.orig if isinstance(error, StatementError) and error.orig is not None else error


def _store_error(target: StoreTarget, doing: str, error: Exception) -> StoreError:
    """Return what the database's own error means, and what to do."""
    cause = _cause(error)
    if isinstance(cause, TypeError | ValueError | AttributeError | OverflowError):
        return _not_storable(doing, cause)
    lines = [line.strip() for line in str(cause).splitlines() if line.strip()]
    detail = (lines[0] if lines else type(cause).__name__)[:300]
    meanings = _SQLITE_MEANINGS if target.path is not None else _POSTGRES_MEANINGS
    sign, meaning = next((entry for entry in meanings if re.search(entry[0], detail)), ("", ""))
    message = f"{target.name} {meaning}" if meaning else f"{doing} in {target.name} failed: {detail}"
    if sign == _FULL and target.path is not None and (table := _spent_sequence(target.path)):
        message = f"{target.name} is damaged (no row id is left for table {table}): {REPLACE_IT}"
    kind = DatabaseAwayError if is_passing(error) else StoreError
    return kind(target.redact(message))


def _spent_sequence(path: Path) -> str | None:
    """Return a table whose row ids are used up: SQLite says then, too, that the disk is full."""
    last = 2**63 - 1
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=1.0)) as connection:
            spent = connection.execute(
                "SELECT name FROM sqlite_sequence WHERE typeof(seq) <> 'integer' OR seq >= ?", (last,)
            ).fetchone()
    except sqlite3.Error:
        return None
    return None if spent is None else str(spent[0])[:60]


def _not_storable(doing: str, error: BaseException) -> StoreError:
    return StoreError(f"{doing}: {str(error)[:300]} (a record holds text, 64-bit numbers and JSON values only)")


_FULL = "disk is full"
_SQLITE_MEANINGS = (
    (
        "file is not a database",
        "is not a SQLite database: nothing was changed; name another file with --roofline-db or ROOFLINE_DB",
    ),
    ("malformed|decode to UTF-8|file is encrypted|unsupported file format", f"is damaged: {REPLACE_IT}"),
    ("unable to open", "cannot be opened: check that its folder exists and can be written"),
    (
        "readonly database",
        "is read-only: choose another place with --roofline-db or ROOFLINE_DB, or change its permissions",
    ),
    ("database is locked", f"has been locked by another process for {BUSY_TIMEOUT_S:g} s: end it or try again"),
    ("table is locked", "is locked by another statement of this process: end it or try again"),
    (_FULL, "cannot grow, the disk is full: free some space, everything committed so far is safe"),
    (
        "disk I/O error",
        (
            "cannot be read or written (disk I/O error): check that the disk has space left and works, everything "
            "committed so far is safe"
        ),
    ),
    ("no such (table|column)", f"{LACKS_TABLES} {REPLACE_IT}"),
)

_POSTGRES_MEANINGS = (
    (
        "password authentication failed",
        "refused the password: put the right one into PGPASSFILE (~/.pgpass) or PGPASSWORD, not into the URL",
    ),
    ("no password supplied", "wants a password: put it into PGPASSFILE (~/.pgpass) or PGPASSWORD, not into the URL"),
    (
        r'(database|role) ".*" does not exist',
        "cannot be used: the database or role does not exist there; create it (createdb NAME) or correct the URL",
    ),
    ("[Cc]onnection refused", "does not answer (connection refused): start PostgreSQL or correct host and port"),
    ("lock timeout", f"has been locked by another session for {LOCK_TIMEOUT_S} s: end it or try again"),
    ("timeout", f"does not answer within {CONNECT_TIMEOUT_S} s: correct host and port"),
    ("resolve host", "has a host name that nobody knows: correct the URL"),
    (r'relation ".*" does not exist', f"{LACKS_TABLES} {REPLACE_IT}"),
    ("cannot execute .* in a read-only transaction", "was opened read-only: nothing was changed"),
    (
        "(No such file or directory|server closed the connection|terminating connection|the database system is)",
        "is not there at the moment: start PostgreSQL and try again; everything committed so far is safe",
    ),
    (
        "No space left on device|disk full",
        "cannot grow, the disk of its server is full: free some space there, everything committed so far is safe",
    ),
    ("permission denied", "does not allow this: grant the user CREATE on the schema and rights on its tables"),
)


_PASSING_CLASSES = ("08", "53", "57", "58")
"""SQLSTATE classes (PostgreSQL 18, appendix A): connection exception, insufficient resources (connections, disk,
memory), operator intervention (shutdown, crash, starting up), system error (I/O on the server).
"""

_PASSING_STATES = ("25006", "40001", "40P01", "55P03")
"""Read-only for now (a standby before it takes over), serialization failure, deadlock, lock not to be had in time."""

_NEVER = ("57014",)
"""A statement that somebody cancelled was cancelled on purpose."""

_REFUSED = re.compile(r"password|(database|role) \".*\" does not exist|pg_hba\.conf")
"""What a server says that is there and does not let us in (libpq passes no code on)."""


def is_passing(error: BaseException) -> bool:
    """Return whether the same transaction may succeed later: the server was away, not the value wrong."""
    if isinstance(error, TimeoutError):  # of the pool: every connection is waiting for the server
        return True
    if not isinstance(error, DBAPIError) or isinstance(error.orig, sqlite3.Error):
        return False
    if error.connection_invalidated:
        return True
    state = getattr(error.orig, "sqlstate", None)
    if state is None:
        # Without a code the server never answered: refused, reset, timed out. A mistake in our call has another type.
        return type(error.orig).__name__ == "OperationalError" and _REFUSED.search(str(error.orig)) is None
    code = str(state)
    return code not in _NEVER and (code in _PASSING_STATES or code[:2] in _PASSING_CLASSES)


class DatabaseFile:
    """Which file a store has open, so that its name can be asked whether it still leads there.

    SQLite writes to the file it opened, whatever its name leads to by now: without this question every later commit
    would succeed and be lost.
    """

    def __init__(self, path: Path) -> None:
        """Remember the file at `path`; it must be open already, or its number could be given to another file.

        Raises `StoreError` when it is gone.
        """
        self._shown = path
        self._path = path.absolute()  # the working folder may change while the store is open
        self._identity = self._look()
        self.check()

    def check(self) -> None:
        """Raise `StoreError` when the file is gone, was emptied, or is another one. Costs one system call."""
        identity = self._look()
        if identity is None or identity != self._identity:
            raise StoreError(
                f"{self._shown}: the database file was removed or replaced while the run was writing; what was stored "
                "since it was opened is not there: leave the file alone until the run ends, and run again"
            )

    def _look(self) -> tuple[int, int] | None:
        try:
            status = os.stat(self._path)
        except (OSError, ValueError):
            return None
        return (status.st_dev, status.st_ino) if status.st_size else None
