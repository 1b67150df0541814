"""Regimes, interval factors and how they widen."""

from __future__ import annotations

import math
import tomllib
from pathlib import Path

import numpy as np
import pytest

from roofline_model import InvalidValueError, UnsupportedError, expected_attention, get_hardware, list_hardware
from roofline_model.expected.attention.chip import AttentionChip
from roofline_model.expected.attention.fitted.library import DRIFT as ATTENTION_DRIFT
from roofline_model.expected.attention.fitted.library import find_attention, shipped_attention
from roofline_model.expected.chip import LIKE_RATE_RATIO, ChipSpec, transfer_step
from roofline_model.expected.intervals import (
    DRIFT,
    LENT_FILE,
    REGIMES,
    IntervalTable,
    across_families,
    drift_of,
    drifted,
    hull,
    interval_bounds,
    joined_factors,
    regimes_of,
)
from roofline_model.expected.products.fitted.library import ANCHORS, find_gemm, shipped_gemm

ROOT = Path(__file__).resolve().parents[3]
TABLE = IntervalTable((0.9, 0.8, 0.91, 0.81, 0.92, 0.82), (1.1, 1.2, 1.11, 1.21, 1.12, 1.22))


def test_regimes_are_rows_and_floor():
    m = np.array([1.0, 16, 16, 17, 256, 257, 4096])
    time_s = np.array([1.0, 1.6, 1.7, 1.0, 2.0, 1.5, 9.0])
    assert [REGIMES[i] for i in regimes_of(m, time_s, 1.0)] == [
        "m16-floor",
        "m16-floor",
        "m16-body",
        "m256-floor",
        "m256-body",
        "large-floor",
        "large-body",
    ]


def test_bounds_multiply_the_time():
    low, high = interval_bounds(TABLE.low, TABLE.high, np.array([1.0, 4096.0]), np.array([2.0, 10.0]), 1.0)
    assert low.tolist() == pytest.approx([1.6, 8.2])
    assert high.tolist() == pytest.approx([2.4, 12.2])
    assert interval_bounds(TABLE.low, TABLE.high, 1.0, 2.0, 1.0) == pytest.approx((1.6, 2.4))


def test_each_prediction_may_have_factors_of_its_own():
    low, high = (np.array([factors, [1.0] * 6]) for factors in (TABLE.low, TABLE.high))
    bounds = interval_bounds(low, high, 1.0, np.array([2.0, 2.0]), np.array([1.0, 4.0]))
    assert [bound.tolist() for bound in bounds] == [[1.6, 2.0], [2.4, 2.0]]


def test_tables_are_read_by_regime_and_checked():
    assert IntervalTable.from_pairs(TABLE.pairs()) == TABLE
    with pytest.raises(InvalidValueError, match="large-body"):
        IntervalTable.from_pairs({name: pair for name, pair in TABLE.pairs().items() if name != "large-body"})
    with pytest.raises(InvalidValueError, match="m16-floor"):
        IntervalTable((1.1, *TABLE.low[1:]), TABLE.high)
    with pytest.raises(InvalidValueError, match="low ≤ 1 ≤ high"):
        IntervalTable(TABLE.low, (0.9, *TABLE.high[1:]))


def test_widening_adds_logs_in_quadrature():
    three, four = (
        IntervalTable((np.exp(-0.3),) * 6, (np.exp(0.3),) * 6),
        IntervalTable((np.exp(-0.4),) * 6, (np.exp(0.4),) * 6),
    )
    both = three.widened(four, 1.0)
    assert both.high[0] == pytest.approx(np.exp(0.5))
    assert both.low[0] == pytest.approx(np.exp(-0.5))
    assert three.widened(four, 0.0).high == pytest.approx(three.high)


def test_a_transfer_adds_its_half_width_in_quadrature():
    low, high = joined_factors((math.exp(-0.3), math.exp(0.03)), 0.4)
    assert (math.log(low), math.log(high)) == pytest.approx((-0.5, math.hypot(0.03, 0.4)))
    assert drifted(TABLE, 0.0).pairs() == {name: pytest.approx(pair) for name, pair in TABLE.pairs().items()}
    wide = drifted(TABLE, 0.2)
    assert all(mine < other for mine, other in zip(wide.low, TABLE.low, strict=True))
    assert all(mine > other for mine, other in zip(wide.high, TABLE.high, strict=True))


def test_steps_are_independent_and_a_kernel_family_may_have_its_own():
    assert drift_of(("format", "sibling"), "INT4") == pytest.approx(math.hypot(DRIFT["format"], DRIFT["sibling"]))
    assert drift_of(("far",), "FP8") == DRIFT["far-FP8"] < drift_of(("far",), "BF16") == DRIFT["far"]
    assert drift_of((), "BF16") == 0
    assert drift_of(("near",), "BF16", {"near": 0.3}) == 0.3
    assert DRIFT["sibling"] < DRIFT["near"] < DRIFT["far-FP8"] < DRIFT["far"] < DRIFT["format"]


def test_the_hull_is_the_widest_of_each_regime():
    other = IntervalTable((0.95, 0.7, 0.95, 0.7, 0.95, 0.7), (1.3, 1.05, 1.3, 1.05, 1.3, 1.05))
    joined = hull([TABLE, other])
    assert joined.low == (0.9, 0.7, 0.91, 0.7, 0.92, 0.7)
    assert joined.high == (1.3, 1.2, 1.3, 1.21, 1.3, 1.22)
    assert across_families("INT4") == across_families("INT8") != across_families("BF16")


@pytest.mark.parametrize(
    ("key", "source", "step"),
    [
        ("h200-sxm", "h100-sxm", "sibling"), ("h100-pcie", "h100-sxm", "sibling"), ("gb200", "b200", "sibling"),
        ("b300", "b200", "sibling"), ("a100-sxm-40gb", "a100-sxm-80gb", "sibling"), ("rtx-4090", "l40s", "sibling"),
        ("gb10", "rtx-pro-6000", "near"), ("l4", "l40s", "near"), ("orin-agx-64gb", "a100-sxm-80gb", "near"),
        ("thor-t5000", "b200", "near"), ("rtx-pro-6000", "l40s", "near"), ("l40s", "rtx-pro-6000", "near"),
        ("a100-sxm-80gb", "l40s", "far"), ("b200", "h100-sxm", "far"), ("h100-sxm", "rtx-pro-6000", "far"),
    ],
)  # fmt: skip
def test_how_far_constants_travel(key, source, step):
    for chip_of in (
        lambda name: ChipSpec.of(get_hardware(name), "BF16"),
        lambda name: AttentionChip.of(get_hardware(name)),
    ):
        assert transfer_step(chip_of(key), chip_of(source)) == step


# Lent constants ----------------------------------------------------------------------------------------------------


def lent_products():
    """Return (chip, kernel family, lent constants, lender's intervals) of whatever a chip of the registry borrows."""
    for chip in list_hardware():
        for fmt in ("BF16", "FP8_E4M3", "NVFP4", "INT8", "INT4"):
            family = {"FP8_E4M3": "FP8"}.get(fmt, fmt)
            try:
                compute = fmt if family in ("BF16", "FP8", "NVFP4") else "BF16"
                fitted = find_gemm(ChipSpec.of(chip, compute), family)
            except UnsupportedError:
                continue
            if fitted.provenance.startswith("transferred"):
                own = hull(
                    [fit.intervals for fit in shipped_gemm() if fit.family == family and fit.chip.key in fitted.sources]
                )
                yield chip, family, fitted, own


def test_no_interval_of_lent_products_is_narrower_than_left_out_chips_say():
    seen = set()
    for chip, family, fitted, own in lent_products():
        source = get_hardware(fitted.sources[0])
        compute = {"FP8": "FP8_E4M3", "NVFP4": "NVFP4"}.get(family, "BF16")
        rates = [
            device.peak_flops_per_s(compute) / device.count("sm_count") / device.chip["clock"].value
            for device in (chip, source)
        ]
        is_sister = (
            fitted.provenance == "transferred-sibling"
            and transfer_step(fitted.chip, ChipSpec.of(source, compute)) == "sibling"
            and 1 / LIKE_RATE_RATIO < rates[0] / rates[1] < LIKE_RATE_RATIO
        )
        least = DRIFT["sibling"] if is_sister else DRIFT["format" if family in ANCHORS else "near"]
        assert all(a <= b + 1e-12 for a, b in zip(fitted.intervals.low, drifted(own, least).low, strict=True)), chip.key
        assert all(a >= b - 1e-12 for a, b in zip(fitted.intervals.high, drifted(own, least).high, strict=True)), (
            chip.key
        )
        seen.add((chip.key, family, is_sister))
    assert {
        ("b300", "NVFP4", False),
        ("b300", "BF16", True),
        ("gb10", "NVFP4", False),
        ("h200-sxm", "FP8", True),
    } <= seen


@pytest.mark.parametrize(("key", "phase", "mix", "step"), [
    ("gb10", "prefill", "16bit", "prefill-near"), ("rtx-4090", "prefill", "8bit", "prefill-near"), ("b300", "prefill", "16bit", "prefill-async"),
    ("h200-sxm", "prefill", "16bit", "sibling"), ("b300", "decode", "16bit", "sibling"), ("gb10", "decode", "16bit", "decode-near"),
    ("gb10", "decode", "cache8bit", "decode-near-8bit"), ("l4", "decode", "cache8bit", "decode-near-8bit"),
])  # fmt: skip
def test_lent_attention_has_the_half_width_of_its_step(key, phase, mix, step):
    lent = find_attention(AttentionChip.of(get_hardware(key)), phase)
    (lender,) = (fit for fit in shipped_attention() if fit.phase == phase and fit.chip.key == lent.sources[0])
    for regime, (low, high) in zip(("floor", "mid", "bulk"), lender.factors(mix), strict=True):
        assert lent.intervals[f"{regime}-{mix}"] == pytest.approx(joined_factors((low, high), ATTENTION_DRIFT[step]))


def test_the_per_head_kernel_on_a_narrow_cache_is_wider_still():
    grouped, per_head = (
        expected_attention("gb10", 4, heads, kv, 1, 8192, 128, causal=True, kv_format="FP8_E4M3", phase="decode")
        for heads, kv in ((32, 8), (8, 8))
    )
    widths = [math.log(float(batch.high_s[0] / batch.time_s[0])) for batch in (grouped, per_head)]
    assert widths[0] < ATTENTION_DRIFT["decode-near-8bit-head"] <= widths[1]


def test_the_file_says_what_it_rests_on():
    data = tomllib.loads((ROOT / "roofline_model" / "expected" / LENT_FILE).read_text(encoding="utf-8"))
    assert "26900 rows" in data["source"]
    steps = {**data["products"], **data["attention"]}
    assert [name for name, entry in steps.items() if not entry["transfers"]] == ["sibling"]
    assert all(0 < entry["half_width"] < 1 for entry in steps.values())
