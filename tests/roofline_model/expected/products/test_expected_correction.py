"""The surface of what the formulas leave over: recovered from rows, silent without them, no memory of single rows."""

from __future__ import annotations

import numpy as np
import pytest

from roofline_model import InvalidValueError
from roofline_model.expected.grid_surface import LARGEST_LOG
from roofline_model.expected.products.fitted.constants import (
    KNOT_COUNT,
    KNOTS_K,
    KNOTS_M,
    KNOTS_N,
    Correction,
    fit_correction,
)


def shapes(count, seed=1):
    rng = np.random.default_rng(seed)
    return tuple(np.round(2 ** rng.uniform(low, high, count)) for low, high in ((0, 13), (5, 17), (5, 17)))


def test_a_grid_is_linear_between_its_knots():
    values = np.zeros((len(KNOTS_M), len(KNOTS_N), len(KNOTS_K)))
    values[2, 3, 4], values[3, 3, 4] = 0.4, 0.2  # m = 2^4 and 2^6, n = 2^11, k = 2^13
    surface = Correction(tuple(values.ravel()))
    m = np.array([16.0, 64, 32, 16, 16, 4])
    n = np.array([2048.0, 2048, 2048, 1024, 512, 2048])
    k = np.array([8192.0] * 6)
    # on the knots, half way in m (2^5), half way in n (2^10), a whole knot away, two thirds of the way from 2^1
    assert surface.logs(m, n, k) == pytest.approx([0.4, 0.2, 0.3, 0.2, 0.0, 0.4 / 3])


def test_outside_the_grid_it_goes_on_level():
    values = np.zeros((len(KNOTS_M), len(KNOTS_N), len(KNOTS_K)))
    values[-1, -1, -1] = 0.3
    surface = Correction(tuple(values.ravel()))
    far = np.array([1e9])
    assert surface.logs(far, far, far) == pytest.approx([0.3])


def test_a_smooth_surface_is_recovered_at_new_shapes():
    def truth(m, n, k):
        return 0.2 * np.sin(np.log2(m) / 4) + 0.1 * np.cos(np.log2(n * k) / 5)

    m, n, k = shapes(1500)
    noise = np.random.default_rng(2).normal(0, 0.05, len(m))
    correction = fit_correction(m, n, k, truth(m, n, k) + noise)
    new = shapes(300, seed=9)
    error = correction.logs(*new) - truth(*new)
    assert np.mean(np.abs(error)) < 0.04 < np.mean(np.abs(truth(*new)))


def test_without_rows_nearby_it_says_nothing():
    m, n, k = np.full(50, 4096.0), np.full(50, 8192.0), np.full(50, 8192.0)
    correction = fit_correction(m, n, k, np.full(50, 0.3))
    assert correction.logs(m[:1], n[:1], k[:1]) == pytest.approx([0.3], abs=0.02)
    far = correction.logs(np.array([1.0]), np.array([64.0]), np.array([64.0]))
    assert abs(far[0]) < 0.02


def test_one_row_cannot_be_read_back():
    m, n, k = shapes(1200)
    odd = np.zeros(len(m))
    odd[7] = 0.5
    correction = fit_correction(m, n, k, odd)
    assert abs(correction.logs(m[7:8], n[7:8], k[7:8])[0]) < 0.15


def test_outliers_move_it_little_and_values_stay_in_range():
    m, n, k = np.full(100, 64.0), np.full(100, 2048.0), np.full(100, 2048.0)
    logs = np.full(100, 0.1)
    logs[:10] = 5.0
    assert fit_correction(m, n, k, logs).logs(m[:1], n[:1], k[:1])[0] == pytest.approx(0.1, abs=0.03)
    assert max(fit_correction(m, n, k, np.full(100, 5.0)).log_ratio) <= LARGEST_LOG


def test_rows_of_more_weight_count_more():
    m, n, k = np.full(2, 64.0), np.full(2, 2048.0), np.full(2, 2048.0)
    logs = np.array([0.0, 0.1])
    even, heavy = (
        fit_correction(m, n, k, logs, np.array(w)).logs(m[:1], n[:1], k[:1])[0] for w in ([50.0, 50.0], [10.0, 90.0])
    )
    assert even == pytest.approx(0.05, abs=0.01)
    assert heavy > even + 0.02


def test_a_surface_has_its_size_and_range():
    with pytest.raises(InvalidValueError, match=str(KNOT_COUNT)):
        Correction((0.0,) * (KNOT_COUNT - 1))
    with pytest.raises(InvalidValueError, match=r"0\.7"):
        Correction((0.8,) + (0.0,) * (KNOT_COUNT - 1))
