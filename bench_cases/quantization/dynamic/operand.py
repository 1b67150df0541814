"""What a format leaves of the operands of a dynamically quantised product: the exact real numbers its codes stand for.

Magnitudes above a threshold are clipped to it. Scales, statistics and decoded numbers are FP32.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from bench_cases.kernels.products.quantizers import mx_blocks, nf4_blocks, nvfp4_blocks, rounding
from bench_cases.kernels.reference import HeldMatrix
from roofline_model.core.errors import InvalidValueError, UnsupportedError
from roofline_model.formats.catalog import get_format, split_precision
from roofline_model.formats.codecs.elements.elements import element_of
from roofline_model.formats.codecs.scales.scaled import symmetric_scales
from roofline_model.models.format_plan import PartFormats
from roofline_model.models.strategies.activation_stats import ActivationStats
from roofline_model.models.strategies.dynamic_config import DynamicQuantConfig
from roofline_model.models.strategies.operator_type import OperatorType
from roofline_model.models.strategies.precision_text import canonical_precision

WIDE_DTYPES = {"FP16": torch.float16, "BF16": torch.bfloat16, "FP32": torch.float32}
_BLOCKS: dict[str, Callable[[Tensor], HeldMatrix]] = {
    "NVFP4": nvfp4_blocks,
    "NF4": nf4_blocks,
    **{key: partial(mx_blocks, format_key=key) for key in ("MXFP8_E4M3", "MXFP6_E3M2", "MXFP6_E2M3", "MXFP4")},
}
DYNAMIC_FORMATS = ("INT8", "INT4", "INT2", "FP8_E4M3", "FP8_E5M2", *_BLOCKS, *WIDE_DTYPES)
"""Formats an operand can have here."""
_LEAST_THRESHOLD = 2.0**-100
"""Keeps a scale a normal FP32 number; values below it are far under anything a model computes."""
MSE_SHARES = torch.linspace(1.0, 0.2, 33).tolist()
"""Shares of the maximum that the search for the least squared error tries."""


def formats_of(precision: str) -> PartFormats:
    """Return weight and activation format of a precision, `INT8` or `INT4.FP8_E4M3`; raises for a pair nothing
    multiplies.
    """
    weight, activation = split_precision(canonical_precision(OperatorType.FFN_UP, precision))
    return PartFormats(weight.key, (activation or weight).key)


def check_format(format_key: str, inner_size: int) -> None:
    """Raise `UnsupportedError` for a format no operand can have here, or whose blocks do not divide K."""
    fmt = get_format(format_key)
    if fmt.key not in DYNAMIC_FORMATS:
        raise UnsupportedError(f"dynamic quantisation knows no {fmt.key}. Known: {', '.join(DYNAMIC_FORMATS)}.")
    block = fmt.block_elems
    if block is not None and inner_size % block:
        raise UnsupportedError(
            f"{fmt.key} has blocks of {block} elements, and K = {inner_size} is not a multiple of {block}; choose a "
            "format without "
            "blocks (FP8_E4M3, INT8) or pad the layer"
        )


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


def stats_of_values(values: Tensor, shape: tuple[int, ...]) -> ActivationStats:
    """Return the statistics of FP32 values; `shape` is that of their tensor.

    Percentiles are by rank, not interpolated: of fewer than 1000 elements the 99.9th is the maximum, and nothing is
    seen as an outlier.
    """
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


def choose_thresholds(
    values: Tensor, config: DynamicQuantConfig, round_trip: Callable[[Tensor, Tensor], Tensor]
) -> Tensor:
    """Return the largest magnitudes kept, positive: (M, 1) per token, (1, 1) per tensor, (1, K) per channel.

    A row or column of zeros has the threshold 1. A percentile of 0 (nearly everything is zero) gives way to the
    maximum. The least squared error is searched with `round_trip`: (values, thresholds) → what quantising leaves of
    the values; of equal candidates the largest is taken.
    """
    magnitudes = values.abs()
    largest = _reduced(magnitudes, config.granularity, lambda rows: rows.amax(dim=-1))
    largest = torch.where(largest > 0, largest, 1.0)
    if config.calibration_mode == "absmax":
        return largest
    percentile = _reduced(magnitudes, config.granularity, lambda rows: rank_percentile(rows, config.percentile_pct))
    percentile = torch.where(percentile > 0, percentile, largest)
    if config.calibration_mode == "percentile":
        return percentile
    best, least = largest, torch.full_like(largest, math.inf, dtype=torch.float64)
    for candidate in [*(largest * share for share in MSE_SHARES), percentile]:
        squares = (round_trip(values, candidate) - values).double().square()
        error = _reduced(squares, config.granularity, lambda rows: rows.sum(dim=-1))
        best, least = torch.where(error < least, candidate, best), torch.minimum(error, least)
    return best


def _reduced(values: Tensor, granularity: str, reduce: Callable[[Tensor], Tensor]) -> Tensor:
    """Reduce over what shares a scale; the result broadcasts against (M, K)."""
    if granularity == "per_tensor":
        return reduce(values.flatten()).reshape(1, 1)
    axis = 1 if granularity == "per_token" else 0
    return reduce(values if axis == 1 else values.t().contiguous()).unsqueeze(axis)


def quantized(values: Tensor, format_key: str, thresholds: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return what a format leaves of FP32 rows (rows, K), clipped to thresholds (rows or 1, 1), and the FP32 scale of
    its codes or block scales.

    Integers and FP8 are symmetric with one scale per threshold, NVFP4 takes the threshold as its FP32 scale, NF4 and MX
    formats choose their block scales after clipping. A wide float is only rounded, never clipped, and has no scale.
    Raises `InvalidValueError` for a value that FP16 (or NF4's block maxima, which are FP16) cannot hold.
    """
    fmt = get_format(format_key)
    if fmt.key in WIDE_DTYPES:
        check_range(values, fmt.key)
        return values.to(WIDE_DTYPES[fmt.key]).float(), None
    limit = thresholds.clamp_min(_LEAST_THRESHOLD)
    clipped = torch.clamp(values, -limit, limit)
    if fmt.key not in _BLOCKS:
        scale = symmetric_scales(limit, element_of(fmt), "float32")
        return rounding(fmt)(clipped / scale).float() * scale, scale
    if fmt.key == "NF4":
        check_range(clipped, "FP16", "NF4 keeps its block maxima in FP16, which")
    # Inside a row everything is relative to NVFP4's threshold: rows of any size keep the full range of block scales.
    outer = limit if fmt.key == "NVFP4" else torch.ones(1, 1, device=values.device)
    held = _BLOCKS[fmt.key](clipped / outer)
    return held.decoded() * outer, outer * held.tensor_scale


def quantized_weight(values: Tensor, format_key: str) -> Tensor:
    """Return what a format leaves of an FP32 weight (N, K), nothing clipped: one scale per output feature, NVFP4's FP32
    scale for the whole weight.
    """
    largest = values.abs()
    limit = largest.max().view(1, 1) if get_format(format_key).key == "NVFP4" else largest.amax(dim=1, keepdim=True)
    return quantized(values, format_key, limit)[0]


def is_beyond(largest: float, wide_key: str) -> bool:
    """Return whether a magnitude is beyond the range of a wide float."""
    return largest > torch.finfo(WIDE_DTYPES[wide_key]).max


def check_range(values: Tensor, wide_key: str, who: str = "") -> None:
    """Raise `InvalidValueError` when a value is beyond the range of a wide float; `who` begins the message."""
    largest = float(values.abs().max())
    if is_beyond(largest, wide_key):
        limit = torch.finfo(WIDE_DTYPES[wide_key]).max
        raise InvalidValueError(
            f"{who or wide_key} ends at {limit:g}, and a value is {largest:.3g}; choose BF16 or FP32"
        )
