from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t as student

from plugin.samples.stats import (
    _student_over_normal,
    correlation_time,
    estimate_median,
    independent_half_rank,
    outlier_mask,
    quantile,
    rank_autocorrelation,
    summarize,
)


def ar1(phi, count, seed, noise=0.02):
    rng = np.random.default_rng(seed)
    values = [rng.standard_normal()]
    for step in rng.standard_normal(count - 1) * math.sqrt(1 - phi * phi):
        values.append(phi * values[-1] + step)
    return np.exp(noise * np.array(values))


def test_interval_needs_six_samples():
    # 5 samples bracket the median with 1 - 2/32 = 93.75 %, 6 with 1 - 2/64 = 96.875 %
    assert estimate_median([1.0, 2.0, 3.0, 4.0, 5.0]).low_s is None
    estimate = estimate_median([3.0, 1.0, 4.0, 6.0, 5.0, 2.0])
    assert 1.0 < estimate.low_s < 2.0
    assert 5.0 < estimate.high_s < 6.0
    with pytest.raises(ValueError, match="6 are needed"):
        independent_half_rank(5)


def binomial_coverage(count, low):
    """P(x(low) <= median <= x(count-1-low)) with 0-based ranks."""
    return 1 - 2 * sum(math.comb(count, k) for k in range(low + 1)) / 2**count


@pytest.mark.parametrize("count", [6, 7, 12, 25, 100, 399])
def test_interval_lies_between_the_last_rank_that_holds_and_the_first_that_does_not(count):
    low = (count - 1) / 2 - independent_half_rank(count)
    assert binomial_coverage(count, math.floor(low)) >= 0.95
    assert binomial_coverage(count, math.floor(low) + 1) < 0.95


def test_interpolated_rank_by_hand():
    # Hettmansperger and Sheather, n = 10: ranks 2..9 hold with 97.85 %, 3..8 with 89.06 %;
    # I = (0.9785 - 0.95) / (0.9785 - 0.8906) = 0.3247, weight = 8 I / (2 + 6 I) = 0.658
    assert 4.5 - independent_half_rank(10) == pytest.approx(1 + 0.658, abs=1e-3)


def test_normal_approximation_joins_the_exact_ranks():
    assert independent_half_rank(401) == pytest.approx(independent_half_rank(400), abs=0.1)
    assert independent_half_rank(10_000) == pytest.approx(1.96 * 50, abs=0.01)


def test_independent_samples_are_worth_themselves():
    times = [correlation_time(ar1(0.0, 200, seed)) for seed in range(200)]
    assert np.median(times) == 1.0
    assert np.mean(times) < 1.1


@pytest.mark.parametrize("phi", [0.5, 0.8])
def test_correlation_time_of_an_ar1_process_is_that_of_its_signs(phi):
    # Sign correlation of a Gaussian process: 2/π asin ρ
    true = 1 + 2 * sum(2 / math.pi * math.asin(phi**k) for k in range(1, 200))
    estimated = np.median([correlation_time(ar1(phi, 1000, seed)) for seed in range(60)])
    assert estimated == pytest.approx(true, rel=0.15)
    assert estimate_median(ar1(phi, 1000, 3)).effective_count == pytest.approx(1000 / true, rel=0.4)


def test_slow_noise_under_fast_noise_is_found():
    """Lag 1 alone says little here (0.45): the sum over many lags does."""
    rng = np.random.default_rng(1)
    series = ar1(0.95, 2000, 5, 1.0) ** 0.014 * np.exp(0.014 * rng.standard_normal(2000))
    # 1 + 2 Σ 2/π asin(0.5 · 0.95^k) = 13.6
    assert 7 < correlation_time(series) < 25


def test_equal_times_have_no_autocorrelation_whatever_their_order():
    assert estimate_median([1e-6] * 50).effective_count == 50
    assert rank_autocorrelation(np.ones(20), 1) == 0.0
    ticks = np.random.default_rng(2).integers(0, 2, 400) * 1e-9 + 1e-7
    assert correlation_time(ticks) < 1.5


def test_long_lags_by_fft_agree_with_their_definition():
    series = ar1(0.99, 3000, 1)
    ranks = np.argsort(np.argsort(series)) - (len(series) - 1) / 2
    for lag in (31, 32, 100, 700):
        direct = float(ranks[:-lag] @ ranks[lag:]) / float(ranks @ ranks) * len(series) / (len(series) - lag)
        assert rank_autocorrelation(series, lag) == pytest.approx(direct, abs=1e-9)


def test_a_series_that_only_wanders_has_no_interval():
    walk = 1000.0 + np.cumsum(np.random.default_rng(3).standard_normal(300))
    estimate = estimate_median(walk)
    assert estimate.low_s is None
    assert estimate.half_width_ratio is None
    assert estimate.effective_count < 12


@pytest.mark.parametrize("freedom", [2, 5, 20, 100])
def test_student_quantile_by_expansion(freedom):
    assert _student_over_normal(freedom) == pytest.approx(student.ppf(0.975, freedom) / 1.959964, rel=0.05)


def test_summary_by_hand():
    stats = summarize([4.0, 1.0, 3.0, 2.0])
    assert (stats.sample_count, stats.median_s, stats.min_s, stats.max_s, stats.mean_s) == (4, 2.5, 1.0, 4.0, 2.5)
    assert (stats.q1_s, stats.q3_s) == (1.75, 3.25)
    assert stats.std_s == pytest.approx(math.sqrt(5 / 3))
    assert stats.ci_half_width_ratio is None
    assert (stats.effective_sample_count, stats.outlier_count) == (4.0, 0)


def test_outliers_are_counted_and_kept():
    rng = random.Random(4)
    samples = [1.0 + rng.gauss(0, 0.01) for _ in range(95)] + [3.0] * 5
    stats = summarize(samples)
    assert stats.outlier_count == 5
    assert stats.max_s == 3.0
    assert stats.mean_s == pytest.approx(math.fsum(samples) / 100)


def test_one_odd_nanosecond_among_equal_times_is_no_outlier():
    assert outlier_mask(np.array([1e-6] * 50 + [1.001e-6])).sum() == 0
    assert outlier_mask(np.array([1e-6] * 50 + [1.5e-6])).sum() == 1


def test_one_sample_has_no_spread_and_none_is_an_error():
    assert summarize([1.0]).std_s is None
    with pytest.raises(ValueError, match="no samples"):
        summarize([])


@given(st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=60))
def test_every_summary_is_ordered_and_inside_the_range(values):
    ordered = sorted(values)
    marks = [quantile(ordered, share) for share in (0.0, 0.25, 0.5, 0.75, 1.0)]
    assert marks[0] == ordered[0]
    assert marks[-1] == ordered[-1]
    assert all(a <= b * (1 + 1e-12) for a, b in itertools.pairwise(marks))
    stats = summarize(values)
    assert 0 < stats.effective_sample_count <= len(values)
    if stats.ci_low_s is not None:
        assert stats.ci_low_s <= stats.median_s * (1 + 1e-12)
        assert stats.median_s <= stats.ci_high_s * (1 + 1e-12)
