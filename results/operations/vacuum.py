"""Giving back the room of rows that are gone."""

from __future__ import annotations

from contextlib import closing

from sqlalchemy import text

from results.store.connection import make_engine, translated
from results.store.target import StoreTarget


def vacuum(target: StoreTarget) -> None:
    """Shrink a SQLite file (it needs as much free disk again while it does); let PostgreSQL use the room for new rows.

    Nobody else may write a SQLite file meanwhile. Raises `StoreError`; the database is whole either way.
    """
    engine = make_engine(target)
    try:
        with translated(target, "vacuuming"):
            if target.path is not None:
                with closing(engine.raw_connection()) as raw:
                    cursor = raw.cursor()
                    cursor.execute("VACUUM")
                    cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            else:
                with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                    connection.execute(text("VACUUM (ANALYZE) measurement, telemetry"))
    finally:
        engine.dispose()
