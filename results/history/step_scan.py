"""Every night, every number of newest nights: how far their mean is from the nights before. Arrays, all at once. Pure.

For each night t and each window k: the mean of the nights t−k+1 … t against all nights before them (of one level), as a
t statistic. A series in which nights resemble their neighbours (it wanders) says less per night: for it the threshold
is stricter, means of long windows are taken to be as uncertain as their autocorrelation makes them, and the newest
nights must also differ from the nights *just* before, because a step is sudden and a wander is not.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

WINDOWS = (2, 3, 4, 5, 6, 8, 10, 13, 16, 20, 25, 32, 40, 50, 64)
"""Numbers of newest nights that are held against the nights before: one night alone is never a step."""
_LONG = 5
"""From this window on autocorrelation is counted: shorter ones are compared with the nights just before instead."""
_POOLED = 6
"""From this window on the new nights' own spread is part of the variance."""

CHANCE = {2: 1.4e-3, 3: 5e-4, 4: 8e-4}
LONG_CHANCE = 1e-5
"""How often a window of white normal noise may pass the t test alone (two-sided); other tests follow it. Chosen by
simulation (docs/reference/history.md, decision 14): as large as leaves at most 1 false step in 100 unchanged series of
60 nights and 3 in 50 of 200. Two nights in a row get most of it: they are what wakes somebody.
"""
DOUBTFUL_SHARE = 0.1
"""Share of those chances for a series that wanders, or has heavy tails, or is too young to tell."""
YOUNG_NIGHTS = 30
"""Below this many earlier nights nobody can tell whether a series wanders."""
LEAST_NIGHTS_FOR = {2: 40, 3: 30, 4: 20}
"""Window → earlier nights that it takes before so few nights may be a step: until then nobody knows whether nights far
off, or a second state of the machine, are usual here.
"""
LEAST_BEFORE = 8
_LEAST_AFTER_STEP = 3
"""Earlier nights of a level that follows others, whose spread is known."""
_LEAST_KNOWN_DF = 8

LEAST_SD, LEAST_LONG_SD = 1.5, 1.8
"""A step is at least this many standard deviations of the nights; slower and smaller movement is the drift test's."""
_WANDER_SD, _WANDER_LONG_SD = 2.3, 2.5
LOCAL_NIGHTS = 8
_LOCAL_SHARE = 0.8
_MOST_LAGS = 16
_WANDER_SUM, _WANDER_FIRST = 1.4, 2.2
"""Nights wander where the summed autocorrelation of four nights, or that of neighbours, exceeds this × its standard
error.
"""
_MOST_DF = 1200
_OUT_OF_REACH = 1e9


@dataclass(frozen=True, slots=True)
class Scan:
    """Test statistics for night t (rows) and window k (columns, `WINDOWS`). Arrays of one shape."""

    is_hit: NDArray[Any]
    difference: NDArray[Any]
    """Mean of the window minus mean of the nights before."""
    error: NDArray[Any]
    """Standard error of the difference."""
    spread: NDArray[Any]
    """Standard deviation of one night."""
    df: NDArray[Any]
    unexplained: NDArray[Any]
    """Sum of squares around the two means."""


def critical(chances: tuple[float, ...], df: NDArray[Any]) -> NDArray[Any]:
    """Return the two-sided quantile of Student's t for each window's chance (columns) and `df`; out of reach below
    4.
    """
    import numpy as np

    table = _critical_table(chances)
    return np.asarray(table[np.minimum(df, _MOST_DF - 1), np.arange(table.shape[1])])


@lru_cache(maxsize=8)
def _critical_table(chances: tuple[float, ...]) -> NDArray[Any]:
    import numpy as np
    from scipy.special import stdtrit

    df = np.arange(_MOST_DF)
    columns = [np.where(df >= 4, stdtrit(np.maximum(df, 4), 1 - chance / 2), _OUT_OF_REACH) for chance in chances]
    return np.stack(columns, axis=1)


def window_chances(share: float = 1.0) -> tuple[float, ...]:
    """Return the chance of each window of `WINDOWS`, times `share`."""
    return tuple(share * CHANCE.get(window, LONG_CHANCE) for window in WINDOWS)


def scan(values: NDArray[Any], *, first_index: int, earlier_squares: float, earlier_df: int, least: float) -> Scan:
    """Return where the newest nights leave the level of the nights before. `values`: one level, outliers drawn in.

    Nights before `first_index` are looked at as history only. `earlier_squares`, `earlier_df`: the sum of squares and
    degrees of freedom of the levels before this one. `least`: the smallest difference that counts, in the series' unit.
    """
    import numpy as np

    count = len(values)
    sums, squares = _running(values), _running(values**2)
    ends = np.arange(count)[:, None]
    windows = np.array(WINDOWS)[None, :]
    counts_before = ends + 1 - windows
    enough = counts_before >= (_LEAST_AFTER_STEP if earlier_df >= _LEAST_KNOWN_DF else LEAST_BEFORE)
    counts_before = np.maximum(counts_before, 2)
    at = np.minimum(counts_before, count)
    sum_before, sum_after = sums[at], sums[1:][:, None] - sums[at]
    mean_after = sum_after / windows
    difference = mean_after - sum_before / counts_before
    squares_before = np.maximum(squares[at] - sum_before**2 / counts_before, 0.0)
    squares_after = np.maximum(squares[1:][:, None] - squares[at] - sum_after**2 / windows, 0.0)
    pooled = windows >= _POOLED
    df = counts_before - 1 + np.where(pooled, windows - 1, 0) + earlier_df
    variance = (squares_before + np.where(pooled, squares_after, 0.0) + earlier_squares) / df
    wander = _Wander.of(values, sums, squares)
    wanders = wander.is_seen[at] | (counts_before + earlier_df < YOUNG_NIGHTS)
    grown, grown_before = wander.growth(at)
    # A wandering level's nights lie closer together than they scatter in the long run.
    spread = np.sqrt(variance / np.maximum(1 - np.minimum(grown_before / counts_before, 0.8) + 1 / counts_before, 0.2))
    error = spread * np.sqrt(grown / windows + grown_before / counts_before)
    limit = np.where(
        wanders, critical(window_chances(DOUBTFUL_SHARE), df), critical(window_chances(), df)
    )  # of |difference| / error
    is_long = windows > _LONG
    smallest = np.where(
        wanders, np.where(is_long, _WANDER_LONG_SD, _WANDER_SD), np.where(is_long, LEAST_LONG_SD, LEAST_SD)
    )
    size = np.abs(difference)
    hit = enough & (ends >= first_index) & (size > limit * error) & (size >= least) & (size >= smallest * spread)
    hit &= counts_before + earlier_df >= np.array([LEAST_NIGHTS_FOR.get(window, 0) for window in WINDOWS])
    # The same against the nights just before.
    near = np.minimum(np.maximum(LOCAL_NIGHTS, windows), counts_before)
    local = mean_after - (sums[at] - sums[np.maximum(at - near, 0)]) / near
    local_size = np.where(np.sign(local) == np.sign(difference), np.abs(local), 0.0)
    local_limit = limit * spread * np.sqrt(1 / windows + 1 / near)
    hit &= ~wanders | ((local_size > local_limit) & (~is_long | (local_size > _WANDER_LONG_SD * spread)))
    hit &= (windows < _LONG) | (local_size > _LOCAL_SHARE * local_limit)
    return Scan(hit, difference, error, spread, df, squares_before + squares_after)


def _running(values: NDArray[Any]) -> NDArray[Any]:
    import numpy as np

    return np.concatenate([[0.0], np.cumsum(values)])


@dataclass(frozen=True, slots=True)
class _Wander:
    """Autocorrelation of the nights, for every number of first nights of a level."""

    is_seen: NDArray[Any]
    """(nights + 1): whether the autocorrelation of so many first nights is more than chance."""
    correlation: NDArray[Any]
    """(nights + 1, lags): its estimate where it is seen, else 0; corrected by 1/n for the mean that was taken out."""

    @classmethod
    def of(cls, values: NDArray[Any], sums: NDArray[Any], squares: NDArray[Any]) -> _Wander:
        import numpy as np

        count = len(values)
        nights = np.arange(count + 1)
        divisor = np.maximum(nights, 1)
        mean = sums / divisor
        variance = np.maximum(squares / divisor - mean**2, 1e-300)
        zeros = np.zeros((count + 1, _MOST_LAGS))
        for lag in range(1, min(_MOST_LAGS, count // 4) + 1):
            products = _running(values[lag:] * values[:-lag])
            pairs = np.maximum(nights - lag, 0)
            ends = sums[pairs] + sums - sums[np.minimum(lag, nights)]
            covariance = (products[pairs] - mean * ends + pairs * mean**2) / divisor
            zeros[:, lag - 1] = np.where(nights >= 4 * lag, covariance / variance + 1 / divisor, 0.0)
        scaled = np.sqrt(divisor)
        is_wandering = (zeros[:, :4].sum(axis=1) / 2 * scaled > _WANDER_SUM) | (zeros[:, 0] * scaled > _WANDER_FIRST)
        is_wandering &= nights >= LEAST_BEFORE
        return cls(is_wandering, np.where(is_wandering[:, None], zeros, 0.0))

    def growth(self, at: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return by what the variance of a window's mean, and of the mean before it, exceeds that of white noise.

        1 + 2 Σ (1 − j/k) r_j (the variance of a mean of autocorrelated numbers), at least 1; 1 for short windows.
        """
        import numpy as np

        lags = np.arange(1, _MOST_LAGS + 1)
        windows = np.array(WINDOWS)
        nights = np.maximum(np.arange(len(self.correlation)), 1)
        of_window = 1 + 2 * self.correlation @ np.maximum(1 - lags[:, None] / windows, 0.0)
        of_before = 1 + 2 * (self.correlation * np.maximum(1 - lags / nights[:, None], 0.0)).sum(axis=1)
        is_long = (windows >= _LONG)[None, :]
        grown = np.where(is_long, np.maximum(of_window, 1.0)[at, np.arange(len(windows))], 1.0)
        return grown, np.where(is_long, np.maximum(of_before, 1.0)[at], 1.0)
