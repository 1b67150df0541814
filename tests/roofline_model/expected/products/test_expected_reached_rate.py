"""Large products on chips without rows reach what was published for them; others keep what they were lent."""

from __future__ import annotations

import pytest

from roofline_model.chips.hardware import get_hardware
from roofline_model.core.finding import has_code
from roofline_model.expected.chip import ChipSpec
from roofline_model.expected.predict import predict_expected
from roofline_model.expected.products.fitted.library import find_gemm
from roofline_model.expected.products.parameters import gemm_formats
from roofline_model.expected.products.product import with_published_rate
from roofline_model.ideal.roofline import peak_exceeded, predict, published_over_peak, published_rate
from roofline_model.operators.product import gemm
from roofline_model.sweep import GemmGrid, format_pairs, sweep_gemm


def rate_flops_per_s(chip, key, size=8192):
    return 2 * size**3 / predict_expected(gemm(size, size, size, a=key), chip).time_s


@pytest.mark.parametrize(
    ("chip", "key"),
    [("rtx-4090", "BF16"), ("rtx-4090", "FP16"), ("rtx-4090", "FP8"), ("rtx-4090", "INT8"), ("rtx-5090", "BF16"),
     ("rtx-5090", "FP8"), ("rtx-5090", "NVFP4"), ("gb10", "FP8"), ("h200-sxm", "FP8"), ("gb10", "NVFP4")],
)  # fmt: skip
def test_large_products_come_near_what_was_published(chip, key):
    best = published_rate(get_hardware(chip), key).value
    assert 0.95 * best < rate_flops_per_s(chip, key) < 1.05 * best


def test_another_boards_power_limit_is_left_behind():
    """L40S lends RTX 4090 its constants, and loses 5 % of its clock per doubling of a kernel's length."""
    assert rate_flops_per_s("l40s", "BF16", 16384) < 0.85 * rate_flops_per_s("l40s", "BF16")
    assert rate_flops_per_s("rtx-4090", "BF16", 16384) > 0.93 * rate_flops_per_s("rtx-4090", "BF16")


@pytest.mark.parametrize("chip", ["a100-sxm-80gb", "b200", "l40s"])
def test_constants_fitted_on_a_chip_stay(chip):
    device, formats = get_hardware(chip), gemm_formats("BF16", "BF16")
    fit = find_gemm(ChipSpec.of(device, "BF16"), "BF16")
    assert with_published_rate(fit, device, formats) is fit


@pytest.mark.parametrize(
    ("chip", "key"),
    [("b300", "BF16"), ("gb200", "BF16"), ("h200-sxm", "BF16"), ("l4", "BF16"), ("rtx-4090", "INT4.BF16")],
)
def test_a_rate_that_is_slower_or_of_another_kernel_changes_nothing(chip, key):
    [(weight, activation)] = format_pairs([key])
    weight, activation = (getattr(operand, "key", operand) for operand in (weight, activation))
    device, formats = get_hardware(chip), gemm_formats(weight, activation)
    fit = find_gemm(ChipSpec.of(device, formats.compute_format), formats.family)
    assert with_published_rate(fit, device, formats) is fit


def test_the_note_names_the_rate_and_the_memory_bound_stays():
    prediction = predict_expected(gemm(8192, 8192, 8192, a="BF16"), "rtx-4090")
    (reached,) = [item for item in prediction.findings if item.value("kind") == "published-rate"]
    assert (reached.value("hardware"), reached.value("rate_flops_per_s")) == (
        "rtx-4090",
        pytest.approx(161e12, rel=0.01),
    )
    assert prediction.provenance == "transferred-sibling"
    small = predict_expected(gemm(1, 8192, 8192, a="BF16"), "rtx-4090")
    assert 2 * 8192**2 / small.time_s < get_hardware("rtx-4090").bandwidth.value


def test_a_published_rate_above_the_peak_is_said_and_may_beat_the_ideal():
    device, work = get_hardware("rtx-5090"), gemm(8192, 8192, 8192, a="FP16")
    ideal, expected = predict(work, device), predict_expected(work, device)
    assert published_over_peak(device, "FP16") == pytest.approx(245.8 / 209.5)
    assert peak_exceeded(device, "FP16") in ideal.findings
    assert ideal.time_s / published_over_peak(device, "FP16") <= expected.time_s < ideal.time_s
    assert not has_code(expected.findings, "product-held", "ideal")
    frame = sweep_gemm(GemmGrid(M=(8192,), N=(8192,), K=(8192,), devices=(device,), pairs=format_pairs(["FP16"])))
    assert frame.expected_s[0] == pytest.approx(expected.time_s)


def test_a_published_rate_below_the_peak_says_nothing():
    gb10 = get_hardware("gb10")
    assert published_over_peak(gb10, "BF16") == 1
    assert peak_exceeded(gb10, "BF16") is None
    assert published_rate(gb10, "NF4") is None  # widened


@pytest.mark.parametrize("m", [1, 16, 512, 4096])
@pytest.mark.parametrize("key", ["FP8", "MXFP8", "NVFP4"])
def test_a_product_widened_to_16_bit_saves_its_memory_traffic_and_no_more(m, key):
    """A100 has no FP8: arithmetic and launch are those of the 16-bit product."""
    wide = predict_expected(gemm(m, 4096, 4096, a="BF16"), "a100-sxm-80gb")
    narrow = predict_expected(gemm(m, 4096, 4096, a=key, c="BF16"), "a100-sxm-80gb")
    assert narrow.time_s >= 0.999 * (wide.time_s - dict(wide.terms)["dram"])
    if m == 4096:
        assert narrow.time_s >= 0.99 * wide.time_s
    assert narrow.low_s < narrow.time_s < narrow.high_s
    assert sum(seconds for _, seconds in narrow.parts) == pytest.approx(narrow.time_s)
