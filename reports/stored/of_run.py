"""What all stored runs say of the questions of one run: the section beside a report's own rankings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from reports.stored.answer import StoredRecommendations
from reports.stored.from_store import recommend_from_store
from reports.stored.question import StoredQuestion, subject_of
from results.case_names import is_model_case
from results.records import Record

if TYPE_CHECKING:
    from results.store import ResultStore

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
    found = recommend_from_store(store, question_of_run(records))
    return found if is_wanted or found.run_count > 1 else None


def question_of_run(records: Iterable[Record]) -> StoredQuestion:
    """Return the question that a run's records ask: its models, and its first `MOST_SHAPES` shapes, on its chip if it has one."""
    records = tuple(records)
    shapes = dict.fromkeys(subject_of(one.case) for one in records if not is_model_case(one.case))
    models = dict.fromkeys(subject_of(one.case) for one in records if is_model_case(one.case))
    chips = {one.hardware_key for record in records for one in record.predictions}
    return StoredQuestion(
        hardware_key=next(iter(chips)) if len(chips) == 1 else "",
        subjects=frozenset((*models, *list(shapes)[:MOST_SHAPES])),
    )
