"""Statistics of an activation tensor, and the check that it is one that can be quantised."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from roofline_model.core.errors import InvalidValueError
from roofline_model.models.strategies.activation_stats import ActivationStats


def activation_stats(tensor: Tensor) -> ActivationStats:
    """Return the statistics of all elements, computed in FP32.

    Percentiles are by rank, not interpolated: of fewer than 1000 elements the 99.9th is the maximum, and nothing is
    seen as an outlier. Raises `InvalidValueError` for a tensor `checked_matrix` refuses.
    """
    return stats_of_values(checked_matrix("activation", tensor), tuple(tensor.shape))


def stats_of_values(values: Tensor, shape: tuple[int, ...]) -> ActivationStats:
    """Return the statistics of FP32 values that `checked_matrix` has accepted; `shape` is that of their tensor."""
    magnitudes = values.abs().flatten()
    largest = float(magnitudes.max())
    return ActivationStats(
        absmax=largest,
        mean=max(-largest, min(largest, float(values.double().mean()))),  # rounding may push a constant's mean past it
        std=float(values.double().std(correction=0)),
        percentile_99=float(rank_percentile(magnitudes, 99.0)),
        percentile_999=float(rank_percentile(magnitudes, 99.9)),
        shape=shape,
    )


def rank_percentile(magnitudes: Tensor, percentile_pct: float) -> Tensor:
    """Return the smallest element of the last axis that at least this share of the axis does not exceed."""
    count = magnitudes.shape[-1]
    # 0.999 · 1000 is 999.0000000000001 in binary: a hair above a whole rank is that rank.
    rank = min(count, max(1, math.ceil(count * percentile_pct / 100 - 1e-6)))
    return magnitudes.max(dim=-1).values if rank == count else magnitudes.kthvalue(rank, dim=-1).values


def checked_matrix(name: str, tensor: Tensor) -> Tensor:
    """Return a tensor as FP32 rows (all leading axes, last axis).

    Raises `InvalidValueError` naming the fault: no floating-point tensor, empty, NaN or infinite somewhere, or all zero
    (no scale can be chosen for it).
    """
    if not isinstance(tensor, Tensor) or not tensor.is_floating_point():
        kind = str(tensor.dtype) if isinstance(tensor, Tensor) else type(tensor).__name__
        raise InvalidValueError(f"{name} must be a floating-point tensor, got {kind}")
    if tensor.numel() == 0 or tensor.dim() == 0:
        raise InvalidValueError(f"{name} of shape {tuple(tensor.shape)} is empty: there is nothing to quantise")
    values = tensor.detach().reshape(-1, tensor.shape[-1]).float()
    largest = float(values.abs().amax())  # NaN and infinity both win a maximum
    if not math.isfinite(largest):
        bad = int((~torch.isfinite(values)).sum())
        raise InvalidValueError(
            f"{name} holds NaN or infinity ({bad} of {values.numel()} elements); nothing was quantised"
        )
    if largest == 0:
        raise InvalidValueError(f"{name} is all zero: no scale can be chosen; its product is zero without quantising")
    return values
