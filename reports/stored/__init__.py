"""Recommendations from stored runs: what all runs together say of every shape and model. `recommend_from_store` is the
door.

Pure over the records given; only `from_store.recommend_from_store` reads a store.
"""

from __future__ import annotations

from reports.stored.answer import StoredRanking, StoredRecommendations
from reports.stored.from_store import recommend_for_run, recommend_from_runs, recommend_from_store
from reports.stored.moves import RankChange
from reports.stored.question import StoredQuestion
from reports.stored.words import summary_of

__all__ = [
    "RankChange",
    "StoredQuestion",
    "StoredRanking",
    "StoredRecommendations",
    "recommend_for_run",
    "recommend_from_runs",
    "recommend_from_store",
    "summary_of",
]
