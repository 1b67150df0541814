"""Laws that hold for every shape: more keys never cost less, masks and sparsity never cost more, limits agree."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline_model.expected.attention.flash.model import (
    AttentionShape,
    FlashAttentionConfig,
    FlashAttentionPrediction,
    predict_flash_attention,
)
from roofline_model.expected.attention.unfused import unfused_attention

CHIPS_AND_VERSIONS = st.sampled_from(
    [("a100", "fa1"), ("a100", "fa2"), ("gb10", "fa1"), ("gb10", "fa2"), ("h100", "fa2"), ("h100", "fa3"), ("b200", "fa4"), ("b10", "fa3")]
)  # fmt: skip
HEAD_DIMS = st.sampled_from([64, 80, 128])
SHAPES = st.builds(
    lambda batch, kv_heads, group, queries, extra, head_dim: AttentionShape(
        batch, kv_heads * group, kv_heads, queries, queries + extra, head_dim
    ),
    st.integers(1, 16),
    st.integers(1, 16),
    st.sampled_from([1, 2, 4, 8]),
    st.integers(1, 3000),
    st.integers(0, 9000),
    HEAD_DIMS,
)


def run(case: tuple[str, str], shape: AttentionShape, **options: object) -> FlashAttentionPrediction:
    chip, version = case
    return predict_flash_attention(chip, shape, FlashAttentionConfig(version, **options))


@given(CHIPS_AND_VERSIONS, SHAPES)
def test_every_prediction_is_sound(case: tuple[str, str], shape: AttentionShape) -> None:
    prediction = run(case, shape)
    parts = {name: seconds for name, seconds in prediction.parts if seconds is not None}
    assert all(seconds >= 0 for seconds in parts.values())
    # Never below any unit alone, never below the launch.
    alone = max(parts[name] for name in ("memory", "tensor", "shared", "exp") if name in parts)
    assert prediction.time_s >= alone * (1 - 1e-9)
    assert prediction.time_s >= parts.get("launch", 0.0)
    assert prediction.padded_flops >= prediction.flops
    assert prediction.dram_bytes >= prediction.compulsory_bytes
    assert prediction.bound in ("memory", "tensor", "exp", "shared", "launch")
    assert prediction.bottleneck in ("memory", "compute")


@given(CHIPS_AND_VERSIONS, SHAPES, st.integers(1, 3000), st.booleans())
def test_more_keys_never_cost_less(case: tuple[str, str], shape: AttentionShape, more: int, causal: bool) -> None:
    """With the number of splits held: the heuristics may split a longer cache and make it faster."""
    longer = replace(shape, kv_count=shape.kv_count + more)
    before, after = (run(case, size, causal=causal, split_count=1) for size in (shape, longer))
    assert after.flops > before.flops
    assert after.dram_bytes >= before.dram_bytes
    assert after.time_s >= before.time_s * (1 - 1e-9)


@given(CHIPS_AND_VERSIONS, SHAPES, st.integers(1, 4000))
def test_masks_never_add_work(case: tuple[str, str], shape: AttentionShape, window: int) -> None:
    full, causal = run(case, shape), run(case, shape, causal=True)
    windowed = run(case, shape, window_size=window)
    both = run(case, shape, causal=True, window_size=window)
    assert both.flops <= causal.flops <= full.flops
    assert both.flops <= windowed.flops <= full.flops
    assert causal.compulsory_bytes <= full.compulsory_bytes
    assert both.compulsory_bytes <= windowed.compulsory_bytes <= full.compulsory_bytes


@given(
    st.sampled_from([("a100", "fa1"), ("a100", "fa2"), ("gb10", "fa2"), ("b200", "fa4"), ("h100", "fa2")]),
    SHAPES,
    st.integers(1, 4000),
)
def test_masks_never_cost_time(case: tuple[str, str], shape: AttentionShape, window: int) -> None:
    """Kernels whose tiles do not depend on the mask.

    FA4 emulates fewer exponentials under a causal mask: 1 % allowed.
    """
    full = run(case, shape, split_count=1)
    slack = 1.01 if case[1] == "fa4" else 1 + 1e-9
    assert run(case, shape, causal=True, split_count=1).time_s <= full.time_s * slack
    if shape.query_count > 1 or shape.group_size == 1 or case[1] != "fa2":  # FA2 packs decode only without a window
        assert run(case, shape, window_size=window, split_count=1).time_s <= full.time_s * slack


@given(st.integers(1, 6), st.integers(1, 16), st.sampled_from([64, 128]))
def test_fa3_masks_cost_nothing_where_both_tiles_fit(times: int, heads: int, head_dim: int) -> None:
    """1408 keys hold whole blocks of 128 and 176, 1152 hold 128 and 192: no difference of rounding.

    The narrower blocks under a mask read Q more often: 3 % allowed.
    """
    length = times * (1408 if head_dim == 128 else 1152)
    shape = AttentionShape(4, heads, heads, length, length, head_dim)
    full = run(("h100", "fa3"), shape, split_count=1)
    assert run(("h100", "fa3"), shape, causal=True, split_count=1).time_s <= full.time_s * 1.03
    assert run(("h100", "fa3"), shape, causal=True, window_size=512, split_count=1).time_s <= full.time_s * 1.03


@given(CHIPS_AND_VERSIONS, SHAPES, st.floats(0, 0.95), st.booleans())
def test_block_sparsity_is_linear_in_work(
    case: tuple[str, str], shape: AttentionShape, ratio: float, causal: bool
) -> None:
    dense = run(case, shape, causal=causal)
    sparse = run(case, shape, causal=causal, block_sparse=True, sparsity_ratio=ratio)
    assert sparse.flops == pytest.approx(dense.flops * (1 - ratio))
    assert sparse.padded_flops == pytest.approx(dense.padded_flops * (1 - ratio))
    for (name, before), (_, after) in zip(dense.parts, sparse.parts, strict=True):
        if name in ("tensor", "shared", "exp", "vector"):
            assert (before is None) == (after is None)
            assert after == pytest.approx(before * (1 - ratio)) if before else True
    lists = dict(sparse.traffic_bytes)["block_lists"]
    assert sparse.dram_bytes - lists <= dense.dram_bytes * (1 + 1e-9)


@given(CHIPS_AND_VERSIONS, SHAPES)
def test_one_query_needs_no_mask(case: tuple[str, str], shape: AttentionShape) -> None:
    decode = replace(shape, query_count=1)
    masked, free = run(case, decode, causal=True), run(case, decode)
    assert (masked.flops, masked.dram_bytes) == (free.flops, free.dram_bytes)
    assert masked.flops == 4 * decode.batch_size * decode.query_heads * decode.kv_count * decode.head_dim
    if case[1] in ("fa1", "fa2"):  # the tiles of FA3 and the exponentials of FA4 depend on the mask's name
        assert masked.time_s == free.time_s


@given(st.sampled_from([("a100", "fa2"), ("gb10", "fa2"), ("h100", "fa3"), ("b200", "fa4")]), SHAPES)
def test_long_decode_tends_to_the_bandwidth(case: tuple[str, str], shape: AttentionShape) -> None:
    decode = AttentionShape(64, 32, 8, 1, 16384 + shape.kv_count, 128)
    prediction = run(case, decode)
    assert prediction.bottleneck == "memory"
    assert prediction.time_s == pytest.approx(dict(prediction.parts)["memory"], rel=0.12)


@given(CHIPS_AND_VERSIONS, SHAPES)
def test_grouped_heads_never_move_more(case: tuple[str, str], shape: AttentionShape) -> None:
    every_head = replace(shape, kv_heads=shape.query_heads)
    assert run(case, shape, split_count=1).dram_bytes <= run(case, every_head, split_count=1).dram_bytes


@given(st.sampled_from([("a100", "fa2"), ("gb10", "fa2"), ("h100", "fa3"), ("b200", "fa4"), ("b10", "fa2")]), SHAPES)
def test_fused_never_moves_more_than_unfused(case: tuple[str, str], shape: AttentionShape) -> None:
    """Without split keys: their partial results are an extra that buys parallelism."""
    assert run(case, shape, split_count=1).dram_bytes <= unfused_attention(case[0], shape).dram_bytes


@given(CHIPS_AND_VERSIONS, SHAPES, st.sampled_from(["INT8", "FP8", "INT4", "NVFP4", "MXFP4", "NF4"]))
def test_a_narrower_cache_moves_less(case: tuple[str, str], shape: AttentionShape, precision: str) -> None:
    wide, narrow = run(case, shape), run(case, shape, kv_cache_precision=precision)
    assert narrow.dram_bytes < wide.dram_bytes
    assert narrow.flops == wide.flops


@given(CHIPS_AND_VERSIONS, SHAPES, st.integers(2, 8))
def test_a_larger_batch_never_costs_less(case: tuple[str, str], shape: AttentionShape, times: int) -> None:
    many = replace(shape, batch_size=shape.batch_size * times)
    single, all_of_them = run(case, shape, split_count=1), run(case, many, split_count=1)
    assert all_of_them.time_s >= single.time_s * (1 - 1e-9)
    assert all_of_them.flops == times * single.flops
