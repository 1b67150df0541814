"""Block-scaled products on tensor cores (compute capability ≥ 10): MXFP8, MXFP4, NVFP4, all through `scaled_mm`.

Operands are K-major, scales swizzled (`packing.swizzle_block_scales`), two FP4 codes per byte. Packing and layouts are
tested on a CPU; the calls themselves are unproven: no machine of ours could run them.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from bench_cases.kernels.packing import pack_nibbles_low_first, swizzle_block_scales
from bench_cases.kernels.products.prepare import Built
from bench_cases.kernels.products.quantizers import mx_blocks, nvfp4_blocks
from bench_cases.kernels.products.spec import KernelSpec
from bench_cases.kernels.reference import HeldMatrix


def mxfp8(kernel: KernelSpec, activation: Tensor, weight: Tensor) -> Built:
    """Build E4M3 × E4M3 with an E8M0 scale per 32 elements."""
    a, w = mx_blocks(activation, "MXFP8_E4M3"), mx_blocks(weight, "MXFP8_E4M3")
    return Built(
        one_level_product("BlockWise1x32"), (a.codes, w.codes.t(), swizzled_scales(a), swizzled_scales(w)), a, w
    )


def mxfp4(kernel: KernelSpec, activation: Tensor, weight: Tensor) -> Built:
    """Build E2M1 × E2M1 with an E8M0 scale per 32 elements."""
    a, w = mx_blocks(activation, "MXFP4"), mx_blocks(weight, "MXFP4")
    return Built(
        one_level_product("BlockWise1x32"),
        (packed_fp4(a), packed_fp4(w).t(), swizzled_scales(a), swizzled_scales(w)),
        a,
        w,
    )


def nvfp4(kernel: KernelSpec, activation: Tensor, weight: Tensor) -> Built:
    """Build E2M1 × E2M1 with an E4M3 scale per 16 elements and an FP32 scale per tensor."""
    a, w = nvfp4_blocks(activation), nvfp4_blocks(weight)
    args = (
        packed_fp4(a),
        packed_fp4(w).t(),
        swizzled_scales(a),
        swizzled_scales(w),
        tensor_scale_of(a),
        tensor_scale_of(w),
    )
    return Built(two_level_product(), args, a, w)


def packed_fp4(quantized: HeldMatrix) -> Tensor:
    """Return the codes two to a byte as `float4_e2m1fn_x2`: (rows, K/2)."""
    return pack_nibbles_low_first(quantized.codes).view(torch.float4_e2m1fn_x2)


def swizzled_scales(quantized: HeldMatrix) -> Tensor:
    """Return the block scales in the tensor cores' layout, flattened."""
    assert quantized.scales is not None
    return swizzle_block_scales(quantized.scales)


def tensor_scale_of(quantized: HeldMatrix) -> Tensor:
    """Return NVFP4's scale of the whole matrix as a tensor beside its codes."""
    return torch.tensor(quantized.tensor_scale, dtype=torch.float32, device=quantized.codes.device)


def one_level_product(recipe_name: str) -> Callable[..., Tensor]:
    """Return the product of operands with one level of block scales: (a, wᵀ, scales of a, scales of w) → (M, N)
    BF16.
    """
    functional = torch.nn.functional
    recipe, swizzle = getattr(functional.ScalingType, recipe_name), functional.SwizzleType.SWIZZLE_32_4_4

    def multiply(a: Tensor, w_t: Tensor, scale_a: Tensor, scale_w: Tensor) -> Tensor:
        return functional.scaled_mm(
            a, w_t, scale_a, recipe, scale_w, recipe, swizzle_a=swizzle, swizzle_b=swizzle, output_dtype=torch.bfloat16
        )

    return multiply


def two_level_product() -> Callable[..., Tensor]:
    """Return NVFP4's product: (a, wᵀ, block scales of a and w, tensor scales of a and w) → (M, N) BF16."""
    functional = torch.nn.functional
    recipe = [functional.ScalingType.BlockWise1x16, functional.ScalingType.TensorWise]
    swizzle = [functional.SwizzleType.SWIZZLE_32_4_4, functional.SwizzleType.NO_SWIZZLE]

    def multiply(
        a: Tensor, w_t: Tensor, scale_a: Tensor, scale_w: Tensor, tensor_a: Tensor, tensor_w: Tensor
    ) -> Tensor:
        return functional.scaled_mm(
            a,
            w_t,
            [scale_a, tensor_a],
            recipe,
            [scale_w, tensor_w],
            recipe,
            swizzle_a=swizzle,
            swizzle_b=swizzle,
            output_dtype=torch.bfloat16,
        )

    return multiply
