"""Run by Alembic: applies the scripts on the connection, and in the transaction, that `results/store/migrate.py`
opened.
"""

from __future__ import annotations

from alembic import context

from results.store.schema import METADATA, VERSION_TABLE
from roofline_model.core.errors import StoreError

connection = context.config.attributes.get("connection")
if connection is None:
    raise StoreError("migrations run through results.store.migrate.upgrade, which locks, backs up and checks")

context.configure(
    connection=connection,
    target_metadata=METADATA,
    version_table=VERSION_TABLE,
    # SQLite can alter little in place: batch mode rebuilds the table instead.
    render_as_batch=True,
    # Alembic believes that SQLite cannot roll back DDL; inside an explicit transaction it can.
    transactional_ddl=True,
    on_version_apply=context.config.attributes.get("on_version_apply"),
)
with context.begin_transaction():
    context.run_migrations()
