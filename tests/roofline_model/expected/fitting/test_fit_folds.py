"""Folds and intervals: a site is never split, nothing is scored by constants that saw it, 80 % means 80 %."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline_model.core.errors import InvalidValueError
from roofline_model.expected.fitting.accuracy import GroupAccuracy, accuracy, mean_over_groups
from roofline_model.expected.fitting.cross_validation import cross_validate, interval_factors, site_folds
from roofline_model.expected.fitting.fit_set import FitSet, fit_rows
from roofline_model.expected.fitting.robust_fit import FreeConstant


@given(st.lists(st.integers(0, 40), min_size=60, max_size=300), st.integers(2, 6))
def test_a_site_is_in_one_fold_and_folds_are_even(ids, fold_count):
    sites = [f"site {i}" for i in ids]
    if len(set(sites)) < fold_count:
        return
    folds = site_folds(sites, fold_count)
    assert {len(set(folds[np.array(sites) == site])) for site in set(sites)} == {1}
    sizes = np.bincount(folds, minlength=fold_count)
    assert sizes.min() > 0
    assert sizes.max() - sizes.min() <= max(sites.count(site) for site in set(sites))
    assert (folds == site_folds(sites, fold_count)).all()


def test_too_few_sites_say_so():
    with pytest.raises(InvalidValueError, match="5 folds need at least 5 different sites, got 3"):
        site_folds(["a", "b", "c"] * 10)


def example(noise=0.05, count=400, site_count=50):
    """time = launch + size / rate, each site with an error of its own."""
    rng = np.random.default_rng(3)
    size = 10 ** rng.uniform(5, 9, count)
    site = rng.integers(0, site_count, count)
    times = (2e-6 + size / 1e12) * np.exp(rng.normal(0, noise, site_count)[site])
    seen = []

    def predict_s(values, positions):
        seen.append(np.array(positions))
        return values["launch"] + size[positions] / values["rate"]

    def regimes(values, predicted, positions):
        return ["floor" if time < 2 * values["launch"] else "body" for time in predicted]

    free = (FreeConstant("launch", 1e-6, 1e-8, 1e-4), FreeConstant("rate", 5e11, 1e10, 1e14))
    names = tuple(str(i) for i in site)
    return FitSet("chip", "gemm", "X", np.arange(count), times, names, free, predict_s, regimes), seen


def test_no_row_is_predicted_by_constants_that_saw_its_site():
    fit_set, seen = example()
    steps = []
    crossed = cross_validate(fit_set, progress=steps.append)
    assert steps == [f"chip gemm X, fold {i} of 5" for i in range(1, 6)]
    assert len(crossed.fits) == 5
    sites = np.array(fit_set.sites)
    for fold in range(5):
        inside = np.flatnonzero(crossed.folds == fold)
        # The calls of one fold's fit never touch its rows; only the prediction at its end does, with just these rows.
        own_rows = [rows for rows in seen if set(sites[rows]) & set(sites[inside]) and set(rows) <= set(inside)]
        assert len(own_rows) == 1
        outside = np.setdiff1d(np.arange(len(fit_set)), inside)
        again = fit_rows(fit_set, outside)
        assert again.values == crossed.fits[fold].values
        np.testing.assert_allclose(crossed.predicted_s[inside], fit_set.predict_s(again.values, inside))


def test_cross_fitted_intervals_cover_four_rows_of_five():
    fit_set, _ = example(count=1500, site_count=500)
    crossed = cross_validate(fit_set)
    errors = accuracy(crossed.predicted_s, fit_set.measured_s, crossed.low_s, crossed.high_s)
    assert errors.row_count == 1500
    assert errors.mape_ratio == pytest.approx(0.04, abs=0.01)
    assert errors.coverage_ratio == pytest.approx(0.8, abs=0.035)
    assert set(crossed.factors) == {"", "floor", "body"}


def test_factors_hold_the_prediction_and_rare_regimes_have_none():
    ratios = np.concatenate([np.full(50, 1.3), np.full(5, 0.2)])
    factors = interval_factors(ratios, ["slow"] * 50 + ["rare"] * 5)
    assert set(factors) == {"", "slow"}
    assert factors["slow"] == (1.0, 1.3)


def test_the_measures_are_those_of_the_definition():
    measured = np.array([1.0, 2.0, 4.0, np.nan, 1.0])
    predicted = np.array([1.1, 1.8, 4.0, 1.0, np.nan])
    errors = accuracy(predicted, measured, predicted * 0.95, predicted * 1.2)
    assert errors.row_count == 3
    assert errors.mape_ratio == pytest.approx((0.1 + 0.1 + 0) / 3)
    assert errors.median_ratio == pytest.approx(0.1)
    assert errors.bias_ratio == pytest.approx(0.0, abs=1e-12)
    assert errors.coverage_ratio == pytest.approx(2 / 3)  # 1.0 lies below 1.045
    nothing = accuracy(np.array([np.nan]), np.array([1.0]))
    assert (nothing.row_count, nothing.mape_ratio, nothing.coverage_ratio) == (0, None, None)


def test_each_chip_counts_once_in_the_mean():
    def group(device, count, error):
        errors = accuracy(np.full(count, 1 + error), np.ones(count))
        return GroupAccuracy(device, "gemm", "decode", "BF16", count, errors, errors, "fitted")

    (row,) = mean_over_groups([group("a", 1000, 0.1), group("b", 10, 0.3)])
    assert row[:4] == ("gemm", "decode", "BF16", 2)
    assert row[4] == pytest.approx(0.2)
