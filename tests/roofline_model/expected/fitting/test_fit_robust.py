"""The solver: known constants come back within their spread, outliers do not bend them, bounds and priors hold."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline_model.core.errors import InvalidValueError
from roofline_model.expected.fitting.robust_fit import (
    LOSS_SCALE,
    FreeConstant,
    _softened,
    _softened_slope,
    fit_constants,
)

TRUE = {"launch": 3e-6, "rate": 2e12, "width": 0.8}
FREE = (
    FreeConstant("launch", 1e-5, 1e-7, 1e-4),
    FreeConstant("rate", 1e12, 1e10, 1e14),
    FreeConstant("width", 0.5, 0.1, 1.0),
)
RNG = np.random.default_rng(7)
SIZES = 10 ** RNG.uniform(5, 9, 300)
SHARES = RNG.uniform(0.1, 1.0, 300)


def model(values):
    return values["launch"] + (SIZES / values["rate"]) / (SHARES ** values["width"])


def measured(noise: float, seed: int = 1):
    return model(TRUE) * np.exp(np.random.default_rng(seed).normal(0, noise, len(SIZES)))


@pytest.mark.parametrize("noise", [0.01, 0.05])
def test_known_constants_come_back_within_their_spread(noise):
    constants = fit_constants(FREE, model, measured(noise))
    for name, true in TRUE.items():
        assert abs(math.log(constants.values[name] / true)) < 4 * constants.spreads[name] + 1e-3
    assert constants.mape_ratio == pytest.approx(noise * 0.8, rel=0.25)
    assert constants.at_bound == ()


def test_the_spread_is_the_scatter_over_draws():
    draws = [fit_constants(FREE, model, measured(0.05, seed)) for seed in range(12)]
    for name in TRUE:
        logs = np.log([draw.values[name] for draw in draws])
        typical = np.mean([draw.spreads[name] for draw in draws])
        assert 0.4 < logs.std(ddof=1) / typical < 2.2


def test_outliers_hardly_move_the_constants():
    times = measured(0.02)
    times[::10] *= 3
    constants = fit_constants(FREE, model, times)
    assert constants.values["rate"] == pytest.approx(TRUE["rate"], rel=0.06)
    assert constants.values["launch"] == pytest.approx(TRUE["launch"], rel=0.06)


def test_a_constant_that_wants_out_stops_at_its_bound_and_says_so():
    tight = (*FREE[:2], FreeConstant("width", 0.5, 0.1, 0.6))
    constants = fit_constants(tight, model, measured(0.01))
    assert constants.values["width"] == pytest.approx(0.6, rel=1e-3)
    assert constants.at_bound == ("width",)


def test_a_strong_prior_holds_what_the_rows_cannot_tell():
    free = (*FREE, FreeConstant("unused", 5.0, 1.0, 9.0, prior_scale=0.1))
    constants = fit_constants(free, model, measured(0.02))
    assert constants.values["unused"] == pytest.approx(5.0, rel=1e-3)
    assert constants.spreads["unused"] == pytest.approx(0.1, rel=0.05)


def test_few_rows_stay_nearer_to_where_they_began_with_a_strong_prior():
    rows = slice(0, 4)

    def few(values):
        return model(values)[rows]

    def away(prior):
        free = [
            FreeConstant(constant.name, constant.start_value, constant.low_value, constant.high_value, prior)
            for constant in FREE
        ]
        constants = fit_constants(free, few, measured(0.05)[rows])
        return sum(abs(math.log(constants.values[constant.name] / constant.start_value)) for constant in FREE)

    assert away(0.05) < 0.7 * away(2.0)


def test_row_weights_choose_between_rows_that_disagree():
    times = np.concatenate([model(TRUE), 1.5 * model(TRUE)])

    def twice(values):
        return np.tile(model(values), 2)

    weights = np.repeat([1.0, 1e-6], len(SIZES))
    constants = fit_constants(FREE, twice, times, row_weights=weights)
    assert constants.values["rate"] == pytest.approx(TRUE["rate"], rel=0.02)


@pytest.mark.parametrize(
    ("free", "times", "words"),
    [
        ((), np.ones(3), "no constant"),
        (FREE, np.array([]), "no measured row"),
        (FREE, np.array([1.0, -1.0]), "positive"),
        (FREE, np.array([1.0, np.nan]), "positive"),
    ],
)
def test_what_cannot_be_fitted_says_so(free, times, words):
    with pytest.raises(InvalidValueError, match=words):
        fit_constants(free, lambda values: np.ones(len(times)), times)


@pytest.mark.parametrize("bounds", [(0.0, 1.0), (2.0, 1.0), (1.0, math.inf)])
def test_bounds_must_be_positive_and_rising(bounds):
    with pytest.raises(InvalidValueError, match="bounds"):
        FreeConstant("x", 1.0, *bounds)


@given(st.floats(-5, 5, allow_nan=False))
def test_the_loss_is_the_pseudo_huber_and_its_slope_is_right(r):
    value = np.array([r])
    expected = LOSS_SCALE**2 * (math.sqrt(1 + (r / LOSS_SCALE) ** 2) - 1)
    assert 0.5 * float(_softened(value)[0]) ** 2 == pytest.approx(expected, abs=1e-15)
    step = 1e-6
    slope = (_softened(value + step) - _softened(value - step)) / (2 * step)
    assert float(_softened_slope(value)[0]) == pytest.approx(float(slope[0]), rel=1e-3, abs=1e-6)
