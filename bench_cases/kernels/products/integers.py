"""Integer products: INT8 by INT8 with an INT32 result, and weight-only INT8 and INT4 with a 16-bit activation.

INT4 weights come in groups of 128 with a BF16 scale and zero point.
"""

from __future__ import annotations

import torch
from torch import Tensor

from bench_cases.kernels.packing import pack_nibbles_high_first
from bench_cases.kernels.products.prepare import Built
from bench_cases.kernels.products.quantizers import affine_groups, int8_rows
from bench_cases.kernels.products.spec import KernelSpec
from bench_cases.kernels.reference import HeldMatrix

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
    a, quantized = activation.to(torch.bfloat16), int8_rows(weight)
    assert quantized.scales is not None
    return Built(torch._weight_int8pack_mm, (a, quantized.codes, quantized.scales.flatten()), HeldMatrix(a), quantized)


INNER_K_TILES = 8
"""K tiles of 16 that tinygemm packs together: K must be a multiple of 128."""


def int4pack_cpu(kernel: KernelSpec, activation: Tensor, weight: Tensor) -> Built:
    """Build `torch._weight_int4pack_mm_for_cpu` on the CPU's own packing."""
    a, quantized_weight, scales_and_zeros, group = _quantized(kernel, activation, weight)
    # The CPU packer takes one int32 per code; its second argument is ignored there.
    packed = torch._convert_weight_to_int4pack_for_cpu(quantized_weight.codes.to(torch.int32), 1)

    def multiply(a: Tensor, packed: Tensor, scales_and_zeros: Tensor) -> Tensor:
        return torch._weight_int4pack_mm_for_cpu(a, packed, group, scales_and_zeros)

    return Built(multiply, (a, packed, scales_and_zeros), HeldMatrix(a), quantized_weight)


def tinygemm(kernel: KernelSpec, activation: Tensor, weight: Tensor) -> Built:
    """Build `torch._weight_int4pack_mm` (CUDA): weights tiled for tensor cores by `_convert_weight_to_int4pack`."""
    a, quantized_weight, scales_and_zeros, group = _quantized(kernel, activation, weight)
    packed = torch._convert_weight_to_int4pack(pack_nibbles_high_first(quantized_weight.codes), INNER_K_TILES)

    def multiply(a: Tensor, packed: Tensor, scales_and_zeros: Tensor) -> Tensor:
        return torch._weight_int4pack_mm(a, packed, group, scales_and_zeros)

    return Built(multiply, (a, packed, scales_and_zeros), HeldMatrix(a), quantized_weight)


def _quantized(kernel: KernelSpec, activation: Tensor, weight: Tensor) -> tuple[Tensor, HeldMatrix, Tensor, int]:
    assert kernel.group_size is not None
    quantized = affine_groups(weight, 4, kernel.group_size, centred=True)
    return activation.to(torch.bfloat16), quantized, scales_and_zeros(quantized), kernel.group_size


def scales_and_zeros(quantized: HeldMatrix) -> Tensor:
    """Return scale and zero point side by side, group-major: (K / group, N, 2), what both INT4 kernels read."""
    assert quantized.scales is not None
    assert quantized.offsets is not None
    return torch.stack((quantized.scales.t(), quantized.offsets.t()), dim=2).contiguous()
