"""An FP8 product as Hopper's tensor cores add it up, bit by bit. Slow: every product is held at once.

Of 32 products and the running sum, each is cut off toward zero 13 bits below the leading bit of the largest; what is
left is added exactly. Without fast sums the running sum goes into one in FP32 every 128 terms.
"""

from __future__ import annotations

import torch
from torch import Tensor

TERMS, KEPT_BITS, PROMOTED_TERMS = 32, 13, 128


def hopper_product(a: Tensor, b: Tensor, *, is_fast: bool) -> Tensor:
    """Return A·Bᵀ of (M, K) and (N, K) FP8 codes, float64."""
    a, b = a.double(), b.double()
    running, promoted = (torch.zeros(len(a), len(b), dtype=torch.float64) for _ in range(2))
    for first in range(0, a.shape[1], TERMS):
        end = first + TERMS
        products = a[:, None, first:end] * b[None, :, first:end]
        largest = torch.maximum(products.abs().amax(dim=-1), running.abs())
        last_bit = torch.exp2(torch.floor(torch.log2(largest.clamp_min(2.0**-40))) - KEPT_BITS)
        running = cut(products, last_bit.unsqueeze(-1)).sum(dim=-1) + cut(running, last_bit)
        if not is_fast and end % PROMOTED_TERMS == 0:
            promoted = (promoted + running).float().double()
            running = torch.zeros_like(running)
    return promoted + running


def cut(values: Tensor, step: Tensor) -> Tensor:
    return torch.trunc(values / step) * step
