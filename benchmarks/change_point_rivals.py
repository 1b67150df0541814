"""Other ways to find steps in a series of nights, for comparison: PELT of the library ruptures, E-divisive with a t test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

import numpy as np

Detector = Callable[[Any], list[int]]
"""Series of nights → first nights of new levels."""

E_DIVISIVE_CHANCE = 1e-3
"""The default of Apache Otava."""


def has_ruptures() -> bool:
    """Return whether the library is installed (it is optional: nothing of ours needs it)."""
    return find_spec("ruptures") is not None


def pelt(penalty: float) -> Detector:
    """Return PELT on squares around the mean with a penalty in units of σ² · ln n; σ robustly, from successive nights.

    `KernelCPD` with the linear kernel: the same cost and the same search as `Pelt("l2")`, in C; that one takes 0.1 s a series.
    """
    import ruptures

    def found(series: Any) -> list[int]:
        if len(series) < 6:
            return []
        # Of white noise the median absolute difference of neighbours is 0.954 σ.
        sigma = float(np.median(np.abs(np.diff(series)))) / 0.954
        if sigma == 0:
            return []
        fitted = ruptures.KernelCPD(kernel="linear", min_size=2).fit(np.asarray(series).reshape(-1, 1) / sigma)
        return list(fitted.predict(pen=penalty * np.log(len(series))))[:-1]

    return found


def e_divisive(chance: float = E_DIVISIVE_CHANCE) -> Detector:
    """Return E-divisive on means with a t test in place of permutations (arXiv:2301.03034), weak points dropped again."""
    from scipy.stats import ttest_ind_from_stats

    def p_value(left: Any, right: Any) -> float:
        return float(
            ttest_ind_from_stats(
                left.mean(), left.std(ddof=1), len(left), right.mean(), right.std(ddof=1), len(right)
            ).pvalue
        )

    def split(series: Any) -> int | None:
        best, place = 0.0, None
        for k in range(2, len(series) - 1):
            left, right = series[:k], series[k:]
            between = np.abs(left[:, None] - right[None, :]).mean()
            inside = np.abs(left[:, None] - left).sum() / (k * (k - 1)) + np.abs(right[:, None] - right).sum() / (
                len(right) * (len(right) - 1)
            )
            score = len(left) * len(right) / len(series) * (2 * between - inside)
            if score > best:
                best, place = score, k
        return place

    def candidates(series: Any, offset: int) -> list[int]:
        if len(series) < 6:
            return []
        place = split(series)
        if place is None or p_value(series[:place], series[place:]) > 10 * chance:
            return []
        return [*candidates(series[:place], offset), offset + place, *candidates(series[place:], offset + place)]

    def found(series: Any) -> list[int]:
        points = candidates(np.asarray(series), 0)
        while points:
            edges = [0, *points, len(series)]
            chances = [
                p_value(series[a:b], series[b:c])
                for (a, b), (_, c) in zip(pairwise(edges), pairwise(edges[1:]), strict=False)
            ]
            worst = int(np.argmax(chances))
            if chances[worst] <= chance:
                return points
            del points[worst]
        return []

    return found


def raised_nights(detector: Detector, series: Sequence[float], first_night: int) -> list[tuple[int, int]]:
    """Return (night of telling, first night of the level) for a detector that is asked anew every night.

    A step within three nights of one that was told already is the same one.
    """
    told: list[tuple[int, int]] = []
    for night in range(first_night, len(series)):
        for start in detector(np.asarray(series[: night + 1])):
            if not any(abs(start - known) <= 3 for _, known in told):
                told.append((night, start))
    return told
