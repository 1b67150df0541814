from __future__ import annotations

import random

from plugin.samples.series import MedianInterval
from plugin.simulate.simulated_timer import SimulatedTimer


def run(rule, text, limit=100_000):
    timer = SimulatedTimer.from_text(text)
    timer.begin_case("case", None)
    samples = []
    while len(samples) < limit:
        samples.append(timer.sample(None, [()]))
        reason = rule.reason_to_stop(samples, timer.now())
        if reason:
            return reason, samples
    raise AssertionError("the rule never stopped")


def test_tight_cheap_series_converges_at_the_second_look():
    reason, samples = run(MedianInterval(), "noise=0.001,true_s=1e-5")
    assert (reason, len(samples)) == ("converged", 125)  # looks at 100 and a quarter later


def test_tight_costly_series_needs_few_samples():
    reason, samples = run(MedianInterval(), "noise=0.001,true_s=0.02")
    assert (reason, len(samples)) == ("converged", 15)  # looks at 12 (0.24 s) and 15


def test_few_samples_have_to_be_tighter():
    """Twelve samples cannot show that they resemble each other: ±1 % then needs ±0.35 %."""
    rule = MedianInterval(target_ratio=0.01, max_seconds=100)
    samples = [1.0 + 0.0018 * (n * 5 % 12 - 5.5) for n in range(15)]  # ±1 % in all, its median ±0.6 %
    assert rule.reason_to_stop(samples[:12], 12.0) is None
    assert rule.reason_to_stop(samples, 15.0) is None
    assert 0.0035 < rule.half_widths[0] < 0.01
    assert rule.within_target == 0


def test_one_narrow_look_is_not_enough():
    rng = random.Random(1)
    rule = MedianInterval(target_ratio=0.01, max_seconds=1e9)
    quiet = [1.0 + 1e-4 * rng.random() for _ in range(100)]
    assert rule.reason_to_stop(quiet, 1.0) is None
    assert rule.within_target == 1
    wild = quiet + [rng.uniform(0.5, 2.0) for _ in range(900)]
    assert rule.reason_to_stop(wild, 2.0) is None
    assert rule.within_target == 0


def test_noisy_series_ends_with_its_budget():
    reason, samples = run(MedianInterval(target_ratio=0.001, max_seconds=1.0), "noise=0.4,true_s=0.01")
    assert reason == "budget"
    assert 60 < len(samples) < 140


def test_budget_waits_for_three_samples_of_a_slow_kernel():
    rule = MedianInterval(max_seconds=1.0)
    assert rule.reason_to_stop([], 50.0) is None
    assert rule.reason_to_stop([30.0], 30.0) is None
    assert rule.reason_to_stop([30.0, 30.0], 60.0) is None
    assert rule.reason_to_stop([30.0, 30.0, 30.0], 90.0) == "budget"


def test_noise_that_more_samples_do_not_narrow_ends_the_series():
    """A random walk within bounds: the interval stays as wide however long one waits."""
    rule = MedianInterval(target_ratio=0.001, max_seconds=1e9, max_samples=100_000)
    reason, samples = run(rule, "noise=0.03,correlation=0.998,true_s=1e-3")
    assert reason == "noise-stable"
    assert len(samples) < 20_000


def test_independent_noise_is_seldom_called_stable():
    reasons = []
    for seed in range(40):
        rule = MedianInterval(target_ratio=0.002, max_seconds=1e9)
        reasons.append(run(rule, f"noise=0.03,true_s=1e-3,seed={seed}")[0])
    assert reasons.count("converged") >= 37


def test_it_looks_only_when_the_series_has_grown_by_a_quarter():
    rule = MedianInterval(target_ratio=1e-9, max_seconds=1e9, max_samples=10**6)
    looks = 0
    samples = []
    rng = random.Random(5)
    for _ in range(1000):
        samples.append(rng.lognormvariate(0, 0.5))
        before = rule.next_look
        assert rule.reason_to_stop(samples, len(samples) * 1.0) in (None, "noise-stable")
        looks += rule.next_look != before
    assert 15 <= looks <= 25  # log(1000/12) / log(1.25) ≈ 20


def test_count_is_limited():
    rule = MedianInterval(target_ratio=1e-9, max_seconds=1e9, max_samples=20)
    assert rule.reason_to_stop([1.0, 2.0] * 10, 0.0) == "max-samples"
