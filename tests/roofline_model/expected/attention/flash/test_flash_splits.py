"""Packed GQA and split keys: the kernels' own heuristics, counted by hand."""

from __future__ import annotations

from typing import Any

import pytest

from roofline_model import get_hardware
from roofline_model.expected.attention.flash.model import AttentionShape, FlashAttentionConfig
from roofline_model.expected.attention.flash.splits import Work, plan_work


def plan(chip: str, version: str, shape: tuple[int, ...], **options: Any) -> Work:
    return plan_work(AttentionShape(*shape), FlashAttentionConfig(version, **options), get_hardware(chip))


@pytest.mark.parametrize(
    ("chip", "version", "shape", "packed", "splits", "ctas"),
    [
        # FA3: 8 units; 8192 keys in blocks of 176 are 47. 33 splits fill two waves of 132 exactly; 15 (120 of 132,
        # 0.909) is the first that reaches 0.85, 14 (0.848) is not.
        ("h100", "fa3", (1, 32, 8, 1, 8192, 128), True, 15, 120),
        ("h100", "fa3", (1, 32, 8, 1, 704, 128), True, 1, 8),  # four blocks: never split
        ("h100", "fa3", (64, 32, 8, 1, 8192, 128), True, 1, 512),  # enough work
        ("h100", "fa3", (1, 32, 32, 4096, 4096, 128), False, 1, 1024),
        # FA4: 148 // 8 = 18 splits of 64 blocks.
        ("b200", "fa4", (1, 32, 8, 1, 8192, 128), True, 18, 144),
        ("b200", "fa4", (1, 32, 8, 1, 512, 128), True, 1, 8),  # four blocks
        ("b200", "fa4", (1, 32, 8, 1, 1024, 128), True, 8, 64),  # no more splits than blocks
        # FA2: twice the SMs count as places (96); 8 units, 64 blocks. 12 splits would fill them, but leave as many
        # blocks per split as 11; of the rest the best is 11 (88 of 96, 0.917), and 10 (0.833) is the first within 0.85
        # of it.
        ("gb10", "fa2", (1, 32, 8, 1, 8192, 128), True, 10, 80),
        ("a100", "fa2", (1, 32, 8, 4096, 4096, 128), False, 1, 1024),
        ("b10", "fa2", (1, 32, 8, 1, 8192, 128), True, 1, 8),  # the SM count of b10 is unknown
    ],
)  # fmt: skip
def test_splits(chip: str, version: str, shape: tuple[int, ...], packed: bool, splits: int, ctas: int) -> None:
    work = plan(chip, version, shape)
    assert (work.packed, work.split_count, work.ctas_count) == (packed, splits, ctas)


def test_fa3_splits_very_long_heads_that_many_queries_share() -> None:
    # 2 · 262144 · 128 · 2 bytes = 128 MiB per head: three L2 of 50 MiB.
    assert plan("h100", "fa3", (1, 1, 1, 262144, 262144, 128)).split_count == 3
    assert plan("h100", "fa3", (1, 1, 1, 262144, 262144, 128), causal=True).split_count == 1


def test_packing_rules() -> None:
    decode, prompt = (4, 32, 8, 1, 4096, 128), (4, 32, 8, 4096, 4096, 128)
    assert not plan("a100", "fa1", decode).packed
    assert plan("a100", "fa2", decode).packed
    assert not plan("a100", "fa2", decode, window_size=1024).packed  # the swap needs a full cache
    assert not plan("h100", "fa3", prompt).packed  # 4096 rows fill tiles of 128
    assert plan("h100", "fa3", (4, 32, 8, 130, 4096, 128)).packed  # 130 rows in 256, packed 520 in 640
    assert plan("b200", "fa4", prompt).packed
    assert not plan("b200", "fa4", (4, 32, 32, 4096, 4096, 128)).packed


def test_a_given_split_count_is_used_and_never_exceeds_the_blocks() -> None:
    assert plan("h100", "fa3", (64, 32, 8, 1, 8192, 128), split_count=4).split_count == 4
    assert plan("h100", "fa3", (64, 32, 8, 1, 176, 128), split_count=4).split_count == 1


def test_fa1_divides_queries_and_not_keys() -> None:
    work = plan("a100", "fa1", (1, 32, 8, 4096, 4096, 128))
    assert not work.splits_keys
    assert work.ctas_count == 32 * work.split_count
    assert (
        work.split_count == 10
    )  # 320 blocks fill 0.988 of three waves of 108; 3 and 6 fill 0.889, below 0.95 of the best


def test_the_last_wave_is_paid() -> None:
    full = plan("h100", "fa3", (132, 1, 1, 128, 1760, 128))  # 132 equal blocks of 10 steps on 132 SMs
    assert full.busiest_sm_blocks(132, longest_first=True) == 10
    over = plan("h100", "fa3", (133, 1, 1, 128, 1760, 128))
    assert over.busiest_sm_blocks(132, longest_first=True) == 20
    few = plan("h100", "fa3", (3, 1, 1, 128, 1760, 128), split_count=1)
    assert few.busiest_sm_blocks(132, longest_first=True) == 10


def test_short_tiles_fill_the_last_causal_wave_when_scheduled_last() -> None:
    work = plan("h100", "fa3", (16, 1, 1, 2048, 2048, 128), causal=True)  # 16 tiles of 1 … 16 steps, 256 blocks in all
    assert work.total_blocks == 16 * 136
    assert work.hidden_ratio == 1 - 136 / 256
    done = 16 * 136 * (1 + 0.12 * (1 - 136 / 256))
    assert work.busiest_sm_blocks(132, longest_first=True) == pytest.approx((done + 8 * 1) / 132)
    assert work.busiest_sm_blocks(132, longest_first=False) == pytest.approx((done + 8 * 16) / 132)
