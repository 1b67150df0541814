"""`recommend_from_store`: ranked recommendations from everything that is stored, with what changed since the run
before; for one run, what all stored runs say of its questions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from results.cases.losses import StoredLosses
from results.rankings.changes import changes_since
from results.rankings.evidence import StoredEvidence, given_evidence, read_evidence
from results.rankings.levels import CaseLevel
from results.rankings.moves import RankChange
from results.rankings.question import StoredQuestion, subject_of
from results.rankings.rankings import StoredRanking, ranked_groups
from results.records.model_figures import is_untrained
from results.records.records import HardwareProfile, Record, RunInfo
from roofline_model.operators.case import is_model_case, pass_name

if TYPE_CHECKING:
    from results.store.store import ResultStore


@dataclass(frozen=True, slots=True)
class StoredRecommendations:
    """The answer: every ranking that was asked for, and what it was made of."""

    rankings: tuple[StoredRanking, ...]
    """By chip, models before shapes, then by name and size."""
    question: StoredQuestion
    evidence: StoredEvidence
    levels: tuple[CaseLevel, ...]
    """Of every case that is ranked."""
    asked: tuple[Record, ...]
    """Records of what was asked for, those of older nights that are no longer used with them."""
    untrained: tuple[str, ...] = ()
    """Models without a ranking, because their weights were drawn from a seed."""
    reported_run_id: str = ""
    """The run whose questions these are; empty where somebody asked."""

    @property
    def run_count(self) -> int:
        """Runs that hold what was asked for, count."""
        return len({record.run_id for record in self.asked})

    @property
    def record_count(self) -> int:
        """Their records of it, count."""
        return len(self.asked)

    @property
    def changes(self) -> tuple[RankChange, ...]:
        """All changes, ranking by ranking."""
        return tuple(change for ranking in self.rankings for change in ranking.changes)


def recommend_from_store(store: ResultStore, question: StoredQuestion | None = None) -> StoredRecommendations:
    """Return the ranked recommendations of an open store: for every chip, shape and model that a question is about.

    Times are measured where they exist (the level of a case's newest comparable nights), else expected, else ideal;
    losses measured where stored, else claimed; every row says which, how sure, and names its runs and records. Raises
    `StoreError` where the store cannot be read.
    """
    question = question or StoredQuestion()
    return recommend_from_evidence(read_evidence(store, question), question)


def recommend_from_runs(
    runs: Iterable[RunInfo],
    records: Iterable[Record],
    profiles: Mapping[str, HardwareProfile] | None = None,
    question: StoredQuestion | None = None,
) -> StoredRecommendations:
    """Return the same of runs and records in hand, in any order; `profiles`: chips by hash, which add what was not
    run.
    """
    question = question or StoredQuestion()
    return recommend_from_evidence(given_evidence(runs, records, profiles or {}).narrowed(question), question)


def recommend_from_evidence(evidence: StoredEvidence, question: StoredQuestion) -> StoredRecommendations:
    """Return the rankings that are asked for, each with its changes since the run before."""
    qualities = StoredLosses(evidence.records, evidence.runs)
    groups = {
        key: records
        for key, records in sorted(evidence.groups().items())
        if (not question.hardware_key or key[0] == question.hardware_key)
        and any(question.asks_for(record.case) for record in records)
    }
    untrained = [key for key, records in groups.items() if any(map(is_untrained, records))]
    # Cases that failed before their prediction may name no chip; beside others they are no ranking of their own.
    has_chip = any(key[0] for key in groups if key not in untrained)
    groups = {key: them for key, them in groups.items() if key not in untrained and (key[0] or not has_chip)}
    now = ranked_groups(groups, evidence, question, qualities)
    levels = {id(level): level for entry in now for level in entry.levels}  # a model's phases share theirs
    return StoredRecommendations(
        tuple(sorted(changes_since(now, groups, evidence, question), key=_place)),
        question,
        evidence,
        tuple(levels.values()),
        tuple(record for records in groups.values() for record in records if question.asks_for(record.case)),
        tuple(dict.fromkeys(name.removeprefix("model:") for _, name, _, _ in untrained)),
    )


def _place(ranking: StoredRanking) -> tuple[object, ...]:
    """Order rankings: by chip, models before shapes, decode before prefill, then by operator and sizes."""
    asked = ranking.question
    name = pass_name(asked.op, asked.sizes)
    model = "" if name is None else name.model_name
    sizes = tuple(size for _, size in asked.sizes)
    return asked.hardware, asked.subject == "shape", model, asked.op, sizes, asked.mode, asked.cache


MOST_SHAPES = 40
"""Shapes of a run that are asked about; whole models all are. A ranking costs milliseconds, and each is made twice."""


def recommend_for_run(
    store: ResultStore, records: Iterable[Record], *, is_wanted: bool | None = None, is_forced: bool = False
) -> StoredRecommendations | None:
    """Return what the store recommends for the shapes and models of a run's records, on their chips.

    `is_wanted`: True always, False never, None where another run than one holds the same questions; None is returned
    for no. `is_forced`: disturbed times make results, too. Raises `StoreError` where the store cannot be read.
    """
    records = tuple(records)
    if is_wanted is False or not records or (is_wanted is None and len(store.runs(limit=2)) < 2):
        return None
    answer = recommend_from_store(store, replace(question_of_run(records), is_forced=is_forced))
    return replace(answer, reported_run_id=records[0].run_id) if is_wanted or answer.run_count > 1 else None


def question_of_run(records: Iterable[Record]) -> StoredQuestion:
    """Return the question that a run's records ask: its models, and its first `MOST_SHAPES` shapes, on its chip if it
    has one.
    """
    records = tuple(records)
    shapes = dict.fromkeys(subject_of(record.case) for record in records if not is_model_case(record.case))
    models = dict.fromkeys(subject_of(record.case) for record in records if is_model_case(record.case))
    chips = {prediction.hardware_key for record in records for prediction in record.predictions}
    return StoredQuestion(
        hardware_key=next(iter(chips)) if len(chips) == 1 else "",
        subjects=frozenset((*models, *list(shapes)[:MOST_SHAPES])),
    )
