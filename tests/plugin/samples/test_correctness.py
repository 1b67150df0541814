from __future__ import annotations

import math

import numpy as np
import pytest

from plugin.samples.correctness import WrongResultError, make_verifier, relative_error
from roofline_model.core.errors import InvalidValueError


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


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (False, "check returned False: return the relative error, 0.0 = exact"),
        (np.bool_(True), "check returned a bool.*: return the relative error"),
        (np.array(False), "check returned a ndarray: return the relative error"),
        (None, "check returned None: return the relative error"),
        ("0.0", "check returned '0.0': return the relative error"),
        (np.ones(3), "check returned a ndarray: return the relative error"),
        (object(), "check returned a object: return the relative error"),
        (-1e9, "check returned -1e.09, below 0: return the relative error"),
        (1 + 1j, "check returned a complex: return the relative error"),
    ],
)
def test_a_check_must_return_the_relative_error(returned, said):
    verifier = make_verifier(None, lambda output: returned, None, ())
    with pytest.raises(InvalidValueError, match=said):
        verifier.verify(np.ones(2), "now")


@pytest.mark.parametrize("returned", [0.001, np.float32(0.001), np.array(0.001), 0])
def test_numbers_of_any_kind_are_errors(returned):
    verifier = make_verifier(None, lambda output: returned, None, ())
    verifier.verify(None, "now")
    assert verifier.max_error == pytest.approx(float(np.ravel(returned)[0]))


@pytest.mark.parametrize("returned", [math.nan, math.inf])
def test_a_check_that_returns_no_finite_number_found_a_wrong_result(returned):
    with pytest.raises(WrongResultError, match="NaN or Inf"):
        make_verifier(None, lambda output: returned, None, ()).verify(None, "now")


@pytest.mark.parametrize("reference", [(), [], {}, (None,), np.empty((0, 4)), lambda: None, lambda: ()])
def test_a_reference_without_a_number_checks_nothing(reference):
    with pytest.raises(InvalidValueError, match="the reference holds no number"):
        make_verifier(reference, None, None, ())


@pytest.mark.parametrize("tolerance", [math.inf, math.nan, 1.0, 7, True, "0.1", (0.1,)])
def test_a_tolerance_that_nothing_could_exceed_is_refused(tolerance):
    with pytest.raises(InvalidValueError, match="tolerance must be"):
        make_verifier(np.ones(1), None, tolerance, ())


def test_a_check_that_is_no_function_is_refused():
    with pytest.raises(InvalidValueError, match="check must be a function"):
        make_verifier(None, 0.5, None, ())
