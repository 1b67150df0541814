"""Which runs a run is compared with: `latest`, `baseline`, `branch:NAME` or a label. Pure; the runs are given, newest
first.

A baseline is always complete, older than the run, and taken on the same environment class, chip and method version.
Where this very host has complete runs and none of them is alike (last night the driver was updated), the newest of them
is given: the diff then says what changed. The same holds for what a person names by its label.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from results.records.records import RunInfo
from roofline_model.core.errors import InvalidValueError, StoreError, UnknownNameError

ROLLING_COUNT = 5
"""Runs of a rolling baseline: with three processes each, fifteen, which span five nights' movement of the machine."""
MOST_ROLLING_COUNT = 100
RECENT_COUNT = 200
"""Runs looked through first; all of them only where none of these qualifies."""

_ROLLING = re.compile(r"baseline(?::([0-9]{1,9}))?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class BaselineRuns:
    """Runs named by a word of `--against`: newest first, with the number of runs to use."""

    runs: tuple[RunInfo, ...]
    """All that qualify.

    Where none does: the newest of this host that is not alike, so that the diff says what changed.
    """
    count: int = 1
    skipped_count: int = 0
    """Runs passed over before the first: one for `latest~2`."""

    @property
    def chosen(self) -> tuple[RunInfo, ...]:
        """The runs meant, whatever they measured."""
        return self.runs[self.skipped_count : self.skipped_count + self.count]


def find_baseline(
    against: str,
    after: Sequence[RunInfo],
    newest: Callable[[int | None], Sequence[RunInfo]],
    resolve: Callable[[str], RunInfo],
) -> BaselineRuns:
    """Return the runs that `against` means for one or more newer runs; none where there is none yet.

    `newest(limit)` gives the stored runs, newest first, and `resolve(name)` the run of an id or label
    (`ResultStore.runs`, `.resolve_run`); what the latter raises for an unknown name is passed on. Raises `StoreError`
    for an incomplete run, `UnknownNameError` for a branch of which no run is stored although others are.
    """
    baseline: BaselineRuns | None = None
    runs: Sequence[RunInfo] = ()
    for limit in (RECENT_COUNT, None):
        runs = newest(limit)
        baseline = choose_baseline(against, after, runs)
        if baseline is not None and baseline.chosen:
            return baseline
    if baseline is not None:
        _check_branch(against.strip(), after, runs)
        return BaselineRuns(())
    baseline_run = resolve(against)
    check_complete(baseline_run)
    return BaselineRuns((baseline_run,))


def choose_baseline(against: str, after: Sequence[RunInfo], runs: Sequence[RunInfo]) -> BaselineRuns | None:
    """Return the runs that `against` means; None where it is no word of ours.

    latest, latest~1: the newest of the same branch; latest~2: the one before it, counted from the newer side as the
    names of runs are from the newest run, so that `latest~1` is the same run beside `latest` in every command;
    baseline, baseline:N: the newest N of the same branch (default 5), pooled; branch:NAME: the newest of that branch;
    anything else: the newest complete run of that label, comparable ones first.
    """
    against, first = against.strip(), after[0]
    complete = [run for run in _older(after, runs) if run.status == "complete"]
    alike = [run for run in complete if is_alike(run, first)]
    host = first.environment.facts.get("host")
    of_host = [run for run in complete if host is not None and run.environment.facts.get("host") == host]

    def of_branch(name: str | None, count: int, back: int = 0) -> BaselineRuns:
        branch_runs = [run for run in alike if run.git_branch == name]
        if len(branch_runs) > back:
            return BaselineRuns(tuple(branch_runs), count, back)
        unlike_runs = [run for run in of_host if run.git_branch == name and not is_alike(run, first)]
        return BaselineRuns(tuple(unlike_runs[: 1 - min(back, 1)]))

    if match := re.fullmatch(r"latest(?:~([0-9]{1,9}))?", against):
        return of_branch(first.git_branch, 1, max(int(match[1] or 1) - 1, 0))
    if match := _ROLLING.fullmatch(against):
        count = int(match[1] or ROLLING_COUNT)
        if not 1 <= count <= MOST_ROLLING_COUNT:
            raise InvalidValueError(f"baseline:N takes 1 to {MOST_ROLLING_COUNT} runs, got {count}")
        return of_branch(first.git_branch, count)
    if against.startswith("branch:"):
        name = against.removeprefix("branch:").strip()
        if not name:
            raise InvalidValueError("branch: needs the name of a branch, such as branch:main")
        return of_branch(name, 1)
    labelled = [run for run in alike if run.label == against] or [run for run in complete if run.label == against]
    return BaselineRuns(tuple(labelled[:1])) if against and labelled else None


def _older(after: Sequence[RunInfo], runs: Sequence[RunInfo]) -> list[RunInfo]:
    """Return the runs before all of the newer side."""
    ids, start = {run.run_id for run in after}, min(run.started_at for run in after)
    return [run for run in runs if run.run_id not in ids and run.started_at < start]


def _check_branch(against: str, after: Sequence[RunInfo], runs: Sequence[RunInfo]) -> None:
    """Raise for a branch nobody knows: a gate against a typing mistake would be green for ever."""
    if not against.startswith("branch:"):
        return
    complete = [run for run in _older(after, runs) if run.status == "complete"]
    git_branches = {run.git_branch for run in complete if run.git_branch}
    name = against.removeprefix("branch:").strip()
    if complete and not git_branches:
        raise StoreError(f"no run of branch {name[:40]!r} is stored: the older runs were taken outside a git checkout")
    if git_branches and name not in git_branches:
        raise UnknownNameError(
            "branch", name, git_branches, fix="A complete run of it must be stored; `roofline runs` lists the runs."
        )


def is_rolling(against: str) -> bool:
    """Return whether `against` pools several nights, so that `rolling.settled` has to look at them."""
    return _ROLLING.fullmatch(against.strip()) is not None


def is_alike(run: RunInfo, other: RunInfo) -> bool:
    """Return whether two runs were taken on the same machine class, chip and method version."""
    return all(
        first == second
        for first, second in (
            (run.environment.class_hash, other.environment.class_hash),
            (run.hardware_key, other.hardware_key),
            (run.is_forced, other.is_forced),
            (run.environment.facts.get("method_version"), other.environment.facts.get("method_version")),
        )
    )


def check_complete(run: RunInfo) -> None:
    """Raise `StoreError` for a run that may not be a baseline: one that has not ended, or was cut short."""
    if run.status != "complete":
        state = "has not ended" if run.status == "running" else "was cut short"
        raise StoreError(f"run {run.run_id[:8]} {state}: an incomplete run is never a baseline; name a complete one")
