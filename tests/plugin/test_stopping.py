from __future__ import annotations

import random

from plugin.stats import summarize
from plugin.stopping import MedianInterval


def test_tight_series_converges_at_the_first_look():
    rule = MedianInterval(target_ratio=0.01, max_seconds=10)
    samples = [1.0] * 11
    assert rule.reason_to_stop(samples, 0.1) is None
    assert rule.reason_to_stop([*samples, 1.0], 0.1) == "converged"


def test_noisy_series_ends_with_its_budget():
    rng = random.Random(1)
    rule = MedianInterval(target_ratio=0.001, max_seconds=1.0)
    samples = []
    reason = None
    while reason is None:
        samples.append(rng.lognormvariate(0, 0.4))
        reason = rule.reason_to_stop(samples, len(samples) * 0.01)
    assert reason == "budget"
    assert len(samples) == 100


def test_budget_waits_for_three_samples_of_a_slow_kernel():
    rule = MedianInterval(max_seconds=1.0)
    assert rule.reason_to_stop([], 50.0) is None
    assert rule.reason_to_stop([30.0], 30.0) is None
    assert rule.reason_to_stop([30.0, 30.0], 60.0) is None
    assert rule.reason_to_stop([30.0, 30.0, 30.0], 90.0) == "budget"


def test_it_looks_only_when_the_series_has_grown_by_a_quarter():
    rule = MedianInterval(target_ratio=1e-9, max_seconds=1e9, max_samples=10**6)
    looks = 0
    samples = []
    for n in range(1, 1000):
        samples.append(float(n))
        before = rule.next_look
        assert rule.reason_to_stop(samples, 0.0) is None
        looks += rule.next_look != before
    assert 15 <= looks <= 25  # log(1000/12) / log(1.25) ≈ 20


def test_count_is_limited():
    rule = MedianInterval(target_ratio=1e-9, max_seconds=1e9, max_samples=20)
    assert rule.reason_to_stop([1.0, 2.0] * 10, 0.0) == "max-samples"


def test_stated_coverage_survives_the_stop_rule():
    """Looking repeatedly must not break the 95 %: true median 1, stopped at ±5 %."""
    rng = random.Random(3)
    hits = 0
    for _ in range(600):
        rule = MedianInterval(target_ratio=0.05, max_seconds=1e9, max_samples=5000)
        samples = []
        while rule.reason_to_stop(samples, 0.0) is None:
            samples.append(rng.lognormvariate(0, 0.2))
        stats = summarize(samples)
        hits += stats.ci_low_s <= 1.0 <= stats.ci_high_s
    assert hits / 600 >= 0.91
