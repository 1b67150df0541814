from __future__ import annotations

import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugin.stats import drift_ratio, median_interval_ranks, quantile, summarize


def binomial_coverage(count: int, low: int, high: int) -> float:
    """P(x(low) <= median < x(high)) with 0-based ranks: between low+1 and high samples lie below the median."""
    return sum(math.comb(count, k) for k in range(low + 1, high + 1)) / 2**count


def test_interval_needs_six_samples():
    # 5 samples bracket the median with 1 - 2/32 = 93.75 %, 6 with 1 - 2/64 = 96.875 %
    assert median_interval_ranks(5) is None
    assert median_interval_ranks(6) == (0, 5)


@pytest.mark.parametrize("count", [6, 7, 12, 25, 100, 999])
def test_interval_is_the_narrowest_symmetric_one_with_the_stated_coverage(count):
    low, high = median_interval_ranks(count)
    assert low + high == count - 1
    assert binomial_coverage(count, low, high) >= 0.95
    assert binomial_coverage(count, low + 1, high - 1) < 0.95


def test_interval_of_a_large_series_stays_finite():
    low, high = median_interval_ranks(10_000)
    # normal approximation: 5000 ± 1.96 · 50
    assert low == pytest.approx(4901, abs=2)
    assert high == pytest.approx(5098, abs=2)


def test_interval_covers_the_true_median_of_skewed_noise():
    rng = random.Random(7)
    hits = 0
    for _ in range(2000):
        stats = summarize([rng.lognormvariate(0, 0.5) for _ in range(40)])
        hits += stats.ci_low_s <= 1.0 <= stats.ci_high_s
    assert 0.94 <= hits / 2000 <= 0.985


def test_summary_by_hand():
    stats = summarize([4.0, 1.0, 3.0, 2.0])
    assert (stats.count, stats.median_s, stats.min_s, stats.max_s, stats.mean_s) == (4, 2.5, 1.0, 4.0, 2.5)
    assert (stats.q1_s, stats.q3_s) == (1.75, 3.25)
    assert stats.std_s == pytest.approx(math.sqrt(5 / 3))
    assert stats.half_width_ratio is None


def test_one_sample_has_no_spread_and_none_is_an_error():
    assert summarize([1.0]).std_s is None
    with pytest.raises(ValueError, match="no samples"):
        summarize([])


@given(st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=60))
def test_quantiles_are_ordered_and_inside_the_range(values):
    ordered = sorted(values)
    marks = [quantile(ordered, share) for share in (0.0, 0.25, 0.5, 0.75, 1.0)]
    assert marks[0] == ordered[0]
    assert marks[-1] == ordered[-1]
    assert all(a <= b * (1 + 1e-12) for a, b in itertools.pairwise(marks))


def test_drift_is_the_change_of_the_median_from_first_to_last_third():
    assert drift_ratio([1.0] * 4 + [9.0] * 4 + [1.5] * 4) == pytest.approx(0.5)
    assert drift_ratio([1.0] * 11) is None
