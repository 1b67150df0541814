"""Clipping thresholds per row, tensor or column, from the data of one call."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from bench_cases.quantization.dynamic.stats import rank_percentile
from roofline_model.models.strategies.dynamic_config import DynamicQuantConfig

RoundTrip = Callable[[Tensor, Tensor], Tensor]
"""(values (M, K), thresholds) → the values that quantising with these thresholds leaves."""

MSE_STEPS = 33
MSE_LEAST_RATIO = 0.2
"""The search for the least squared error tries `MSE_STEPS` thresholds from this share of the maximum up to all of
it.
"""

_AXIS = {"per_token": 1, "per_channel": 0}


def choose_thresholds(values: Tensor, config: DynamicQuantConfig, round_trip: RoundTrip) -> Tensor:
    """Return the largest magnitudes kept, positive: (M, 1) per token, (1, 1) per tensor, (1, K) per channel.

    A row or column of zeros has the threshold 1. A percentile of 0 (nearly everything is zero) gives way to the
    maximum.
    """
    largest = _reduced(values.abs(), config.granularity, lambda flat: flat.amax(dim=-1))
    if config.calibration_mode == "absmax":
        return _positive(largest)
    percentile = _reduced(values.abs(), config.granularity, lambda flat: rank_percentile(flat, config.percentile_pct))
    percentile = torch.where(percentile > 0, percentile, largest)
    if config.calibration_mode == "percentile":
        return _positive(percentile)
    return _least_squared_error(values, config, _positive(largest), _positive(percentile), round_trip)


def _least_squared_error(
    values: Tensor, config: DynamicQuantConfig, largest: Tensor, percentile: Tensor, round_trip: RoundTrip
) -> Tensor:
    """Return for every row, tensor or column the candidate with the least squared error; of equals the largest."""
    best = largest
    least = _squared_error(values, config, best, round_trip)
    shares = torch.linspace(1.0, MSE_LEAST_RATIO, MSE_STEPS).tolist()[1:]
    for candidate in [*(largest * share for share in shares), percentile]:
        error = _squared_error(values, config, candidate, round_trip)
        is_better = error < least
        best, least = torch.where(is_better, candidate, best), torch.where(is_better, error, least)
    return best


def _squared_error(values: Tensor, config: DynamicQuantConfig, thresholds: Tensor, round_trip: RoundTrip) -> Tensor:
    difference = (round_trip(values, thresholds) - values).double().square()
    return _reduced(difference, config.granularity, lambda flat: flat.sum(dim=-1))


def _reduced(values: Tensor, granularity: str, reduce: Callable[[Tensor], Tensor]) -> Tensor:
    """Reduce over what shares a scale; the result broadcasts against (M, K)."""
    if granularity == "per_tensor":
        return reduce(values.flatten()).reshape(1, 1)
    axis = _AXIS[granularity]
    return reduce(values if axis == 1 else values.t().contiguous()).unsqueeze(axis)


def _positive(thresholds: Tensor) -> Tensor:
    return torch.where(thresholds > 0, thresholds, torch.ones_like(thresholds))
