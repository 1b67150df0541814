from __future__ import annotations

import math

import numpy as np
import pytest

from plugin.samples.correctness import WrongResultError, default_tolerance, make_verifier
from roofline_model.core.errors import InvalidValueError
from roofline_model.formats.rounding import Deviation


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
    ("returned", "message"),
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
def test_a_check_must_return_the_relative_error(returned, message):
    verifier = make_verifier(None, lambda output: returned, None, ())
    with pytest.raises(InvalidValueError, match=message):
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


GENERATOR = np.random.default_rng(7)
A, B = (GENERATOR.standard_normal((64, 512)).astype(np.float32) for _ in range(2))
EXACT = A.astype(np.float64) @ B.astype(np.float64).T


@pytest.mark.parametrize("tolerance", [None, 1e-2], ids=["of the format", "given"])
@pytest.mark.parametrize("place", [(0, 0), (17, 40), (63, 63)])
def test_a_single_number_off_by_three_is_caught(tolerance, place):
    """‖error‖ / ‖reference‖ is 0.002 here, and the typical number 22: a given tolerance of 0.01 leaves any number
    1.6.
    """
    wrong = A @ B.T
    wrong[place] += 3.0
    assert np.linalg.norm(wrong - EXACT) < 1e-2 * np.linalg.norm(EXACT)
    with pytest.raises(WrongResultError, match=rf"\(number {place[0]}, {place[1]}\)"):
        make_verifier(EXACT, None, tolerance, (A, B)).verify(wrong, "now")


@pytest.mark.parametrize("factor", [1.01, 0.99, 1.001])
def test_an_fp32_kernel_off_by_one_per_cent_is_caught(factor):
    with pytest.raises(WrongResultError, match="all numbers"):
        make_verifier(EXACT, None, None, (A, B)).verify((A @ B.T) * np.float32(factor), "now")


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_right_kernels_are_within_what_rounding_explains(dtype):
    a, b = A.astype(dtype), B.astype(dtype)
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    verifier = make_verifier(exact, None, None, (a, b))
    verifier.verify((a.astype(np.float64) @ b.astype(np.float64).T).astype(dtype), "now")
    verifier.verify(a @ b.T, "now")
    assert 0 <= verifier.max_error <= verifier.tolerance


def test_default_tolerances_belong_to_the_coarsest_type_and_the_longest_sum():
    assert default_tolerance(2.0**-24, 0) == 2.0**-20
    assert default_tolerance(2.0**-24, 2**24) == 2.0**-20 + 2.0**-12
    assert default_tolerance(2.0**-8, 0) == 2.0**-7
    assert default_tolerance(2.0**-11, 0) == 2.0**-10
    assert default_tolerance(2.0**-53, 0) == 2.0**-49


def test_a_check_may_bring_its_own_tolerance():
    deviations = [Deviation(0.1, 0.5, "here"), Deviation(0.01, 0.02, "there"), Deviation(0.3, 0.2, "row 4")]
    verifier = make_verifier(None, lambda output: deviations[output], None, ())
    verifier.verify(0, "first")
    verifier.verify(1, "second")
    assert (verifier.max_error, verifier.tolerance) == (0.01, 0.02)  # half of what is allowed; the first is a fifth
    with pytest.raises(WrongResultError, match=r"third: relative error 0.3 exceeds the tolerance 0.2 \(row 4\)"):
        verifier.verify(2, "third")
