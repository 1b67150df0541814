"""DRAM bytes of fused attention, counted by hand."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from roofline_model import create_custom_asic, get_hardware
from roofline_model.expected.attention.flash.model import (
    FlashAttentionConfig,
    FlashAttentionPrediction,
    FlashAttentionRoofline,
)
from roofline_model.operators.attention import attention

MIB = 1024**2


def predicted(
    chip: str, version: str, shape: tuple[int, int, int, int, int, int], **options: Any
) -> FlashAttentionPrediction:
    batch, heads, kv_heads, queries, keys, width = shape
    config = FlashAttentionConfig(version, **options)
    return FlashAttentionRoofline(chip).predict(batch, heads, queries, keys, width, config, num_kv_heads=kv_heads)


def test_prompt_bytes() -> None:
    prediction = predicted("h100", "fa2", (2, 32, 8, 4096, 4096, 128))
    # Q and O: 2 · 32 · 4096 · 128 · 2 bytes = 64 MiB each; K and V together: 2 · 2 · 8 · 4096 · 128 · 2 = 32 MiB.
    assert dict(prediction.traffic_bytes) == {"q": 64 * MIB, "kv": 32 * MIB, "o": 64 * MIB}
    assert prediction.compulsory_bytes == prediction.dram_bytes == 160 * MIB


@pytest.mark.parametrize(
    ("precision", "bytes_per_element"),
    [("FP16", 2), ("FP8", 1), ("INT8", 1), ("INT4", 0.5), ("NVFP4_KV", 4.53125 / 8), ("MXFP4", 4.25 / 8)],
)
def test_a_narrow_cache_counts_with_its_scales(precision: str, bytes_per_element: float) -> None:
    prediction = predicted("gb10", "fa2", (1, 32, 8, 1, 32768, 128), kv_cache_precision=precision)
    assert dict(prediction.traffic_bytes)["kv"] == 2 * 8 * 32768 * 128 * bytes_per_element
    assert dict(prediction.traffic_bytes)["q"] == dict(prediction.traffic_bytes)["o"] == 32 * 128 * 2


def test_fp8_products_write_16_bit() -> None:
    prediction = predicted("h100", "fa3", (1, 16, 16, 4096, 4096, 128), use_native_fp8=True)
    assert dict(prediction.traffic_bytes) == {"q": 8 * MIB, "kv": 16 * MIB, "o": 16 * MIB}


def test_pages_cost_their_table() -> None:
    paged = predicted("gb10", "fa2", (4, 32, 8, 1, 1000, 128), page_size=64)
    assert dict(paged.traffic_bytes)["page_table"] == 4 * 16 * 4  # 1000 tokens lie in 16 pages, one int32 each
    assert paged.dram_bytes == predicted("gb10", "fa2", (4, 32, 8, 1, 1000, 128)).dram_bytes + 256


def test_a_window_reads_what_its_queries_see() -> None:
    decode = predicted("gb10", "fa2", (1, 32, 8, 1, 8192, 128), window_size=1024)
    assert dict(decode.traffic_bytes)["kv"] == 2 * 8 * 1024 * 128 * 2
    chunk = predicted("gb10", "fa2", (1, 32, 8, 512, 8192, 128), window_size=1024, causal=True)
    assert dict(chunk.traffic_bytes)["kv"] == 2 * 8 * (1024 + 511) * 128 * 2


def test_operands_are_those_of_the_operator() -> None:
    for options in ({}, {"causal": True}, {"causal": True, "window": 700}):
        operator = attention(2, 16, 4, 512, 2048, 64, q="FP16", kv="NVFP4", **options)
        renamed = {"window_size" if name == "window" else name: value for name, value in options.items()}
        prediction = predicted("h100", "fa3", (2, 16, 4, 512, 2048, 64), kv_cache_precision="NVFP4", **renamed)
        assert prediction.compulsory_bytes == operator.cost.total_bytes
        assert prediction.flops == operator.cost.total_flops
        assert prediction.cost.total_bytes == prediction.dram_bytes


def test_fa1_sends_the_output_through_memory() -> None:
    prediction = predicted("a100", "fa1", (8, 16, 16, 4096, 4096, 128))
    # 32 blocks of 128 keys: after the first, each reads Q (2 bytes) again and reads and writes O (4 + 4 bytes). 108
    # blocks in work hold 4096 / splits rows of 768 bytes each; what 0.7 of the 40 MiB of L2 holds of them does not go
    # to memory.
    rows_bytes = 108 * 4096 / prediction.split_count * 128 * (2 + 4)
    missed = 1 - 0.7 * get_hardware("a100").last_level_cache.capacity_bytes / rows_bytes
    assert 0.5 < missed < 1
    trips = 31 * 8 * 16 * 4096 * 128 * (2 + 8) * missed
    assert dict(prediction.traffic_bytes)["output_round_trips"] == pytest.approx(trips)
    assert prediction.dram_bytes > 20 * predicted("a100", "fa2", (8, 16, 16, 4096, 4096, 128)).dram_bytes
    # Short rows stay in L2: 108 blocks x 512 rows x 768 bytes = 42 MB do not, 64 tokens do.
    assert "output_round_trips" not in dict(predicted("a100", "fa1", (8, 16, 16, 64, 4096, 128)).traffic_bytes)


def test_fa1_has_no_cliff_where_its_rows_outgrow_the_cache() -> None:
    # An RTX 4090 has more of everything than an L4; its 128 blocks hold more rows than its L2, the L4's 58 do not.
    shape = (1, 32, 8, 4096, 4096, 128)
    assert "output_round_trips" not in dict(predicted("l4", "fa1", shape).traffic_bytes)
    assert predicted("rtx-4090", "fa1", shape).time_s < predicted("l4", "fa1", shape).time_s
    # Ever longer prompts reach memory little by little: no step of more than the work's own growth.
    moved = [predicted("rtx-4090", "fa1", (4, 32, 32, length, length, 128)) for length in range(128, 2049, 128)]
    share = [traffic.dram_bytes / traffic.flops for traffic in moved]
    assert all(after < before + 0.25 * max(share) for before, after in itertools.pairwise(share))


def test_fa1_repeats_keys_for_grouped_heads() -> None:
    grouped, plain = (
        predicted("a100", "fa1", (1, 32, 8, 1, 4096, 128)),
        predicted("a100", "fa1", (1, 32, 32, 1, 4096, 128)),
    )
    assert dict(grouped.traffic_bytes)["kv"] == dict(plain.traffic_bytes)["kv"] == 2 * 32 * 4096 * 128 * 2
    assert {item.value("repeat_count") for item in grouped.findings if item.value("kind") == "heads-repeated"} == {4}


def test_keys_are_read_again_only_when_l2_cannot_hold_them() -> None:
    # One head of 64k keys of 256: 64 MiB against 0.7 · 24 MiB on GB10. 1024 tiles of 64 rows, 96 of them at a time.
    long = predicted("gb10", "fa2", (1, 1, 1, 65536, 65536, 256))
    assert dict(long.traffic_bytes)["kv"] == 64 * MIB
    assert dict(long.traffic_bytes)["kv_reread"] == (-(-1024 // 48) - 1) * 64 * MIB
    assert "kv_reread" not in dict(predicted("b200", "fa2", (1, 1, 1, 65536, 65536, 256)).traffic_bytes)
    # Without a known L2 there is nothing to count.
    custom = create_custom_asic("bare", 500, {"FP16": 50.0})
    bare = FlashAttentionRoofline(custom).predict(1, 1, 65536, 65536, 256, FlashAttentionConfig("fa2"))
    assert dict(bare.traffic_bytes).keys() == {"q", "kv", "o"}


def test_block_sparsity_skips_reads_and_keeps_the_cache() -> None:
    dense = predicted("gb10", "fa2", (1, 32, 8, 1, 32768, 128))
    sparse = predicted("gb10", "fa2", (1, 32, 8, 1, 32768, 128), block_sparse=True, sparsity_ratio=0.3)
    assert dict(sparse.traffic_bytes)["kv"] == pytest.approx(0.7 * dict(dense.traffic_bytes)["kv"])
    assert sparse.flops == pytest.approx(0.7 * dense.flops)
    # A prompt has many query tiles, each with blocks of its own to skip: together they still read nearly all keys.
    prompt = predicted("gb10", "fa2", (1, 32, 32, 4096, 4096, 128), block_sparse=True, sparsity_ratio=0.3)
    assert dict(prompt.traffic_bytes)["kv"] == pytest.approx(2 * 32 * 4096 * 128 * 2)
    assert prompt.flops == pytest.approx(0.7 * predicted("gb10", "fa2", (1, 32, 32, 4096, 4096, 128)).flops)


def test_partial_results_of_splits_stay_in_l2_unless_they_are_large() -> None:
    split = predicted("h100", "fa3", (1, 32, 8, 1, 65536, 128))
    assert split.split_count > 1
    assert "partial" not in dict(split.traffic_bytes)
    forced = predicted("gb10", "fa2", (64, 32, 8, 64, 65536, 128), split_count=8)
    assert (
        dict(forced.traffic_bytes)["partial"] == 2 * 64 * 32 * 64 * 8 * 129 * 4
    )  # written and read by the combine kernel
