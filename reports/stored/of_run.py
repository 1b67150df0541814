"""What all stored runs say of the questions of one run: the section beside a report's own rankings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from reports.stored.answer import StoredRecommendations
from reports.stored.from_store import recommend_from_store
from reports.stored.left_out import runs_text
from reports.stored.question import StoredQuestion, subject_of
from reports.text.display_text import shown
from results.records.case_names import is_model_case
from results.records.records import Record

if TYPE_CHECKING:
    from results.store.store import ResultStore

MOST_SHAPES = 40
"""Shapes of a run that are asked about; whole models all are. A ranking costs milliseconds, and each is made twice."""


def recommend_for_run(
    store: ResultStore, records: Iterable[Record], *, is_wanted: bool | None = None
) -> StoredRecommendations | None:
    """Return what the store recommends for the shapes and models of a run's records, on their chips.

    `is_wanted`: True always, False never, None where another run than one holds the same questions; None is returned for no.
    Raises `StoreError` where the store cannot be read.
    """
    records = tuple(records)
    if is_wanted is False or not records or (is_wanted is None and len(store.runs(limit=2)) < 2):
        return None
    recommendations = recommend_from_store(store, question_of_run(records))
    return _with_origin(recommendations, records[0].run_id) if is_wanted or recommendations.run_count > 1 else None


def _with_origin(recommendations: StoredRecommendations, run_id: str) -> StoredRecommendations:
    """Return the answer with a note where it rests on other runs alone than the one that is reported, and why."""
    nights = {
        run.run_id: run for ranking in recommendations.rankings for row in ranking.options for run in row.evidence
    }
    if not nights or run_id in nights:
        return recommendations
    others = runs_text(
        [shown(night[:8], 8) for night in sorted(nights, key=lambda one: nights[one].started_at, reverse=True)]
    )
    lost = recommendations.left_out.get(run_id)
    reason = (
        f", which is left out: {lost.why}" if lost else ", because theirs are the newest comparable runs of its cases"
    )
    note = f"these answers come from {others}, not from the run reported here, {shown(run_id[:8], 8)}{reason}"
    # The note says what the line of the run alone would repeat.
    return replace(
        recommendations, notes=(note, *(one for one in recommendations.notes if lost is None or one != lost.note))
    )


def question_of_run(records: Iterable[Record]) -> StoredQuestion:
    """Return the question that a run's records ask: its models, and its first `MOST_SHAPES` shapes, on its chip if it has one."""
    records = tuple(records)
    shapes = dict.fromkeys(subject_of(record.case) for record in records if not is_model_case(record.case))
    models = dict.fromkeys(subject_of(record.case) for record in records if is_model_case(record.case))
    chips = {prediction.hardware_key for record in records for prediction in record.predictions}
    return StoredQuestion(
        hardware_key=next(iter(chips)) if len(chips) == 1 else "",
        subjects=frozenset((*models, *list(shapes)[:MOST_SHAPES])),
    )
