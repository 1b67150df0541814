"""The statistics of a diff over whole arrays of cases: what changed by more than noise. Pure; numpy, scipy lazily.

The unit is the process median, on the logarithmic scale. Per case: d = mean(after) − mean(before); its standard error
is the **noise floor**, the standard deviation of the difference of the two sides' estimates, s · √(1/n_before +
1/n_after); s² joins the spread inside both sides with the stored A/A variance and is drawn towards the suite's other
cases (`results.statistics.shrinkage`). t = d / floor against Student's t, one-sided in each direction, and
Benjamini–Hochberg over the suite for each direction: of the cases called SLOWER, and of those called FASTER, at most
the stated share is expected to be wrong.

A case may be far noisier than the suite (two states, one of them rare). Then the prior must not talk it down: it is
given less weight the less likely so large a variance is under it. Idea: B. Phipson et al., *Robust hyperparameter
estimation protects against hypervariable genes …*, Ann. Appl. Stat. 10 (2016) 946, §3; here with the tail probability
itself as the weight.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np
import numpy.typing as npt

from results.statistics.replication import LATER
from results.statistics.shrinkage import Variance, VariancePrior, fit_prior, log_ratio

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

CONFIDENCE = 0.95
POWER = 0.8
"""How often a step of the smallest visible size is seen."""
FLOOR_MULTIPLE = 2.0
"""The minimum effect is at least this many noise floors."""
RANK_LEVEL = 0.05
"""One-sided level of the rank test that cross-checks a significant change; applied where this p can be reached at
all.
"""
LEAST_PROCESSES = 2
"""A side with fewer is one observation: whether the kernel or the process was slow, it cannot tell."""
HYPERVARIABLE_LEVEL = 0.05
"""A variance in this upper tail of the prior begins to free itself from it."""


@dataclass(frozen=True, slots=True)
class Samples:
    """The logarithms of both sides, summed up per case; arrays over the cases."""

    change_log: Floats
    """Mean of the newer side minus mean of the older one."""
    before_count: Floats
    after_count: Floats
    """Processes."""
    squares: Floats
    """Sum of the squared deviations from the own side's mean."""

    @classmethod
    def of(cls, sides: Sequence[tuple[Sequence[float], Sequence[float]]]) -> Samples:
        """Return the sums of (logarithms before, logarithms after) per case; neither may be empty."""
        means = np.array([(fmean(before), fmean(after)) for before, after in sides])
        squares = [
            math.fsum((value - middle) ** 2 for side, middle in zip(pair, both, strict=True) for value in side)
            for pair, both in zip(sides, means.tolist(), strict=True)
        ]
        counts = np.array([(len(before), len(after)) for before, after in sides], dtype=float)
        return cls(means[:, 1] - means[:, 0], counts[:, 0], counts[:, 1], np.array(squares))

    @property
    def df(self) -> Floats:
        """Degrees of freedom inside the sides."""
        return self.before_count + self.after_count - 2

    @property
    def variance(self) -> Floats:
        """Variance inside the sides; 0 where there are no degrees of freedom."""
        return np.divide(self.squares, self.df, out=np.zeros_like(self.squares), where=self.df > 0)


@dataclass(frozen=True, slots=True)
class Spread:
    """Variance of the cases between processes, arrays over the cases. df 0: unknown."""

    variance: Floats
    df: Floats
    spans_runs: Flags
    """Whether some of it was seen across several runs: then it knows how a machine moves from run to run."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Statistical tests of the times; arrays over the cases, NaN where the noise is unknown."""

    change_log: Floats
    """ln(after / before); positive is slower."""
    floor_log: Floats
    """The noise floor: standard error of `change_log`."""
    df: Floats
    low_log: Floats
    high_log: Floats
    """The 95 % interval of the change of one case by itself."""
    slower_p: Floats
    faster_p: Floats
    slower_q: Floats
    faster_q: Floats
    """Benjamini–Hochberg adjusted over the suite, each direction by itself."""
    min_effect_log: Floats
    """The user's, or twice the floor where that is more."""
    smallest_step_log: Floats
    """The slow-down of one case alone that this diff sees with 80 %."""


def pooled_spread(
    samples: Samples,
    floor_variance: Floats | float = 0.0,
    floor_df: Floats | float = 0.0,
    *,
    spans_runs: Flags | bool,
    sampling_variance: Floats | float = 0.0,
    effective_count: float | None = None,
) -> Spread:
    """Return the variance between processes per case: own and stored knowledge joined, drawn to the suite's.

    `floor_*`: stored A/A data (df 0: none), raised to today's noise and never lowered. `sampling_variance`: what the
    samples inside a process explain, a lower bound. `effective_count`: independent cases the suite is worth; None: all
    of them.
    """
    own_df = samples.df
    floor_df = np.broadcast_to(np.asarray(floor_df, dtype=float), own_df.shape)
    floor_variance = np.where(floor_df > 0, floor_variance, 0.0)
    floor_variance = floor_variance * _noise_today(samples, floor_variance, floor_df)
    df = own_df + floor_df
    has_df = df > 0
    squares = samples.squares + floor_variance * floor_df
    variance = np.divide(squares, df, out=np.zeros_like(squares), where=has_df)
    population = [
        Variance(float(value), float(value_df)) for value, value_df in zip(variance[has_df], df[has_df], strict=True)
    ]
    count = len(population) if effective_count is None else min(effective_count, len(population))
    prior = fit_prior(population)
    if prior is not None:
        most = fmean(group.df for group in population) * np.where(has_df, max(count - 1.0, 0.0), count)
        variance, df = _drawn(variance, df, prior, most)
    variance = np.where(df > 0, np.maximum(variance, sampling_variance), variance)
    return Spread(variance, df, np.broadcast_to(np.asarray(spans_runs), df.shape))


def evidence(
    samples: Samples,
    spread: Spread,
    *,
    min_effect_ratio: Floats | float,
    false_discovery_ratio: float,
    shared_variance: Floats | float = 0.0,
) -> Evidence:
    """Return the tests of the changes of a suite's cases; NaN for cases of unknown spread (df 0).

    A spread of 0 (a simulated device) makes every change certain. `shared_variance`: of the change, by what moves all
    cases of a run together (`run_movement`).
    """
    from scipy.special import ndtri, stdtr, stdtrit

    has_df, change_log = spread.df > 0, samples.change_log
    df = np.where(has_df, np.minimum(spread.df, 1e9), np.nan)  # infinite: normal
    later = np.where(spread.spans_runs, 1.0, LATER)
    share = 1 / samples.before_count + 1 / samples.after_count
    floor = np.where(has_df, np.sqrt(spread.variance * share * later**2 + shared_variance), np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(has_df & (change_log == 0), 0.0, change_log / floor)
    slower_p, faster_p = stdtr(df, -t), stdtr(df, t)
    half = stdtrit(df, (1 + CONFIDENCE) / 2) * floor
    min_effect = np.fmax(np.log1p(min_effect_ratio), FLOOR_MULTIPLE * floor)
    # One slow case in a suite is found at q over the number of cases; it must also reach the minimum effect.
    case_count = max(int(np.count_nonzero(has_df)), 1)
    threshold = stdtrit(df, 1 - false_discovery_ratio / case_count) * floor
    step = np.fmax(threshold, min_effect) + float(ndtri(POWER)) * floor
    return Evidence(
        change_log=change_log,
        floor_log=floor,
        df=df,
        low_log=change_log - half,
        high_log=change_log + half,
        slower_p=slower_p,
        faster_p=faster_p,
        slower_q=adjusted(slower_p),
        faster_q=adjusted(faster_p),
        min_effect_log=min_effect,
        smallest_step_log=step,
    )


def adjusted(p_values: Floats) -> Floats:
    """Return the Benjamini–Hochberg adjusted p of a family; NaN stays NaN and is no member."""
    from scipy.stats import false_discovery_control

    is_finite = np.isfinite(p_values)
    adjusted_p = np.full_like(p_values, np.nan)
    if is_finite.any():
        adjusted_p[is_finite] = false_discovery_control(p_values[is_finite])
    return adjusted_p


def ratio_of(log: float | None) -> float | None:
    """Return the change as (after − before) / before; None where it is not known."""
    return (
        None if log is None or not math.isfinite(log) else math.expm1(min(log, 300.0))
    )  # exp() of more is not a number


def rank_p_value(lower: Sequence[float], higher: Sequence[float]) -> float | None:
    """Return the one-sided p of the rank test that `higher` is the greater; None where it could not reach `RANK_LEVEL`.

    Exact (Mann–Whitney) without ties, scipy's permutation-free normal form with them.
    """
    if 1 / math.comb(len(lower) + len(higher), len(lower)) > RANK_LEVEL:
        return None
    from scipy.stats import mannwhitneyu

    return float(mannwhitneyu(higher, lower, alternative="greater", method="auto").pvalue)


def is_replicated(before_count: int, after_count: int) -> bool:
    """Return whether the order of the processes can show a change: three against three, two against five, never one
    alone.

    Without that, heavy tails decide: in 200 unchanged cases with Student-t(3) noise five processes against one called a
    case SLOWER in 41 % of suites (2026-11-22), three against three in none.
    """
    can_rank = 1 / math.comb(before_count + after_count, before_count) <= RANK_LEVEL
    return can_rank and min(before_count, after_count) >= LEAST_PROCESSES


def _noise_today(samples: Samples, floor_variance: Floats, floor_df: Floats) -> float:
    """Return how much noisier both sides are than the stored floors say, over the cases that have both; never below
    1.
    """
    own_variance, own_df = samples.variance, samples.df
    both = (own_df > 0) & (floor_df > 0)
    columns = [values[both].tolist() for values in (own_variance, own_df, floor_variance, floor_df)]
    pairs = [
        (Variance(own_value, own_value_df), Variance(floor, floor_value_df))
        for own_value, own_value_df, floor, floor_value_df in zip(*columns, strict=True)
    ]
    return math.exp(max(0.0, log_ratio(pairs) or 0.0))


def _drawn(variance: Floats, df: Floats, prior: VariancePrior, most_df: Floats) -> tuple[Floats, Floats]:
    """Return variance and df after the prior, whose weight a hypervariable case reduces."""
    from scipy.special import fdtrc

    prior_df = np.minimum(prior.df, most_df)
    safe_df = np.maximum(df, 1e-9)
    tail: Any = fdtrc(safe_df, np.minimum(np.maximum(prior_df, 1e-9), 1e9), variance / prior.scale)
    prior_df = np.where(df > 0, prior_df * np.minimum(1.0, tail / HYPERVARIABLE_LEVEL), prior_df)
    total = df + prior_df
    drawn = np.divide(variance * df + prior.scale * prior_df, total, out=np.zeros_like(variance), where=total > 0)
    return drawn, total
