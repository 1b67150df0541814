"""FP8 attention: FlashAttention-3 on E4M3 operands, through torch's own operator.

Unproven: no machine of ours ran it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from bench_cases.kernels.attention.prepare import AttentionSources, BuiltAttention
from bench_cases.kernels.attention.spec import AttentionKernel, mask_kind
from bench_cases.kernels.products.quantizers import scaled_rows
from bench_cases.kernels.reference import HeldMatrix
from roofline_model.core.errors import UnsupportedError


def fa3_fp8(kernel: AttentionKernel, sources: AttentionSources) -> BuiltAttention:
    """Build `_scaled_dot_product_flash_attention.quantized`: scales (B, Hkv) for Q, K and V, BF16 result.

    All query heads that share a key/value head share its scale: the operator takes one per key/value head.
    """
    groups = sources.sizes["B"] * sources.sizes["Hkv"]
    causal = mask_kind(sources.sizes) == "causal"
    (q, scale_q), (k, scale_k), (v, scale_v) = (e4m3_groups(rows, groups) for rows in (sources.q, sources.k, sources.v))

    def attend(q: Tensor, k: Tensor, v: Tensor, scale_q: Tensor, scale_k: Tensor, scale_v: Tensor) -> Tensor:
        output: Tensor = torch.ops.aten._scaled_dot_product_flash_attention.quantized(
            q, k, v, scale_q, scale_k, scale_v, 0.0, causal, False
        )[0]
        return output

    scales = (scale.view(sources.sizes["B"], sources.sizes["Hkv"]) for scale in (scale_q, scale_k, scale_v))
    args = (sources.query(q.codes), sources.cached(k.codes), sources.cached(v.codes), *scales)
    return BuiltAttention(attend, args, q, k, v, settings=_fa3)


def e4m3_groups(rows: Tensor, groups: int) -> tuple[HeldMatrix, Tensor]:
    """Quantise to E4M3 with one FP32 scale per equal group of successive rows; returns the matrix and the scales
    (groups,).
    """
    quantized = scaled_rows(rows, "FP8_E4M3", scale_count=groups)
    assert quantized.scales is not None
    return quantized, quantized.scales[:: rows.shape[0] // groups, 0].clone()


@contextmanager
def _fa3() -> Iterator[None]:
    """Switch torch's flash attention to FlashAttention-3, and back afterwards.

    Raises `UnsupportedError` where the installed package does not bring the kernels that torch looks for.
    """
    try:
        torch.nn.attention.activate_flash_attention_impl("FA3")
    except (ImportError, RuntimeError) as error:
        raise UnsupportedError(f"fa3_fp8: torch cannot switch to FlashAttention-3: {error}") from error
    try:
        yield
    finally:
        torch.nn.attention.restore_flash_attention_impl()
