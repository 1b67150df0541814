"""How each kernel divides one attention call into thread blocks: packed GQA, split keys, and the last wave.

Sources: `csrc/flash_attn/flash_api.cpp` (FA2), `hopper/heuristics.h` (FA3), `flash_attn/cute/interface.py` (FA4) and
`fmha_fwd_launch_template.h` (FA1) of Dao-AILab/flash-attention.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from roofline_model.chips.hardware import Device
from roofline_model.expected.attention.flash.config import AttentionShape, FlashAttentionConfig, FlashAttentionVersion
from roofline_model.expected.attention.flash.tiles import BlockCount, Tile, choose_tile, count_blocks, ctas_per_sm
from roofline_model.expected.attention.flash.versions import MASK_OVERHEAD_RATIO, TRAITS

MAX_SPLITS = 128
FA1_MAX_SPLITS = 30
L2_OF_HEURISTIC_BYTES = 50 * 1024 * 1024
"""FA3 splits a head whose keys and values exceed this (the L2 it assumes, whatever the chip has)."""


@dataclass(frozen=True, slots=True)
class Work:
    """One attention call as the kernel sees it."""

    tile: Tile
    packed: bool
    """The query heads of a key head share query tiles (packed GQA)."""
    head_count: int
    """Heads that have query tiles of their own, over the batch: B·Hkv when packed, else B·Hq."""
    blocks: BlockCount
    """Key blocks of the query tiles of one such head, for the mask alone."""
    unmasked_blocks_count: int
    """Key blocks of one query tile without any mask."""
    visited_ratio: float
    """Share of those blocks that block sparsity leaves."""
    split_count: int
    """Parts the keys (FA1: the queries) are divided into."""
    splits_keys: bool

    @property
    def hidden_ratio(self) -> float:
        """Share of all blocks that the mask hides (block sparsity apart)."""
        return 1.0 - self.blocks.total_count / (self.blocks.tiles_count * self.unmasked_blocks_count)

    @property
    def ctas_count(self) -> int:
        """Thread blocks of the main kernel."""
        return self.head_count * (self.blocks.tiles_count if self.splits_keys else 1) * self.split_count

    @property
    def total_blocks(self) -> float:
        """Tile steps of the whole call (a step: one row tile against one key block)."""
        return self.head_count * self.blocks.total_count * self.visited_ratio

    @property
    def longest_blocks(self) -> float:
        """Tile steps of the longest thread block."""
        if not self.splits_keys:  # FA1: tiles are dealt out in turn, so its blocks are alike
            return self.blocks.total_count * self.visited_ratio / self.split_count
        return math.ceil(self.blocks.longest_count / self.split_count) * self.visited_ratio

    @property
    def shortest_blocks(self) -> float:
        """Tile steps of the shortest thread block."""
        if not self.splits_keys:
            return self.longest_blocks
        return self.blocks.shortest_count / self.split_count * self.visited_ratio

    def busiest_sm_blocks(self, sm_count: int, *, longest_first: bool) -> float:
        """Return the tile steps of the SM that finishes last, the price of a mask included.

        The thread blocks are dealt to SMs; the last wave is filled up with idle places as long as the shortest block
        when the longest are scheduled first, else as the longest. Equal blocks give ceil(blocks / SMs) waves exactly.
        """
        places = math.ceil(self.ctas_count / sm_count) * sm_count
        filler = self.shortest_blocks if longest_first else self.longest_blocks
        work = self.total_blocks * (1.0 + MASK_OVERHEAD_RATIO * self.hidden_ratio)
        return max(self.longest_blocks, (work + (places - self.ctas_count) * filler) / sm_count)


def plan_work(shape: AttentionShape, config: FlashAttentionConfig, device: Device) -> Work:
    """Return how the kernel of `config.version` divides this call on this chip."""
    sm_count = device.count("sm_count")
    if config.version is FlashAttentionVersion.FA1:
        return _fa1_work(shape, config, device, sm_count)
    packed = _packs_gqa(shape, config, device)
    tile = choose_tile(shape, config, device, packed=packed, split=False)
    split_count = config.split_count
    if split_count is None:
        split_count = _split_count(shape, config, device, tile, sm_count)
    # FA2's KV-cache kernel has tiles of its own; decode, a paged cache and split keys go through it.
    cached = split_count > 1 or config.page_size is not None or shape.query_count == 1
    if config.version is FlashAttentionVersion.FA2 and cached:
        tile = choose_tile(shape, config, device, packed=packed, split=True)
    blocks = _blocks(shape, config, tile, packed=packed)
    # A split without a key block of its own does nothing: it is not launched here.
    split_count = max(1, min(split_count, blocks.longest_count))
    return _work(shape, config, tile, blocks, split_count, packed=packed, splits_keys=True)


def _work(
    shape: AttentionShape,
    config: FlashAttentionConfig,
    tile: Tile,
    blocks: BlockCount,
    split_count: int,
    *,
    packed: bool,
    splits_keys: bool,
) -> Work:
    heads = shape.batch_size * (shape.kv_heads if packed else shape.query_heads)
    key_blocks = -(-shape.kv_count // tile.keys_count)
    return Work(tile, packed, heads, blocks, key_blocks, config.visited_ratio, split_count, splits_keys=splits_keys)


def _blocks(shape: AttentionShape, config: FlashAttentionConfig, tile: Tile, *, packed: bool) -> BlockCount:
    return count_blocks(
        shape.query_count,
        shape.kv_count,
        shape.group_size if packed else 1,
        tile.rows_count,
        tile.keys_count,
        causal=config.causal,
        window=config.window_size,
    )


def _packs_gqa(shape: AttentionShape, config: FlashAttentionConfig, device: Device) -> bool:
    """Return whether the query heads of one key head share tiles."""
    group = shape.group_size
    if group == 1:
        return False
    if config.version is FlashAttentionVersion.FA2:
        # Only as a swap of the query and group axes in decode, and not with a window.
        return shape.query_count == 1 and config.window_size is None
    if config.version is FlashAttentionVersion.FA4:
        return True
    rows = choose_tile(shape, config, device, packed=False, split=False).rows_count
    return _filling(shape.query_count, rows) < 0.9 * _filling(shape.query_count * group, rows)


def _filling(rows: int, tile_rows: int) -> float:
    return rows / (math.ceil(rows / tile_rows) * tile_rows)


def _split_count(
    shape: AttentionShape, config: FlashAttentionConfig, device: Device, tile: Tile, sm_count: int | None
) -> int:
    """Return the number of key splits of the version's own heuristic; 1 where the SM count is unknown."""
    if sm_count is None or not TRAITS[config.version].has_split_kv:
        return 1
    if config.version is FlashAttentionVersion.FA2:
        return _fa2_splits(shape, config, device, sm_count)
    # FA3 and FA4 count with packed tiles.
    packed = _blocks(shape, config, tile, packed=True)
    units = shape.batch_size * shape.kv_heads * packed.tiles_count
    if config.version is FlashAttentionVersion.FA4:
        return 1 if packed.longest_count <= 4 else max(1, min(sm_count // units, MAX_SPLITS, packed.longest_count))
    head_bytes = 2 * shape.kv_count * shape.head_dim * (1 if config.math_format.element_bits == 8 else 2)
    return _fa3_splits(units, packed, sm_count, head_bytes, masked=config.causal or config.window_size is not None)


def _fa2_splits(shape: AttentionShape, config: FlashAttentionConfig, device: Device, sm_count: int) -> int:
    tile = choose_tile(shape, config, device, packed=False, split=True)
    packed = _packs_gqa(shape, config, device)
    blocks = _blocks(shape, config, tile, packed=packed)
    units = shape.batch_size * (shape.kv_heads if packed else shape.query_heads) * blocks.tiles_count
    # The heuristic is told twice the SMs: blocks of 128 threads, two per SM.
    slots = 2 * sm_count
    if units >= 0.8 * slots:
        return 1
    longest = blocks.longest_count
    # A count that leaves as many blocks per split as the one before it only adds partial results.
    counts = range(1, min(MAX_SPLITS, slots, longest) + 1)
    eligible = [s for s in counts if s == 1 or math.ceil(longest / s) != math.ceil(longest / (s - 1))]
    return _smallest_good(eligible, units, slots)


def _fa3_splits(units: int, blocks: BlockCount, sm_count: int, head_bytes: int, *, masked: bool) -> int:
    if units >= 0.8 * sm_count:
        long_head = head_bytes > L2_OF_HEURISTIC_BYTES and blocks.tiles_count >= 2 * sm_count and not masked
        return min(math.ceil(head_bytes / L2_OF_HEURISTIC_BYTES), MAX_SPLITS) if long_head else 1
    if blocks.longest_count <= 4:
        return 1
    return _smallest_good(list(range(1, min(MAX_SPLITS, sm_count, blocks.longest_count) + 1)), units, sm_count)


def _smallest_good(candidates: list[int], units: int, slots: int, share: float = 0.85) -> int:
    """Return the smallest count whose last wave is filled to `share` of the best filling among `candidates`."""
    filling = {count: _wave_filling(units * count, slots) for count in candidates}
    best = max(filling.values())
    return next(count for count in candidates if filling[count] >= share * best)


def _wave_filling(ctas: int, slots: int) -> float:
    waves = ctas / slots
    return waves / math.ceil(waves)


def _fa1_work(shape: AttentionShape, config: FlashAttentionConfig, device: Device, sm_count: int | None) -> Work:
    tile = choose_tile(shape, config, device, packed=False, split=False)
    heads = shape.batch_size * shape.query_heads
    blocks = _blocks(shape, config, tile, packed=False)
    splits = 1
    if sm_count is not None:
        slots = sm_count * ctas_per_sm(tile, device, config.version)
        splits = _smallest_good(list(range(1, min(FA1_MAX_SPLITS, blocks.tiles_count) + 1)), heads, slots, 0.95)
    return _work(shape, config, tile, blocks, splits, packed=False, splits_keys=False)
