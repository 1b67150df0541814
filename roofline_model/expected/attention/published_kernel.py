"""FlashAttention-2 in place of a lent prefill kernel, on chips that no kernel was measured on.

The measured module of one chip says little about the kernels of another: on the RTX PRO 6000 TensorRT-LLM's prefill
takes 1.7 times as long as FlashInfer's. A kernel whose work can be counted (`flash/`) and that runs on the chip bounds
what a good library takes there. Its rate is in clocks per SM, with the chip's own rate of sums in FP32; the clock is
the one that long products of the chip reach.

Published rates that this meets without being fitted to them stand in docs/theory/validation.md.
"""

from __future__ import annotations

from dataclasses import replace

from roofline_model.chips.hardware import Device
from roofline_model.core.errors import RooflineError
from roofline_model.core.finding import finding
from roofline_model.expected.attention.fitted.constants import FittedAttention
from roofline_model.expected.attention.fitted.library import attention_with_measured_bandwidth
from roofline_model.expected.attention.flash.config import AttentionShape, FlashAttentionConfig, FlashAttentionVersion
from roofline_model.expected.attention.flash.pipeline import step_clocks
from roofline_model.expected.attention.flash.splits import plan_work
from roofline_model.expected.attention.flash.units import LAUNCH_S, chip_units
from roofline_model.expected.attention.flash.versions import (
    FILL_CYCLES_PER_CTA,
    TRAITS,
    compute_capability,
    why_unavailable,
)
from roofline_model.expected.products.product import large_product_share
from roofline_model.kernels.attention_kernels import ATTENTION_KERNELS

VERSION = FlashAttentionVersion.FA2
HEAD_SIZES = (64, 128, 256)
LONG_SEQUENCE = 4096
"""Tokens from which the rate of a kernel no longer depends on them."""
MANY_HEADS = 64
"""Heads that fill every SM, so that no kernel splits keys."""
FULL_CLOCK_SHARE = 0.86
"""Share of the tensor peak that the best published 16-bit product reaches where no power limit holds it: A100 0.87,
GB10 0.86, RTX PRO 6000 0.85 (sources: docs/reference/numbers.md). Less than that is a clock below the rated one.
"""


def attention_constants_here(fitted: FittedAttention, device: Device) -> FittedAttention:
    """Return lent constants with what is known of the chip itself: its DRAM, and a faster kernel where one runs."""
    here = attention_with_measured_bandwidth(fitted, device)
    is_lent = fitted.provenance in ("transferred-family", "transferred-class")
    if fitted.phase != "prefill" or not is_lent or not fitted.chip.rules.is_sync:
        return here
    return replace(here, faster=_published(here, device))


def _published(fitted: FittedAttention, device: Device) -> FittedAttention | None:
    """Return the lent constants with FlashAttention-2's rates where they are higher; None where none is."""
    if why_unavailable(TRAITS[VERSION], device, HEAD_SIZES[-1]) is not None:
        return None
    clock = clock_share(device)
    fill_us = FILL_CYCLES_PER_CTA / (clock * fitted.chip.clock_hz) * 1e6
    changed: dict[str, float] = {}
    for size in HEAD_SIZES:
        rate, rows = _counted(device, size)
        if clock * rate > fitted.values[f"efficiency_{size}_16bit"]:
            changed[f"efficiency_{size}_16bit"] = clock * rate
            cta = f"cta_us_{size}_16bit"
            changed[cta] = min(fitted.values[cta], fill_us * fitted.chip.rules.tile_rows_count / rows)
    if len(changed) < 2 * len(HEAD_SIZES):
        return None
    changed["launch_us_16bit"] = LAUNCH_S[compute_capability(device) or 0] * 1e6
    named = finding(
        "constants-adjusted",
        kind="published-kernel",
        kernel=ATTENTION_KERNELS[VERSION.value].name,
        chips=fitted.sources,
    )
    # The surface is what the lent kernel leaves over, not this one.
    return replace(
        fitted,
        values={**fitted.values, **changed},
        findings=(*fitted.findings, named),
        correction=None,
        is_kernel_alone=True,
    )


def _counted(device: Device, head_dim: int) -> tuple[float, int]:
    """Return (share of the dense peak, query rows of a CTA) of FlashAttention-2 in long sequences."""
    shape = AttentionShape(1, MANY_HEADS, MANY_HEADS, LONG_SEQUENCE, LONG_SEQUENCE, head_dim)
    config = FlashAttentionConfig(VERSION, qkv_precision="BF16")
    traits = TRAITS[VERSION]
    units, tile = chip_units(device, traits, "BF16"), plan_work(shape, config, device).tile
    clocks = step_clocks(tile, config, traits, units, 0.0)
    assert clocks is not None  # an attention chip has SM count and clock
    return clocks.tensor_clocks_per_score * units.tensor_ratio / clocks.combined(traits.overlap_factor), tile.rows_count


def clock_share(device: Device) -> float:
    """Return the clock that long products of a chip reach, over the rated one."""
    try:
        share = large_product_share(device, "BF16")
    except RooflineError:
        return 1.0
    # A chip may run above its rated clock (RTX 5090), which its published product then proves.
    return max(share, min(1.0, share / FULL_CLOCK_SHARE))
