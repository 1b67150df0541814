"""INT8 products: both operands in INT8 with an INT32 result, and weight-only with a 16-bit activation."""

from __future__ import annotations

import torch
from torch import Tensor

from bench_cases.kernels.held import HeldMatrix
from bench_cases.kernels.products.prepare import Built
from bench_cases.kernels.products.quantizers import int8_rows
from bench_cases.kernels.spec import KernelSpec

PADDED_ROWS = 32


def int_mm(kernel: KernelSpec, activation: Tensor, weight: Tensor) -> Built:
    """Build `torch._int_mm(A, Wᵀ)` on codes; the transposed view is the layout that runs fastest on CPU and CUDA."""
    a, w = int8_rows(activation).codes, int8_rows(weight).codes
    # The kernel's answer is the INT32 product of the codes: no scale takes part.
    return Built(torch._int_mm, (a, w.t()), HeldMatrix(a), HeldMatrix(w))


def int_mm_padded(kernel: KernelSpec, activation: Tensor, weight: Tensor) -> Built:
    """Build `_int_mm` for M ≤ 16, which CUDA refuses: the padding is part of the call."""
    plain = int_mm(kernel, activation, weight)
    rows = activation.shape[0]

    def padded(a: Tensor, w_t: Tensor) -> Tensor:
        return torch._int_mm(torch.nn.functional.pad(a, (0, 0, 0, PADDED_ROWS - rows)), w_t)[:rows]

    return Built(padded, plain.args, plain.activation, plain.weight)


def int8pack(kernel: KernelSpec, activation: Tensor, weight: Tensor) -> Built:
    """Build `torch._weight_int8pack_mm`: BF16 activation, INT8 weight, one BF16 scale per output channel."""
    a, held = activation.to(torch.bfloat16), int8_rows(weight)
    assert held.scales is not None
    return Built(torch._weight_int8pack_mm, (a, held.codes, held.scales.flatten()), HeldMatrix(a), held)
