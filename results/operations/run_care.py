"""Changes to one stored run as a whole: another label, or its end. Each is one transaction, all or nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import Connection, delete, func, select, update

from results.records.limits import CONTROLS
from results.records.records import RunInfo
from results.store.read import NEWEST_FIRST, read_runs, select_runs
from results.store.run_names import check_label
from results.store.schema import CANARY, MEASUREMENT, RECORD, RUN
from roofline_model.core.errors import StoreError

if TYPE_CHECKING:
    from results.store.store import ResultStore

_LISTED = 4


@dataclass(frozen=True, slots=True)
class RunRows:
    """Row counts of one run, all deleted with it."""

    record_count: int
    measurement_count: int
    canary_count: int


def relabel_run(store: ResultStore, run_id: str, label: str) -> None:
    """Give the run with exactly this id another label; an empty one takes its label away.

    Raises `StoreError` for a label that would mean other runs (`run_names.check_label`) or holds a control
    character, or where there is no such run.
    """
    check_label(label)
    if CONTROLS.search(label):
        raise StoreError(f"the label {label[:40]!r} of a run holds a control character: choose another label")

    def change(connection: Connection) -> int:
        return connection.execute(update(RUN).where(RUN.c.run_id == run_id).values(label=label)).rowcount

    if not store.transact("relabelling a run", change):
        raise _gone(store, run_id)


def rows_of_run(store: ResultStore, run_id: str) -> RunRows:
    """Count the rows of a run."""
    return store.query(lambda connection: _rows(connection, run_id))


def delete_run(store: ResultStore, run_id: str) -> RunRows:
    """Delete the run with exactly this id and everything that is its own; return what went.

    Cases, methods, environments and chips stay: other runs share them. So do noise floors, which outlive the runs they
    were taken from. Raises `StoreError` where there is no such run.
    """

    def change(connection: Connection) -> RunRows | None:
        run_rows = _rows(connection, run_id)
        # What belongs to the run goes with it, by the schema's own ON DELETE CASCADE.
        return run_rows if connection.execute(delete(RUN).where(RUN.c.run_id == run_id)).rowcount else None

    deleted = store.transact("deleting a run", change)
    if deleted is None:
        raise _gone(store, run_id)
    return deleted


def run_to_delete(store: ResultStore, name: str) -> RunInfo:
    """Return the one run that a name means for ever: an id, its first digits, or a label that a single run has.

    Raises `StoreError` for `latest`, which means another run tomorrow, and for a label of several runs.
    """
    if name.strip().partition("~")[0] == "latest":
        raise StoreError(
            "latest means another run after every measurement: name the run to delete by its id or label; `roofline "
            "runs` lists them"
        )
    run = store.resolve_run(name)
    if run.run_id.startswith(name.strip().lower()):
        return run
    alike = store.query(
        lambda connection: read_runs(connection, select_runs().where(RUN.c.label == run.label).order_by(*NEWEST_FIRST))
    )
    if len(alike) > 1:
        ids = ", ".join(match.run_id[:12] for match in alike[:_LISTED]) + (", …" if len(alike) > _LISTED else "")
        raise StoreError(f"{len(alike)} runs are labelled {run.label[:40]!r}: name the one to delete by its id ({ids})")
    return run


def _rows(connection: Connection, run_id: str) -> RunRows:
    of_run = RECORD.c.run_id == run_id
    records = connection.execute(select(func.count()).select_from(RECORD).where(of_run)).scalar_one()
    measured = connection.execute(select(func.count()).join_from(MEASUREMENT, RECORD).where(of_run)).scalar_one()
    canaries = connection.execute(
        select(func.count()).select_from(CANARY).where(CANARY.c.run_id == run_id)
    ).scalar_one()
    return RunRows(int(records), int(measured), int(canaries))


def _gone(store: ResultStore, run_id: str) -> StoreError:
    return StoreError(
        f"{store.name} holds no run {run_id[:12]} any more: nothing was changed; `roofline runs` lists what is there"
    )
