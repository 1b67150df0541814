"""Tile sizes as the kernels' sources state them, and block counts against a count by hand."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline_model import get_hardware
from roofline_model.expected.attention.flash.model import AttentionShape, FlashAttentionConfig
from roofline_model.expected.attention.flash.tiles import choose_tile, count_blocks, ctas_per_sm


def tile_of(
    chip: str,
    version: str,
    head_dim: int,
    *,
    rows: int = 4096,
    packed: bool = False,
    split: bool = False,
    **options: Any,
) -> tuple[int, int]:
    shape = AttentionShape(1, 8, 8, rows, 4096, head_dim)
    tile = choose_tile(shape, FlashAttentionConfig(version, **options), get_hardware(chip), packed=packed, split=split)
    return tile.rows_count, tile.keys_count


@pytest.mark.parametrize(
    ("chip", "version", "head_dim", "options", "expected"),
    [
        ("a100", "fa1", 64, {}, (16, 256)),
        ("a100", "fa1", 128, {}, (16, 128)),
        ("a100", "fa2", 64, {}, (128, 128)),
        ("a100", "fa2", 128, {}, (128, 64)),
        ("a100", "fa2", 128, {"split": True}, (64, 128)),
        ("a100", "fa2", 64, {"split": True}, (64, 256)),
        ("a100", "fa2", 256, {}, (128, 64)),  # 128 KiB fit, two blocks of 96 KiB do not
        ("h100", "fa2", 256, {}, (64, 64)),  # two blocks fit
        ("gb10", "fa2", 256, {}, (64, 64)),  # 128 KiB do not fit
        ("l40s", "fa2", 128, {}, (128, 32)),
        ("l40s", "fa2", 128, {"causal": True}, (64, 64)),
        ("gb10", "fa2", 128, {"causal": True}, (128, 64)),
        ("a100", "fa2", 80, {}, (128, 64)),  # padded to 96
        ("h100", "fa3", 64, {}, (192, 192)),
        ("h100", "fa3", 64, {"causal": True}, (192, 128)),
        ("h100", "fa3", 128, {}, (128, 176)),
        ("h100", "fa3", 128, {"causal": True}, (128, 128)),
        ("h100", "fa3", 128, {"window_size": 1024}, (128, 128)),
        ("h100", "fa3", 128, {"rows": 1}, (64, 176)),  # one MMA group for few rows
        ("h100", "fa3", 256, {}, (128, 80)),
        ("h100", "fa3", 128, {"use_native_fp8": True}, (128, 224)),
        ("h100", "fa3", 64, {"use_native_fp8": True}, (192, 160)),
        ("h100", "fa3", 128, {"page_size": 64}, (128, 128)),  # pages that do not fit the block: gathered rows
        ("h100", "fa3", 128, {"page_size": 176}, (128, 176)),
        ("b200", "fa4", 128, {}, (256, 128)),
        ("b200", "fa4", 128, {"rows": 128}, (128, 128)),
        ("b200", "fa4", 256, {}, (128, 128)),
    ],
)  # fmt: skip
def test_tiles_of_the_sources(
    chip: str, version: str, head_dim: int, options: dict[str, Any], expected: tuple[int, int]
) -> None:
    assert tile_of(chip, version, head_dim, **options) == expected


def test_blocks_per_sm() -> None:
    shape = AttentionShape(1, 8, 8, 4096, 4096, 128)

    def resident(chip: str, version: str) -> int:
        device, config = get_hardware(chip), FlashAttentionConfig(version)
        tile = choose_tile(shape, config, device, packed=False, split=False)
        return ctas_per_sm(tile, device, config.version)

    assert resident("a100", "fa2") == 2  # 64 KiB each of 164, 128 threads x 255 registers
    assert resident("gb10", "fa2") == 1  # 64 KiB of 100
    assert resident("h100", "fa3") == resident("b200", "fa4") == 1


def brute_blocks(
    queries: int, keys: int, per_query: int, rows: int, width: int, causal: bool, window: int | None
) -> list[int]:
    """Blocks of each tile, from the visible pairs themselves."""
    counts = []
    for start in range(0, queries * per_query, rows):
        seen = set()
        for row in range(start, min(start + rows, queries * per_query)):
            position = row // per_query + keys - queries
            for key in range(keys):
                if (not causal or key <= position) and (window is None or key > position - window):
                    seen.add(key // width)
        counts.append(max(seen) - min(seen) + 1 if seen else 1)
    return counts


@given(
    queries=st.integers(1, 40),
    extra=st.integers(0, 40),
    per_query=st.integers(1, 4),
    rows=st.integers(1, 24),
    width=st.integers(1, 16),
    causal=st.booleans(),
    window=st.none() | st.integers(1, 60),
)
def test_block_counts_are_those_of_the_mask(
    queries: int, extra: int, per_query: int, rows: int, width: int, causal: bool, window: int | None
) -> None:
    keys = queries + extra
    expected = brute_blocks(queries, keys, per_query, rows, width, causal, window)
    count = count_blocks(queries, keys, per_query, rows, width, causal=causal, window=window)
    assert (count.tiles_count, count.total_count) == (len(expected), sum(expected))
    assert (count.longest_count, count.shortest_count) == (max(expected), min(expected))


def test_a_causal_square_costs_its_whole_diagonal() -> None:
    # 4 tiles of 128 queries against blocks of 128 keys: 1 + 2 + 3 + 4, not 8.
    assert count_blocks(512, 512, 1, 128, 128, causal=True, window=None).total_count == 10
    # Blocks of 64: the diagonal tile needs two of them, 2 + 4 + 6 + 8.
    assert count_blocks(512, 512, 1, 128, 64, causal=True, window=None).total_count == 20
