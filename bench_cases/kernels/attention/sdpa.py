"""`torch.nn.functional.scaled_dot_product_attention` with one backend switched on: flash, math, efficient, cuDNN."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from bench_cases.dtypes import DTYPES
from bench_cases.kernels.attention.mask import added_mask
from bench_cases.kernels.attention.prepare import AttentionSources, BuiltAttention
from bench_cases.kernels.attention.spec import AttentionKernel, mask_kind, value_size
from bench_cases.kernels.reference import HeldMatrix
from bench_cases.kernels.rules import Sizes
from roofline_model.core.finding import Finding, finding

_NO_PLAN = re.compile(r"cuDNN Frontend error.*execution plan", re.DOTALL)
"""What cudnn-frontend says of a graph that no engine takes (PyTorch issue 140930, cudnn-frontend issue 75)."""


def cudnn(kernel: AttentionKernel, sources: AttentionSources) -> BuiltAttention:
    """Build SDPA with the cuDNN backend (CUDA)."""
    built = _sdpa(kernel, sources, backend=SDPBackend.CUDNN_ATTENTION)
    return replace(built, refusal=lambda: built.refusal() or plan_refusal(partial(built.fn, *built.args)))


def flash_padded(kernel: AttentionKernel, sources: AttentionSources) -> BuiltAttention:
    """Build SDPA with the flash backend on values padded to the keys' width; padding and cutting are in the call."""
    sizes = sources.sizes
    plain, attend = _sdpa(kernel, sources, backend=SDPBackend.FLASH_ATTENTION), _attend(kernel, sources)
    width, missing = value_size(sizes), sizes["D"] - value_size(sizes)

    def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attend(q, k, torch.nn.functional.pad(v, (0, missing)))[..., :width]

    q, k, _ = plain.args
    # Keys stand in for padded values: torch's choice depends on sizes and layout only.
    return replace(plain, fn=call, refusal=partial(attend.refusal, q, k, k))


def _sdpa(kernel: AttentionKernel, sources: AttentionSources, *, backend: SDPBackend) -> BuiltAttention:
    dtype = DTYPES[kernel.q]
    q, k, v = (rows.to(dtype, copy=True) for rows in (sources.q, sources.k, sources.v))
    attend = _attend(kernel, sources)
    args = (sources.query(q), sources.cached(k), sources.cached(v))
    return BuiltAttention(
        attend,
        args,
        HeldMatrix(q),
        HeldMatrix(k),
        HeldMatrix(v),
        settings=partial(sdpa_kernel, backend),
        refusal=partial(attend.refusal, *args),
    )


flash = partial(_sdpa, backend=SDPBackend.FLASH_ATTENTION)
math = partial(_sdpa, backend=SDPBackend.MATH)
efficient = partial(_sdpa, backend=SDPBackend.EFFICIENT_ATTENTION)
"""SDPA with one backend; the memory-efficient one is CUDA's."""


def _attend(kernel: AttentionKernel, sources: AttentionSources) -> Sdpa:
    return Sdpa(sources.sizes, sources.q.device, DTYPES[kernel.q])


class Sdpa:
    """The call with the mask of a case: none, causal, or a tensor made beforehand."""

    def __init__(self, sizes: Sizes, device: torch.device, dtype: torch.dtype) -> None:
        kind = mask_kind(sizes)
        self._causal, self._grouped = kind == "causal", sizes["Hq"] != sizes["Hkv"]
        # Added to the scores: a boolean mask would be turned into this form anew in every call.
        self._mask = added_mask(sizes, device, dtype) if kind == "band" else None

    def __call__(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Return O (B, Hq, Sq, D)."""
        return torch.nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask=self._mask, is_causal=self._causal, enable_gqa=self._grouped
        )

    def refusal(self, q: Tensor, k: Tensor, v: Tensor) -> Finding | None:
        """Return why the backend that is switched on cannot take these operands, in torch's words, or None."""
        return refusal(q, k, v, self._mask, is_causal=self._causal, enable_gqa=self._grouped)


def refusal(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, *, is_causal: bool = False, enable_gqa: bool = False
) -> Finding | None:
    """Return why no backend that is switched on can take these operands, in torch's words, or None.

    Asks torch's own selection, which runs nothing; a torch without that function is asked by the first call.
    """
    choose = getattr(torch, "_fused_sdp_choice", None)
    if choose is None:
        return None
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            chosen = choose(q, k, v, mask, 0.0, is_causal, enable_gqa=enable_gqa)
        except RuntimeError as error:
            return _refused(str(error), heard)
    return _refused("no backend", heard) if chosen == SDPBackend.ERROR.value else None


def plan_refusal(call: Callable[[], object]) -> Finding | None:
    """Return why cuDNN has no execution plan for a call, in torch's words, or None; makes the call.

    torch chooses cuDNN by rules of its own; whether cuDNN has an engine for the graph is known when it builds the plan.
    Any other error is the case's own, and comes back in its first call.
    """
    try:
        call()
    except RuntimeError as error:
        return _refused(str(error), []) if _NO_PLAN.search(str(error)) else None
    return None


def _refused(error: str, heard: list[warnings.WarningMessage]) -> Finding:
    """Return the error, in one line with the reasons that torch gives as warnings before it."""
    messages = [str(warning.message).split(" (Triggered internally")[0] for warning in heard]
    words = " ".join(" ".join((error, *messages)).split())
    return finding("shape-not-taken", kind="torch", torch_version=torch.__version__, error=words)
