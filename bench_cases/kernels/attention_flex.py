"""FlexAttention: the mask is a function that torch.compile builds into the kernel. Unproven: no machine of ours ran it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from bench_cases.held import HeldMatrix
from bench_cases.kernels.attention_sdpa import DTYPES
from bench_cases.kernels.attention_spec import AttentionKernel, Sizes, mask_kind, stored_keys
from bench_cases.kernels.prepare_attention import AttentionSources, BuiltAttention


def flex(kernel: AttentionKernel, sources: AttentionSources) -> BuiltAttention:
    """Build compiled FlexAttention; blocks that the mask hides whole are skipped, as the block mask tells."""
    sizes, dtype = sources.sizes, DTYPES[kernel.q]
    q, k, v = (rows.to(dtype, copy=True) for rows in (sources.q, sources.k, sources.v))
    compiled: Any = torch.compile(flex_attention, dynamic=False)
    block_mask = None if mask_kind(sizes) == "none" else block_mask_of(sizes, q.device)
    grouped = sizes["Hq"] != sizes["Hkv"]

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        output: Tensor = compiled(q, k, v, block_mask=block_mask, enable_gqa=grouped)
        return output

    args = (sources.query(q), sources.cached(k), sources.cached(v))
    return BuiltAttention(attend, args, HeldMatrix(q), HeldMatrix(k), HeldMatrix(v))


def block_mask_of(sizes: Sizes, device: torch.device) -> BlockMask:
    """Return the block mask of a case, shared by all sequences and heads."""
    before = sizes["Skv"] - sizes["Sq"]
    dropped = sizes["Skv"] - stored_keys(sizes)
    causal, window = bool(sizes["causal"]), sizes["window"]

    def sees(b: Tensor, h: Tensor, query: Tensor, key: Tensor) -> Tensor:
        position, at = query + before, key + dropped
        seen = at <= position if causal else at >= 0
        return seen & (at > position - window) if window else seen

    return create_block_mask(sees, None, None, sizes["Sq"], stored_keys(sizes), device=device)
