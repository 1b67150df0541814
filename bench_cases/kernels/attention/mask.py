"""The mask of a case as a tensor, for kernels that take one."""

from __future__ import annotations

import torch
from torch import Tensor

from bench_cases.kernels.attention.spec import stored_keys
from bench_cases.kernels.rules import Sizes


def visible(sizes: Sizes, device: str | torch.device) -> Tensor:
    """Return which stored keys each query sees: (Sq, stored keys), True where it does."""
    keys = stored_keys(sizes)
    position = torch.arange(sizes["Sq"], device=device).unsqueeze(1) + (sizes["Skv"] - sizes["Sq"])
    key = torch.arange(keys, device=device).unsqueeze(0) + (sizes["Skv"] - keys)
    is_visible = torch.ones(sizes["Sq"], keys, dtype=torch.bool, device=device)
    if sizes["causal"]:
        is_visible &= key <= position
    if sizes["window"]:
        is_visible &= key > position - sizes["window"]
    return is_visible


def added_mask(sizes: Sizes, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Return what is added to the scores (Sq, stored keys): 0, or minus infinity where a query does not see a key."""
    hidden = ~visible(sizes, device)
    return torch.zeros(hidden.shape, dtype=dtype, device=device).masked_fill_(hidden, float("-inf"))
