"""Absorbed latent attention (MLA decode): every head attends to the cached rows, whose first elements are the values.

A row holds the latent and, behind it, the rotated part of the key (DeepSeek-V3: 512 + 64 elements). One new token for
each sequence: the queries of all heads are queries of one head, because they read the same rows and no mask tells them
apart. torch has no kernel for this cache; these are its own kernels on views of it, and the rows are held once.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import sqrt

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from bench_cases.dtypes import DTYPES
from bench_cases.kernels.attention.prepare import AttentionSources, BuiltAttention
from bench_cases.kernels.attention.sdpa import refusal
from bench_cases.kernels.attention.spec import AttentionKernel, value_size
from bench_cases.kernels.attention.widened import packed_cache
from bench_cases.kernels.reference import HeldMatrix
from roofline_model.core.finding import Finding


def unfused(kernel: AttentionKernel, sources: AttentionSources) -> BuiltAttention:
    """Build product, softmax, product, with the scores of all heads (B, Hq, keys) in memory between them."""
    q, rows = _operands(kernel, sources)
    scale, width = 1 / sqrt(sources.sizes["D"]), value_size(sources.sizes)
    nothing = torch.zeros(1, 1, 1, dtype=q.dtype, device=q.device)

    def attend(q: Tensor, rows: Tensor) -> Tensor:
        queries, keys = q.squeeze(2), rows.squeeze(1)  # (B, Hq, D) and (B, keys, D)
        weights = torch.softmax(torch.baddbmm(nothing, queries, keys.mT, beta=0, alpha=scale), dim=-1)
        return torch.bmm(weights, keys[..., :width]).unsqueeze(2)

    args = (sources.query(q), sources.cached(rows))
    return BuiltAttention(attend, args, HeldMatrix(q), HeldMatrix(rows), _values(HeldMatrix(rows), width))


class LatentSdpa:
    """The call: O (B, Hq, 1, Dv) from queries (B, Hq, 1, D) and latent rows (B, 1, keys, D)."""

    def __init__(self, width: int, backend: SDPBackend) -> None:
        self._width, self._takes_whole_rows = width, backend is SDPBackend.FLASH_ATTENTION

    def __call__(self, q: Tensor, rows: Tensor) -> Tensor:
        """Return the values' part of the result; the flash backend computes the rest of the rows as well."""
        output = torch.nn.functional.scaled_dot_product_attention(q.transpose(1, 2), rows, self._values(rows))
        return output[..., : self._width].transpose(1, 2)

    def refusal(self, q: Tensor, rows: Tensor) -> Finding | None:
        """Return why the backend that is switched on cannot take these operands, in torch's words, or None."""
        return refusal(q.transpose(1, 2), rows, self._values(rows))

    def _values(self, rows: Tensor) -> Tensor:
        return rows if self._takes_whole_rows else rows[..., : self._width]


def _plain(kernel: AttentionKernel, sources: AttentionSources, *, backend: SDPBackend) -> BuiltAttention:
    q, rows = _operands(kernel, sources)
    width = value_size(sources.sizes)
    attend = LatentSdpa(width, backend)
    args = (sources.query(q), sources.cached(rows))
    return BuiltAttention(
        attend,
        args,
        HeldMatrix(q),
        HeldMatrix(rows),
        _values(HeldMatrix(rows), width),
        settings=partial(sdpa_kernel, backend),
        refusal=partial(attend.refusal, *args),
    )


def _widened(kernel: AttentionKernel, sources: AttentionSources, *, backend: SDPBackend) -> BuiltAttention:
    q = sources.q.to(DTYPES[kernel.q], copy=True)
    cache, width = packed_cache(kernel.kv, sources.k), value_size(sources.sizes)
    attend = LatentSdpa(width, backend)

    def call(q: Tensor, *codes: Tensor) -> Tensor:
        return attend(q, sources.cached(cache.decode(*codes)))

    args = (sources.query(q), *cache.tensors)
    wide = sources.cached(sources.k.to(DTYPES[kernel.q]))
    return BuiltAttention(
        call,
        args,
        HeldMatrix(q),
        cache.held,
        _values(cache.held, width),
        settings=partial(sdpa_kernel, backend),
        refusal=partial(attend.refusal, args[0], wide),
    )


def _operands(kernel: AttentionKernel, sources: AttentionSources) -> tuple[Tensor, Tensor]:
    q, rows = (rows.to(DTYPES[kernel.q], copy=True) for rows in (sources.q, sources.k))
    return q, rows


def _values(rows: HeldMatrix, width: int) -> HeldMatrix:
    """Return the first elements of rows that are held with one scale, or none, for a row."""
    assert rows.scales is None or rows.scales.shape[1] == 1
    return replace(rows, codes=rows.codes[:, :width])


flash = partial(_plain, backend=SDPBackend.FLASH_ATTENTION)
"""SDPA with the flash backend. It has one head size: the values are whole rows, and the result is cut."""
efficient = partial(_plain, backend=SDPBackend.EFFICIENT_ATTENTION)
"""SDPA with the memory-efficient backend (CUDA), whose values may be narrower than the keys."""
math = partial(_plain, backend=SDPBackend.MATH)
"""SDPA with the math backend."""
widened_flash = partial(_widened, backend=SDPBackend.FLASH_ATTENTION)
widened_efficient = partial(_widened, backend=SDPBackend.EFFICIENT_ATTENTION)
"""The widening of a quantised cache, then SDPA with that backend; both steps are in the call."""
