"""A measured figure and how sure it is: ratios of sums, with a bootstrap over the parts of a text that hang together.

Tokens of one document are no independent trials, so whole documents (or windows, where there are few documents) are
drawn again with replacement, and the ratio is formed anew each time: the percentiles of those ratios are the interval.
Source: Efron and Tibshirani, An Introduction to the Bootstrap (1993), ch. 13; for clusters Davison and Hinkley,
Bootstrap Methods and their Application (1997), §3.8. A pair of models is drawn together, so the interval is that of
their difference on the same text, not of two texts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from roofline_model.core.errors import InvalidValueError

CONFIDENCE_RATIO = 0.95
RESAMPLES_COUNT = 2000
MIN_DOCUMENTS_COUNT = 8
"""With fewer documents than this, windows are drawn instead."""
_SEED = 20261121
_PIECE = 250


@dataclass(frozen=True, slots=True)
class Estimate:
    """One figure with its 95 % interval. The interval is about the text: other text of its kind, the same models."""

    value: float
    low_value: float | None
    """None when there is a single part to draw from: nothing is known about the spread."""
    high_value: float | None
    unit: str
    method: str
    """How the interval was found, and from how many parts."""
    tokens_count: int
    """Tokens that the figure counts: predictions scored, or tokens compared."""

    def __str__(self) -> str:
        # A share or ratio of 1 has no unit worth printing.
        unit = "" if self.unit in ("ratio", "share") else f" {self.unit}"
        if self.low_value is None or self.high_value is None:
            return f"{self.value:.4g}{unit} (no interval: {self.method})"
        return f"{self.value:.4g}{unit} [{self.low_value:.4g}, {self.high_value:.4g}]"


@dataclass(frozen=True, slots=True)
class Clusters:
    """Which part of the text each row of figures belongs to; the parts are what is drawn again."""

    ids: tuple[int, ...]
    """One per row (a window, a prompt)."""
    name: str
    """documents or windows."""

    @classmethod
    def of_documents(cls, documents: Sequence[int], row_name: str = "windows") -> Clusters:
        """Return the documents as clusters, or one cluster per row when there are fewer than `MIN_DOCUMENTS_COUNT`."""
        if len(set(documents)) >= MIN_DOCUMENTS_COUNT:
            return cls(tuple(documents), "documents")
        return cls(tuple(range(len(documents))), row_name)

    @property
    def count(self) -> int:
        """Parts."""
        return len(set(self.ids))

    def sums(self, rows: Sequence[float]) -> NDArray[np.float64]:
        """Return the sum of the rows of each part."""
        values = np.asarray(rows, np.float64)
        _, positions = np.unique(np.asarray(self.ids), return_inverse=True)
        return np.bincount(positions, weights=values, minlength=self.count).astype(np.float64)


def ratio_estimate(
    numerators: Sequence[float],
    denominators: Sequence[float],
    clusters: Clusters,
    *,
    unit: str,
    tokens_count: int,
    transform: Callable[[NDArray[np.float64]], NDArray[np.float64]] | None = None,
) -> Estimate:
    """Return Σ numerators / Σ denominators over rows, or a monotone `transform` of it, with its bootstrap interval.

    A share of exactly 0 or 1 would leave the bootstrap no spread; its open side is then the exact binomial bound for
    that many parts (Clopper and Pearson 1934). Raises `InvalidValueError` for a row that is not finite and for
    denominators that do not add up to something positive.
    """
    tops, bottoms = clusters.sums(numerators), clusters.sums(denominators)
    if not (np.isfinite(tops).all() and np.isfinite(bottoms).all()):
        raise InvalidValueError(f"a figure in {unit} is NaN or infinite on this text: there is nothing to average")
    if not bottoms.sum() > 0:
        raise InvalidValueError(
            f"a figure in {unit} has nothing to divide by: no token was scored, or the signal is zero"
        )
    change = transform or (lambda ratios: ratios)
    value = float(change(np.array([tops.sum() / bottoms.sum()]))[0])
    count = clusters.count
    if count < 2:
        return Estimate(value, None, None, unit, f"one {clusters.name.rstrip('s')} only", tokens_count)
    low, high = _interval(tops, bottoms, change)
    method = f"bootstrap over {count} {clusters.name}, {RESAMPLES_COUNT} resamples, percentiles"
    if unit == "share" and value in (0.0, 1.0):
        open_side = ((1 - CONFIDENCE_RATIO) / 2) ** (1 / count)
        low, high = (open_side, 1.0) if value else (0.0, 1 - open_side)
        method = f"exact binomial bound for {count} {clusters.name}, all alike"
    return Estimate(value, low, high, unit, method, tokens_count)


def _interval(
    tops: NDArray[np.float64],
    bottoms: NDArray[np.float64],
    change: Callable[[NDArray[np.float64]], NDArray[np.float64]],
) -> tuple[float, float]:
    generator = np.random.default_rng(_SEED)
    count = len(tops)
    ratios = []
    for _ in range(0, RESAMPLES_COUNT, _PIECE):  # in pieces: a long text has many windows
        drawn = generator.multinomial(count, np.full(count, 1 / count), size=_PIECE).astype(np.float64)
        under = drawn @ bottoms
        ratios.append((drawn @ tops)[under > 0] / under[under > 0])
    tail = (1 - CONFIDENCE_RATIO) / 2
    low, high = np.quantile(change(np.concatenate(ratios)), [tail, 1 - tail])
    return float(low), float(high)
