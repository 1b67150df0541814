"""Which run a user means: `latest`, `latest~2`, a label, or the first digits of an id.

`latest` is the newest complete run of this machine, by its host name: what arrived from another one (`roofline import`,
a database of a fleet) is not what somebody here has just measured. A host without runs of its own (a report server)
takes the newest of all. `latest~1` is the one before it of the same machine: the same host, or the same environment
class, since containers get a new host name each. A run that was imported from another program counts only where there
is no other.
"""

from __future__ import annotations

import platform
import re
from itertools import pairwise
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, func, or_, select, tuple_

from results.records.records import FOREIGN_COMMAND, RunInfo
from results.store.connection import MAKE_A_RUN
from results.store.read import NEWEST_FIRST, count_runs, read_run, read_runs, select_runs
from results.store.schema import ENVIRONMENT, PROCESS, RUN
from roofline_model.core.errors import StoreError, UnknownNameError

SHORTEST_PREFIX = 4
LONGEST_LABEL = 200
"""Characters. Labels stand in an index, where PostgreSQL refuses a row of more than 2,704 bytes and SQLite none."""
_LISTED = 8
_COMPARED = 1_000
"""Runs whose names an unknown one is compared with; how many there are is said where they are not all listed."""
_OURS = re.compile(r"latest(~|$)|baseline(:|$)|branch:", re.IGNORECASE)
"""Labels that `resolve` and `--against` would take for words of their own."""


class NoSuchRunError(StoreError):
    """The database can be read, and the name means no run of it, or several."""


def check_label(label: str) -> None:
    """Raise `StoreError` for a label that would be taken for other runs (latest, baseline:3, `A,B`), or is too long."""
    shown = repr(label.strip()[:40])
    if _OURS.match(label.strip()):
        raise StoreError(
            f"{shown} cannot label a run, it already means the newest runs, or those of a branch: choose another label"
        )
    if len(label) > LONGEST_LABEL:
        raise _unusable_label(shown, f"is {len(label):,} characters long, not {LONGEST_LABEL} or fewer")
    if "," in label:
        raise _unusable_label(shown, "holds a comma, which joins the names of several runs")
    if label and not label.strip():
        raise _unusable_label(shown, "is blank")


def _unusable_label(shown: str, problem: str) -> StoreError:
    return StoreError(f"the label {shown} of a run {problem}: choose another label")


def resolve(connection: Connection, name: str, place: str, host: str | None = None) -> RunInfo:
    """Return the run called `name`: latest or latest~N (complete runs only), an id, a label (its newest), an id prefix.

    `host`: the machine whose runs `latest` counts; None: this one, empty: no machine in particular. Raises `StoreError`
    when there are no runs, or the name may mean several (a prefix of two ids; one run's label and the beginning of
    another's id), `UnknownNameError` when nothing is called so.
    """
    name = name.strip()
    if match := re.fullmatch(r"latest(?:~([0-9]{1,9}))?", name):
        return _latest(connection, int(match.group(1) or 0), place, platform.node() if host is None else host)
    if (exact := read_run(connection, name)) is not None:
        return exact
    labelled = read_runs(connection, select_runs().where(RUN.c.label == name).order_by(*NEWEST_FIRST).limit(1))
    is_prefix = re.fullmatch(r"[0-9a-fA-F]+", name) is not None and len(name) >= SHORTEST_PREFIX
    infos: list[RunInfo] = []
    if is_prefix:
        matching = select_runs().where(RUN.c.run_id.startswith(name.lower())).order_by(*NEWEST_FIRST)
        infos = read_runs(connection, matching.limit(_LISTED + 1))
    if name and labelled:
        labelled_otherwise = [info for info in infos if info.label != name]
        if labelled_otherwise:
            # Neither is the likelier one, and the wrong one may be about to be deleted.
            raise NoSuchRunError(
                f"{name} is the label of run {_listed(labelled)} and begins the id of {_listed(labelled_otherwise)}: "
                "give more digits of the id."
            )
        return labelled[0]
    if is_prefix:
        if len(infos) == 1:
            return infos[0]
        if infos:
            raise NoSuchRunError(f"{name} begins the ids of several runs: {_listed(infos)}. Give more digits.")
    raise _unknown(connection, name, place)


def _latest(connection: Connection, back: int, place: str, host: str) -> RunInfo:
    complete = select_runs().where(RUN.c.status == "complete").order_by(*NEWEST_FIRST)
    native = complete.where(RUN.c.command.not_like(f"{FOREIGN_COMMAND}%"))
    of_host = [(native, native.where(_ran_on(host)))] if host else []
    for kind, chosen in (*of_host, (native, native), (complete, complete)):
        if infos := read_runs(connection, chosen.limit(1)):
            return infos[0] if back == 0 else _run_before(connection, infos[0], kind, back, place)
    newest = read_runs(connection, select_runs().order_by(*NEWEST_FIRST).limit(_LISTED))
    if not newest:
        raise _no_runs(place)
    raise NoSuchRunError(f"no run in {place} is complete yet. Unfinished ones can be named by id: {_listed(newest)}.")


def _run_before(connection: Connection, latest: RunInfo, kind: Select[Any], back: int, place: str) -> RunInfo:
    """Return the run `back` places before `latest` among those of its kind and machine."""
    alike = RUN.c.environment_id.in_(
        select(ENVIRONMENT.c.id).where(ENVIRONMENT.c.class_hash == latest.environment.class_hash)
    )
    host = latest.environment.facts.get("host")
    same = or_(alike, _ran_on(host)) if isinstance(host, str) and host else alike
    not_later = tuple_(RUN.c.started_at, RUN.c.run_id) <= tuple_(latest.started_at, latest.run_id)
    of_machine = kind.where(same, not_later)
    if infos := read_runs(connection, of_machine.offset(back).limit(1)):
        return infos[0]
    count = _count(connection, of_machine)
    oldest = "latest" if count == 1 else f"latest~{count - 1}"
    of_others = _count(connection, kind) - count
    machine = f" of the machine of run {latest.run_id[:8]} ({of_others} more in all)" if of_others else ""
    raise NoSuchRunError(
        f"latest~{back} is not there: {place} holds {count} complete run{'s' * (count > 1)}{machine}, the oldest is "
        f"{oldest}." + " `roofline runs` lists the others." * bool(of_others)
    )


def _ran_on(host: str) -> ColumnElement[bool]:
    """Return the condition that a process of the run ran on this host."""
    return select(PROCESS.c.id).where(PROCESS.c.run_id == RUN.c.run_id, PROCESS.c.host == host).exists()


def _count(connection: Connection, chosen: Select[Any]) -> int:
    counted = chosen.with_only_columns(func.count()).order_by(None)
    return int(connection.execute(counted).scalar_one())


def _unknown(connection: Connection, name: str, place: str) -> StoreError | UnknownNameError:
    if count_runs(connection) == 0:
        return _no_runs(place)
    newest = read_runs(connection, select_runs().order_by(*NEWEST_FIRST).limit(_COMPARED))
    names = {"latest", *(run.run_id[:8] for run in newest), *(run.label for run in newest if run.label)}
    fix = (
        f"A run is named by {SHORTEST_PREFIX} or more digits of its id, its label, latest or latest~1; `roofline runs` "
        "lists them all."
    )
    return UnknownNameError("run", name, names, fix=fix)


def _no_runs(place: str) -> StoreError:
    return NoSuchRunError(f"{place} holds no runs yet: {MAKE_A_RUN}")


def _listed(runs: list[RunInfo]) -> str:
    digits = _telling_length([run.run_id for run in runs])
    shown = [f"{run.run_id[:digits]} ({run.label or run.started_at[:16]})" for run in runs[:_LISTED]]
    return ", ".join(shown) + (", …" if len(runs) > _LISTED else "")


def _telling_length(run_ids: list[str]) -> int:
    """Return the number of digits that make these ids unique, at least 12."""
    # Of sorted ids, those that share the most are neighbours.
    ordered = sorted(run_ids)
    digits = 12
    for run_id, next_one in pairwise(ordered):
        while digits < len(run_id) and run_id[:digits] == next_one[:digits]:
            digits += 1
    return digits
