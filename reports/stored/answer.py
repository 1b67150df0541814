"""What a recommendation from stored runs is made of: ranked options in words, what changed, what is missing.

Times are seconds, sizes bytes; a missing value is None. `reports.answers.ranking_json` writes the same as JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from reports.present.display_text import counted
from reports.stored.moves import RankChange
from results.records.records import RunInfo
from roofline_model.core.answer import Ranking
from roofline_model.core.finding import Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRanking(Ranking):
    """What all runs together say of one shape, or of one phase of a model, on one chip. `reports.stored.words` words
    it.
    """

    hardware_name: str
    missing: tuple[Finding, ...] = ()
    """What is not known of this ranking, and what would tell."""
    calibration_doubt: Finding | None = None
    """Why its expected times are in doubt: the calibration they rest on was of a busy machine; None where it was
    not.
    """
    changes: tuple[RankChange, ...] = ()
    compared: tuple[RunInfo, RunInfo] | None = None
    """The newest run, and the newest one that `changes` compares it with; None without an earlier one."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A run that no ranking uses."""

    why: str
    note: str
    """Its line among the notes, where no other run shares it."""


@dataclass(frozen=True, slots=True)
class StoredRecommendations:
    """The answer: every ranking that was asked for, and what is missing."""

    rankings: tuple[StoredRanking, ...]
    """By chip, models before shapes, then by name and size."""
    missing: tuple[str, ...]
    """What the store does not hold, most important first; empty where it has everything that was asked for."""
    notes: tuple[str, ...]
    """What weakens the answer, or was left out of it, and why."""
    run_count: int
    """Runs that hold what was asked for, older nights that are no longer used with them."""
    record_count: int
    """Their records of it."""
    left_out: Mapping[str, LeftOut] = field(default_factory=dict)
    """The runs that no ranking uses, by id; of a run that some ranking uses `notes` says for how many cases it is left
    out.
    """

    @property
    def basis_words(self) -> str:
        """What the rows shown rest on: `114 records of 1 run`."""
        runs = [run for ranking in self.rankings for option in ranking.options for run in option.evidence]
        records = {record_id for run in runs for record_id in run.record_ids}
        return f"{counted(len(records), 'record')} of {counted(len({run.run_id for run in runs}), 'run')}"

    @property
    def looked_at_words(self) -> str:
        """What the questions were asked of: `168 records of 2 runs`."""
        return f"{counted(self.record_count, 'record')} of {counted(self.run_count, 'run')}"

    @property
    def changes(self) -> tuple[RankChange, ...]:
        """All changes, ranking by ranking."""
        return tuple(change for ranking in self.rankings for change in ranking.changes)
