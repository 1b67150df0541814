"""Errors on rows that were not fitted: folds by site, factors of the interval from the other folds.

A site is one (n, k) of a GEMM or one (heads, kv_heads, head_dim) of attention: rows of a site differ in length only, so
a random split would score a row beside its twin. A site is in one fold, and no row is predicted by constants that saw
it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from roofline_model.core.errors import InvalidValueError
from roofline_model.expected.fitting.fit_set import FitSet, FittedSet, fit_rows

Floats = NDArray[np.float64]

FOLDS = 5
LOW_QUANTILE, HIGH_QUANTILE = 0.093, 0.907
"""Of measured / predicted.

A little wider than 10 and 90 %: quantiles of a sample cover less than 80 % of the next one.
"""
LEAST_ROWS = 20
"""A regime with fewer rows takes the factors of the regime it is a part of, else those of the whole set."""

Factors = Mapping[str, tuple[float, float]]
"""Regime → (low, high) factor on the predicted time; "" is the whole set. `floor/8bit` is a part of `floor`."""


@dataclass(frozen=True, slots=True, eq=False)
class CrossValidated:
    """Predictions of a set's rows by constants that never saw their site; one entry per row of the set."""

    folds: NDArray[np.intp]
    predicted_s: Floats
    low_s: Floats
    high_s: Floats
    regimes: tuple[str, ...]
    fits: tuple[FittedSet, ...]
    """One per fold."""
    factors: Factors
    """From all folds: what constants fitted to all rows are given."""


def site_folds(sites: Sequence[str], fold_count: int = FOLDS, *, seed: int = 0) -> NDArray[np.intp]:
    """Return the fold of each row: all rows of a site in one, folds of about equal size, the same every time.

    Raises `InvalidValueError` with fewer sites than folds.
    """
    names, inverse, counts = np.unique(np.asarray(sites), return_inverse=True, return_counts=True)
    if len(names) < fold_count:
        raise InvalidValueError(
            f"{fold_count} folds need at least {fold_count} different sites, got {len(names)}; "
            "measure more shapes, or fit without cross-validation"
        )
    order = np.random.default_rng(seed).permutation(len(names))
    # Large sites first, each into the smallest fold so far; the shuffle decides between equals.
    order = order[np.argsort(-counts[order], kind="stable")]
    fold_of_site = np.empty(len(names), dtype=np.intp)
    filled = np.zeros(fold_count)
    for site in order:
        fold_of_site[site] = int(filled.argmin())
        filled[fold_of_site[site]] += counts[site]
    return fold_of_site[inverse]


def cross_validate(
    fit_set: FitSet, *, fold_count: int = FOLDS, progress: Callable[[str], None] | None = None
) -> CrossValidated:
    """Fit a set once per fold without that fold's rows, predict them, and give intervals from the other folds."""
    folds = site_folds(fit_set.sites, fold_count)
    predicted = np.empty(len(fit_set))
    regimes = np.empty(len(fit_set), dtype=object)
    fits = []
    for fold in range(fold_count):
        inside, outside = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
        fitted = fit_rows(fit_set, outside)
        predicted[inside] = fit_set.times(fitted, inside)
        regimes[inside] = list(fit_set.regimes_of(fitted.values, predicted[inside], inside))
        fits.append(fitted)
        if progress is not None:
            progress(f"{fit_set.name}, fold {fold + 1} of {fold_count}")
    low, high = np.empty(len(fit_set)), np.empty(len(fit_set))
    ratios = fit_set.measured_s / predicted
    for fold in range(fold_count):
        inside = folds == fold
        factors = interval_factors(ratios[~inside], regimes[~inside].tolist())
        pairs = np.array([factors_of(factors, regime) for regime in regimes[inside]]).reshape(-1, 2)
        low[inside], high[inside] = predicted[inside] * pairs[:, 0], predicted[inside] * pairs[:, 1]
    every = interval_factors(ratios, regimes.tolist())
    return CrossValidated(folds, predicted, low, high, tuple(regimes.tolist()), tuple(fits), every)


def interval_factors(ratios: Floats, regimes: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Return the 80 % factors of measured / predicted: for the whole set (""), and for each regime with enough rows.

    Low is at most 1 and high at least 1, so that the prediction lies inside its own interval.
    """

    def pair(values: Floats) -> tuple[float, float]:
        low, high = np.quantile(values, (LOW_QUANTILE, HIGH_QUANTILE))
        return min(float(low), 1.0), max(float(high), 1.0)

    factors = {"": pair(ratios)}
    for names in (regimes, [name.partition("/")[0] for name in regimes]):
        column = np.asarray(names, dtype=object)
        for name in sorted(set(names)):
            members = ratios[column == name]
            if len(members) >= LEAST_ROWS:
                factors[name] = pair(members)
    return factors


def factors_of(factors: Factors, regime: str) -> tuple[float, float]:
    """Return the factors of a regime: its own, else those of what it is a part of, else those of the whole set."""
    return factors.get(regime) or factors.get(regime.partition("/")[0]) or factors[""]
