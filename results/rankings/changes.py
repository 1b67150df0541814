"""What changed since the run before: every ranking is made once more without its newest run, and the two are compared.

Whether a time really moved is for `results.diff` to say; what differs between the machines comes from its environments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from results.cases.losses import StoredLosses
from results.diff.case_diff import CaseDiff
from results.diff.environments import differences
from results.diff.rules import DiffRules
from results.rankings.evidence import GroupKey, StoredEvidence
from results.rankings.levels import is_of_this_chip
from results.rankings.moves import RankChange, causes_of
from results.rankings.question import StoredQuestion
from results.rankings.rankings import Groups, Ranked, StoredRanking, ranked_groups
from results.records.records import Record, RunInfo
from roofline_model.core.answer import Option, Ranking
from roofline_model.core.errors import InvalidValueError


def changes_since(
    now: Sequence[Ranked], groups: Groups, evidence: StoredEvidence, question: StoredQuestion
) -> list[StoredRanking]:
    """Return the rankings of `now` with their changes against the ones without their newest run."""
    newest = {key: _newest(evidence.runs[record.run_id] for record in records) for key, records in groups.items()}
    older = {
        key: left
        for key, records in groups.items()
        if (left := [record for record in records if record.run_id != newest[key].run_id])
    }
    # What was measured in the newest run of its own ranking was not known before it.
    qualities = StoredLosses((record for records in older.values() for record in records), evidence.runs)
    before = ranked_groups(older, evidence, question, qualities)
    by_key = {_key(entry.ranking): entry for entry in before}
    diffs = _diffs(before, groups, newest, evidence)
    rankings = []
    for entry in now:
        ranking, then = entry.ranking, by_key.get(_key(entry.ranking))
        if then is not None:
            run = newest[entry.group]
            changes = _changes(entry, then, run, diffs.get(run.run_id, {}))
            ranking = replace(
                ranking, changes=changes, compared=(run, _newest(run for level in then.levels for run in level.runs))
            )
        rankings.append(ranking)
    return rankings


def _changes(entry: Ranked, before: Ranked, newest: RunInfo, diffs: Mapping[str, CaseDiff]) -> tuple[RankChange, ...]:
    """Return what moved between a ranking now and before its newest run, the best rank now first, then what is gone."""
    now, then = entry.ranking, before.ranking
    earlier = _earlier_rows(now, then)
    stayed = {row.key for row in earlier.values() if row is not None}
    pairs: list[tuple[Option | None, Option | None]] = [(row, earlier[row.key]) for row in now.options]
    pairs += [(None, row) for row in then.options if row.key not in stayed]
    moves = []
    for after, row in pairs:
        run_id = row.evidence[-1].run_id if row is not None and row.evidence else ""
        run_before = next((run for level in before.levels for run in level.runs if run.run_id == run_id), None)
        is_new = after is not None and any(run.run_id == newest.run_id for run in after.evidence)
        move = RankChange(
            row,
            after,
            None if row is None else then.rank_of(row),
            None if after is None else now.rank_of(after),
            diffs.get(after.key) if after is not None and is_new else None,
            run_before,
            newest,
            () if run_before is None else differences([run_before], [newest]),
        )
        moves.append(move)
    changes = (replace(move, causes=causes_of(move, moves, now)) for move in moves)
    return tuple(change for change in changes if change.is_told)


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


def _newest(runs: Iterable[RunInfo]) -> RunInfo:
    return max(runs, key=lambda run: (run.started_at, run.run_id))
