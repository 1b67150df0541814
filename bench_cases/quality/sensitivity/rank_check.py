"""Whether a ranking knows anything: its rank correlation with what was measured, beside chance and its own inverse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roofline_model.core.errors import InvalidValueError

CONTROLS_COUNT = 2000
_SEED = 20261121


@dataclass(frozen=True, slots=True)
class RankCheck:
    """Spearman's rank correlation of scores with measured ones; controls are the same scores shuffled, and negated."""

    correlation_ratio: float
    """−1 … 1. Source: Spearman (1904); equal values get their mean rank."""
    inverted_ratio: float
    """Of the inverted ranking: must be worse, or nothing was ranked."""
    random_mean_ratio: float
    random_high_ratio: float
    """95th percentile of shuffled scores: what chance reaches once in twenty."""
    items_count: int
    controls_count: int

    @property
    def beats_chance(self) -> bool:
        """Whether the ranking is beyond the 95th percentile of random ones, and its inverse is below all of it."""
        return self.correlation_ratio > self.random_high_ratio > self.inverted_ratio


def check_ranking(scores: Mapping[Any, float], measured: Mapping[Any, float]) -> RankCheck:
    """Compare scores with measured ones of the same keys.

    Raises `InvalidValueError` for keys that differ, fewer than four items, and scores that are all equal or not finite.
    """
    if set(scores) != set(measured):
        strays = sorted(map(str, set(scores) ^ set(measured)))[:3]
        raise InvalidValueError(f"scores and measured values speak of different items, such as {', '.join(strays)}")
    if len(scores) < 4:
        raise InvalidValueError(
            f"{len(scores)} items are too few to check a ranking: chance orders three right by luck"
        )
    keys = list(scores)
    first, second = _ranks([scores[key] for key in keys]), _ranks([measured[key] for key in keys])
    generator = np.random.default_rng(_SEED)
    controls = [_correlation(generator.permutation(first), second) for _ in range(CONTROLS_COUNT)]
    return RankCheck(
        correlation_ratio=_correlation(first, second),
        inverted_ratio=_correlation(-first, second),
        random_mean_ratio=float(np.mean(controls)),
        random_high_ratio=float(np.quantile(controls, 0.95)),
        items_count=len(keys),
        controls_count=CONTROLS_COUNT,
    )


def rank_correlation(
    first: Sequence[float] | NDArray[np.float64], second: Sequence[float] | NDArray[np.float64]
) -> float:
    """Return Spearman's rank correlation of two rows of numbers; raises `InvalidValueError` where all of a row are
    equal.
    """
    return _correlation(_ranks(first), _ranks(second))


def _ranks(values: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
    numbers = np.asarray(values, np.float64)
    if not np.isfinite(numbers).all() or numbers.min() == numbers.max():
        raise InvalidValueError("a ranking needs finite scores that are not all equal")
    _, positions, counts = np.unique(numbers, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    mean_ranks = ends - (counts - 1) / 2
    return np.asarray(mean_ranks[positions] - (len(numbers) + 1) / 2)


def _correlation(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    return float(first @ second / np.sqrt((first @ first) * (second @ second)))
