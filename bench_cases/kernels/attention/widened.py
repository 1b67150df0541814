"""A quantised cache without a kernel that reads it: widen K and V to BF16, then attend. Both steps are in the timed
call.

What such a cache costs in eager torch, and labelled *emulated*; a fused kernel would read it once as it is.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from bench_cases.kernels.attention.prepare import AttentionSources, BuiltAttention
from bench_cases.kernels.attention.sdpa import Sdpa
from bench_cases.kernels.attention.spec import AttentionKernel
from bench_cases.kernels.products.dequantize import Packed, packed_weight
from bench_cases.kernels.products.quantizers import fp8_tensor
from bench_cases.kernels.reference import HeldMatrix


def widened_flash(kernel: AttentionKernel, sources: AttentionSources) -> BuiltAttention:
    """Build widening of both halves of the cache, then SDPA with the flash backend."""
    q = sources.q.to(torch.bfloat16, copy=True)
    k, v = packed_cache(kernel.kv, sources.k), packed_cache(kernel.kv, sources.v)
    attend = Sdpa(sources.sizes, q.device, torch.bfloat16)
    count = len(k.tensors)

    def call(q: Tensor, *cache: Tensor) -> Tensor:
        keys, values = k.decode(*cache[:count]), v.decode(*cache[count:])
        return attend(q, sources.cached(keys), sources.cached(values))

    return BuiltAttention(
        call,
        (sources.query(q), *k.tensors, *v.tensors),
        HeldMatrix(q),
        k.held,
        v.held,
        settings=partial(sdpa_kernel, SDPBackend.FLASH_ATTENTION),
    )


def packed_cache(format_key: str, rows: Tensor) -> Packed:
    """Quantise and pack the rows of a cache, with the function that widens them to BF16 in the timed call."""
    if format_key != "FP8_E4M3":
        return packed_weight(format_key, rows)
    quantized = fp8_tensor(rows)  # one scale for the layer, as inference engines keep an FP8 cache by default
    assert quantized.scales is not None

    def decode(codes: Tensor, scale: Tensor) -> Tensor:
        return (codes.float() * scale).to(torch.bfloat16)

    return Packed((quantized.codes, quantized.scales[0, 0].clone()), quantized, decode)
