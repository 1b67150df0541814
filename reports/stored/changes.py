"""What changed since the run before: every ranking is made once more without its newest run, and the two are compared.

Whether a time really moved is for `results.diff` to say; what differs between the machines comes from its environments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reports.stored.answer import RankChange, StoredRanking
from reports.stored.evidence import GroupKey, StoredEvidence
from reports.stored.moves import UNEXPLAINED, Move, causes_of, told_differences
from reports.stored.question import StoredQuestion
from reports.stored.rankings import Groups, Ranked, ranked_groups
from reports.stored.rows.levels import is_of_this_chip
from results.diff.case_diff import CaseDiff
from results.diff.environments import differences
from results.diff.rules import DiffRules
from results.records.records import Record, RunInfo
from results.verdicts.losses import StoredLosses
from roofline_model.core.answer import Option, Ranking
from roofline_model.core.errors import InvalidValueError

_MOVED = ("SLOWER", "FASTER")


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes of one ranking, and between which runs."""

    changes: tuple[RankChange, ...]
    compared: tuple[RunInfo, RunInfo] | None
    """None where there is nothing to compare with."""


def changes_since(
    now: Sequence[Ranked], groups: Groups, evidence: StoredEvidence, question: StoredQuestion
) -> list[Changes]:
    """Return the changes of every ranking of `now` against the one without its newest run, in their order."""
    newest = {key: _newest_run(records, evidence.runs) for key, records in groups.items()}
    older = {
        key: left
        for key, records in groups.items()
        if (left := [record for record in records if record.run_id != newest[key].run_id])
    }
    newest_ids = {key: run.run_id for key, run in newest.items()}
    # What was measured in the newest run of its own ranking was not known before it.
    qualities = StoredLosses((record for records in older.values() for record in records), evidence.runs)
    before = ranked_groups(older, evidence, question, qualities)
    by_key = {_key(entry.ranking): entry for entry in before}
    diffs = _diffs(before, groups, newest, evidence)
    changes_per_ranking = []
    for entry in now:
        then = by_key.get(_key(entry.ranking))
        if then is None:
            changes_per_ranking.append(Changes((), None))
            continue
        pair = _Pair(entry, then, newest[entry.group], diffs.get(newest_ids[entry.group], {}))
        changes_per_ranking.append(Changes(pair.changes(), pair.compared()))
    return changes_per_ranking


@dataclass(frozen=True, slots=True)
class _Pair:
    """One ranking now and before its newest run."""

    now: Ranked
    then: Ranked
    newest: RunInfo
    diffs: Mapping[str, CaseDiff]

    def compared(self) -> tuple[RunInfo, RunInfo]:
        """Return the newest run now and before."""
        return self.newest, _newest_of(self.then)

    def changes(self) -> tuple[RankChange, ...]:
        """Return what moved, the best rank now first, then what is gone."""
        now, then = self.now.ranking, self.then.ranking
        earlier = _earlier_rows(now, then)
        moves = [self._move(row, earlier[row.key]) for row in now.options]
        stayed = {row.key for row in earlier.values() if row is not None}
        moves += [self._move(None, row) for row in then.options if row.key not in stayed]
        changes = (_change(move, moves, now) for move in moves)
        return tuple(change for change in changes if _is_told(change))

    def _move(self, after: Option | None, before: Option | None) -> Move:
        row = after or before
        assert row is not None  # one of both is a row
        then = before.evidence[-1].run_id if before is not None and before.evidence else ""
        run_before = next((run for level in self.then.levels for run in level.runs if run.run_id == then), None)
        differing = () if run_before is None else differences([run_before], [self.newest])
        is_new = after is not None and any(run.run_id == self.newest.run_id for run in after.evidence)
        return Move(
            before,
            after,
            None if before is None else self.then.ranking.rank_of(before),
            None if after is None else self.now.ranking.rank_of(after),
            self.diffs.get(row.key) if is_new else None,
            run_before,
            self.newest,
            differing,
        )


def _change(move: Move, moves: Sequence[Move], now: StoredRanking) -> RankChange:
    diff = move.diff
    return RankChange(
        move.label,
        move.before_rank,
        move.after_rank,
        None if diff is None else diff.change_ratio,
        None if diff is None else diff.verdict,
        told_differences(move.differences),
        any(difference.is_blocking for difference in move.differences),
        causes_of(move, moves, now),
    )


def _is_told(change: RankChange) -> bool:
    """Return whether a change is worth a line: of places that only noise exchanged, the first alone is."""
    if change.before_rank == change.after_rank:
        return change.verdict in _MOVED
    return 1 in (change.before_rank, change.after_rank) or change.causes[0].code not in UNEXPLAINED


def _earlier_rows(now: StoredRanking, then: StoredRanking) -> dict[str, Option | None]:
    """Return for every row now (by identity) the row that it was before; a kernel's row may have been the model's
    proposal.
    """
    by_identity = {row.key: row for row in then.options}
    proposals = {(row.weight_format, row.activation_format): row for row in then.options if row.kernel is None}
    earlier_rows: dict[str, Option | None] = {}
    taken: set[str] = set()
    for row in now.options:
        before = by_identity.get(row.key)
        if before is None:
            proposal = proposals.get((row.weight_format, row.activation_format))
            before = proposal if proposal is not None and proposal.key not in taken else None
        if before is not None:
            taken.add(before.key)
        earlier_rows[row.key] = before
    return earlier_rows


def _key(ranking: Ranking) -> tuple[object, ...]:
    """Return what tells a ranking from every other."""
    asked = ranking.question
    return asked.hardware, asked.op, asked.sizes, asked.cache, asked.mode


def _diffs(
    before: Sequence[Ranked], groups: Groups, newest: Mapping[GroupKey, RunInfo], evidence: StoredEvidence
) -> dict[str, dict[str, CaseDiff]]:
    """Return newest run → case key → what `results.diff` says of it against the levels before; each run is judged as
    one suite.
    """
    from results.diff.suites import SuiteSide, compare_suites  # with numpy: only what changed needs it

    sides: dict[str, tuple[dict[str, RunInfo], dict[str, Record], set[GroupKey]]] = {}
    for entry in before:
        runs, records, keys = sides.setdefault(newest[entry.group].run_id, ({}, {}, set()))
        keys.add(entry.group)
        for level in entry.levels:
            if level.is_measured:
                runs |= {run.run_id: run for run in level.runs}
                records |= {record.record_id: record for record in level.records}
    diffs = {}
    for run_id, (runs, records, keys) in sides.items():
        after = evidence.runs[run_id]
        measured = [
            record
            for key in sorted(keys)
            for record in groups[key]
            if record.run_id == run_id and record.status == "measured" and is_of_this_chip(record, after)
        ]
        names = {
            difference.name
            for difference in differences(list(runs.values()), [after])
            if difference.is_blocking and difference.name != "chip"
        }
        allowed = names | {name.partition(".")[0] for name in names}
        noise = evidence.floors.get(after.environment.class_hash, {})
        try:
            diff = compare_suites(
                SuiteSide(tuple(runs.values()), tuple(records.values())),
                SuiteSide((after,), tuple(measured)),
                noise,
                DiffRules(),
                allowed=allowed,
            )
        except InvalidValueError:  # one side measured nothing
            continue
        diffs[run_id] = {case.case_key: case for case in diff.cases}
    return diffs


def _newest_run(records: Sequence[Record], runs: Mapping[str, RunInfo]) -> RunInfo:
    return max((runs[record.run_id] for record in records), key=lambda run: (run.started_at, run.run_id))


def _newest_of(ranked: Ranked) -> RunInfo:
    return max((run for level in ranked.levels for run in level.runs), key=lambda run: (run.started_at, run.run_id))
