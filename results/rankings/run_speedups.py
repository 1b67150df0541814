"""The speed-up of a stored row over its baseline, from runs that measured both: a ratio that no run saw is marked
so.

Levels are chosen case by case, so that two rows may rest on different runs, and a machine that was slower on one of
them makes a ratio that nobody measured. Where the runs of both levels are the same the ratio of the levels stands;
else it is the median of the ratios inside the runs that measured both, undisturbed ones where there are any; else it
is one across runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from statistics import median

from results.cases.pooling import Pooled, pool, sightings
from results.history.points import main_branch
from results.rankings.levels import POOLED_COUNT, CaseLevel, is_of_this_chip
from results.records.records import Record, RunInfo
from roofline_model.core.answer import Confidence, Trust
from roofline_model.core.finding import finding
from roofline_model.core.grouping import grouped

_LOWER: Mapping[Confidence, Confidence] = {"high": "medium", "medium": "low", "low": "low"}


@dataclass(frozen=True, slots=True)
class RunSpeedup:
    """A speed-up over the baseline, measured over measured."""

    ratio: float
    run_count: int
    """Runs it is the median of; 0: none measured both, it is the ratio of the two levels, across runs."""
    is_disturbed: bool = False
    """Whether each of these runs is in doubt."""

    def trusted(self, trust: Trust) -> Trust:
        """Return the trust in an option with this speed-up: a step less across runs."""
        trust = replace(trust, speedup_night_count=self.run_count, is_speedup_disturbed=self.is_disturbed)
        if not trust.is_across_runs:
            return trust
        reasons = (*trust.reasons, finding("less-sure", kind="across-runs"))
        return replace(trust, confidence=_LOWER[trust.confidence], reasons=reasons)


class RunSpeedups:
    """The speed-ups inside the runs of one ranking's records."""

    def __init__(self, records: Iterable[Record], levels: Mapping[str, CaseLevel], runs: Mapping[str, RunInfo]) -> None:
        self._levels, self._runs = levels, runs
        self._records = grouped(records, lambda record: record.case.case_key)

    def of(self, case_key: str, baseline_key: str, level_ratio: float | None) -> RunSpeedup | None:
        """Return the speed-up of a case over another; None where both levels rest on the same runs or one is not
        measured.

        `level_ratio`: baseline over case, of the two levels.
        """
        narrow, other = self._levels.get(case_key), self._levels.get(baseline_key)
        if level_ratio is None or narrow is None or other is None or not (narrow.is_measured and other.is_measured):
            return None
        mine, theirs = ({record.run_id for record in level.records} for level in (narrow, other))
        if mine == theirs:
            return None
        class_hash = narrow.newest.environment.class_hash
        times, baseline_times = self._times(narrow, class_hash), self._times(other, class_hash)
        both = times.keys() & baseline_times.keys()
        shared = (mine & theirs & both) or both
        if not shared:
            return RunSpeedup(level_ratio, 0)
        newest = sorted(shared, key=lambda key: (self._runs[key].started_at, key), reverse=True)
        branch = main_branch(self._runs[key] for key in newest)
        clear = [
            key
            for key in newest
            if times[key].is_judgeable and baseline_times[key].is_judgeable and self._is_regular(key, branch)
        ]
        used = (clear or newest)[:POOLED_COUNT]
        ratio = median(baseline_times[key].value / times[key].value for key in used)
        return RunSpeedup(ratio, len(used), not clear)

    def _is_regular(self, run_id: str, branch: str | None) -> bool:
        run = self._runs[run_id]
        return run.status == "complete" and (branch is None or run.git_branch in (None, branch))

    def _times(self, level: CaseLevel, class_hash: str) -> dict[str, Pooled]:
        """Return the times of a level's case by run: of one environment class, by the level's method, without the
        disturbed processes of a run.
        """
        lead = level.records[0]
        comparable = (
            record
            for record in self._records.get(lead.case.case_key, ())
            if record.method == lead.method
            and (run := self._runs[record.run_id]).environment.class_hash == class_hash
            and is_of_this_chip(record, run)
        )
        by_run = grouped(comparable, lambda record: record.run_id)
        return {run_id: time for run_id, members in by_run.items() if (time := pool(sightings(members))) is not None}
