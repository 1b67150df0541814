"""Tile sizes of each FlashAttention kernel, and how many key blocks a mask leaves to each query tile.

A query tile is `rows_count` rows of one thread block (with packed GQA the rows of all query heads of a key head); a key
block is `keys_count` keys, loaded once per tile. Blocks are computed whole, so a causal diagonal costs its full blocks.
Sources of the sizes: flash-attention v1.0.9 `fmha_fwd_hdim*.cu` (FA1),
`csrc/flash_attn/src/flash_fwd_launch_template.h` (FA2), `hopper/tile_size.h` and `heuristics.h` (FA3),
`flash_attn/cute/flash_fwd_sm100.py` and `interface.py` (FA4).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from roofline_model.chips.hardware import Device
from roofline_model.expected.attention.flash.config import AttentionShape, FlashAttentionConfig, FlashAttentionVersion
from roofline_model.expected.attention.flash.versions import TRAITS, compute_capability, padded_head_dim


@dataclass(frozen=True, slots=True)
class Tile:
    """One thread block's share of the score matrix."""

    rows_count: int
    keys_count: int
    step_rows_count: int
    """Rows per pass over a key block: all of them, but 16 in FA1, which loops over queries inside."""
    threads_count: int
    operand_readers_count: int
    """Warps (mma.sync) or 64- or 128-row MMA groups that each read all of K and V from shared memory."""
    head_dim: int
    """Padded: what the products compute with."""
    shared_bytes: int
    """Shared memory of one thread block."""

    @property
    def scores_count(self) -> int:
        """Scores of one row tile and key block."""
        return self.step_rows_count * self.keys_count


def choose_tile(
    shape: AttentionShape, config: FlashAttentionConfig, device: Device, *, packed: bool, split: bool
) -> Tile:
    """Return the tile that the kernel of `config.version` uses for this shape on this chip.

    `packed`: the query heads of a key head share one tile; `split`: the flash-decoding variant of the kernel runs.
    """
    width = padded_head_dim(TRAITS[config.version], shape.head_dim)
    if config.version is FlashAttentionVersion.FA1:
        return _fa1_tile(width, shape.kv_count)
    if config.version is FlashAttentionVersion.FA2:
        return _fa2_tile(width, config, device, split=split)
    rows = shape.query_count * (shape.group_size if packed else 1)
    if config.version is FlashAttentionVersion.FA3:
        return _fa3_tile(width, rows, config)
    return _fa4_tile(width, rows, config)


def _fa1_tile(width: int, kv_count: int) -> Tile:
    keys = 256 if width <= 64 and kv_count > 128 else 128
    # Key and value block, two query buffers, four FP32 slices of the output (one per warp).
    shared = 2 * keys * width * 2 + 2 * 16 * width * 2 + 4 * 16 * width * 4
    return Tile(16, keys, 16, 128, 4, width, shared)


def _fa2_tile(width: int, config: FlashAttentionConfig, device: Device, *, split: bool) -> Tile:
    if split:
        rows, keys, warps = 64, 256 if width <= 64 else 128 if width <= 128 else 64, 4
    elif width <= 64:
        rows, keys, warps = 128, 128, 4
    elif width <= 128:
        rows, keys, warps = _fa2_tile_96_128(width, config, device)
    elif width <= 192:
        rows, keys, warps = 128, 64, 8
    else:
        rows, keys, warps = _fa2_tile_256(device)
    return Tile(rows, keys, rows, warps * 32, warps, width, (rows + 2 * keys) * width * 2)


def _fa2_tile_96_128(width: int, config: FlashAttentionConfig, device: Device) -> tuple[int, int, int]:
    capability = compute_capability(device) or 80
    if 80 < capability < 90:  # sm_86, sm_87, sm_89: less shared memory, square tiles for a causal mask
        return (64, 64, 4) if config.causal else (128, 64 if width <= 96 else 32, 4)
    return 128, 64, 4


def _fa2_tile_256(device: Device) -> tuple[int, int, int]:
    per_block = device.count("shared_memory_per_block")
    per_sm = device.count("shared_memory_per_sm")
    if per_block is None or per_sm is None:
        return 64, 64, 4
    # 128 × 64 where it fits and two blocks of 64 × 64 would not (A100); else the small tile.
    large_fits = per_block >= 2 * 256 * (128 + 2 * 64)
    two_small_fit = per_sm >= 4 * 256 * (64 + 2 * 64)
    return (128, 64, 8) if large_fits and not two_small_fit else (64, 64, 4)


def _fa3_tile(width: int, rows: int, config: FlashAttentionConfig) -> Tile:
    local = config.window_size is not None
    narrow = config.causal or local
    fp8 = config.math_format.element_bits == 8
    one_group = width == 128 and rows <= 64
    if fp8:
        tile = _fa3_fp8_sizes(width, local=local, one_group=one_group)
    elif width <= 64:
        tile = (192, 128 if config.causal else 160 if local else 192)
    elif width <= 96:
        tile = (192, 128 if local else 144)
    elif width <= 128:
        tile = (64 if one_group else 128, 128 if narrow else 176)
    elif width <= 192:
        tile = (128, 96 if local else 112)
    else:
        tile = (128, 64 if local else 80)
    rows_count, keys_count = tile
    if config.page_size is not None and config.page_size % keys_count:
        keys_count = _fa3_paged_keys(width, keys_count, fp8=fp8)
    groups = rows_count // 64
    element_bytes = 1 if fp8 else 2
    # Two stages of K and V behind one Q tile.
    shared = (rows_count + 4 * keys_count) * width * element_bytes
    return Tile(rows_count, keys_count, rows_count, 128 * (groups + 1), groups, width, shared)


def _fa3_fp8_sizes(width: int, *, local: bool, one_group: bool) -> tuple[int, int]:
    if width <= 64:
        return 192, 160
    if width <= 96:
        return 192, 128
    if width <= 128:
        return (64, 96) if one_group else (128, 224)
    return (128, 160) if width <= 192 else (128, 64 if local else 128)


def _fa3_paged_keys(width: int, keys_count: int, *, fp8: bool) -> int:
    """Return the key block when pages do not fit it, so that K and V are gathered row by row instead of by TMA."""
    limits = {128: 160} if fp8 else {64: 160, 96: 128, 128: 128, 192: 96}
    return min(keys_count, limits.get(width, keys_count))


def _fa4_tile(width: int, rows: int, config: FlashAttentionConfig) -> Tile:
    # Two query tiles of 128 rows ping-pong in one block as soon as there are more than 128 rows; head_dim 256 has no
    # room.
    stages = 2 if rows > 128 and width <= 192 else 1
    element_bytes = 1 if config.math_format.element_bits == 8 else 2
    shared = (128 * stages + 4 * 128) * width * element_bytes
    return Tile(128 * stages, 128, 128 * stages, 512, stages, width, shared)


def ctas_per_sm(tile: Tile, device: Device, version: FlashAttentionVersion) -> int:
    """Return how many thread blocks share an SM: limited by shared memory and registers (255 per thread assumed).

    FA3 and FA4 are built for one block per SM.
    """
    if version in (FlashAttentionVersion.FA3, FlashAttentionVersion.FA4):
        return 1
    per_sm = device.count("shared_memory_per_sm")
    reserved = device.count("shared_memory_reserved_per_block") or 0
    registers = device.count("registers_per_sm") or 65536
    by_registers = max(1, registers // (tile.threads_count * 256))
    by_shared = by_registers if per_sm is None else max(1, per_sm // (tile.shared_bytes + reserved))
    return min(by_registers, by_shared)


@dataclass(frozen=True, slots=True)
class BlockCount:
    """Key blocks of one head's query tiles, before block sparsity."""

    tiles_count: int
    total_count: int
    longest_count: int
    shortest_count: int


@lru_cache(maxsize=4096)
def count_blocks(
    query_count: int,
    kv_count: int,
    rows_per_query: int,
    rows_count: int,
    keys_count: int,
    *,
    causal: bool,
    window: int | None,
) -> BlockCount:
    """Count the key blocks that each query tile of one (packed) head visits.

    Rows are ordered query by query, `rows_per_query` (G with packed GQA, else 1) for each. Query i may see keys up to
    i + Skv − Sq with a causal mask, and none older than `window` − 1 before that position.
    """
    rows = query_count * rows_per_query
    tiles = -(-rows // rows_count)
    offset = kv_count - query_count
    if not causal and window is None:
        blocks = -(-kv_count // keys_count)
        return BlockCount(tiles, tiles * blocks, blocks, blocks)
    total, longest, shortest = 0, 0, kv_count
    for tile in range(tiles):
        first_query = tile * rows_count // rows_per_query
        last_query = (min((tile + 1) * rows_count, rows) - 1) // rows_per_query
        last_key = min(kv_count - 1, max(0, last_query + offset)) if causal else kv_count - 1
        first_key = 0 if window is None else min(last_key, max(0, first_query + offset - window + 1))
        blocks = last_key // keys_count - first_key // keys_count + 1
        total += blocks
        longest, shortest = max(longest, blocks), min(shortest, blocks)
    return BlockCount(tiles, total, longest, shortest)
