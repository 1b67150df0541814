"""Attention as three kernels with the scores in memory between them, as a model without fusion runs it."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from bench_cases.dtypes import DTYPES
from bench_cases.kernels.attention.mask import added_mask
from bench_cases.kernels.attention.prepare import AttentionSources, BuiltAttention
from bench_cases.kernels.attention.spec import AttentionKernel, mask_kind
from bench_cases.kernels.reference import HeldMatrix


def unfused(kernel: AttentionKernel, sources: AttentionSources) -> BuiltAttention:
    """Build batched product, softmax, batched product; a mask is added to the scores where there is one.

    The query heads that share a key/value head are rows of one product, so K and V are not repeated. The scale 1/√D
    is the product's own factor.
    """
    sizes, dtype = sources.sizes, DTYPES[kernel.q]
    q, k, v = (rows.to(dtype, copy=True) for rows in (sources.q, sources.k, sources.v))
    group, scale = sizes["Hq"] // sizes["Hkv"], 1 / math.sqrt(sizes["D"])
    mask = None
    if mask_kind(sizes) != "none":
        mask = added_mask(sizes, q.device, dtype).repeat(group, 1)  # rows of one product: group × Sq
    nothing = torch.zeros(1, 1, 1, dtype=dtype, device=q.device)

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        rows = q.flatten(0, 1).unflatten(0, (-1, group)).flatten(1, 2)
        added = nothing if mask is None else mask
        scores = torch.baddbmm(added, rows, k.flatten(0, 1).mT, beta=0 if mask is None else 1, alpha=scale)
        weights = torch.softmax(scores, dim=-1)
        return torch.bmm(weights, v.flatten(0, 1)).view(*q.shape[:-1], -1)

    args = (sources.query(q), sources.cached(k), sources.cached(v))
    return BuiltAttention(attend, args, HeldMatrix(q), HeldMatrix(k), HeldMatrix(v))
