"""The promises of the diff, in a reduced count with bounds that a right implementation misses once in a thousand
runs.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import poisson

from benchmarks import run
from benchmarks.watch import diff_power
from benchmarks.watch.diff_suites import CASE_COUNT, STEADY, TWO_STATES, sample_logs, true_logs

PAIRS = 30


def test_unchanged_suites_raise_no_more_alarms_than_promised(monkeypatch):
    monkeypatch.setattr(diff_power, "POOLED_PAIR_COUNT", 2)
    alarms = diff_power.unchanged(8, PAIRS, seed=1)
    assert len(alarms.stored) == len(alarms.gate) == PAIRS
    # at 0.1 per pair more than this is seen once in a thousand runs
    assert sum(alarms.stored) <= poisson.ppf(0.999, 0.1 * PAIRS)
    assert sum(alarms.alone) <= poisson.ppf(0.999, 0.1 * PAIRS)
    # the rivals are as bad as is said of them
    assert np.mean(np.array(alarms.gate) > 0) > 0.5
    assert np.mean(alarms.pooled) > 0.3 * CASE_COUNT
    lines = diff_power.alarm_figures(alarms, 8)
    assert lines[0].value == sum(alarms.stored) / PAIRS
    assert f"{sum(alarms.stored)} in {PAIRS} pairs" in lines[0].note


@pytest.mark.parametrize(
    ("count", "step", "least"),
    [
        (8, 0.03, 0.85),
        (12, 0.02, 0.62),
    ],  # 95 % and 80 % are promised with --fdr 0.05; of 60 rounds fewer are found once in a thousand runs
)
def test_one_slow_case_is_found_as_often_as_promised(count, step, least):
    detected = diff_power.power(count, count, step, 60, is_stored=True, where=STEADY)
    assert detected.sensitive >= least
    assert detected.ours >= 0.7 * detected.sensitive
    assert detected.gate < 0.4 < detected.pooled


def test_a_case_of_two_states_is_not_called_because_a_quiet_suite_vouches_for_it():
    rng = np.random.default_rng(3)
    false = [
        diff_power.slower(true_logs(rng, 8), true_logs(rng, 8), None, spans_runs=False)[TWO_STATES].sum()
        for _ in range(25)
    ]
    assert sum(false) <= poisson.ppf(0.999, 0.1 * 25)


def test_the_pooled_test_is_mann_whitneys():
    from scipy.stats import mannwhitneyu

    rng = np.random.default_rng(2)
    before, after = (sample_logs(rng, true_logs(rng, 3)[:40]) for _ in range(2))
    left, right = (side.reshape(40, -1) for side in (before, after))
    expected = [
        bool(mannwhitneyu(second, first, alternative="greater", use_continuity=False).pvalue < 0.025)
        for first, second in zip(left, right, strict=True)
    ]
    assert 5 < sum(expected) < 35
    assert diff_power.pooled_slower(before, after).tolist() == expected


def test_bounds_are_the_textbooks():
    assert diff_power.upper_bound(0, 200) == pytest.approx(3.0 / 200, rel=0.01)  # the rule of three
    assert diff_power.lower_bound(1.0, 59) == pytest.approx(0.95, abs=0.001)
    assert diff_power.lower_bound(0.0, 10) == 0.0


def test_the_smallest_step_lies_between_the_steps_tried():
    smallest, tried = diff_power.smallest_step(lambda step: 0.9 if step > 0.0299 else 0.6)
    assert smallest == pytest.approx(0.025 + 0.005 * (0.8 - 0.6) / (0.9 - 0.6))
    assert [step for step, _ in tried] == pytest.approx([0.02, 0.025, 0.03])
    assert diff_power.smallest_step(lambda step: 0.99)[0] == diff_power.STEPS[0]
    assert diff_power.smallest_step(lambda step: 0.1)[0] == float("inf")


def test_it_can_be_asked_for_by_name():
    assert "diff_power" in run.ON_REQUEST
