"""The stated 95 % with the stopping rule switched on: simulated cases whose population median is known exactly."""

from __future__ import annotations

from collections import Counter

import pytest
from scipy.stats import binom

from plugin.samples.series import MedianInterval
from plugin.samples.stats import estimate_median
from plugin.simulate.simulated_timer import SimulatedTimer

TRUE_S = 1e-3
NOISES = {
    "independent": "noise=0.02",
    "independent-wide": "noise=0.05",
    "student-t3": "noise=0.02,kind=student",
    "spikes-8%": "noise=0.02,kind=spikes",
    "ar1-0.5": "noise=0.02,correlation=0.5",
    "ar1-0.8": "noise=0.02,correlation=0.8",
    "ou-8-samples": "noise=0.02,correlation=0.882",
}
LOWEST, HIGHEST = 0.93, 0.97


def one_case(text, number, target, budget_s, true_s=TRUE_S):
    timer = SimulatedTimer.from_text(f"{text},true_s={true_s}")
    timer.begin_case(f"case {number}", None)
    rule = MedianInterval(target_ratio=target, max_seconds=budget_s)
    samples, reason = [], None
    while reason is None:
        samples.append(timer.sample(None, [()]))
        reason = rule.reason_to_stop(samples, timer.now())
    return estimate_median(samples), reason


def coverage(text, target, budget_s, cases):
    """Return the cases covered and those that got an interval; nearly all do."""
    reasons = Counter()
    hits = given = 0
    for number in range(cases):
        interval, reason = one_case(text, number, target, budget_s)
        reasons[reason] += 1
        if interval.low_s is not None:
            given += 1
            hits += interval.low_s <= TRUE_S <= interval.high_s
    assert given >= 0.9 * cases
    return hits, given, reasons


@pytest.mark.parametrize(
    ("noise", "target"),
    [("independent", 0.005), ("spikes-8%", 0.005), ("ar1-0.8", 0.02), *(
        pytest.param(*case, marks=pytest.mark.full)
        for case in (("independent-wide", 0.01), ("student-t3", 0.01), ("ar1-0.5", 0.01), ("ar1-0.8", 0.01))
     )],
)  # fmt: skip
def test_interval_covers_the_truth_with_the_stopping_rule_on(noise, target):
    cases = 200
    hits, given, reasons = coverage(NOISES[noise], target, 0.7, cases)
    assert given == cases
    # One in a thousand correct implementations at either bound would fail here.
    assert binom.ppf(0.001, cases, LOWEST) <= hits <= binom.ppf(0.999, cases, HIGHEST)
    assert reasons["converged"] > 0.9 * cases


def test_interval_that_ignores_autocorrelation_would_not_cover():
    """The test above can fail: order statistics under independence miss the truth four times in ten here."""
    hits = 0
    for number in range(100):
        interval, _ = one_case(NOISES["ar1-0.8"], number, 0.01, 0.7)
        half_s = (interval.high_s - interval.low_s) / 2 / 2.45  # √6: what one sample in six is worth
        hits += abs(interval.median_s - TRUE_S) <= half_s
    assert hits < 80


def test_series_ended_by_its_budget_is_covered_as_well():
    hits, given, reasons = coverage(NOISES["ar1-0.8"], 0.001, 0.2, 200)
    assert reasons["budget"] > 190
    assert binom.ppf(0.001, given, LOWEST) <= hits <= binom.ppf(0.999, given, HIGHEST)


@pytest.mark.full
@pytest.mark.parametrize("budget_s", [0.2, 0.7, 3.0])
@pytest.mark.parametrize("target", [0.005, 0.01, 0.02])
@pytest.mark.parametrize("noise", NOISES)
def test_a_thousand_cases_are_covered(noise, target, budget_s):
    hits, given, _ = coverage(NOISES[noise], target, budget_s, 1000)
    assert LOWEST <= hits / given <= HIGHEST
