"""Present level of a case in a rolling baseline, without the nights that already raised an alert. Pure.

A pool that takes in the night in which a kernel got slower sees the next slow night as noise: the step counts as
spread, and the gate that was red turns green though nothing was mended (three real nights here: SLOWER, exit 1; then
+0.5 %, exit 0). So each night of the pool is first judged against the nights before it, oldest first, by the rules of
the diff:

* SLOWER: set aside, until the whole pool is that slow or an annotation says that it was expected;
* FASTER, and the next night again: the new level; the older nights are no longer used. FASTER once: set aside until the
  next night tells whether it was luck (it then belongs to the noise and is used);
* not judgeable (contended, a slow machine), or measured by another method than the newer side: not used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from results.cases.case_result import CaseResult
from results.diff.expected_changes import reason_of_change
from results.diff.rules import DiffRules, Verdict
from results.diff.side_facts import is_judgeable, joined, side_cases
from results.diff.significance.pair_tests import SidePair, judge_times
from results.diff.significance.t_test import ratio_of
from results.diff.suites import SuiteSide
from results.records.records import Record, RunInfo
from results.records.state_records import NoiseFloor
from results.statistics.replication import FloorKey
from results.watch.annotations import Annotation
from roofline_model.core.finding import Finding, finding

_BEFORE = "before"
"""The side that nights are left out of: subject of their findings."""


@dataclass(slots=True)
class _Level:
    """The nights that make up the present level of a case, oldest first."""

    nights: list[_RunOfCase]
    waiting: _RunOfCase | None = None
    """A night that was FASTER, until the next one confirms it."""
    set_aside: list[Finding] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _RunOfCase:
    """One case in one run."""

    run: RunInfo
    side: CaseResult
    change_ratio: float | None = None
    """Against the level it was judged by."""


def settled(
    before: SuiteSide,
    after: SuiteSide,
    noise: Mapping[FloorKey, NoiseFloor],
    rules: DiffRules,
    annotations: Sequence[Annotation] = (),
) -> SuiteSide:
    """Return a pool of runs with, for every case, only the nights of its present level; what is left out is told per
    case.

    `before`: runs of one machine class in any order; with fewer than two it comes back as it is. A case never loses all
    its records: where no night is judgeable or of the newer side's method, all are kept and the diff says why it cannot
    judge.
    """
    if len(before.runs) < 2:
        return before
    rules = replace(rules, asked_ratio=0.0)  # a slow-down below what a gate asks for is one all the same
    runs = sorted(before.runs, key=lambda member: (member.started_at, member.run_id))
    by_run: dict[str, list[Record]] = {run.run_id: [] for run in runs}
    for record in before.records:
        by_run[record.run_id].append(record)
    newer, *sides = side_cases(after.records, *by_run.values())
    methods = {key: side.method_hashes for key, side in newer.items()}
    levels: dict[str, _Level] = {}
    records_by_key: dict[str, list[Record]] = {}
    for run, own_side in zip(runs, sides, strict=True):
        usable = {}
        for key, side in own_side.items():
            records_by_key.setdefault(key, []).extend(side.records)
            is_alike = not methods.get(key) or side.method_hashes == methods[key]
            if is_alike and is_judgeable(side):
                usable[key] = side
            elif side.pooled is not None:  # a case that was not measured is no night
                flag = None if side.pooled.is_judgeable else side.pooled.excluded[0][0]
                kind = "other-method" if flag is None else "flagged"
                why = finding("night-not-used", _BEFORE, kind=kind, night=run.short_name, flag=flag)
                levels.setdefault(key, _Level([])).set_aside.append(why)
        _add(levels, usable, run, noise, rules, annotations)
    records, set_aside = [], {}
    for key, everything in records_by_key.items():
        level = levels.get(key)
        if level is None or not level.nights:
            records += everything
            continue
        records += [record for entry in level.nights for record in entry.side.records]
        unused = [*level.set_aside, *([] if level.waiting is None else [_unused(level.waiting, "faster")])]
        if unused:
            set_aside[key] = tuple(unused)
    return replace(before, records=tuple(records), set_aside=set_aside)


def _add(
    levels: dict[str, _Level],
    usable: Mapping[str, CaseResult],
    run: RunInfo,
    noise: Mapping[FloorKey, NoiseFloor],
    rules: DiffRules,
    annotations: Sequence[Annotation],
) -> None:
    """Judge a night against the levels before it and let it join them, replace them or be set aside."""
    pairs: dict[str, SidePair] = {
        key: (joined([entry.side for entry in levels[key].nights]), side)
        for key, side in usable.items()
        if key in levels and levels[key].nights
    }
    verdicts: dict[str, Verdict] = {}
    changes: dict[str, float | None] = {}
    if pairs:
        judged_times, judged = judge_times(pairs, noise, rules)
        verdicts = {key: verdict for key, (verdict, _) in zip(pairs, judged, strict=True)}
        changes = {key: ratio_of(float(change)) for key, change in zip(pairs, judged_times.change_log, strict=True)}
    for key, side in usable.items():
        level = levels.setdefault(key, _Level([]))
        entry = _RunOfCase(run, side, changes.get(key))
        expected = reason_of_change(annotations, side.case, key, [level_run.run for level_run in level.nights], [run])
        _join(level, entry, verdicts.get(key, "SAME"), expected)


def _join(level: _Level, entry: _RunOfCase, verdict: Verdict, expected: str) -> None:
    waiting, level.waiting = level.waiting, None
    if verdict == "FASTER" and waiting is None:
        level.waiting = entry
    elif verdict == "FASTER" and waiting is not None:
        _restart(level, [waiting, entry], "slower-than-since")
    elif verdict == "SLOWER" and expected:
        level.nights += [] if waiting is None else [waiting]  # one of the nights before the change
        _restart(level, [entry], "before-expected", expected)
    else:
        level.nights += [] if waiting is None else [waiting]  # it was luck
        if verdict == "SLOWER":
            level.set_aside.append(_unused(entry, "slower"))
        else:
            level.nights.append(entry)


def _restart(level: _Level, nights: list[_RunOfCase], kind: str, reason: str | None = None) -> None:
    level.set_aside += [
        finding("night-not-used", _BEFORE, kind=kind, night=old.run.short_name, reason=reason) for old in level.nights
    ]
    level.nights = nights


def _unused(entry: _RunOfCase, kind: str) -> Finding:
    return finding("night-not-used", _BEFORE, kind=kind, night=entry.run.short_name, change_ratio=entry.change_ratio)
