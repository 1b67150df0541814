"""Whether a database holds nothing but what another one holds too: then it is an earlier copy of it, or empty."""

from __future__ import annotations

from sqlalchemy import Connection, Table, func, select

from results.operations.content import PARENTS, id_ranges
from results.store.write import MEASUREMENT, PROFILE, RECORD, RUN
from roofline_model.core.errors import StoreError

_IDENTITY = {
    "environment": ("environment_hash", "class_hash"),
    "process": ("run_id", "process_hash"),
    "case": ("content_hash",),
    "method": ("method_hash",),
    "record": ("record_id", "run_id"),
    "canary": ("run_id", "process_ordinal", "ordinal", "created_at", "kernel"),
    "noise_floor": ("class_hash", "case_key", "method_hash", "created_at"),
}
"""What tells the rows of a table apart in every store; row ids are a store's own."""

_PORTION_ROWS = 5000


def check_same_store(here: Connection, there: Connection, source: str, target: str) -> None:
    """Raise `StoreError` unless every row `there` is one of `here`, under the same id, and no samples would be lost.

    Two stores that were filled apart give the same id to different rows sooner or later: one of them is refused.
    """
    for table in (*PARENTS, RECORD):
        if table.name not in _IDENTITY:
            _check_keys(here, there, table, source, target)
        else:
            _check_rows(here, there, table, source, target)
    _check_samples(here, there, source, target)


def _check_keys(here: Connection, there: Connection, table: Table, source: str, target: str) -> None:
    assert table in (RUN, PROFILE)
    key = next(iter(table.primary_key))
    scalars = set(here.execute(select(key)).scalars())
    for scalar in there.execute(select(key)).scalars():
        if scalar not in scalars:
            raise _refused(source, target, f"{table.name} {str(scalar)[:12]}")


def _check_rows(here: Connection, there: Connection, table: Table, source: str, target: str) -> None:
    columns = [table.c.id, *(table.c[name] for name in _IDENTITY[table.name])]
    for low, high in id_ranges(there, table, _PORTION_ROWS):
        statement = select(*columns).where(table.c.id.between(low, high))
        check_rows = {tuple(row) for row in here.execute(statement)}
        for row in there.execute(statement):
            if tuple(row) not in check_rows:
                raise _refused(source, target, f"row {row[0]} of {table.name}")


def _check_samples(here: Connection, there: Connection, source: str, target: str) -> None:
    """Refuse to overwrite samples with none: `there` may be the archive that keeps what was pruned `here`."""
    key, samples = MEASUREMENT.c.record_pk, func.length(MEASUREMENT.c.samples)
    pruned = select(key).where(samples == 0, MEASUREMENT.c.sample_count > 0).order_by(key)
    with_samples = select(func.count()).where(samples > 0)
    for keys in here.execute(pruned).scalars().partitions(_PORTION_ROWS):
        count = there.execute(with_samples.where(key.in_(keys))).scalar_one()
        if count:
            raise StoreError(
                f"{target} still holds the samples of {count} or more measurements that were pruned in {source}: "
                "copying would drop them; copy to an empty database"
            )


def _refused(source: str, target: str, what: str) -> StoreError:
    return StoreError(
        f"{target} is not an earlier copy of {source} ({what} is only there): copy to an empty database, or carry "
        "single runs with `roofline export` and `roofline import`"
    )
