from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse
import torch

from plugin.samples import term_sizes
from plugin.samples.correctness import WrongResultError, default_tolerance, make_verifier
from plugin.samples.term_sizes import TRIALS
from roofline_model.core.errors import InvalidValueError
from roofline_model.formats.rounding import Deviation
from roofline_model.operators.product import gemm


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
    with pytest.raises(WrongResultError, match=rf"all numbers are {factor}0* times the reference's \(tolerance"):
        make_verifier(EXACT, None, None, (A, B)).verify((A @ B.T) * np.float32(factor), "now")


def test_a_factor_that_only_some_numbers_have_is_not_said_of_all():
    wrong = (A @ B.T).copy()
    wrong[: len(wrong) // 2] *= np.float32(1.5)
    with pytest.raises(WrongResultError) as failure:
        make_verifier(EXACT, None, None, (A, B)).verify(wrong, "now")
    assert "all numbers are" not in str(failure.value)


@pytest.mark.parametrize(("right", "wrong", "words"), [(4, 3, "is 3, the reference has 4"), (True, False, "is False")])
def test_a_wrong_integer_is_named_with_the_right_one(right, wrong, words):
    exact = np.full(9, right)
    given = exact.copy()
    given[7] = wrong
    with pytest.raises(WrongResultError, match=f"number 7 {words}"):
        make_verifier(exact, None, None, ()).verify(given, "now")


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


# Types ----------------------------------------------------------------------------------------------------------


def verified(output, reference, *arguments, work=None, tolerance=None):
    verifier = make_verifier(reference, None, tolerance, arguments, work=work)
    verifier.verify(output, "now")
    assert verifier.max_error <= verifier.tolerance


def product(a, b):
    return a.double() @ b.double()


def operands(dtype):
    return torch.from_numpy(A[:8]).to(dtype), torch.from_numpy(B[:6].T.copy()).to(dtype)


@pytest.mark.parametrize("tolerance", [None, 0.5])
@pytest.mark.parametrize(
    ("given", "returned", "work"),
    [
        (torch.float64, torch.float32, None),
        (torch.float32, torch.bfloat16, None),
        (torch.float32, torch.float8_e5m2, None),
        (torch.bfloat16, torch.float8_e4m3fn, None),
        (torch.bfloat16, torch.bfloat16, gemm(8, 6, 512, a="BF16", c="FP32")),
        (torch.float8_e4m3fn, torch.float8_e4m3fn, None),
    ],
)
def test_an_output_narrower_than_expected_fails_by_name(given, returned, work, tolerance):
    a, b = operands(given)
    with pytest.raises(WrongResultError, match=f"is {str(returned).removeprefix('torch.')}, narrower than"):
        verified((a.float() @ b.float()).to(returned), product, a, b, work=work, tolerance=tolerance)


@pytest.mark.parametrize(
    ("given", "returned", "work"),
    [
        (torch.float32, torch.float64, None),
        (torch.bfloat16, torch.float32, None),
        (torch.float16, torch.float64, gemm(8, 6, 512, a="FP16")),
        (torch.float32, torch.bfloat16, gemm(8, 6, 512, a="FP32", c="BF16")),
        (torch.float32, torch.float8_e5m2, gemm(8, 6, 512, a="FP32", c="FP8_E5M2")),
        (torch.float8_e4m3fn, torch.bfloat16, gemm(8, 6, 512, a="FP8_E4M3")),
        (torch.float8_e5m2, torch.float16, None),
    ],
)
@pytest.mark.parametrize("is_fixed", [False, True])
def test_a_wider_output_or_the_type_of_the_work_passes(given, returned, work, is_fixed):
    a, b = operands(given)
    verified((a.double() @ b.double()).to(returned), product(a, b) if is_fixed else product, a, b, work=work)


def test_a_reference_of_float64_binds_nobody_and_a_narrower_one_does():
    a, b = operands(torch.float32)
    narrow = (a @ b).bfloat16()
    verified(narrow, narrow.clone(), a, b)
    verified(narrow, product(a, b))  # nothing says the type: its own, of 16 bits or more
    with pytest.raises(WrongResultError, match="float8_e5m2, narrower than 16 bits"):
        verified(narrow.to(torch.float8_e5m2), product(a, b))


def test_a_wide_output_is_held_to_the_type_of_the_arguments():
    """The judged output's own type says nothing about what its kernel may be off."""
    a, b = operands(torch.float32)
    with pytest.raises(WrongResultError):
        verified((a.bfloat16() @ b.bfloat16()).double(), product, a, b)
    low, other = operands(torch.bfloat16)
    verified((low @ other).double(), product, low, other)


def test_side_tables_and_scales_bind_nobody():
    x = torch.from_numpy(A).bfloat16()
    gain = torch.linspace(0.5, 1.5, 512)
    verified((x.float() * gain).bfloat16(), lambda x, gain: x.double() * gain.double(), x, gain)


# Numbers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_fixed", [False, True])
def test_infinite_and_missing_numbers_are_right_where_the_reference_has_them(is_fixed):
    x = torch.tensor([1.0, 2.0, 3.0, 4.0])
    marks = torch.tensor([0.0, -torch.inf, torch.inf, torch.nan])
    reference = lambda x: x.double() + marks.double()  # noqa: E731
    given = reference(x) if is_fixed else reference
    verified(x + marks, given, x)
    for at, value in ((0, -torch.inf), (1, -3.4e38), (1, torch.inf), (2, 3.4e38), (3, 0.0)):
        wrong = (x + marks).index_fill(0, torch.tensor([at]), value)
        with pytest.raises(WrongResultError, match=f"NaN or Inf .*number {at}"):
            verified(wrong, given, x)


def test_what_a_type_cannot_hold_may_become_infinite_in_it_alone():
    x = torch.tensor([1.0, 12.0], dtype=torch.float16)
    verified(torch.exp(x), lambda x: x.double().exp(), x)
    with pytest.raises(WrongResultError, match="NaN or Inf"):
        verified(torch.exp(x).float(), lambda x: x.double().exp(), x.float())


def test_a_number_beside_zeros_without_terms_is_named():
    verified(np.zeros(3), np.zeros(3))
    with pytest.raises(WrongResultError, match="relative error 1 exceeds the tolerance 0"):
        verified(np.array([0.0, 1.0, 0.0]), np.zeros(3))


def test_a_reference_of_nothing_but_nan_checks_nothing():
    with pytest.raises(InvalidValueError, match="the reference holds no number"):
        make_verifier(np.full(3, np.nan), None, None, ())


@pytest.mark.parametrize("is_fixed", [False, True])
def test_a_sum_that_cancels_is_measured_by_its_terms(is_fixed):
    """Ten million beside one: the exact answer of FP32 is off by 8 % of it, and 12 % of another kernel is too much."""
    x = torch.tensor([1e7, 1.0, -1e7, 0.5], dtype=torch.float32).repeat(64)
    exact = float(x.double().sum())
    given = exact if is_fixed else (lambda x: x.double().sum())
    verified(exact + 30, given, x)
    with pytest.raises(WrongResultError):
        verified(exact + 1e6, given, x)


def test_offset_data_are_measured_by_their_offset_and_others_are_not():
    def normed(x):
        return torch.nn.functional.layer_norm(x.double(), x.shape[-1:])

    x = torch.from_numpy(A)
    off = torch.nn.functional.layer_norm(x, x.shape[-1:]) + 1e-3
    verified(torch.nn.functional.layer_norm(x + 1000, x.shape[-1:]) + 1e-3, normed, x + 1000)
    with pytest.raises(WrongResultError):
        verified(off, normed, x)


def test_a_slow_reference_is_taken_as_fixed(monkeypatch):
    calls = []

    def slow(x):
        calls.append(1)
        return x.double() * 2

    x = torch.from_numpy(A)
    verified(x * 2, slow, x)
    assert len(calls) == 1 + TRIALS
    monkeypatch.setattr(term_sizes, "MOST_SECONDS", 0.0)
    verified(x * 2, slow, x)
    assert len(calls) == 2 + TRIALS


def test_a_reference_is_asked_with_arguments_of_the_same_kind_and_may_refuse_them():
    class Box(tuple):
        pass

    strided = torch.from_numpy(A).T
    arguments = [strided, torch.arange(3), {"w": [np.ones((3, 2), np.float16)]}, 2.5, None, Box()]
    before = strided.clone()
    seen = []

    def reference(*given):
        seen.append(given)
        if len(seen) == 2:
            raise RuntimeError("only once")
        return given[0].double() * 2

    verified(strided * 2, reference, *arguments)
    first, moved = seen
    assert torch.equal(strided, before)
    assert (moved[0].dtype, moved[0].stride()) == (torch.float32, strided.stride())
    ratio = (moved[0] / strided - 1).abs()
    assert float(ratio.min()) > 0.99 * 2.0**-10  # the step of the coarsest argument, FP16
    assert float(ratio.max()) < 1.01 * 2.0**-9
    assert torch.equal(moved[1], first[1])
    assert moved[1] is not first[1]
    assert moved[2]["w"][0].dtype == np.float16
    assert moved[3:5] == (2.5, None)


# Forms ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("output", "reference"),
    [
        ([np.ones(2)], np.ones(2)),
        (np.ones(2), (np.ones(2),)),
        ([np.ones(2), None], (np.ones(2), None)),
        ({"b": 1.0, "a": [np.ones(2), 2]}, {"a": (np.ones(2), 2), "b": 1.0}),
        (torch.ones(2).to_sparse(), np.ones(2)),
        (torch.eye(3).to_sparse_csr(), torch.eye(3).to_sparse()),
        (scipy.sparse.eye(3).tocsr(), np.eye(3)),
        (3, torch.tensor(3)),
        (2.0, torch.tensor(2.0)),
        (1 + 2j, torch.tensor(1 + 2j)),
        (True, np.bool_(True)),
    ],
)
def test_forms_that_say_the_same(output, reference):
    verified(output, reference)


@pytest.mark.parametrize(
    ("output", "reference"),
    [
        ((np.ones(2), np.ones(2)), (np.ones(2), np.ones(3))),
        ((np.ones(2),), (np.ones(2), np.ones(1))),
        ((np.ones(2), None), np.ones(2)),
        ({"a": 1.0}, [1.0, 2.0]),
        ({"a": None, "b": 1.0}, {"a": 1.0, "b": None}),
        (np.ones(1), 1.0),
        (torch.ones(3).to_sparse(), np.ones(2)),
        ("ones", np.ones(2)),
        (object(), np.ones(2)),
    ],
)
def test_another_form_is_a_wrong_result(output, reference):
    with pytest.raises(WrongResultError, match=r"^now: "):
        verified(output, reference)


def test_a_sparse_output_too_large_to_be_dense_is_compared_by_its_parts():
    def sparse(value, at=5):
        return torch.sparse_coo_tensor([[at], [7]], [value], (1 << 20, 1 << 20))

    verified(sparse(2.0), sparse(2.0))
    for wrong in (sparse(3.0), sparse(2.0, at=6)):
        with pytest.raises(WrongResultError):
            verified(wrong, sparse(2.0))


# Integers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_fixed", [False, True])
def test_an_index_may_differ_where_the_argument_holds_the_same_value(is_fixed):
    x = torch.tensor([[3.0, 1.0, 3.0, 2.0], [0.0, 5.0, 4.0, 5.0]])
    reference = lambda x: x.double().argmax(-1)  # noqa: E731
    given = torch.tensor([0, 1]) if is_fixed else reference
    verified(torch.tensor([2, 3]), given, x)
    verified(torch.tensor([2, 3]), torch.tensor([0, 1]), x.to(torch.int8))
    with pytest.raises(WrongResultError):
        verified(torch.tensor([2, 2]), given, x)
    verified(torch.tensor([[2, 0], [3, 1]]), torch.tensor([[0, 2], [1, 3]]), x)
    with pytest.raises(WrongResultError):  # one place twice
        verified(torch.tensor([[2, 2], [3, 1]]), torch.tensor([[0, 2], [1, 3]]), x)
    verified(2, 0, x[0])
    with pytest.raises(WrongResultError):
        verified(1, 0, x[0])


def test_an_index_may_differ_where_a_rounding_of_the_arguments_decides():
    x = torch.tensor([[1.0, 1.0 + 2.0**-23, 0.5]])
    verified(torch.tensor([0]), lambda x: (3 * x.double()).argmax(-1), x)
    with pytest.raises(WrongResultError):
        verified(torch.tensor([2]), lambda x: (3 * x.double()).argmax(-1), x)


def test_integers_beyond_what_float64_holds_are_told_apart():
    large = np.array([2**53 + 1, 2**63 - 1])
    verified(large, large.copy())
    with pytest.raises(WrongResultError):
        verified(large - np.array([1, 0]), large)
    with pytest.raises(WrongResultError):
        verified(large.astype(np.uint64) + np.uint64(1), large)


def test_quantised_numbers_may_be_neighbours_as_often_as_roundings_explain():
    x = torch.from_numpy(A)
    right = (x.double() * 30).round()
    output = right.to(torch.int8)
    near = ((x.double() * 30).frac().abs() - 0.5).abs().reshape(-1).argsort()
    output.reshape(-1)[near[:2]] += 1
    verified(output, right, x)
    with pytest.raises(WrongResultError, match="neighbouring"):
        verified((x.double() * 30).floor().to(torch.int8), right, x)
    output.reshape(-1)[near[0]] += 2
    with pytest.raises(WrongResultError):
        verified(output, right, x)
