"""INT4 weight-only products: BF16 activation, groups of 128 weights with a BF16 scale and zero point."""

from __future__ import annotations

import torch
from torch import Tensor

from bench_cases.kernels.held import HeldMatrix
from bench_cases.kernels.packing import pack_nibbles_high_first
from bench_cases.kernels.products.prepare import Built
from bench_cases.kernels.products.quantizers import affine_groups
from bench_cases.kernels.spec import KernelSpec

INNER_K_TILES = 8
"""K tiles of 16 that tinygemm packs together: K must be a multiple of 128."""


def int4pack_cpu(kernel: KernelSpec, activation: Tensor, weight: Tensor) -> Built:
    """Build `torch._weight_int4pack_mm_for_cpu` on the CPU's own packing."""
    a, held, scales_and_zeros, group = _quantized(kernel, activation, weight)
    # The CPU packer takes one int32 per code; its second argument is ignored there.
    packed = torch._convert_weight_to_int4pack_for_cpu(held.codes.to(torch.int32), 1)

    def multiply(a: Tensor, packed: Tensor, scales_and_zeros: Tensor) -> Tensor:
        return torch._weight_int4pack_mm_for_cpu(a, packed, group, scales_and_zeros)

    return Built(multiply, (a, packed, scales_and_zeros), HeldMatrix(a), held)


def tinygemm(kernel: KernelSpec, activation: Tensor, weight: Tensor) -> Built:
    """Build `torch._weight_int4pack_mm` (CUDA): weights tiled for tensor cores by `_convert_weight_to_int4pack`."""
    a, held, scales_and_zeros, group = _quantized(kernel, activation, weight)
    packed = torch._convert_weight_to_int4pack(pack_nibbles_high_first(held.codes), INNER_K_TILES)

    def multiply(a: Tensor, packed: Tensor, scales_and_zeros: Tensor) -> Tensor:
        return torch._weight_int4pack_mm(a, packed, group, scales_and_zeros)

    return Built(multiply, (a, packed, scales_and_zeros), HeldMatrix(a), held)


def _quantized(kernel: KernelSpec, activation: Tensor, weight: Tensor) -> tuple[Tensor, HeldMatrix, Tensor, int]:
    assert kernel.group_size is not None
    held = affine_groups(weight, 4, kernel.group_size, centred=True)
    return activation.to(torch.bfloat16), held, scales_and_zeros(held), kernel.group_size


def scales_and_zeros(held: HeldMatrix) -> Tensor:
    """Return scale and zero point side by side, group-major: (K / group, N, 2), what both INT4 kernels read."""
    assert held.scales is not None
    assert held.offsets is not None
    return torch.stack((held.scales.t(), held.offsets.t()), dim=2).contiguous()
