"""From an operator case to something that can be timed: operands, the call, and the check."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bench_cases.kernels.operators.spec import OperatorKernel
from bench_cases.kernels.products.prepare import PreparedKernel, argument_sets, imported
from bench_cases.kernels.proof import compiled_alone
from bench_cases.kernels.reference import Expected
from bench_cases.kernels.spec import CaseSpec
from roofline_model.formats.rounding import Deviation

Sizes = dict[str, int]


@dataclass(frozen=True, slots=True)
class BuiltOperator:
    """Output of an implementation: the call, one set of its operands, and the right answer."""

    fn: Callable[..., Any]
    """Called with `args`; returns Y (rows × width), or the codes and their scales. All that a user pays per call is
    inside.
    """
    args: tuple[Tensor, ...]
    """Everything the call reads from memory: it is copied for rotation."""
    shape: tuple[int, int]
    """Of the decoded output."""
    rows: Tensor
    """Indices into its rows: those that are looked at."""
    expected: Expected
    """(len(rows), columns)."""
    columns: Tensor | None = None
    """Indices into the columns that were evaluated; None: all."""
    decoded: Callable[[Any], Tensor] = lambda output: output
    """What an output means, as plain numbers (rows × width); may raise for an output of the wrong form."""


Build = Callable[[OperatorKernel, Sizes, str], BuiltOperator]
"""(kernel, sizes of the case, device) → BuiltOperator."""


def prepare_operator(spec: CaseSpec, device: str) -> PreparedKernel:
    """Prepare a case of an elementwise operator or a feed-forward block."""
    kernel = spec.kernel
    assert isinstance(kernel, OperatorKernel)
    built = build_operator(kernel, dict(spec.case.shape), device)
    fn: Callable[..., Any] = compiled_alone(built.fn) if kernel.is_compiled else built.fn

    def check(output: object) -> Deviation:
        return operator_deviation(built, output)

    return PreparedKernel(fn, argument_sets(built.args), check)


def build_operator(kernel: OperatorKernel, sizes: Sizes, device: str) -> BuiltOperator:
    """Generate the operands of a kernel and build it."""
    build: Build = imported(kernel.implementation)
    return build(kernel, sizes, device)


def operator_deviation(built: BuiltOperator, output: object) -> Deviation:
    """Return how far an output is from right; the error is NaN for a wrong form or shape, NaN or Inf."""
    try:
        values = built.decoded(output)
    except (AttributeError, RuntimeError, TypeError, ValueError):
        return Deviation(math.nan, 0.0)
    if not isinstance(values, Tensor) or tuple(values.shape) != built.shape or not bool(torch.isfinite(values).all()):
        return Deviation(math.nan, 0.0)
    picked = values[built.rows.to(values.device)]
    if built.columns is not None:
        picked = picked[:, built.columns.to(values.device)]
    return built.expected.deviation(picked.cpu(), "element")
