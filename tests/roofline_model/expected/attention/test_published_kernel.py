"""Prefill on mma.sync chips without rows of their own: the rates that were published there, and the parts of the rule.

Nothing is fitted to these rates.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from roofline_model.chips.hardware import get_hardware
from roofline_model.core.finding import has_code
from roofline_model.expected.attention.fitted.library import find_attention
from roofline_model.expected.attention.model import AttentionChip, attention_constants, expected_attention
from roofline_model.expected.attention.published_kernel import clock_share

# B, heads, Sq, Skv, D without a mask → TFLOP/s. GB10: FlashInfer's FA2 in BF16, flashinfer-ai/flashinfer pull request
# 3897. RTX 5090 at 400 W in BF16: gau-nernst, "Writing Speed-of-Light Flash Attention for 5090" (SDPA, flash-attn,
# cuDNN). The chip's file has the rates of products at 600 W, hence the margin above.
PUBLISHED = [
    ("gb10", (4, 8, 4096, 4096, 128), 93, 93),
    ("gb10", (2, 8, 8192, 8192, 128), 95, 95),
    ("gb10", (1, 8, 32768, 32768, 128), 95, 95),
    ("gb10", (1, 8, 16384, 16384, 64), 93, 93),
    ("rtx-5090", (1, 8, 4096, 8192, 128), 186.7, 203.6),
]


def rate(chip: str, sizes: tuple[int, ...]) -> tuple[float, float, float]:
    """Return TFLOP/s expected, at the interval's long end and at its short end."""
    B, H, Sq, Skv, D = sizes
    batch = expected_attention(get_hardware(chip), B, H, H, Sq, Skv, D, causal=False, cache="cold")
    flops = 4.0 * B * H * Sq * Skv * D
    return tuple(float(flops / side[0] / 1e12) for side in (batch.time_s, batch.high_s, batch.low_s))


@pytest.mark.parametrize(("chip", "sizes", "least", "most"), PUBLISHED)
def test_published_rates_are_met_and_inside_the_interval(chip, sizes, least, most):
    expected, low, high = rate(chip, sizes)
    assert 0.88 * least < expected < 1.12 * most
    assert low < least <= most < high


def test_sums_in_fp32_take_geforce_twice_the_clocks_for_the_products_alone():
    lender, borrower = (find_attention(AttentionChip.of(get_hardware(key)), "prefill") for key in ("l40s", "rtx-4090"))
    per_clock = {}
    for fitted in (lender, borrower):
        chip = fitted.chip
        unit = chip.peak_16bit_flops_per_s / (chip.sm_count * chip.clock_hz)
        per_clock[chip.key] = fitted.values["efficiency_128_16bit"] * unit
    # Between half of the lender's rate, were the products all of the time, and all of it, were they hidden.
    assert 0.5 * per_clock["l40s"] < per_clock["rtx-4090"] < per_clock["l40s"]
    assert borrower.values["efficiency_128_16bit"] > 1.3 * lender.values["efficiency_128_16bit"]
    assert has_code(borrower.findings, "constants-adjusted")
    # A chip whose unit sums in FP32 at full rate keeps the share.
    near = find_attention(AttentionChip.of(get_hardware("l4")), "prefill")
    assert near.values["efficiency_128_16bit"] == lender.values["efficiency_128_16bit"]


def test_the_clock_is_what_long_products_reach():
    assert clock_share(get_hardware("gb10")) == pytest.approx(0.82 / 0.86, rel=0.02)
    assert clock_share(get_hardware("l4")) < 0.75  # 72 W
    assert clock_share(get_hardware("rtx-5090")) > 1.1  # above its rated clock


def test_only_lent_prefill_of_another_product_takes_the_published_kernel():
    for key, phase, is_taken in (
        ("gb10", "prefill", True),
        ("gb10", "decode", False),
        ("rtx-pro-6000", "prefill", False),
        ("a100-sxm-40gb", "prefill", False),
        ("h200-sxm", "prefill", False),
    ):
        assert (attention_constants(get_hardware(key), phase).faster is not None) == is_taken
    chip = get_hardware("gb10")
    alone = attention_constants(chip, "prefill").faster
    assert alone is not None
    assert alone.is_kernel_alone
    assert alone.values["launch_us_16bit"] < 3
    # An 8-bit prefill keeps the lender's kernel.
    eight = expected_attention(chip, 1, 8, 8, 4096, 4096, 128, causal=True, activation_format="FP8", kv_format="FP8")
    assert eight.kernel == ["fmha/fp8"]


def test_constants_of_the_callers_own_are_left_alone():
    chip = get_hardware("gb10")
    module = replace(attention_constants(chip, "prefill"), faster=None)
    given = expected_attention(chip, 1, 8, 8, 4096, 4096, 128, causal=True, constants=module)
    assert given.kernel == ["fmha/16bit"]
    assert not given.is_kernel_alone
