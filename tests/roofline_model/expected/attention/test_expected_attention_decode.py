"""Decode attention: which kernel runs, how it splits, which bytes it moves — by hand, for each family."""

from __future__ import annotations

import numpy as np
import pytest

from roofline_model.chips.hardware import get_hardware
from roofline_model.expected.attention.chip import AttentionChip
from roofline_model.expected.attention.decode import decode_work, kernels_of
from roofline_model.expected.attention.shape import AttentionShapes


def work_of(key, *, B=1, Hq=32, Hkv=8, Skv=1024, D=128, Sq=1, window=0, is_8bit=False, is_cold=False, **more):
    shapes = AttentionShapes.of(B, Hq, Hkv, Sq, Skv, D, causal=True, window=window)
    chip = AttentionChip.of(get_hardware(key))
    return decode_work(chip, shapes, cache_bytes=1 if is_8bit else 2, is_8bit=is_8bit, is_cold=is_cold, **more)


@pytest.mark.parametrize(
    ("key", "call", "kernel"),
    [
        ("h100", {}, "mma/8"),
        ("h100", {"is_8bit": True}, "gmma/8"),
        ("b200", {}, "gen/4"),  # 148 SMs for 8 heads would give 18, 1024 tokens give 4 blocks of 256
        ("rtx-pro-6000", {"is_8bit": True}, "mma/1"),  # never splits an 8-bit cache
        ("gb10", {"Skv": 131072}, "mma/48"),  # 90 by length, at most 8 waves of 48 SMs
        ("h100", {"Hkv": 32}, "head/3"),  # no group; SMs for 5 splits, 1025 tokens give 3 steps of 512
        ("h100", {"Hq": 64, "Hkv": 1, "B": 64}, "head/1"),
        ("b200", {"Hkv": 32}, "gen/4"),
        ("b200", {"Hq": 64, "Hkv": 1}, "head/3"),
        ("h100", {"Skv": 512}, "head/2"),  # 8 heads x 4 blocks x 4 < 132 SMs
        ("h100", {"Skv": 512, "is_8bit": True}, "gmma/4"),
        ("h100", {"D": 512}, "head/5"),
    ],
)
def test_kernel_and_splits(key, call, kernel):
    assert kernels_of(work_of(key, **call)) == [kernel]


def test_bytes_by_hand():
    work = work_of("h100", B=2, Skv=1000)
    cache = 2 * 2 * 8 * 1000 * 128 * 2
    query_and_output = 2 * 32 * 128 * (2 + 2)
    new_tokens = 2 * 2 * 8 * 128 * (2 + 2)
    assert work.moved_bytes[0] == cache + query_and_output + new_tokens
    # RoPE and append read packed QKV, write Q, write K and V.
    assert work.append_bytes[0] == 2 * 128 * ((32 + 16) * 2 + 32 * 2 + 16 * 2)
    assert work.evicted_bytes[0] == 0
    assert work_of("h100", B=2, Skv=1000, is_cold=True).evicted_bytes[0] == cache


def test_a_window_limits_the_bytes_but_not_the_splits():
    full, window = work_of("a100", Skv=8192), work_of("a100", Skv=8192, window=256)
    assert window.splits[0] == full.splits[0] == 23
    assert window.busy_splits[0] == 2
    assert full.moved_bytes[0] - window.moved_bytes[0] == 2 * 8 * (8192 - 256) * 128 * 2
    assert window.ctas_per_sm[0] < full.ctas_per_sm[0]


def test_rows_of_shared_pages_read_less_in_the_grouped_kernel_only():
    assert work_of("a100", cache_read_ratio=0.5).moved_bytes[0] < work_of("a100").moved_bytes[0]
    assert work_of("a100", Hkv=32, cache_read_ratio=0.5).moved_bytes[0] == work_of("a100", Hkv=32).moved_bytes[0]


def test_few_heads_get_large_ctas():
    heads = np.array([1, 100, 170, 175, 200, 500, 527, 528, 5000])
    work = work_of("h100", B=heads, Hq=1, Hkv=1, Skv=16)
    # 132 SMs: CTAs of 1024 threads below 4/3 of them, of 512 below four times, else of 256.
    assert work.resident.tolist() == [1, 1, 1, 1, 2, 2, 2, 4, 4]
    assert work.waves[0] == pytest.approx(1 / 132)


def test_speculated_tokens_are_query_rows():
    single, four = work_of("h100", Sq=1), work_of("h100", Sq=4)
    assert single.tile[0] == 1  # 4 heads of a group padded to 16 rows
    assert four.tile[0] == 1  # 16 rows
    assert work_of("h100", Sq=5).tile[0] == 2
    assert four.append_bytes[0] == 4 * single.append_bytes[0]
