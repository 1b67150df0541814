"""Error measures by hand, on distributions whose values are known, and on tensors where they are undefined."""

from __future__ import annotations

import math

import numpy as np
import pytest

from roofline_model.core.errors import InvalidValueError
from roofline_model.formats.codecs import kurtosis, outlier_ratio, tensor_error, tensor_spread


def test_by_hand():
    error = tensor_error([3.0, 4.0], [3.0, 3.5])  # signal 25, noise 0.25
    assert error.sqnr_db == pytest.approx(20)
    assert error.relative_error == pytest.approx(0.1)
    assert error.max_error == 0.5
    assert error.element_count == 2
    assert error.bits_per_element is None
    spread = tensor_spread([3.0, -4.0])
    assert spread.kurtosis_ratio == pytest.approx(1)  # two values, equally far from their mean
    assert spread.outlier_ratio == pytest.approx(4 / 3.999)  # 99.9 % of the way from 3 to 4
    assert (spread.absmax_value, spread.element_count) == (4, 2)


def test_nothing_lost_and_nothing_there():
    same = tensor_error([1.0, -2.0], [1.0, -2.0])
    assert (same.sqnr_db, same.relative_error, same.max_error) == (math.inf, 0, 0)
    zeros = tensor_error([0.0, 0.0], [0.0, 0.25])
    assert (zeros.sqnr_db, zeros.relative_error, zeros.max_error) == (None, None, 0.25)
    nothing = tensor_spread([0.0, 0.0])
    assert (nothing.outlier_ratio, nothing.kurtosis_ratio, nothing.absmax_value) == (None, None, 0)


def test_outliers_by_hand():
    x = np.ones(10_001)
    x[0] = -50
    assert outlier_ratio(x) == 50  # one in ten thousand lies beyond the 99.9th percentile
    assert outlier_ratio(np.ones(5)) == 1
    assert outlier_ratio([0.0] * 9_999 + [1.0]) is None


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 1, 1, 1, 6], 3.25),  # mean 2, squares 1·4 + 16 → 4; fourth powers 4 + 256 → 52; 52/16
        ([-1, 0, 1], 1.5),
        ([7, 7, 7], None),
        (np.array([1, 1, 1, 1, 6]) * 1e-30, 3.25),
        (np.array([1, 1, 1, 1, 6]) * 1e30, 3.25),
    ],
)
def test_kurtosis_by_hand(values, expected):
    assert kurtosis(values) == (None if expected is None else pytest.approx(expected))


def test_kurtosis_of_known_distributions():
    rng = np.random.default_rng(18)
    assert kurtosis(rng.standard_normal(1_000_000)) == pytest.approx(3, abs=0.02)
    assert kurtosis(rng.uniform(-1, 1, 300_000)) == pytest.approx(1.8, abs=0.01)
    assert kurtosis(rng.laplace(size=1_000_000).astype(np.float32)) == pytest.approx(6, abs=0.2)


@pytest.mark.parametrize(
    ("reference", "approximation", "message"),
    [
        ([1.0], [1.0, 2.0], r"shape \(1,\) cannot be compared with one of shape \(2,\)"),
        ([1.0, math.nan], [1.0, 1.0], "NaN and infinite values have no statistics"),
        ([1.0, 2.0], [math.inf, 1.0], "NaN and infinite values"),
        ([], [], "is empty"),
    ],
)
def test_what_has_no_error(reference, approximation, message):
    with pytest.raises(InvalidValueError, match=message):
        tensor_error(reference, approximation)
