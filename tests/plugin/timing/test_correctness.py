from __future__ import annotations

import math

import numpy as np
import pytest

from plugin.timing.correctness import make_verifier, relative_error
from roofline_model.errors import InvalidValueError


def test_error_is_norm_wise_by_hand():
    # ‖(3,4) − (3,5)‖ / ‖(3,5)‖ = 1 / √34
    assert relative_error(np.array([3.0, 4.0]), np.array([3.0, 5.0])) == pytest.approx(1 / math.sqrt(34))


def test_structures_are_compared_leaf_by_leaf():
    assert relative_error((np.ones(2), [np.ones(3)]), (np.ones(2), [np.ones(3)])) == 0.0
    assert math.isnan(relative_error((np.ones(2),), (np.ones(2), np.ones(1))))


def test_shape_and_nan_and_zero_reference():
    assert math.isnan(relative_error(np.ones(2), np.ones(3)))
    assert math.isnan(relative_error(np.array([np.nan]), np.array([1.0])))
    assert relative_error(np.zeros(2), np.zeros(2)) == 0.0
    assert relative_error(np.ones(2), np.zeros(2)) == math.inf


def test_reference_in_place_of_the_output_is_copied():
    buffer = np.ones(2)
    verifier = make_verifier(buffer, None, None, ())
    buffer[:] = 5.0
    verifier.verify(np.ones(2), "now")
    assert verifier.max_error == 0.0


def test_reference_may_compute_from_the_arguments():
    verifier = make_verifier(lambda x: x * 2, None, 1e-6, (np.ones(2),))
    verifier.verify(np.full(2, 2.0), "now")
    assert verifier.tolerance == 1e-6


def test_contradictions_are_refused():
    with pytest.raises(InvalidValueError, match="either"):
        make_verifier(np.ones(1), lambda out: 0.0, None, ())
    with pytest.raises(InvalidValueError, match="tolerance"):
        make_verifier(np.ones(1), None, -1.0, ())
    assert make_verifier(None, None, None, ()) is None
