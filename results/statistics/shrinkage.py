"""Few observations of many variances: each is drawn towards what all of them have in common. Pure; scipy lazily.

The variance of three numbers is nearly unknown (its t quantile is 4.3 instead of 2), but a suite has dozens of cases on
one machine. The moderated t of G. K. Smyth, *Linear models and empirical Bayes methods for assessing differential
expression in microarray experiments*, Stat. Appl. Genet. Mol. Biol. 3 (2004), art. 3, §6: variances come from a scaled
inverse χ² distribution, whose scale and degrees of freedom are fitted to the moments of their logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import fmean, median

_LEAST_SHARE = 1e-3
"""A variance below this share of the median one (a coarse clock gives exact zeros) counts as this share in the fit."""


@dataclass(frozen=True, slots=True)
class Variance:
    """A variance and the degrees of freedom it was estimated with."""

    value: float
    df: float

    def drawn_to(self, prior: VariancePrior | None) -> Variance:
        """Return the posterior variance: the mean of both, weighted by their degrees of freedom."""
        if prior is None or prior.df == 0:
            return self
        if math.isinf(prior.df):
            return Variance(prior.scale, math.inf)
        df = self.df + prior.df
        return Variance((self.df * self.value + prior.df * prior.scale) / df, df)


@dataclass(frozen=True, slots=True)
class VariancePrior:
    """Prior of a variance of this population: scale and degrees of freedom."""

    scale: float
    df: float
    """Infinite: all variances of the population are the same as far as one can see; near 0: they have nothing in
    common.
    """

    def capped(self, most_df: float) -> VariancePrior:
        """Return the prior worth at most `most_df`: no more than the observations it was fitted to."""
        return VariancePrior(self.scale, min(self.df, max(most_df, 0.0)))


def fit_prior(variances: Sequence[Variance]) -> VariancePrior | None:
    """Return the prior of a population of variances; None with fewer than two above zero (nothing to learn from)."""
    positive = [variance.value for variance in variances if variance.value > 0]
    if len(positive) < 2:
        return None
    from scipy.special import digamma

    least = _LEAST_SHARE * median(positive)
    centred = [math.log(max(variance.value, least)) - _log_bias(variance.df) for variance in variances]
    centred = _without_peaks(centred)
    middle = fmean(centred)
    spread = math.fsum((value - middle) ** 2 for value in centred) / (len(centred) - 1)
    excess = spread - fmean(_log_spread(variance.df) for variance in variances)
    if excess <= 0:
        return VariancePrior(math.exp(middle), math.inf)
    half_df = trigamma_inverse(excess)
    return VariancePrior(math.exp(middle + float(digamma(half_df)) - math.log(half_df)), 2 * half_df)


def _without_peaks(logs: list[float]) -> list[float]:
    """Return the logarithms with the far too large ones drawn in: one disturbed case must not cost all others their
    prior.

    Above the median by more than three robust standard deviations; an undisturbed variance is never there, its
    logarithm has a long tail on the other side only.
    """
    middle = median(logs)
    most = middle + 3 * 1.4826 * median(abs(log - middle) for log in logs)
    return [min(log, most) for log in logs] if most > middle else logs


def log_ratio(variances: Sequence[tuple[Variance, Variance]]) -> float | None:
    """Return the mean of ln(first / second) over pairs, free of the bias of a logarithm; None without two positive
    ones.
    """
    logs = [
        (math.log(numerator.value) - _log_bias(numerator.df)) - (math.log(other.value) - _log_bias(other.df))
        for numerator, other in variances
        if numerator.value > 0 and other.value > 0
    ]
    return fmean(logs) if logs else None


def trigamma_inverse(value: float) -> float:
    """Return y with trigamma(y) = `value` > 0. Source: Smyth (2004), appendix: Newton's method, monotone from below."""
    from scipy.special import polygamma

    if value > 1e7:
        return 1 / math.sqrt(value)
    if value < 1e-6:
        return 1 / value
    y = 0.5 + 1 / value
    for _ in range(50):
        trigamma = float(polygamma(1, y))
        step = trigamma * (1 - trigamma / value) / float(polygamma(2, y))
        y += step
        if -step / y < 1e-8:
            break
    return y


def t_quantile(share: float, df: float) -> float:
    """Return the quantile of Student's t; of the normal distribution for infinite `df`."""
    from scipy.special import ndtri, stdtrit

    return float(ndtri(share) if math.isinf(df) else stdtrit(df, share))


@lru_cache(maxsize=256)
def _log_bias(df: float) -> float:
    """Return the mean of ln(χ²/df): how far the logarithm of an estimated variance is too low on average."""
    from scipy.special import digamma

    return float(digamma(df / 2)) - math.log(df / 2)


@lru_cache(maxsize=256)
def _log_spread(df: float) -> float:
    """Return the variance of ln(χ²/df)."""
    from scipy.special import polygamma

    return float(polygamma(1, df / 2))
