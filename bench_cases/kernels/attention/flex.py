"""FlexAttention: the mask is a function that torch.compile builds into the kernel.

What ran on hardware stands in docs/reference/measuring.md.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from bench_cases.dtypes import DTYPES
from bench_cases.kernels.attention.prepare import AttentionSources, BuiltAttention
from bench_cases.kernels.attention.spec import AttentionKernel, mask_kind, stored_keys
from bench_cases.kernels.products.quantizers import fp8_tensor
from bench_cases.kernels.proof import compiled_alone
from bench_cases.kernels.reference import HeldMatrix
from bench_cases.kernels.rules import Sizes

STORED = {**DTYPES, "FP8_E4M3": torch.float8_e4m3fn}


def flex(kernel: AttentionKernel, sources: AttentionSources) -> BuiltAttention:
    """Build compiled FlexAttention; blocks that the mask hides whole are skipped, as the block mask tells.

    FP8 queries have one scale per tensor, as their keys and values: those of the scores are part of the kernel's
    constant, that of the values stays with the FP8 result. A cache of FP8 under wider queries has scale 1, as engines
    keep it where none was calibrated; the kernel widens it.
    """
    sizes, is_fp8 = sources.sizes, kernel.q == "FP8_E4M3"
    hold = _quantized if is_fp8 else _stored
    q, k, v = hold(sources.q, kernel.q), hold(sources.k, kernel.kv), hold(sources.v, kernel.kv)
    scale = q.tensor_scale * k.tensor_scale / math.sqrt(sizes["D"])
    compiled = compiled_alone(flex_attention)
    block_mask = None if mask_kind(sizes) == "none" else block_mask_of(sizes, sources.q.device)
    grouped = sizes["Hq"] != sizes["Hkv"]

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        output: Tensor = compiled(q, k, v, block_mask=block_mask, scale=scale, enable_gqa=grouped)
        return output

    values = sources.cached(v.codes)
    args = (sources.query(q.codes), sources.cached(k.codes), _columns_together(values) if is_fp8 else values)
    if not is_fp8:
        return BuiltAttention(attend, args, q, k, v)
    return BuiltAttention(attend, args, q, k, v, decoded=partial(_decoded, scale=v.tensor_scale))


def _stored(rows: Tensor, format_key: str) -> HeldMatrix:
    return HeldMatrix(rows.to(STORED[format_key], copy=True))


def _quantized(rows: Tensor, format_key: str) -> HeldMatrix:
    """Quantise to E4M3, the only such format here, with one scale: a number that a kernel can be compiled with."""
    assert format_key == "FP8_E4M3"
    quantized = fp8_tensor(rows)
    assert quantized.scales is not None
    return replace(quantized, scales=None, tensor_scale=float(quantized.scales[0, 0]))


def _columns_together(values: Tensor) -> Tensor:
    """Return FP8 values with each column in one piece, as the second product wants them: torch would copy in every
    call.
    """
    return values.view(torch.uint8).mT.contiguous().mT.view(values.dtype)


def _decoded(output: Tensor, scale: float) -> Tensor:
    if output.dtype != torch.float8_e4m3fn:
        raise TypeError(f"an FP8 result was expected, got {output.dtype}")
    return output.float() * scale


def block_mask_of(sizes: Sizes, device: torch.device) -> BlockMask:
    """Return the block mask of a case, shared by all sequences and heads."""
    offset = sizes["Skv"] - sizes["Sq"]
    dropped = sizes["Skv"] - stored_keys(sizes)
    causal, window = bool(sizes["causal"]), sizes["window"]

    def sees(b: Tensor, h: Tensor, query: Tensor, key: Tensor) -> Tensor:
        position, at = query + offset, key + dropped
        is_visible = at <= position if causal else at >= 0
        return is_visible & (at > position - window) if window else is_visible

    return create_block_mask(sees, None, None, sizes["Sq"], stored_keys(sizes), device=device)
