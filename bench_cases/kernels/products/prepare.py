"""From a case to something that can be timed: operands in the kernel's own layout, the call, and the check."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from bench_cases.kernels.inputs import MOST_ROWS, activation_source, copy_of, structured_operands, weight_source
from bench_cases.kernels.products.spec import KernelSpec, product_size
from bench_cases.kernels.reference import HALF_SMALLEST, HeldMatrix, ProductReference, rounding_of
from bench_cases.kernels.spec import CaseSpec
from roofline_model.formats.rounding import Deviation, worst

Settings = Callable[[], AbstractContextManager[Any]]


@dataclass(frozen=True, slots=True)
class Built:
    """What an implementation returns: the call, one set of its operands, and what these operands mean."""

    fn: Callable[..., Tensor]
    """Called with `args`; returns C (M × N). Everything a user of the kernel pays per call is inside."""
    args: tuple[Tensor, ...]
    """Everything the call reads from memory that scales with the problem: it is copied for rotation."""
    activation: HeldMatrix
    weight: HeldMatrix
    settings: Settings = nullcontext
    """Global switches of torch that must hold during the call."""


Build = Callable[[KernelSpec, Tensor, Tensor], Built]
"""(kernel, activation (M, K) FP32, weight (N, K) FP32) → Built. Neither source may be written to or kept."""


@dataclass(frozen=True, slots=True)
class PreparedKernel:
    """Arguments of `roofline.measure`."""

    fn: Callable[..., Any]
    make_args: Callable[[int], tuple[Tensor, ...]]
    check: Callable[[Any], Deviation]
    """Says how far an output is from right, in units of what rounding explains."""
    settings: Settings = nullcontext


def prepare(spec: CaseSpec, device: str) -> PreparedKernel:
    """Generate, quantise and pack the operands of a case on `device`, in the way of its kernel's family.

    Raises `UnsupportedError` when torch refuses the kernel for these very operands.
    """
    prepared: PreparedKernel = imported(spec.kernel.prepared_by)(spec, device)
    return prepared


def prepare_product(spec: CaseSpec, device: str) -> PreparedKernel:
    """Prepare a product."""
    kernel = spec.kernel
    assert isinstance(kernel, KernelSpec)
    M, N, K = product_size(spec.case)
    built = load_implementation(kernel)(kernel, activation_source(M, K, device), weight_source(N, K, device))
    reference = product_reference(kernel, built)

    def check(output: object) -> Deviation:
        return worst([reference.deviation(output), structured_deviation(kernel, min(M, MOST_ROWS), device)])

    return PreparedKernel(built.fn, argument_sets(built.args), check, built.settings)


@lru_cache(maxsize=256)
def structured_deviation(kernel: KernelSpec, rows: int, device: str) -> Deviation:
    """Return how far a kernel is from right on the worst of `structured_operands`, once in a process for each number of
    rows.
    """
    deviations = []
    for name, activation, weight in structured_operands(rows, kernel.output):
        built = load_implementation(kernel)(kernel, activation.to(device), weight.to(device))
        reference = product_reference(kernel, built, is_random=False)
        with built.settings():
            deviation = reference.deviation(built.fn(*built.args))
        deviations.append(deviation._replace(where=f"{name}: {deviation.where}"))
    return worst(deviations)


def product_reference(kernel: KernelSpec, built: Built, *, is_random: bool = True) -> ProductReference:
    """Return what a right kernel gives for the operands; `is_random`: they are random numbers."""
    return ProductReference.of(
        built.activation,
        built.weight,
        rounding_of(kernel),
        is_random=is_random,
        floor=HALF_SMALLEST.get(kernel.output, 0.0),
    )


def argument_sets(args: tuple[Tensor, ...]) -> Callable[[int], tuple[Tensor, ...]]:
    """Return the function that gives operand set `index`: the first as built, the others equal data in memory of their
    own.
    """
    return lambda index: args if index == 0 else copy_of(args)


def load_implementation(kernel: KernelSpec) -> Build:
    """Import the function that builds a product's kernel."""
    build: Build = imported(kernel.implementation)
    return build


def imported(where: str) -> Any:
    """Return the object that `module:name` names."""
    module, _, name = where.partition(":")
    return getattr(import_module(module), name)


@contextmanager
def fp32_matmul_precision(value: str) -> Iterator[None]:
    """Set how FP32 products are computed on CUDA: `highest` (true FP32) or `high` (TF32); restored afterwards."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(value)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
