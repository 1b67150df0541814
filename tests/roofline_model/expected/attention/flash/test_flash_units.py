"""Clocks per score: the FA4 paper's counts, the share of emulated exponentials, and what a chip does not tell."""

from __future__ import annotations

import dataclasses

import pytest

from roofline_model import create_custom_asic, get_format, get_hardware
from roofline_model.expected.attention.flash.model import (
    AttentionShape,
    FlashAttentionConfig,
    FlashAttentionRoofline,
    FlashAttentionVersion,
)
from roofline_model.expected.attention.flash.pipeline import dequantize_ops, overlapped, step_clocks
from roofline_model.expected.attention.flash.splits import plan_work
from roofline_model.expected.attention.flash.units import chip_units
from roofline_model.expected.attention.flash.versions import TRAITS, emulated_exp_ratio


def clocks_of(chip: str, version: str, queries: int, head_dim: int, **options: object):
    device, config = get_hardware(chip), FlashAttentionConfig(version, **options)
    traits = TRAITS[config.version]
    work = plan_work(AttentionShape(1, 1, 1, queries, 4096, head_dim), config, device)
    units = dataclasses.replace(chip_units(device, traits, config.math_format.key), tensor_ratio=1.0)
    clocks = step_clocks(work.tile, config, traits, units, 0.0)
    assert clocks is not None
    return work.tile, clocks


@pytest.mark.parametrize(("queries", "tensor", "shared", "exp"), [(128, 1024, 768, 1024), (4096, 2048, 1536, 2048)])
def test_clocks_of_the_fa4_paper(queries: int, tensor: int, shared: int, exp: int) -> None:
    """Section on the forward roofline, arXiv:2603.05451: M = 128 and 256, N = D = 128 on B200."""
    tile, clocks = clocks_of("b200", "fa4", queries, 128)
    assert clocks.tensor_clocks_per_score * tile.scores_count == pytest.approx(tensor, rel=0.001)
    assert clocks.shared_clocks_per_score * tile.scores_count == pytest.approx(shared, rel=0.001)
    assert clocks.exp_clocks_per_score * tile.scores_count == pytest.approx(exp, rel=0.001)


@pytest.mark.parametrize(("chip", "head_dim", "ratio"), [("h100", 128, 0.5), ("h100", 64, 1.0), ("b200", 128, 1.0), ("b200", 64, 2.0), ("b300", 64, 1.0)])  # fmt: skip
def test_exp_against_tensor(chip: str, head_dim: int, ratio: float) -> None:
    """T_exp / T_MMA = R / (64·D): H100 R = 4096, B200 8192; B300 doubles the exponentials."""
    _, clocks = clocks_of(chip, "fa4", 4096, head_dim)
    assert clocks.exp_clocks_per_score / clocks.tensor_clocks_per_score == pytest.approx(ratio, rel=0.001)


def test_fp8_halves_the_products_and_not_the_exponentials() -> None:
    _, wide = clocks_of("h100", "fa3", 4096, 128)
    _, narrow = clocks_of("h100", "fa3", 4096, 128, use_native_fp8=True)
    assert narrow.tensor_clocks_per_score == pytest.approx(wide.tensor_clocks_per_score / 2)
    assert narrow.exp_clocks_per_score == wide.exp_clocks_per_score == 1 / 16


def test_mma_sync_is_slower_where_a_newer_instruction_exists() -> None:
    ratios = {
        chip: chip_units(get_hardware(chip), TRAITS[FlashAttentionVersion.FA2], "BF16").tensor_ratio
        for chip in ("a100", "gb10", "h100", "b200")
    }
    assert ratios == {"a100": 1.0, "gb10": 1.0, "h100": 0.63, "b200": 0.315}
    assert chip_units(get_hardware("h100"), TRAITS[FlashAttentionVersion.FA3], "BF16").tensor_ratio == pytest.approx(
        794.5 / 989.4
    )


def test_emulated_exponentials() -> None:
    b200, b300 = get_hardware("b200"), get_hardware("b300")
    assert emulated_exp_ratio(b200, causal=True, head_dim=128) == 0.125  # 16 of the 128 scores of a row
    assert emulated_exp_ratio(b200, causal=False, head_dim=128) == 0.1875
    assert emulated_exp_ratio(b300, causal=False, head_dim=128) == 0.0


def test_overlap_lies_between_the_longest_and_the_sum() -> None:
    assert overlapped((3.0, 1.0, 2.0), 1.0) == pytest.approx(6.0)
    assert overlapped((3.0, 1.0, 2.0), 200.0) == pytest.approx(3.0)
    assert 3.0 < overlapped((3.0, 1.0, 2.0), 4.0) < overlapped((3.0, 1.0, 2.0), 1.5) < 6.0
    assert overlapped((0.0, 0.0), 4.0) == 0.0


def test_what_is_widened_costs_vector_instructions() -> None:
    bf16, fp8 = get_format("BF16"), get_format("FP8_E4M3")
    assert dequantize_ops(bf16, bf16) == dequantize_ops(fp8, fp8) == dequantize_ops(get_format("FP8_E5M2"), fp8) == 0
    assert dequantize_ops(fp8, bf16) == dequantize_ops(get_format("MXFP8"), fp8) == 1.0
    assert dequantize_ops(get_format("NVFP4"), fp8) == 1.5
    assert dequantize_ops(get_format("NF4"), bf16) == 4.5
    # Per score: 2·D elements of K and V, shared by the rows of the tile.
    tile, clocks = clocks_of("gb10", "fa2", 4096, 128, kv_cache_precision="INT4")
    assert clocks.dequantize_clocks_per_score == pytest.approx(1.5 * 2 * 128 / tile.rows_count / 128)  # 128 lanes


def test_a_chip_that_hides_its_geometry_still_gets_memory_and_tensor() -> None:
    chip = create_custom_asic("bare", 500, {"FP16": 50.0})
    prediction = FlashAttentionRoofline(chip).predict(1, 32, 2048, 2048, 128, FlashAttentionConfig("fa2"))
    parts = dict(prediction.parts)
    assert parts["exp"] is parts["shared"] is parts["launch"] is parts["tail"] is None
    assert parts["tensor"] == pytest.approx(4 * 32 * 2048 * 2048 * 128 / 50e12)
    assert prediction.time_s >= max(parts["tensor"], parts["memory"])
    assert "SM count" in next(item for item in prediction.findings if item.value("kind") == "geometry").value("missing")
    assert prediction.waves_count is None


def test_another_vendors_kernel_takes_the_best_measured_product_and_names_only_what_its_chip_hides() -> None:
    chip = get_hardware("mi300x")
    prediction = FlashAttentionRoofline(chip).predict(1, 32, 4096, 4096, 128, FlashAttentionConfig("fa2"))
    # 668 of 1307.4 TFLOP/s is the best that anybody measured; the datasheet's peak is nobody's attention.
    assert dict(prediction.parts)["tensor"] == pytest.approx(4 * 32 * 4096 * 4096 * 128 / 668e12)
    missing = next(item for item in prediction.findings if item.value("kind") == "geometry").value("missing")
    assert "exp rate" in missing
    assert "SM count" not in missing  # 304 compute units are in its file, and waves_count counts with them
    assert prediction.waves_count is not None
