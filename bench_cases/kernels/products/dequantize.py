"""Weights in a format without a kernel of its own: decode to BF16, then multiply. Both steps are in the timed call.

Eager torch on packed weights: honest about what such a format costs without a fused kernel, and labelled *emulated*.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from bench_cases.kernels import packing
from bench_cases.kernels.products.prepare import Built
from bench_cases.kernels.products.quantizers import affine_groups, int8_rows, mx_blocks, nf4_blocks, nvfp4_blocks
from bench_cases.kernels.products.spec import KernelSpec
from bench_cases.kernels.reference import HeldMatrix

Rearrange = Callable[[Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class _Storage:
    """Quantiser, packer and unpacker of a format."""

    quantize: Callable[[Tensor], HeldMatrix]
    pack: Rearrange
    unpack: Rearrange


def _same(codes: Tensor) -> Tensor:
    return codes


_STORAGE = {
    "INT8": _Storage(int8_rows, _same, _same),
    "NVFP4": _Storage(nvfp4_blocks, packing.pack_nibbles_low_first, packing.unpack_nibbles_low_first),
    "MXFP4": _Storage(
        lambda w: mx_blocks(w, "MXFP4"), packing.pack_nibbles_low_first, packing.unpack_nibbles_low_first
    ),
    "NF4": _Storage(nf4_blocks, packing.pack_nibbles_low_first, packing.unpack_nibbles_low_first),
    "MXFP6_E3M2": _Storage(lambda w: mx_blocks(w, "MXFP6_E3M2"), packing.pack_6bit, packing.unpack_6bit),
    "INT2": _Storage(lambda w: affine_groups(w, 2, 64, centred=False), packing.pack_2bit, packing.unpack_2bit),
}


@dataclass(frozen=True, slots=True)
class Packed:
    """A quantised matrix as a kernel reads it, and how it is decoded."""

    tensors: tuple[Tensor, ...]
    """Packed codes, scales, and what else `decode` takes."""
    held: HeldMatrix
    decode: Callable[..., Tensor]
    """Called with `tensors` (or copies of them); returns (rows, K) BF16."""


def packed_weight(format_key: str, matrix: Tensor) -> Packed:
    """Quantise and pack an FP32 matrix (rows × K) in one of the formats that have no kernel of their own."""
    storage = _STORAGE[format_key]
    quantized = storage.quantize(matrix)
    assert quantized.scales is not None
    table = None if quantized.table is None else quantized.table.to(matrix.device, torch.bfloat16)
    tensor_scale, unpack = quantized.tensor_scale, storage.unpack

    def decode(packed: Tensor, scales: Tensor, *offsets: Tensor) -> Tensor:
        codes = unpack(packed)
        values = codes.to(torch.bfloat16) if table is None else table[codes.int()]
        blocks = values.unflatten(1, (scales.shape[1], -1))
        # The scale is applied in FP32 and the weight rounded once, as a fused kernel would.
        decoded = blocks * (scales.float() * tensor_scale).unsqueeze(2)
        if offsets:
            decoded = decoded + offsets[0].float().unsqueeze(2)
        return decoded.to(torch.bfloat16).flatten(1)

    offsets = () if quantized.offsets is None else (quantized.offsets,)
    return Packed((storage.pack(quantized.codes), quantized.scales, *offsets), quantized, decode)


def dequant_matmul(kernel: KernelSpec, activation: Tensor, weight: Tensor) -> Built:
    """Build decode-then-multiply for the weight format of `kernel`."""
    a, packed = activation.to(torch.bfloat16), packed_weight(kernel.weight, weight)

    def multiply(a: Tensor, *weight: Tensor) -> Tensor:
        return torch.nn.functional.linear(a, packed.decode(*weight))

    return Built(multiply, (a, *packed.tensors), HeldMatrix(a), packed.held)
