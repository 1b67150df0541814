"""Poisoned outputs: what a kernel does not write again must fail its check."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch

from plugin.samples.correctness import WrongResultError, make_verifier
from plugin.samples.poison import SENTINEL_BYTE, poison


@pytest.mark.parametrize(
    "dtype",
    [
        torch.float64,
        torch.float32,
        torch.float16,
        torch.bfloat16,
        torch.float8_e4m3fn,
        torch.float8_e5m2,
        torch.float8_e8m0fnu,
    ],
)
def test_floats_become_nan(dtype):
    tensor = torch.ones(3, 5).to(dtype)
    assert poison(tensor) == 1
    assert torch.isnan(tensor.float()).all()


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64])
def test_integers_become_a_pattern(dtype):
    tensor = torch.zeros(4, dtype=dtype)
    poison(tensor)
    assert set(tensor.view(torch.uint8).tolist()) == {SENTINEL_BYTE}


def test_truth_values_are_inverted_and_complex_numbers_are_nan():
    flags, numbers = torch.tensor([True, False]), torch.ones(2, dtype=torch.complex64)
    assert poison([flags, numbers]) == 2
    assert flags.tolist() == [False, True]
    assert torch.isnan(numbers).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.complex64, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn])
def test_numpy_floats_become_nan(dtype):
    array = np.ones((2, 3), dtype)
    assert poison(array) == 1
    assert np.isnan(array.astype(np.complex64)).all()


def test_numpy_integers_and_truth_values():
    numbers, flags = np.zeros(3, np.int32), np.array([True, False])
    assert poison({"a": numbers, "b": flags}) == 2
    assert (numbers == 0x5A5A5A5A).all()
    assert flags.tolist() == [False, True]


def test_nesting_is_followed_and_other_things_are_left():
    parts = [torch.ones(2) for _ in range(4)]
    outputs = [parts[0], (parts[1], {"x": [parts[2]], "y": None}), 3, "text", {"z": (parts[3],)}]
    assert poison(outputs) == 4
    assert all(torch.isnan(part).all() for part in parts)


def test_outputs_in_the_memory_of_an_input_are_not_poisoned():
    tensor, array = torch.ones(4, 4), np.ones((4, 4))
    outputs = [tensor, tensor[1:], tensor.t(), array, array[1:], array.T, torch.ones(2)]
    assert poison(outputs, [(tensor, array)]) == 1
    assert torch.equal(tensor, torch.ones(4, 4))
    assert (array == 1).all()
    assert poison([tensor.numpy()], [tensor]) == 0  # the same memory seen from the other library


def test_without_inputs_a_view_is_poisoned_where_it_shows():
    tensor = torch.ones(4)
    poison(tensor[2:])
    assert tensor[:2].tolist() == [1, 1]
    assert torch.isnan(tensor[2:]).all()


def test_what_cannot_be_written_is_left_and_not_counted():
    fixed = np.ones(3)
    fixed.flags.writeable = False
    nothing = [torch.empty(3, device="meta"), torch.empty(0), np.array(["a", None], dtype=object)]
    assert poison([fixed, *nothing]) == 0
    assert fixed.tolist() == [1, 1, 1]


def test_outputs_of_inference_mode_and_of_autograd_are_poisoned():
    with torch.inference_mode():
        inferred = torch.ones(3) + 1
    weight = torch.ones(3, requires_grad=True)
    product = weight * 2
    assert poison([inferred, product]) == 2
    assert torch.isnan(inferred).all()
    assert torch.isnan(product).all()
    assert not torch.isnan(weight).any()


def test_a_stale_result_no_longer_passes_the_check():
    expected = np.arange(6.0)
    output = torch.arange(6.0)
    verifier = make_verifier(expected, None, None, ())
    verifier.verify(output, "before")
    poison(output)
    with pytest.raises(WrongResultError, match="NaN or Inf"):
        verifier.verify(output, "after")
