"""What the runs together say of a case now: the level of its newest comparable nights, and why it may no longer hold.

Nights are comparable where chip, environment class and method are the same (`results.history`). The newest such night
makes the level, with the nights before it as far as they are alike: at most `POOLED_COUNT`, and none from beyond a
night that differs from it by more than `ALIKE_RATIO`, so that a change is seen the night it comes. A night that is
doubtful (cut short, of another branch, disturbed) is used only where there is no other.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice, takewhile

from results.cases.case_result import CaseResult
from results.diff.baseline import ROLLING_COUNT
from results.diff.environments import differences
from results.history.case_history import observations_of
from results.history.points import HistoryPoint, main_branch, points_of
from results.records.metrics import METRICS
from results.records.records import Record, RunInfo
from roofline_model.core.finding import Finding, finding
from roofline_model.core.grouping import grouped

POOLED_COUNT = ROLLING_COUNT
"""Nights pooled at most: those of a rolling baseline."""
ALIKE_RATIO = 0.05
"""Nights whose times differ by more are two levels: half an interval that the flag `noisy` calls wide."""
STALE_DAYS_COUNT = 30
"""A measurement this much older than the chip's newest run is stale."""
_TIME = METRICS["time"]
_SHOWN_FACTS = 2


@dataclass(frozen=True, slots=True)
class SetAside:
    """A run that measured the case and takes no part in its level."""

    record: Record
    doubts: tuple[Finding, ...]
    """Why its night would be used only where there is no other; empty where nothing disturbed it."""
    is_incomparable: bool
    """Whether its method or environment class kept it out: never of a newer run, which would have led but for its
    doubt.
    """


@dataclass(frozen=True, slots=True)
class CaseLevel:
    """The records that speak for one case on one chip."""

    records: tuple[Record, ...]
    """Of the pooled nights, newest first; of a case that was never measured those of its newest attempt."""
    runs: tuple[RunInfo, ...]
    """Theirs, oldest first."""
    doubts: tuple[Finding, ...] = ()
    """Why its nights would not be used if there were others."""
    set_aside: tuple[SetAside, ...] = ()
    """Each run that measured it by another method, or on another machine or with other software, and each newer
    doubtful one.
    """
    lost: Record | None = None
    """A newer attempt that did not measure: failed or skipped."""
    result: CaseResult | None = None
    """Its records pooled; None where it has none."""

    @property
    def is_measured(self) -> bool:
        """Whether it has a measured time."""
        return bool(self.records) and self.records[0].status == "measured"

    @property
    def newest(self) -> RunInfo:
        """The newest of its runs."""
        return self.runs[-1]


def chip_of(record: Record, run: RunInfo | None) -> str:
    """Return the key of the chip that a record is about: that of its prediction, else the one the run asked for."""
    predicted = next((prediction.hardware_key for prediction in record.predictions), "")
    return predicted or ("" if run is None else run.hardware_key)


def is_of_this_chip(record: Record, run: RunInfo) -> bool:
    """Return whether a time was measured on the chip that it is stored for: not by force on another machine."""
    measured = record.measurement
    return not run.is_forced and (measured is None or "forced" not in measured.flags)


def case_level(records: Sequence[Record], runs: Mapping[str, RunInfo]) -> CaseLevel:
    """Return the level of one case on one chip from its records, in any order; there must be at least one."""
    usable = [
        record for record in records if record.status == "measured" and is_of_this_chip(record, runs[record.run_id])
    ]
    stretches = _stretches(usable, runs)
    nights, level_doubts = _nights(stretches)
    if not nights:
        return _never_measured(records, runs)
    wanted = {point.run_id for point in nights}
    members = _ordered((record for record in usable if record.run_id in wanted and record.timing is not None), runs)
    members = tuple(member for member in members if member.method == members[0].method)  # a run may have used two
    return CaseLevel(
        records=members,
        runs=tuple(runs[point.run_id] for point in nights),
        doubts=level_doubts,
        set_aside=_set_aside(members[0], usable, runs, [point for stretch in stretches for point in stretch]),
        lost=_lost_since(runs[nights[-1].run_id], records, runs),
    )


def _set_aside(
    lead: Record, usable: Iterable[Record], runs: Mapping[str, RunInfo], nights: Iterable[HistoryPoint]
) -> tuple[SetAside, ...]:
    """Return the runs that measured the same case by another method or in another environment class, or newer with a
    doubt.
    """
    doubts_by_run: dict[str, tuple[Finding, ...]] = {}
    for point in nights:  # a run may have measured it by two methods
        doubts_by_run[point.run_id] = point.doubts and doubts_by_run.get(point.run_id, point.doubts)
    by_run = grouped(usable, lambda record: record.run_id)
    lead_run = runs[lead.run_id]
    exclusions = []
    for run_id, members in by_run.items():
        run, doubts = runs[run_id], doubts_by_run.get(run_id, ())
        is_other = all(member.method != lead.method for member in members) or (
            run.environment.class_hash != lead_run.environment.class_hash
        )
        is_newer = bool(doubts) and (run.started_at, run_id) > (lead_run.started_at, lead_run.run_id)
        if is_other or is_newer:
            exclusions.append(SetAside(members[0], doubts, is_other and not is_newer))
    return tuple(exclusions)


def _lost_since(newest: RunInfo, records: Sequence[Record], runs: Mapping[str, RunInfo]) -> Record | None:
    """Return the newest attempt after a night that failed or was skipped, in a complete run of the same branch."""
    candidates = [
        record
        for record in records
        if record.status in ("failed", "skipped")
        and (run := runs[record.run_id]).status == "complete"
        and run.started_at > newest.started_at
        and run.git_branch == newest.git_branch
    ]
    return max(candidates, key=lambda candidate: (runs[candidate.run_id].started_at, candidate.record_id), default=None)


def stale_findings(level: CaseLevel, reference: RunInfo) -> tuple[Finding, ...]:
    """Return why a measured level may no longer hold, seen from the chip's newest measuring run; empty where it
    does.
    """
    if not level.is_measured:
        return ()
    findings = []
    newest_run = level.newest
    # A fact that an older version did not know says nothing of the machine.
    between = [
        difference.text
        for difference in differences([newest_run], [reference])
        if difference.is_blocking and "unknown" not in (difference.before, difference.after)
    ]
    if between:
        more_count = len(between) - _SHOWN_FACTS
        facts = tuple(between[:_SHOWN_FACTS])
        findings.append(
            finding("measured-earlier", kind="facts", facts=facts, more_count=more_count if more_count > 0 else None)
        )
    days = _days_between(newest_run.started_at, reference.started_at)
    if days > STALE_DAYS_COUNT:
        findings.append(finding("measured-earlier", kind="days", days_count=days))
    if level.lost is not None:
        findings.append(
            finding("measured-earlier", kind="status", status=level.lost.status, reason=level.lost.reason or None)
        )
    return tuple(findings)


def newest_measuring_run(levels: Iterable[CaseLevel]) -> RunInfo | None:
    """Return the newest run that any level rests on; None where nothing was measured."""
    measured = [level.newest for level in levels if level.is_measured]
    return max(measured, key=lambda run: (run.started_at, run.run_id), default=None)


def _stretches(records: Sequence[Record], runs: Mapping[str, RunInfo]) -> list[list[HistoryPoint]]:
    """Return the nights, oldest first, of each method and environment class."""
    observations = observations_of(_ordered(records, runs), runs, _TIME)
    branch = main_branch(runs[run_id] for run_id in {observation.run_id for observation in observations})
    by_key = grouped(observations, lambda observation: observation.segment_key)
    return [points_of(members, runs, _TIME, branch) for members in by_key.values()]


def _nights(stretches: Sequence[Sequence[HistoryPoint]]) -> tuple[list[HistoryPoint], tuple[Finding, ...]]:
    """Return the nights that make the level, oldest first, and why they are doubtful (empty where they are not)."""
    used = [used_nights for nights in stretches if (used_nights := [point for point in nights if point.is_used])]
    if not used:
        newest = max((point for nights in stretches for point in nights), key=_moment, default=None)
        return ([], ()) if newest is None else ([newest], newest.doubts)
    nights = max(used, key=lambda members: _moment(members[-1]))
    newest_s = nights[-1].value
    alike = takewhile(lambda point: abs(math.log(point.value / newest_s)) <= math.log1p(ALIKE_RATIO), reversed(nights))
    return list(islice(alike, POOLED_COUNT))[::-1], ()


def _never_measured(records: Sequence[Record], runs: Mapping[str, RunInfo]) -> CaseLevel:
    """Return the newest attempt; a measurement by force is none of this chip."""
    others = [record for record in records if record.status != "measured"]
    if not others:
        return CaseLevel((), (max((runs[record.run_id] for record in records), key=lambda run: run.started_at),))
    newest = max((runs[other.run_id] for other in others), key=lambda run: (run.started_at, run.run_id))
    return CaseLevel(_ordered((other for other in others if other.run_id == newest.run_id), runs), (newest,))


def _ordered(records: Iterable[Record], runs: Mapping[str, RunInfo]) -> tuple[Record, ...]:
    """Return records newest run first, whatever order they came in: what a row says beside its time is the newest's."""
    by_process = sorted(records, key=lambda record: (record.process.ordinal, record.created_at, record.record_id))
    return tuple(sorted(by_process, key=lambda record: (runs[record.run_id].started_at, record.run_id), reverse=True))


def _moment(point: HistoryPoint) -> tuple[str, str]:
    return point.started_at, point.run_id


def _days_between(before: str, after: str) -> int:
    try:
        return (datetime.fromisoformat(after) - datetime.fromisoformat(before)).days
    except (ValueError, TypeError):  # imported runs may carry any text, or no zone
        return 0
