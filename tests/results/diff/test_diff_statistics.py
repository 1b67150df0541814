"""The arrays behind a verdict: calibration, monotony, limits, and agreement with scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from results.diff.significance.judgement import judge
from results.diff.significance.t_test import (
    Evidence,
    Samples,
    adjusted,
    evidence,
    pooled_spread,
    rank_p_value,
)
from results.statistics.shared_movement import effective_cases, shared_ratio


def samples_of(before: np.ndarray, after: np.ndarray) -> Samples:
    return Samples.of(
        [(list(old_values), list(new_values)) for old_values, new_values in zip(before, after, strict=True)]
    )


def test_one_case_alone_is_students_t_test():
    rng = np.random.default_rng(1)
    before, after = rng.normal(0, 0.01, (1, 6)), rng.normal(0.012, 0.01, (1, 5))
    samples = samples_of(before, after)
    tests = evidence(
        samples, pooled_spread(samples, spans_runs=True), min_effect_ratio=0.01, false_discovery_ratio=0.05
    )
    expected = stats.ttest_ind(after[0], before[0], alternative="greater")
    assert tests.slower_p[0] == pytest.approx(expected.pvalue)
    interval = stats.ttest_ind(after[0], before[0]).confidence_interval(0.95)
    assert (tests.low_log[0], tests.high_log[0]) == pytest.approx((interval.low, interval.high))
    assert tests.faster_p[0] == pytest.approx(1 - expected.pvalue)


def test_p_values_of_unchanged_cases_are_uniform_with_unequal_noise():
    rng = np.random.default_rng(2)
    below = []
    for _ in range(40):
        sd = 0.01 * np.exp(0.3 * rng.standard_normal((200, 1)))
        sides = [sd * rng.standard_normal((200, 4)) for _ in range(2)]
        samples = samples_of(*sides)
        tests = evidence(
            samples, pooled_spread(samples, spans_runs=True), min_effect_ratio=0.01, false_discovery_ratio=0.05
        )
        below.append([(tests.slower_p < level).mean() for level in (0.05, 0.01)])
    shares = np.mean(below, axis=0)  # of 8,000: standard errors 0.24 % and 0.11 %
    assert shares[0] == pytest.approx(0.05, abs=0.012)
    assert shares[1] == pytest.approx(0.01, abs=0.006)


def test_moving_from_run_to_run_is_allowed_for_where_no_data_span_runs():
    samples = Samples(np.array([0.02]), np.array([4.0]), np.array([4.0]), np.array([6e-4]))
    floors = [
        evidence(
            samples, pooled_spread(samples, spans_runs=spans), min_effect_ratio=0.01, false_discovery_ratio=0.05
        ).floor_log[0]
        for spans in (True, False)
    ]
    assert floors[0] == pytest.approx(0.01 * math.sqrt(2 / 4))  # 6e-4 / 6 degrees of freedom = (1 %)²
    assert floors[1] == pytest.approx(1.1 * floors[0])


@given(
    step=st.floats(0, 0.2),
    more=st.floats(0.001, 0.2),
    count=st.integers(2, 12),
    sd=st.floats(1e-4, 0.2),
    cases=st.integers(2, 20),
)
def test_a_larger_step_is_never_less_certain_and_more_noise_never_sees_more(step, more, count, sd, cases):
    squares = np.full(cases, (2 * count - 2) * sd**2)
    counts = np.full(cases, float(count))

    def tested(change: float, noise: float = 1.0):
        samples = Samples(np.full(cases, change), counts, counts, squares * noise**2)
        return evidence(
            samples, pooled_spread(samples, spans_runs=True), min_effect_ratio=0.01, false_discovery_ratio=0.05
        )

    assert tested(step + more).slower_p[0] <= tested(step).slower_p[0]
    assert tested(-step).faster_p[0] == pytest.approx(tested(step).slower_p[0])
    assert tested(0.0, 2.0).smallest_step_log[0] >= tested(0.0).smallest_step_log[0]
    tests = tested(step)
    assert tests.smallest_step_log[0] > tests.min_effect_log[0] >= math.log1p(0.01)
    assert tests.low_log[0] <= step <= tests.high_log[0]


def test_adjusted_p_values_leave_out_what_is_unknown():
    adjusted_p = adjusted(np.array([0.01, math.nan, 0.02, 0.9]))
    assert adjusted_p[[0, 2, 3]] == pytest.approx(stats.false_discovery_control([0.01, 0.02, 0.9]))
    assert math.isnan(adjusted_p[1])
    assert np.isnan(adjusted(np.full(2, math.nan))).all()


def test_the_rank_test_is_silent_where_it_could_never_speak():
    assert rank_p_value([1.0, 2.0], [3.0, 4.0]) is None  # 1/6 at best
    assert rank_p_value([1.0, 2.0, 3.0], [4.0, 5.0, 6.0]) == pytest.approx(0.05)  # 1/20
    assert rank_p_value([4.0, 5.0, 6.0], [1.0, 2.0, 3.0]) == pytest.approx(1.0)


def test_shared_movement_is_recognised():
    rng = np.random.default_rng(4)
    alone, common = rng.standard_normal((300, 8)), rng.standard_normal((1, 8))

    def shared(deviations: np.ndarray) -> float:
        return shared_ratio({(0, ("run", place)): value for place, value in enumerate(row)} for row in deviations)

    assert shared(alone) < 0.1
    assert shared(np.broadcast_to(common, (300, 8))) == pytest.approx(1.0)
    assert 0.3 < shared(math.sqrt(0.5) * alone + math.sqrt(0.5) * common) < 0.75
    assert effective_cases(300, 0.0) == pytest.approx(300)
    assert effective_cases(300, 1.0) == pytest.approx(1)
    assert effective_cases(0, 0.0) == 0


def test_a_hypervariable_case_keeps_its_own_variance_and_an_ordinary_one_is_drawn():
    df = np.full(200, 10.0)
    rng = np.random.default_rng(5)
    variance = 1e-4 * rng.chisquare(10, 200) / 10
    variance[0] = 25e-4
    samples = Samples(np.zeros(200), df / 2 + 1, df / 2 + 1, variance * df)
    spread = pooled_spread(samples, spans_runs=True)
    assert spread.variance[0] == pytest.approx(25e-4, rel=0.05)
    drawn = spread.variance[1:] / 1e-4
    assert drawn.std() < 0.5 * (variance[1:] / 1e-4).std()
    assert drawn.mean() == pytest.approx(1.0, abs=0.15)


def one_case(change: float, floor: float, slower_q: float) -> Evidence:
    array = np.atleast_1d
    return Evidence(
        array(change),
        array(floor),
        array(30.0),
        array(change - 2 * floor),
        array(change + 2 * floor),
        array(slower_q),
        array(1 - slower_q),
        array(slower_q),
        array(1.0),
        array(max(0.01, 2 * floor)),
        array(0.05),
    )


@pytest.mark.parametrize(
    ("change", "floor", "slower_q", "rank_p", "expected"),
    [
        (0.03, 0.005, 0.01, 0.01, ("SLOWER", "significant")),
        (0.03, 0.005, 0.01, None, ("SLOWER", "significant")),
        (0.03, 0.005, 0.01, 0.2, ("AMBIGUOUS", "ranks-disagree")),
        (0.03, 0.005, 0.06, 0.01, ("AMBIGUOUS", "not-significant")),
        (0.009, 0.001, 0.01, 0.01, ("SAME", "below-minimum")),
        (0.009, 0.005, 0.3, 0.3, ("SAME", "no-difference")),
        (0.01, 0.03, 0.4, 0.3, ("AMBIGUOUS", "too-noisy")),
        (0.01, math.nan, math.nan, None, ("AMBIGUOUS", "noise-unknown")),
    ],
)
def test_every_branch_of_the_judgement(change, floor, slower_q, rank_p, expected):
    judgement = judge(
        one_case(change, floor, slower_q),
        false_discovery_ratio=0.05,
        limit_ratio=0.05,
        ranks=lambda index, is_slower: rank_p,
    )
    assert judgement == [expected]
