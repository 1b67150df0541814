"""FP8 sums on Hopper: what an H200 gave, the arithmetic that explains it, and the tolerance that follows."""

from __future__ import annotations

import dataclasses

import pytest

torch = pytest.importorskip("torch")

from hopper_tensor_core import hopper_product  # noqa: E402

from bench_cases.kernels.inputs import structured_operands  # noqa: E402
from bench_cases.kernels.products.catalog import KERNELS  # noqa: E402
from bench_cases.kernels.products.quantizers import fp8_rows, fp8_tensor  # noqa: E402
from bench_cases.kernels.reference import ProductReference, rounding_of  # noqa: E402

FP8 = {kernel.name: kernel for kernel in KERNELS if kernel.name.startswith("scaled_mm") and kernel.device == "cuda"}

# Errors of H200's first run, 2026-11-26, torch 2.11, CUDA 13.0: (kernel, M) → the operands and the error of the number
# that was furthest off by the tolerance of that day. M above 16 are 20 rows.
MEASURED = [
    ("scaled_mm", 1, "uneven", 0.0283),
    ("scaled_mm", 8, "uneven", 0.0294),
    ("scaled_mm", 20, "uneven", 0.0280),
    ("scaled_mm_rowwise", 1, "large", 0.0219),
    ("scaled_mm_rowwise", 8, "uneven", 0.0218),
    ("scaled_mm_rowwise", 20, "uneven", 0.0311),
    ("scaled_mm_fast", 1, "uneven", 0.0570),
    ("scaled_mm_fast", 8, "ascending", 0.2095),
    ("scaled_mm_fast", 20, "ascending", 0.2248),
    ("scaled_mm_rowwise_fast", 1, "uneven", 0.0925),
    ("scaled_mm_rowwise_fast", 8, "uneven", 0.0526),
    ("scaled_mm_rowwise_fast", 20, "uneven", 0.0556),
]


def held(kernel, activation, weight):
    quantize = fp8_rows if "rowwise" in kernel.name else fp8_tensor
    return quantize(activation), quantize(weight)


def hopper_output(kernel, a, w):
    scales = a.scales.double().reshape(-1, 1) * w.scales.double().reshape(1, -1)
    return (hopper_product(a.codes, w.codes, is_fast=kernel.has_fast_sums) * scales).to(torch.bfloat16)


@pytest.mark.parametrize(("name", "rows", "operands", "error"), MEASURED)
def test_the_arithmetic_has_the_errors_of_the_chip(name, rows, operands, error):
    """To the digits that the run shows, at the number that it shows or at another of the same error."""
    kernel = FP8[name]
    ((_, activation, weight),) = [made for made in structured_operands(rows, "BF16") if made[0] == operands]
    a, w = held(kernel, activation, weight)
    left, right = a.rows64(slice(None)), w.rows64(slice(None))
    errors = (hopper_output(kernel, a, w).double() - left @ right.T).abs() / (left**2 @ (right**2).T).sqrt()
    assert (errors / error - 1).abs().min() < 0.004


@pytest.mark.parametrize("name", [name for name in FP8 if "block" not in name])
@pytest.mark.parametrize("rows", [1, 8, 20])
def test_hopper_is_right_on_structured_operands(name, rows):
    kernel = FP8[name]
    for operands, activation, weight in structured_operands(rows, "BF16"):
        a, w = held(kernel, activation, weight)
        reference = ProductReference.of(a, w, rounding_of(kernel), is_random=False)
        assert reference.deviation(hopper_output(kernel, a, w)).is_right, operands


@pytest.mark.parametrize("name", ["scaled_mm", "scaled_mm_fast"])
@pytest.mark.parametrize("length", [256, 4096])
@pytest.mark.parametrize("mean", [0.0, 0.5])
def test_hopper_is_right_on_random_operands(name, length, mean):
    """Terms of one sign (mean 0.5) lose most: the sum in 14 bits outgrows them."""
    kernel = FP8[name]
    generator = torch.Generator().manual_seed(length)
    a, w = held(kernel, *(torch.randn(rows, length, generator=generator) + mean for rows in (4, 32)))
    reference = ProductReference.of(a, w, rounding_of(kernel))
    share_ratio = reference.deviation(hopper_output(kernel, a, w)).share_ratio
    assert 0.1 < share_ratio < 1  # right, and the tolerance is not far above


def test_fast_sums_are_not_right_where_exact_ones_are_claimed():
    kernel = FP8["scaled_mm"]
    fast = dataclasses.replace(kernel, name="scaled_mm_fast")
    generator = torch.Generator().manual_seed(0)
    a, w = held(kernel, *(torch.rand(rows, 4096, generator=generator) for rows in (4, 32)))
    output = hopper_output(fast, a, w)
    assert not ProductReference.of(a, w, rounding_of(kernel)).deviation(output).is_right
    assert ProductReference.of(a, w, rounding_of(fast)).deviation(output).is_right
