"""Which errors of a PostgreSQL server pass by themselves: the network, a restart, a full disk there, a deadlock."""

from __future__ import annotations

import re
import sqlite3

from sqlalchemy.exc import DBAPIError, TimeoutError

RETRY_WAITS_S = (0.1, 0.5, 1.5)
"""Between the tries of one write: a restart of a server with little to recover takes one to two seconds."""

_PASSING_CLASSES = ("08", "53", "57", "58")
"""SQLSTATE classes (PostgreSQL 18, appendix A): connection exception, insufficient resources (connections, disk, memory),
operator intervention (shutdown, crash, starting up), system error (I/O on the server)."""

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
