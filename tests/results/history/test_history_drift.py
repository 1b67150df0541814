"""Slow movement: found where it is steady and large enough, not in noise, steps or bumps."""

from __future__ import annotations

import numpy as np
import pytest

from results.history.drift import LEAST_NIGHTS, find_trend

RAMP = np.arange(60) / 59


@pytest.mark.parametrize("total", [-5.0, 5.0])
def test_a_steady_drift_is_found_with_its_size(total):
    source = np.random.default_rng(1)
    trends = [find_trend(source.normal(size=60) + total * RAMP) for _ in range(60)]
    seen = [trend for trend in trends if trend is not None]
    assert len(seen) >= 51
    assert np.mean(seen) == pytest.approx(total, rel=0.08)


@pytest.mark.parametrize("kind", ["normal", "heavy-tailed", "bimodal", "neighbours alike"])
def test_noise_has_no_drift_on_any_night(kind):
    source, alarms = np.random.default_rng(2), 0
    for _ in range(100):
        series = noise(kind, source)
        alarms += any(find_trend(series[:count]) is not None for count in range(LEAST_NIGHTS, 61, 6))
    print(f"{kind}: {alarms} of 100 series drifted on some night")
    assert alarms <= 1


def noise(kind, source):
    if kind == "heavy-tailed":
        return source.standard_t(3, size=60)
    if kind == "bimodal":
        return (source.random(60) < 0.3) + 0.1 * source.normal(size=60)
    series = source.normal(size=60)
    if kind == "neighbours alike":
        for number in range(1, 60):
            series[number] = 0.5 * series[number - 1] + 0.866 * series[number]
    return series


def test_a_step_and_a_bump_are_no_drift():
    source = np.random.default_rng(3)
    step, bump = source.normal(size=60), source.normal(size=60)
    step[30:] += 6
    bump[20:40] += 6
    assert find_trend(step) is None
    assert find_trend(bump) is None


def test_what_is_too_short_or_too_small_is_no_drift():
    assert find_trend(np.arange(LEAST_NIGHTS - 1.0)) is None
    assert find_trend(np.arange(60.0), least=60.0) is None
    assert find_trend(np.arange(60.0), least=58.9) == pytest.approx(59.0)
    assert find_trend(np.zeros(60)) is None


def test_last_nights_that_are_far_off_do_not_make_a_drift():
    series = np.random.default_rng(4).normal(size=60)
    series[-3:] += 30
    assert find_trend(series) is None
