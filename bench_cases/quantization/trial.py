"""Tries a quantised layer before the model gets it: does it run, is what it gives finite, is it still the same weight.

torchao takes some weights that its kernels then refuse (one row in MXFP4), and rounds very small ones to nothing,
because its scales have a least value. Neither says so; a product tells.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bench_cases.quantization.failures import cause_of, is_memory_short
from roofline_model.core.finding import Finding, finding

MAX_WEIGHT_ERROR_RATIO = 0.5
"""Largest relative error (Frobenius) of a decoded weight that is handed over. Rounding to 4 bits costs 0.1 to 0.2;
decoding everything to zero costs 1.
"""
PROBES_COUNT = 8
_PROBE_SEED = 7
_CHUNK_ROWS = 1024


def fault_of_layer(layer: nn.Linear, original: Tensor) -> Finding | None:
    """Return why a quantised layer must not be used, or None.

    layer: holds the quantised weight (N, K) and the bias. original: the weight it was made from. One product with M = 1
    must run and be finite (unless the original's own is not); products with rows of +1 and -1, which every activation
    format holds exactly, estimate the relative error of the decoded weight: E|ΔW·r|² = |ΔW|².
    """
    weight = original.detach()
    K = weight.shape[1]
    ones = torch.ones(1, K, dtype=weight.dtype, device=weight.device)
    try:
        with torch.no_grad():
            first_output = layer(ones)
            signs = _signs(K, weight)
            probed = nn.functional.linear(signs, layer.weight)
            is_broken = _is_worse(first_output, nn.functional.linear(ones, weight, layer.bias)) or _is_worse(
                probed, nn.functional.linear(signs, weight)
            )
    except Exception as error:  # a kernel's assertion, a shape it does not take: torchao has no one class for it
        if is_memory_short(error):
            raise
        return finding("layer-kept-wide", kind="product-fails", cause=cause_of(error))
    if is_broken:
        return finding("layer-kept-wide", kind="product")
    error_ratio = _error_ratio(probed, signs, weight)
    if error_ratio is None or error_ratio <= MAX_WEIGHT_ERROR_RATIO:
        return None
    if not bool(probed.any()):
        return finding("layer-kept-wide", kind="zero")
    return finding("layer-kept-wide", kind="wrong", error_ratio=error_ratio, limit_ratio=MAX_WEIGHT_ERROR_RATIO)


def _signs(K: int, weight: Tensor) -> Tensor:
    generator = torch.Generator().manual_seed(_PROBE_SEED)
    drawn = torch.randint(0, 2, (PROBES_COUNT, K), generator=generator)
    return (drawn * 2 - 1).to(device=weight.device, dtype=weight.dtype)


def _is_worse(output: Tensor, wide: Tensor) -> bool:
    """Whether a product is not finite where the original's is."""
    return bool((~torch.isfinite(output) & torch.isfinite(wide)).any())


def _error_ratio(probed: Tensor, signs: Tensor, weight: Tensor) -> float | None:
    """Return the estimated relative error, or None when nothing can be compared: a weight of zeros, products beyond the
    format.
    """
    exact = torch.cat([signs.double() @ rows.double().t() for rows in weight.split(_CHUNK_ROWS)], dim=1)
    is_known = torch.isfinite(probed)
    exact, computed = exact[is_known], probed.double()[is_known]
    size = float(exact.norm())
    return float((computed - exact).norm()) / size if size > 0 else None
