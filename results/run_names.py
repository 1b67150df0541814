"""Which run a user means: `latest`, `latest~2`, a label, or the first digits of an id."""

from __future__ import annotations

import re
from itertools import pairwise

from sqlalchemy import Connection

from results.connection import MAKE_A_RUN
from results.read import NEWEST_FIRST, count_runs, read_run, read_runs, select_runs
from results.records import RunInfo
from results.write import RUN
from roofline_model.errors import StoreError, UnknownNameError

SHORTEST_PREFIX = 4
_LISTED = 8


def check_label(label: str) -> None:
    """Raise `StoreError` for a label that `resolve` would take for another run: latest, latest~1, …."""
    if re.match(r"latest(~|$)", label.strip()):
        raise StoreError(
            f"{label.strip()[:40]!r} cannot label a run, it already means one of the newest runs: choose another label"
        )


def resolve(connection: Connection, name: str, place: str) -> RunInfo:
    """Return the run called `name`: latest or latest~N (complete runs only), an id, a label (its newest), an id prefix.

    Raises `StoreError` when there are no runs or the prefix is ambiguous, `UnknownNameError` when nothing is called so.
    """
    name = name.strip()
    if match := re.fullmatch(r"latest(?:~([0-9]{1,9}))?", name):
        return _latest(connection, int(match.group(1) or 0), place)
    if (exact := read_run(connection, name)) is not None:
        return exact
    labelled = read_runs(connection, select_runs().where(RUN.c.label == name).order_by(*NEWEST_FIRST).limit(1))
    if name and labelled:
        return labelled[0]
    is_prefix = re.fullmatch(r"[0-9a-fA-F]+", name) is not None and len(name) >= SHORTEST_PREFIX
    if is_prefix:
        matching = select_runs().where(RUN.c.run_id.startswith(name.lower())).order_by(*NEWEST_FIRST)
        found = read_runs(connection, matching.limit(_LISTED + 1))
        if len(found) == 1:
            return found[0]
        if found:
            raise StoreError(f"{name} begins the ids of several runs: {_listed(found)}. Give more digits.")
    raise _unknown(connection, name, place)


def _latest(connection: Connection, back: int, place: str) -> RunInfo:
    complete = select_runs().where(RUN.c.status == "complete").order_by(*NEWEST_FIRST)
    found = read_runs(connection, complete.offset(back).limit(1))
    if found:
        return found[0]
    newest = read_runs(connection, select_runs().order_by(*NEWEST_FIRST).limit(_LISTED))
    if not newest:
        raise _no_runs(place)
    count = len(connection.execute(complete.with_only_columns(RUN.c.run_id).order_by(None)).all())
    if count == 0:
        raise StoreError(f"no run in {place} is complete yet. Unfinished ones can be named by id: {_listed(newest)}.")
    oldest = "latest" if count == 1 else f"latest~{count - 1}"
    raise StoreError(
        f"latest~{back} is not there: {place} holds {count} complete run{'s' * (count > 1)}, the oldest is {oldest}."
    )


def _unknown(connection: Connection, name: str, place: str) -> StoreError | UnknownNameError:
    if count_runs(connection) == 0:
        return _no_runs(place)
    newest = read_runs(connection, select_runs().order_by(*NEWEST_FIRST).limit(_LISTED))
    known = {"latest", *(run.run_id[:8] for run in newest), *(run.label for run in newest if run.label)}
    fix = f"A run is named by {SHORTEST_PREFIX} or more digits of its id, its label, latest or latest~1; `roofline runs` lists them."
    return UnknownNameError("run", name, known, fix=fix)


def _no_runs(place: str) -> StoreError:
    return StoreError(f"{place} holds no runs yet: {MAKE_A_RUN}")


def _listed(runs: list[RunInfo]) -> str:
    digits = _telling_length([run.run_id for run in runs])
    shown = [f"{run.run_id[:digits]} ({run.label or run.started_at[:16]})" for run in runs[:_LISTED]]
    return ", ".join(shown) + (", …" if len(runs) > _LISTED else "")


def _telling_length(run_ids: list[str]) -> int:
    """Return how many digits tell these ids apart, 12 at least."""
    # Of sorted ids, those that share the most are neighbours.
    ordered = sorted(run_ids)
    digits = 12
    for one, next_one in pairwise(ordered):
        while digits < len(one) and one[:digits] == next_one[:digits]:
            digits += 1
    return digits
