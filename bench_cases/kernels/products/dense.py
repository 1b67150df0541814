"""Products in the formats that torch multiplies directly: FP32, TF32, BF16, FP16, and FP8 E4M3 with FP32 scales.

FP8 has one scale per tensor, or one per row of A and column of B, and a BF16 result.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from bench_cases.dtypes import DTYPES
from bench_cases.kernels.products.prepare import Built, fp32_matmul_precision
from bench_cases.kernels.products.quantizers import fp8_rows, fp8_tensor
from bench_cases.kernels.products.spec import KernelSpec
from bench_cases.kernels.reference import HeldMatrix


def matmul(kernel: KernelSpec, activation: Tensor, weight: Tensor) -> Built:
    """Build `torch.mm(A, Wᵀ)` with the weight stored (N, K), as a linear layer holds it.

    A (K, N) copy would be slower on CPUs: FP16 then leaves oneDNN and takes 150 times as long (torch 2.13).
    """
    is_tf32 = kernel.activation == "TF32"
    dtype = DTYPES["FP32" if is_tf32 else kernel.activation]
    a, w = (source.to(dtype, copy=True) for source in (activation, weight))  # never the shared source itself
    precision = "high" if is_tf32 else "highest"
    settings = partial(fp32_matmul_precision, precision)
    return Built(torch.mm, (a, w.t()), HeldMatrix(a), HeldMatrix(w), settings)


def scaled_mm_tensorwise(
    kernel: KernelSpec, activation: Tensor, weight: Tensor, *, use_fast_accum: bool = False
) -> Built:
    """Build the scaled product with one scale per operand."""
    a, w = fp8_tensor(activation), fp8_tensor(weight)
    assert a.scales is not None
    assert w.scales is not None
    scale_a, scale_w = a.scales[0, 0].clone(), w.scales[0, 0].clone()
    call = scaled_product("TensorWise", device=activation.device.type, use_fast_accum=use_fast_accum)
    return Built(call, (a.codes, w.codes.t(), scale_a, scale_w), a, w)


def scaled_mm_rowwise(kernel: KernelSpec, activation: Tensor, weight: Tensor, *, use_fast_accum: bool = False) -> Built:
    """Build the scaled product with scales (M, 1) and (1, N)."""
    a, w = fp8_rows(activation), fp8_rows(weight)
    assert a.scales is not None
    assert w.scales is not None
    call = scaled_product("RowWise", device=activation.device.type, use_fast_accum=use_fast_accum)
    return Built(call, (a.codes, w.codes.t(), a.scales, w.scales.t().contiguous()), a, w)


scaled_mm_fast = partial(scaled_mm_tensorwise, use_fast_accum=True)
"""The same, with sums that are not promoted to FP32 on the way: torchao's default (`Float8MMConfig`), not torch's."""
scaled_mm_rowwise_fast = partial(scaled_mm_rowwise, use_fast_accum=True)


def scaled_product(recipe_name: str, *, device: str = "cuda", use_fast_accum: bool = False) -> Callable[..., Tensor]:
    """Return torch's scaled product of FP8 codes with BF16 results, by a recipe of `ScalingType`.

    torch 2.11 has no such kernel for CPUs, only the older one with scales of the whole tensor: scaled afterwards.
    """
    functional = torch.nn.functional
    if device == "cpu" and not torch._C._dispatch_has_kernel_for_dispatch_key("aten::_scaled_mm_v2", "CPU"):

        def scaled_after(a: Tensor, w_t: Tensor, scale_a: Tensor, scale_w: Tensor) -> Tensor:
            unit = torch.ones((), device=a.device)
            codes = torch._scaled_mm(a, w_t, unit, unit, out_dtype=torch.float32)
            return (codes * scale_a * scale_w).to(torch.bfloat16)

        return scaled_after
    recipe = getattr(functional.ScalingType, recipe_name)

    def public(a: Tensor, w_t: Tensor, scale_a: Tensor, scale_w: Tensor) -> Tensor:
        return functional.scaled_mm(
            a, w_t, scale_a, recipe, scale_w, recipe, output_dtype=torch.bfloat16, use_fast_accum=use_fast_accum
        )

    return public
