"""Which runs a run is compared with: `latest`, `baseline`, `branch:NAME` or a label. Pure; the runs are given, newest first.

A baseline is always complete, older than the run, and taken on the same environment class, chip and method version. Where
this very host has complete runs and none of them is alike (last night the driver was updated), the newest of them is given: the
diff then says what changed. The same holds for what a person names by its label.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from results.records import RunInfo
from roofline_model.errors import InvalidValueError, StoreError

ROLLING_COUNT = 5
"""Runs of a rolling baseline: with three processes each, fifteen, which span five nights' movement of the machine."""
MOST_ROLLING_COUNT = 100
RECENT_COUNT = 200
"""Runs looked through first; all of them only where none of these qualifies."""

_ROLLING = re.compile(r"baseline(?::([0-9]{1,9}))?", re.IGNORECASE)


def find_baseline(
    against: str, after: RunInfo, newest: Callable[[int | None], Sequence[RunInfo]], resolve: Callable[[str], RunInfo]
) -> tuple[RunInfo, ...]:
    """Return the runs that `against` means for a run, words of ours first, then names; empty where there is none yet.

    `newest(limit)` gives the stored runs, newest first, and `resolve(name)` the run of an id or label (`ResultStore.runs`,
    `.resolve_run`); what the latter raises for an unknown name is passed on. Raises `StoreError` for an incomplete run.
    """
    chosen: tuple[RunInfo, ...] | None = ()
    for limit in (RECENT_COUNT, None):
        chosen = choose_baseline(against, after, newest(limit))
        if chosen:
            return chosen
    if chosen is not None:
        return ()
    found = resolve(against)
    check_complete(found)
    return (found,)


def choose_baseline(against: str, after: RunInfo, runs: Sequence[RunInfo]) -> tuple[RunInfo, ...] | None:
    """Return the runs that `against` means for a run; empty where there is none yet, None where it is no word of ours.

    latest, latest~1: the newest of the same branch; baseline, baseline:N: the newest N of the same branch (default 5), pooled;
    branch:NAME: the newest of that branch; anything else: the newest complete run of that label, comparable ones first.
    """
    against = against.strip()
    older = [run for run in runs if run.run_id != after.run_id and run.started_at < after.started_at]
    complete = [run for run in older if run.status == "complete"]
    alike = [run for run in complete if is_alike(run, after)]
    host = after.environment.facts.get("host")
    of_host = [run for run in complete if host is not None and run.environment.facts.get("host") == host]

    def of_branch(name: str | None, count: int, back: int = 0) -> tuple[RunInfo, ...]:
        found = [run for run in alike if run.git_branch == name][back : back + count]
        return tuple(
            found or [run for run in of_host if run.git_branch == name and not is_alike(run, after)][: 1 - min(back, 1)]
        )

    if match := re.fullmatch(r"latest(?:~([0-9]{1,9}))?", against):
        return of_branch(after.git_branch, 1, int(match[1] or 0))
    if match := _ROLLING.fullmatch(against):
        count = int(match[1] or ROLLING_COUNT)
        if not 1 <= count <= MOST_ROLLING_COUNT:
            raise InvalidValueError(f"baseline:N takes 1 to {MOST_ROLLING_COUNT} runs, got {count}")
        return of_branch(after.git_branch, count)
    if against.startswith("branch:"):
        name = against.removeprefix("branch:").strip()
        if not name:
            raise InvalidValueError("branch: needs the name of a branch, such as branch:main")
        return of_branch(name, 1)
    labelled = [run for run in alike if run.label == against] or [run for run in complete if run.label == against]
    return tuple(labelled[:1]) if against and labelled else None


def is_rolling(against: str) -> bool:
    """Return whether `against` pools several nights, so that `rolling.settled` has to look at them."""
    return _ROLLING.fullmatch(against.strip()) is not None


def is_alike(one: RunInfo, other: RunInfo) -> bool:
    """Return whether two runs were taken on the same machine class, chip and method version."""
    return all(
        first == second
        for first, second in (
            (one.environment.class_hash, other.environment.class_hash),
            (one.hardware_key, other.hardware_key),
            (one.is_forced, other.is_forced),
            (one.environment.facts.get("method_version"), other.environment.facts.get("method_version")),
        )
    )


def check_complete(run: RunInfo) -> None:
    """Raise `StoreError` for a run that may not be a baseline: one that has not ended, or was cut short."""
    if run.status != "complete":
        what = "has not ended" if run.status == "running" else "was cut short"
        raise StoreError(f"run {run.run_id[:8]} {what}: an incomplete run is never a baseline; name a complete one")
