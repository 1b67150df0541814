"""Both sides of a diff out of the database: which runs a word of `--against` brings in, and of which cases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from sqlalchemy import Connection, select

from results.diff.baseline import BaselineRuns, check_complete, find_baseline, is_rolling
from results.diff.rolling import settled
from results.diff.rules import DiffRules
from results.diff.suites import SuiteSide
from results.records.records import Record, RunInfo
from results.records.state_records import NoiseFloor
from results.statistics.replication import FloorKey
from results.store.schema import CASE, METHOD, RECORD
from results.store.write import in_parts
from results.watch.annotations import Annotation

if TYPE_CHECKING:
    from results.store.store import ResultStore

MOST_LOOKED_AT = 20
"""Runs read in search of one that measured something of the newer side in the same way."""
MOST_FILLING = 200
"""Older runs asked for the cases that the newest ones left out (`pytest -k …`)."""

CaseMethod = tuple[str, str]
"""(case_key, method_hash)"""


def side_of(store: ResultStore, runs: Sequence[RunInfo]) -> SuiteSide:
    """Return everything that these runs hold, as one side; without samples."""
    records = [record for run in runs for record in store.records(run.run_id, with_samples=False)]
    return SuiteSide(tuple(runs), tuple(records))


def named_side(store: ResultStore, runs: Sequence[RunInfo]) -> SuiteSide:
    """Return the older side that somebody named; raises `StoreError` where one of its runs is incomplete."""
    for run in runs:
        check_complete(run)
    return side_of(store, runs)


def baseline_side(
    store: ResultStore,
    against: str,
    after: SuiteSide,
    noise: Mapping[FloorKey, NoiseFloor],
    rules: DiffRules,
    annotations: Sequence[Annotation] = (),
) -> SuiteSide | None:
    """Return the side that `against` names for a newer side (`find_baseline`); None if there is none yet, or none of
    the runs meant measured anything.

    Runs that measured nothing of it in the same way are passed over, as long as there are others. Of a rolling baseline
    every case gets the newest runs that hold it, also older ones where a night measured only a part, and is then
    `settled`.
    """
    baseline = find_baseline(against, after.runs, store.runs, store.resolve_run)
    if not baseline.chosen:
        return None
    measured = _case_methods(after.records)
    sides = _same_method_sides(store, baseline, measured) or [side_of(store, baseline.chosen)]
    if not any(_case_methods(side.records) for side in sides):  # nights in which every kernel failed
        return None
    if not is_rolling(against):
        return sides[0]
    pool = [*sides, *_older_sides(store, baseline, sides, measured)]
    side = SuiteSide(
        tuple(run for pooled in pool for run in pooled.runs),
        tuple(record for pooled in pool for record in pooled.records),
    )
    return settled(side, after, noise, rules, annotations)


def _same_method_sides(store: ResultStore, baseline: BaselineRuns, measured: set[CaseMethod]) -> list[SuiteSide]:
    """Return the newest runs, each a side, that measured something of the newer side by the same method."""
    sharing, skipped = [], baseline.skipped_count
    for run in baseline.runs[: baseline.skipped_count + baseline.count + MOST_LOOKED_AT]:
        side = side_of(store, (run,))
        if _case_methods(side.records) & measured:
            skipped -= 1
            if skipped < 0:
                sharing.append(side)
        if len(sharing) == baseline.count:
            break
    return sharing


def _older_sides(
    store: ResultStore, baseline: BaselineRuns, sides: Sequence[SuiteSide], measured: set[CaseMethod]
) -> list[SuiteSide]:
    """Return older runs with those cases only of which the newest ones hold too few."""
    held_counts = Counter(case_method for side in sides for case_method in _case_methods(side.records) & measured)
    lacking = {
        case_method: baseline.count - held_counts[case_method]
        for case_method in measured
        if held_counts[case_method] < baseline.count
    }
    run_ids = {run.run_id for side in sides for run in side.runs}
    older = [run for run in baseline.runs if run.run_id not in run_ids][:MOST_FILLING]
    if not lacking or not older:
        return []
    holders = store.query(lambda connection: _holders(connection, {key for key, _ in lacking}, older))
    filling = []
    for run in older:
        keys = {case_method[0] for case_method in holders.get(run.run_id, set()) if lacking.get(case_method, 0) > 0}
        if keys:
            for case_method in holders[run.run_id]:
                lacking[case_method] = lacking.get(case_method, 0) - 1
            records = store.records(run.run_id, with_samples=False)
            filling.append(SuiteSide((run,), tuple(record for record in records if record.case.case_key in keys)))
    return filling


def _case_methods(records: Iterable[Record]) -> set[CaseMethod]:
    # Records share few cases and methods, and hashing their canonical JSON is most of the work.
    pairs = {
        (id(record.case), id(record.method)): (record.case, record.method)
        for record in records
        if record.status == "measured" and record.method is not None
    }
    return {(case.case_key, method.method_hash) for case, method in pairs.values() if method is not None}


def _holders(connection: Connection, keys: Iterable[str], runs: Sequence[RunInfo]) -> dict[str, set[CaseMethod]]:
    """Return run id → which of these cases it measured, by which method."""
    case_keys, ids = sorted(keys), [run.run_id for run in runs]
    joined = RECORD.join(CASE, CASE.c.id == RECORD.c.case_id).join(METHOD, METHOD.c.id == RECORD.c.method_id)
    holders: dict[str, set[CaseMethod]] = {}
    for part in in_parts(case_keys):
        statement = (
            select(RECORD.c.run_id, CASE.c.case_key, METHOD.c.method_hash)
            .select_from(joined)
            .where(CASE.c.case_key.in_(part))
            .where(RECORD.c.run_id.in_(ids), RECORD.c.status == "measured")
            .distinct()
        )
        for run_id, case_key, method_hash in connection.execute(statement):
            holders.setdefault(run_id, set()).add((case_key, method_hash))
    return holders
