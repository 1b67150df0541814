"""Rankings of what is stored: what all runs together say of every shape and model. `recommend_from_store` is the door.

Pure over the records given; only `evidence.read_evidence` reads a store.
"""

from __future__ import annotations

from results.rankings.from_store import (
    StoredRecommendations,
    recommend_for_run,
    recommend_from_runs,
    recommend_from_store,
)
from results.rankings.moves import RankChange
from results.rankings.question import StoredQuestion
from results.rankings.rankings import StoredRanking

__all__ = [
    "RankChange",
    "StoredQuestion",
    "StoredRanking",
    "StoredRecommendations",
    "recommend_for_run",
    "recommend_from_runs",
    "recommend_from_store",
]
