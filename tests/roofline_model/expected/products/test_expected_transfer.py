"""Constants for chips that were never measured: whose, how they are scaled, and how much wider the interval is."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from roofline_model import UnsupportedError, get_hardware
from roofline_model.core.finding import finding, has_code
from roofline_model.expected.chip import ChipSpec
from roofline_model.expected.intervals import DRIFT, drifted, hull
from roofline_model.expected.products.fitted.constants import generic_start
from roofline_model.expected.products.fitted.library import find_gemm, shipped_gemm, transferred
from roofline_model.expected.products.formula import expected_gemm
from roofline_model.expected.products.parameters import rotated_copies

LIBRARY = shipped_gemm()


def chip(key: str, format_key: str = "BF16") -> ChipSpec:
    return ChipSpec.of(get_hardware(key), format_key)


def fit_of(key: str, family: str = "BF16"):
    return next(fit for fit in LIBRARY if (fit.chip.key, fit.family) == (key, family))


def without(key: str):
    return tuple(fit for fit in LIBRARY if fit.chip.key != key)


def widths(intervals) -> list[float]:
    return [high / low for low, high in zip(intervals.low, intervals.high, strict=True)]


@pytest.mark.parametrize(
    ("key", "source"),
    [
        ("h200-sxm", "h100-sxm"), ("h100-pcie", "h100-sxm"), ("gb200", "b200"), ("b300", "b200"), ("gb10", "rtx-pro-6000"),
        ("rtx-5090", "rtx-pro-6000"), ("l4", "l40s"), ("rtx-4090", "l40s"), ("orin-agx-64gb", "a100-sxm-80gb"),
    ],
)  # fmt: skip
def test_a_sibling_takes_the_constants_as_they_are(key, source):
    gemm = find_gemm(chip(key), "BF16")
    assert (gemm.provenance, gemm.sources) == ("transferred-sibling", (source,))
    # A geometric mean of one: equal up to the last bit.
    for name in ("launch_s", "tensor_ratio", "dram_ratio", "l2_ratio", "sm_ratio", "k_step_s"):
        assert getattr(gemm.constants, name) == pytest.approx(getattr(fit_of(source).constants, name), rel=1e-12)
    assert all(
        mine > theirs for mine, theirs in zip(widths(gemm.intervals), widths(fit_of(source).intervals), strict=True)
    )


def test_a_chips_own_constants_come_first():
    gemm = find_gemm(chip("h100-sxm"), "BF16")
    assert gemm is fit_of("h100-sxm")


def test_supply_follows_the_tensor_peak_across_families():
    gemm = find_gemm(chip("b200"), "BF16", without("b200"))
    source = fit_of("h100-sxm")
    assert (gemm.provenance, gemm.sources) == ("transferred-family", ("h100-sxm",))
    # bytes per FLOP stay: 64 · SM · f / F of each chip
    per_flop = source.constants.l2_ratio * source.chip.load_bytes_per_flop
    assert gemm.constants.l2_ratio * gemm.chip.load_bytes_per_flop == pytest.approx(per_flop, rel=1e-9)
    # latencies stay in clocks
    assert gemm.constants.k_step_s * gemm.chip.clock_hz == pytest.approx(
        source.constants.k_step_s * source.chip.clock_hz
    )
    # the family's own L2
    assert (gemm.constants.l2_share_ratio, gemm.constants.l2_edge_factor) == (0.50, 10)


def test_newer_mma_families_leave_sm80_out_but_help_it():
    assert find_gemm(chip("l40s"), "BF16", without("l40s")).sources == ("rtx-pro-6000",)
    assert set(find_gemm(chip("a100-sxm-80gb"), "BF16", without("a100-sxm-80gb")).sources) == {"l40s", "rtx-pro-6000"}


def test_the_other_class_is_low_confidence_and_widest():
    gemm = find_gemm(chip("h100-sxm"), "INT4")
    assert gemm.provenance == "transferred-class"
    assert has_code(gemm.findings, "constants-of-others", "class")
    family = find_gemm(chip("gb10"), "INT4")
    assert family.provenance == "transferred-family"
    lender = hull([fit_of("l40s", "INT4").intervals, fit_of("a100-sxm-80gb", "INT4").intervals])
    assert gemm.intervals == drifted(lender, DRIFT["format"])  # its own 16-bit constants are fitted
    steps = math.hypot(DRIFT["format"], DRIFT["near"])  # GB10's 16-bit constants are lent, too
    assert family.intervals == drifted(fit_of("l40s", "INT4").intervals, steps)


def test_a_left_out_chip_is_scored_with_the_half_widths_that_are_given():
    narrow = transferred(chip("b200"), "BF16", without("b200"), dict.fromkeys(DRIFT, 0.0))
    assert narrow.intervals == fit_of("h100-sxm").intervals
    wide = transferred(chip("b200"), "BF16", without("b200"), {**DRIFT, "far": 0.5})
    assert wide.intervals == drifted(fit_of("h100-sxm").intervals, 0.5)
    assert wide.constants == narrow.constants


@pytest.mark.parametrize(
    ("key", "source", "step"),
    [
        ("h200-sxm", "h100-sxm", "sibling"), ("b300", "b200", "sibling"), ("gb10", "rtx-pro-6000", "near"),
        ("l4", "l40s", "near"), ("rtx-4090", "l40s", "near"), ("rtx-5090", "rtx-pro-6000", "near"),  # GeForce: half the rate
    ],
)  # fmt: skip
def test_a_sisters_interval_is_the_lenders_and_its_step(key, source, step):
    assert find_gemm(chip(key), "BF16").intervals == drifted(fit_of(source).intervals, DRIFT[step])


def test_a_slower_dram_rules_where_a_faster_one_did_not():
    # GB10's DRAM feeds an SM 2.4 bytes per clock, RTX PRO 6000's 3.6: there NVFP4 was held up by its SMs.
    source, wide = fit_of("rtx-pro-6000", "NVFP4").constants, fit_of("rtx-pro-6000").constants
    gemm = find_gemm(chip("gb10", "NVFP4"), "NVFP4")
    assert source.dram_ratio < 0.65 < wide.dram_ratio
    assert gemm.constants.dram_ratio == wide.dram_ratio
    assert has_code(gemm.findings, "constants-adjusted", "wide-kernels")
    assert find_gemm(chip("b300", "NVFP4"), "NVFP4").constants.dram_ratio == pytest.approx(
        fit_of("b200", "NVFP4").constants.dram_ratio
    )
    alone = transferred(chip("gb10", "NVFP4"), "NVFP4", [fit_of("rtx-pro-6000", "NVFP4")])
    assert alone.constants.dram_ratio == pytest.approx(source.dram_ratio)


def test_launches_of_weight_only_kernels_follow_the_chips_16_bit_ones():
    gemm = find_gemm(chip("gb10"), "INT4")
    ratio = fit_of("l40s", "INT4").constants.launch_s / fit_of("l40s").constants.launch_s
    assert gemm.constants.launch_s == pytest.approx(ratio * fit_of("rtx-pro-6000").constants.launch_s)
    assert finding("constants-adjusted", kind="other-kernels", family="BF16") in gemm.findings


def test_nvfp4_of_another_class_leans_on_the_chips_own_fp8():
    gemm = find_gemm(
        chip("b200", "NVFP4"), "NVFP4", tuple(fit for fit in LIBRARY if (fit.chip.key, fit.family) != ("b200", "NVFP4"))
    )
    assert gemm.constants.l2_ratio == fit_of("b200", "FP8").constants.l2_ratio
    ratio = fit_of("rtx-pro-6000", "NVFP4").constants.cast_ratio / fit_of("rtx-pro-6000", "FP8").constants.cast_ratio
    assert gemm.constants.cast_ratio == pytest.approx(ratio * fit_of("b200", "FP8").constants.cast_ratio)


def test_without_an_anchor_the_constants_stay_as_transferred():
    only = [fit_of("l40s", "INT4")]
    fit = transferred(chip("gb10"), "INT4", only)
    assert fit.constants.launch_s == pytest.approx(fit_of("l40s", "INT4").constants.launch_s)


def test_a_kernel_family_that_nobody_measured_has_no_constants():
    only_16_bit = tuple(fit for fit in LIBRARY if fit.family == "BF16")
    with pytest.raises(UnsupportedError, match="Measured: BF16"):
        find_gemm(chip("h100-sxm", "FP8"), "FP8", only_16_bit)


def test_a_sibling_keeps_a_part_of_the_library_surface():
    source, fit = fit_of("h100-sxm"), find_gemm(chip("h200-sxm"), "BF16")
    assert source.correction is not None
    assert fit.correction.log_ratio == pytest.approx([0.75 * value for value in source.correction.log_ratio])
    assert fit.correction_chip == source.chip


def test_a_surface_learnt_in_cache_is_not_used_cold():
    # 2048 × 2048 in BF16: five copies (42 MB) stay in the 128 MB of RTX PRO 6000; in a model they are always cold
    gb10 = chip("gb10")
    batch = expected_gemm(gb10, 8, 2048, 2048, weight_format="BF16", activation_format="BF16")
    assert abs(batch.parts["library"][0]) < 1e-3 * batch.time_s[0]


def test_weight_copies_of_the_published_tables():
    # clip(ceil(L2 / bytes), 1, 5); bytes = n · k · 2 or · 1
    assert rotated_copies(chip("h100-sxm"), "BF16", [128, 4096, 4096, 8192], [128, 2048, 4096, 8192]).tolist() == [
        5,
        4,
        2,
        1,
    ]
    assert rotated_copies(chip("h100-sxm"), "FP8", 4096, 4096).tolist() == 4
    assert rotated_copies(chip("b200"), "NVFP4", 128, 128) == float("inf")
    assert rotated_copies(chip("l40s"), "INT4", 128, 128) == float("inf")
    assert rotated_copies(chip("a100-sxm-80gb"), "BF16", 128, 128) == float("inf")


@pytest.mark.parametrize("family", ["BF16", "FP8", "NVFP4", "INT8", "INT4"])
@pytest.mark.parametrize("key", ["gb10", "h100-sxm", "b200", "a100-sxm-80gb"])
def test_a_fit_without_sources_begins_at_plausible_values(key, family):
    start = generic_start(chip(key), family)
    assert 0.05 <= start.l2_ratio <= 3
    assert (start.cast_ratio is not None) is (family in ("FP8", "NVFP4"))
    assert (start.gemv_element_s is not None) is (family in ("INT8", "INT4"))
    assert replace(start, l2_ratio=0.1).l2_ratio == 0.1
