"""Which chip has a kernel for which formats and caches; what nobody listed has no gap."""

from __future__ import annotations

import pytest

from roofline_model.chips.hardware import create_custom_asic, get_hardware
from roofline_model.core.finding import finding
from roofline_model.kernels.known_kernels import (
    BOTH_OPERANDS,
    CACHES,
    WEIGHT_ONLY,
    cache_gap,
    cache_kernel,
    engine_gap,
    plan_gap,
    product_gap,
    product_kernel,
)


@pytest.mark.parametrize(
    ("cache", "chips"),
    [
        ("FP8_E4M3", {"a100", "orin", "l40s", "h100", "h200", "b200", "b300", "gb10", "rtx-pro-6000", "mi300x"}),
        ("NVFP4", {"b200", "b300"}),
        ("MXFP4", set()),
    ],
)
def test_a_narrow_cache_needs_an_attention_kernel(cache, chips):
    for chip in ("a100", "orin", "l40s", "h100", "h200", "b200", "b300", "gb10", "rtx-pro-6000", "mi300x"):
        device = get_hardware(chip)
        assert (cache_gap(device, cache) is None) == (chip in chips), chip
        assert (cache_kernel(device, cache) is not None) == (chip in chips), chip
        assert cache_gap(device, "BF16") is None


@pytest.mark.parametrize(
    ("weights", "activations", "chips"),
    [
        ("INT4", "BF16", {"a100", "orin", "h100", "b200", "gb10", "mi300x"}),
        ("FP8_E4M3", "FP8_E4M3", {"h100", "b200", "gb10", "mi300x"}),
        ("INT8", "INT8", {"a100", "orin", "h100"}),
        ("NVFP4", "NVFP4", {"b200", "gb10"}),
        ("NVFP4", "BF16", {"a100", "orin", "h100", "b200", "gb10", "mi300x"}),
        ("INT4", "INT4", set()),
    ],
)
def test_products_run_where_a_released_kernel_does(weights, activations, chips):
    for chip in ("a100", "orin", "h100", "b200", "gb10", "mi300x"):
        device = get_hardware(chip)
        assert (product_gap(device, weights, activations) is None) == (chip in chips), (
            chip,
            product_gap(device, weights, activations),
        )
        assert (product_kernel(device, weights, activations) is not None) == (chip in chips), chip
        assert product_gap(device, "BF16", "BF16") is None


def test_a_kernel_is_named_as_the_vendor_s_users_know_it():
    amd, nvidia = get_hardware("mi300x"), get_hardware("h100")
    assert product_kernel(amd, "INT4", "BF16").name_on(amd) == "AWQ and GPTQ kernels of vLLM for ROCm"
    assert product_kernel(nvidia, "INT4", "BF16").name_on(nvidia) == "Marlin W4A16 (AWQ, GPTQ)"
    reads_fp8 = {chip: cache_kernel(get_hardware(chip), "FP8_E4M3") for chip in ("h100", "rtx4090", "b200")}
    names = {chip: kernel.name_on(get_hardware(chip)) for chip, kernel in reads_fp8.items()}
    assert [chip for chip, name in names.items() if "FlashAttention-3" in name] == ["h100"]
    assert product_gap(amd, "INT8", "BF16") == finding("kernel-gap", "INT8.BF16", hardware="mi300x")


def test_what_torch_alone_multiplies_lacks_an_engine_and_not_a_kernel():
    gb10 = get_hardware("gb10")
    gap = plan_gap(gb10, "INT8", "INT8", "BF16")
    assert (gap.code, gap.value("library"), gap.value("capability")) == ("kernel-gap", "torch", "12.1")
    assert engine_gap(gb10, "INT8", "INT8").value("library") == "torch"
    assert engine_gap(gb10, "MXFP6_E3M2", "BF16").value("decoded") == "MXFP6_E3M2"
    for gap in (product_gap(gb10, "MXFP6_E3M2", "MXFP6_E3M2"), engine_gap(gb10, "MXFP6_E3M2", "MXFP6_E3M2")):
        assert gap.value("library") is None


def test_invented_and_own_chips_have_no_list_and_no_gap():
    for device in (get_hardware("b10"), create_custom_asic("own", 500.0, {"FP16": 100.0, "NVFP4": 400.0})):
        assert product_gap(device, "NVFP4", "NVFP4") is cache_gap(device, "NVFP4") is None
        assert product_kernel(device, "INT4", "BF16") is None


def test_every_kernel_has_a_name_and_a_source():
    for table in (WEIGHT_ONLY, BOTH_OPERANDS, CACHES):
        for row in table.values():
            assert row.name
            assert len(row.source) > 15
            assert row.highest is None or row.lowest <= row.highest
