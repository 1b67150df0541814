"""Tiles by hand: blocks, waves, tail, padding, L2 requests; occupancy against the limits of an SM; laws for any
shape.
"""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline_model import create_custom_asic, gemm, get_format, get_hardware
from roofline_model.core.errors import UnsupportedError
from roofline_model.operators.attention import attention
from roofline_model.tiling.resources import occupancy
from roofline_model.tiling.waves import efficiency_curve, gemm_tiling

CHIPS = ("a100", "h100", "b200", "l40s", "rtx-pro-6000", "gb10")
H100 = get_hardware("h100")


def test_a_square_product_on_h100_by_hand():
    tiling = gemm_tiling(gemm(4096, 4096, 4096, a="BF16"), H100)
    assert (tiling.tile_m, tiling.tile_n, tiling.split_count) == (128, 256, 1)
    assert (tiling.grid_m_count, tiling.grid_n_count, tiling.block_count) == (32, 16, 512)
    assert tiling.blocks_per_sm_ratio == pytest.approx(512 / 132)
    assert tiling.wave_count == 4
    assert tiling.tail_ratio == pytest.approx(1 - 512 / (4 * 132))
    assert tiling.padding_ratio == 0
    # Every block loads its 128 rows and 256 columns over the whole K, 2 bytes each.
    assert tiling.requested_bytes == 512 * 4096 * (128 + 256) * 2
    assert tiling.operand_bytes == 2 * 4096 * 4096 * 2
    assert tiling.output_bytes == 4096 * 4096 * 2
    assert tiling.beyond_compulsory_bytes == tiling.requested_bytes - tiling.operand_bytes
    assert tiling.l2_hit_ratio == pytest.approx(1 - tiling.operand_bytes / tiling.requested_bytes, abs=0.01)


def test_the_time_is_the_expected_models_and_its_parts_add_up():
    from roofline_model.expected.chip import ChipSpec
    from roofline_model.expected.products.formula import expected_gemm

    tiling = gemm_tiling(gemm(512, 7168, 4096, a="BF16"), H100)
    batch = expected_gemm(ChipSpec.of(H100, "BF16"), 512, 7168, 4096, weight_format="BF16", activation_format="BF16")
    assert tiling.expected_s == batch.time_s[0]
    assert math.fsum(tiling.parts_s.values()) == pytest.approx(tiling.expected_s)
    assert set(tiling.parts_s) <= set(tiling.terms_s)
    assert tiling.terms_s["tensor"] >= tiling.flops / tiling.peak_flops_per_s > tiling.parts_s["dram"]
    assert tiling.low_s < tiling.expected_s < tiling.high_s


def test_a_long_k_with_few_tiles_is_split():
    tiling = gemm_tiling(gemm(128, 512, 65536, a="BF16"), get_hardware("a100"))
    assert tiling.split_count > 1
    assert tiling.block_count == tiling.grid_m_count * tiling.grid_n_count * tiling.split_count


def test_weights_that_stay_in_the_cache_move_less():
    work, chip = gemm(64, 1024, 1024, a="BF16"), get_hardware("rtx-pro-6000")
    assert gemm_tiling(work, chip, cache="warm").dram_bytes < gemm_tiling(work, chip).dram_bytes


def test_an_output_that_misses_is_not_held_against_operands_that_hit():
    # 1.5 MB of operands stay in the H100's L2, the 16.8 MB of output do not.
    tiling = gemm_tiling(gemm(4096, 2048, 128, a="BF16"), H100, cache="warm")
    assert tiling.dram_bytes > 0.9 * tiling.output_bytes > tiling.operand_bytes
    assert tiling.operand_dram_bytes < 0.01 * tiling.operand_bytes
    assert tiling.l2_hit_ratio > 0.999


def test_a_gemv_kernel_has_no_tiles_and_other_operators_are_refused():
    assert gemm_tiling(gemm(1, 4096, 4096, a="BF16"), get_hardware("gb10")) is None
    with pytest.raises(UnsupportedError, match="only products have tiles"):
        gemm_tiling(attention(1, 8, 8, 128, 128, 64), H100)


@given(st.sampled_from(CHIPS), *(st.integers(1, 20000) for _ in range(3)))
def test_laws_of_any_tiling(chip, M, N, K):
    tiling = gemm_tiling(gemm(M, N, K, a="BF16"), get_hardware(chip))
    if tiling is None:
        assert M == 1
        return
    assert tiling.grid_m_count * tiling.tile_m >= M > (tiling.grid_m_count - 1) * tiling.tile_m
    assert tiling.grid_n_count * tiling.tile_n >= N > (tiling.grid_n_count - 1) * tiling.tile_n
    assert 0 <= tiling.tail_ratio < 1
    assert 0 <= tiling.padding_ratio < 1
    assert 0 <= tiling.l2_hit_ratio <= 1
    assert tiling.requested_bytes >= tiling.operand_bytes * (1 - 1e-9)
    assert tiling.dram_bytes <= (tiling.operand_bytes + tiling.output_bytes) * (1 + 1e-9)
    assert tiling.operand_dram_bytes <= min(tiling.operand_bytes, tiling.dram_bytes) * (1 + 1e-9)
    assert tiling.dram_bytes - tiling.operand_dram_bytes <= tiling.output_bytes * (1 + 1e-6)
    assert tiling.l2_hit_ratio == pytest.approx(1 - tiling.operand_dram_bytes / tiling.requested_bytes, abs=1e-12)
    assert 0 < tiling.efficiency_ratio <= 1
    assert tiling.occupancy.block_count >= 1


# Occupancy ---------------------------------------------------------------------------------------------------------


def test_occupancy_by_hand_on_a100():
    # 128 x 128 x 64 in 16 bit: 3 stages of 32 KiB = 96 KiB and 1 KiB reserved of 164 KiB: one block.
    blocks = occupancy(get_hardware("a100"), "sm80", 128, 128, a_bytes=2, b_bytes=2, output_bytes=2)
    assert (blocks.stage_count, blocks.shared_bytes, blocks.tile_k) == (3, 96 * 1024, 64)
    assert (blocks.block_count, blocks.limiter) == (1, "shared memory")
    assert blocks.warp_ratio == 4 / 64
    # Accumulators 128·128/128 threads = 128, fragments (64 + 64) / 2 = 64, addresses 40.
    assert blocks.registers_per_thread_count == 232
    small = occupancy(get_hardware("a100"), "sm80", 64, 64, a_bytes=2, b_bytes=2, output_bytes=2)
    assert small.block_count == 3
    assert small.shared_bytes == 3 * 64 * (64 + 64) * 2


def test_a_small_shared_memory_halves_the_stage_before_it_loses_one():
    blocks = occupancy(get_hardware("gb10"), "sm120", 128, 256, a_bytes=2, b_bytes=2, output_bytes=2)
    assert (blocks.tile_k, blocks.stage_count) == (32, 3)
    assert blocks.shared_bytes <= 99 * 1024


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("tile", [(16, 64), (64, 64), (128, 128), (128, 256), (256, 128)])
def test_no_limit_of_the_sm_is_exceeded(chip, tile):
    device = get_hardware(chip)
    family = {"a100": "sm80", "h100": "sm90", "b200": "sm100", "l40s": "sm89"}.get(chip, "sm120")
    blocks = occupancy(device, family, *tile, a_bytes=1, b_bytes=1, output_bytes=2)
    assert blocks.block_count * blocks.shared_bytes <= device.chip["shared_memory_per_sm"].value
    assert blocks.shared_bytes <= device.chip["shared_memory_per_block"].value
    assert blocks.warp_ratio <= 1
    assert blocks.registers_per_thread_count <= 255


def test_a_chip_without_the_limits_of_its_sm_says_which_is_missing():
    from dataclasses import replace

    bare = replace(H100, chip={name: value for name, value in H100.chip.items() if name != "warps_per_sm"})
    with pytest.raises(UnsupportedError, match=r"gives no warps_per_sm.*\[chip\]"):
        occupancy(bare, "sm90", 128, 128, a_bytes=2, b_bytes=2, output_bytes=2)


@pytest.mark.parametrize(
    ("chip", "formats", "k"),
    [("b200", ("NVFP4", "NVFP4"), 256), ("b200", ("MXFP4", "MXFP4"), 256), ("b200", ("MXFP8", "MXFP8"), 128), ("gb10", ("NVFP4", "NVFP4"), 256),
     ("b200", ("MXFP6", "MXFP6"), 128), ("h100", ("FP8", "FP8"), 128), ("h100", ("BF16", "BF16"), 64), ("gb10", ("BF16", "INT4"), 64)],
)  # fmt: skip
def test_a_stage_holds_whole_scale_blocks(chip, formats, k):
    a, b = formats
    work = gemm(512, 4096, 4096, a=a, b=b)
    blocks = gemm_tiling(work, get_hardware(chip)).occupancy
    assert blocks.tile_k in (k, k // 2)  # half a line where three stages of a whole one do not fit
    for name in dict(work.formats).values():
        assert all(blocks.tile_k % (level.block_elems or 1) == 0 for level in get_format(name).scales)


def test_scales_take_shared_memory_and_do_not_shorten_the_stage():
    device = get_hardware("b200")
    plain = occupancy(device, "sm100", 128, 128, a_bytes=0.5, b_bytes=0.5, output_bytes=2)
    scaled = occupancy(device, "sm100", 128, 128, a_bytes=0.5625, b_bytes=0.5625, output_bytes=2, widest_bits=4)
    assert plain.tile_k == scaled.tile_k == 256
    assert scaled.shared_bytes / scaled.stage_count > plain.shared_bytes / plain.stage_count


def test_waves_and_tail_tell_one_story_when_two_blocks_share_an_sm():
    tiling = gemm_tiling(gemm(512, 4096, 4096, a="BF16", b="INT4"), get_hardware("gb10"))
    assert (tiling.block_count, tiling.sm_count, tiling.occupancy.block_count) == (128, 48, 2)
    assert (tiling.wave_count, tiling.resident_wave_count) == (3, 2)
    assert tiling.tail_ratio == pytest.approx(1 - 128 / (tiling.wave_count * tiling.sm_count))


# The saw-tooth -----------------------------------------------------------------------------------------------------


def test_efficiency_falls_where_a_new_wave_begins():
    curve = efficiency_curve(512, 4096, [6144, 6176], get_hardware("gb10"), a="BF16", b="BF16")
    # 96 blocks of 128 x 256 or 256 x 128 fill 48 SMs twice; a few columns more begin a third wave.
    assert curve.fixed_tile in ("128x256x1", "256x128x1")
    assert curve.fixed_tile_ratio[0] == 1
    assert curve.fixed_tile_ratio[1] == pytest.approx(512 * 6176 / (3 * 48 * 128 * 256))
    assert curve.expected_ratio[1] < 0.95 * curve.expected_ratio[0]


def test_a_cpu_has_no_tiles_however_well_it_is_calibrated():
    chip = replace(create_custom_asic("test cpu", 50, {"BF16": 0.4}), kind="cpu")
    with pytest.raises(UnsupportedError, match=r"CPU.*GPU") as caught:
        gemm_tiling(gemm(64, 64, 64, a="BF16"), chip)
    assert "calibrate" not in str(caught.value)


# Chips without constants -------------------------------------------------------------------------------------------


def test_tiles_need_no_constants():
    b10 = gemm_tiling(gemm(512, 4096, 4096, a="FP16"), get_hardware("b10"))
    gb10 = gemm_tiling(gemm(512, 4096, 4096, a="FP16"), get_hardware("gb10"))
    assert (b10.sm_count, b10.occupancy.warp_ratio > 0) == (gb10.sm_count, True)
    assert b10.expected_s is b10.efficiency_ratio is b10.l2_hit_ratio is None
    assert (b10.parts_s, b10.bound, b10.provenance) == ({}, "", "")
    assert b10.requested_bytes >= b10.operand_bytes
    assert gb10.findings == ()


@given(*(st.integers(1, 20000) for _ in range(3)), st.sampled_from(["BF16", "FP8_E4M3", "INT8"]))
def test_laws_of_a_tile_without_constants(M, N, K, fmt):
    tiling = gemm_tiling(gemm(M, N, K, a=fmt), get_hardware("mi300x"))
    if tiling is None:
        assert M == 1
        return
    assert tiling.grid_m_count * tiling.tile_m >= M > (tiling.grid_m_count - 1) * tiling.tile_m
    assert 0 <= tiling.tail_ratio < 1
    assert tiling.occupancy.block_count * tiling.occupancy.shared_bytes <= 64 * 1024
    assert tiling.occupancy.warp_ratio <= 1
    assert 0 <= tiling.l2_hit_ratio <= 1


def test_a_chip_that_states_no_sms_is_refused_by_name():
    with pytest.raises(UnsupportedError, match="expected-time constants"):
        gemm_tiling(gemm(512, 4096, 4096, a="FP16"), create_custom_asic("mine", 500, {"FP16": 50}))
