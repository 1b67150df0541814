"""What attention moves through DRAM: operands once, and the re-reads, round trips and lists that each kernel adds.

Fused attention reads Q, K and V and writes O: Θ(N·D) bytes; the score matrix never leaves the SM. FA1 sends its running
output through memory after every block of keys, Θ(N²·D²/M) bytes for M bytes of shared memory (arXiv:2205.14135,
theorem 2). Unfused attention writes and reads all scores, Θ(N·D + N²).
"""

from __future__ import annotations

import math

from roofline_model.core.cost import OpCost
from roofline_model.expected.attention.flash.config import AttentionShape, FlashAttentionConfig
from roofline_model.expected.attention.flash.splits import Work
from roofline_model.expected.attention.flash.versions import VersionTraits
from roofline_model.operators.attention import PAGE_NUMBER_BYTES

L2_SHARE = 0.7
"""Share of L2 that keeps operands between their uses: 0.70 on chips whose L2 has two partitions (fitted to measured
attention kernels; research of expected attention times)."""

BLOCK_NUMBER_BYTES = PAGE_NUMBER_BYTES
"""One entry of a list of visited blocks: int32."""

Traffic = tuple[tuple[str, float], ...]


def traffic(
    shape: AttentionShape,
    config: FlashAttentionConfig,
    cost: OpCost,
    traits: VersionTraits,
    work: Work,
    sm_count: int | None,
    l2_bytes: float | None,
    resident_ctas: int = 1,
) -> Traffic:
    """Return bytes by name: q, kv, o, then what applies of kv_reread, output_round_trips, partial, page_table,
    block_lists.

    `cost`: the operator's, which has each operand once. `sm_count` or `l2_bytes` None: no re-reads are counted.
    """
    reads = dict(cost.read_bytes)
    heads_ratio = (
        1 if traits.has_gqa else shape.group_size
    )  # without grouped heads K and V are repeated for every query head
    kv_once = heads_ratio * (reads["K"] + reads["V"]) * _kv_visited_ratio(shape, config, work)
    moved_bytes = {"q": reads["Q"], "kv": kv_once, "o": dict(cost.write_bytes)["O"]}
    if sm_count is not None and l2_bytes is not None:
        usable, concurrent = L2_SHARE * l2_bytes, sm_count * resident_ctas
        moved_bytes["kv_reread"] = kv_once * (_kv_passes(shape, work, kv_once, usable, concurrent) - 1)
        if not traits.keeps_output:
            moved_bytes["output_round_trips"] = _round_trip_bytes(shape, config, work, usable, concurrent)
        moved_bytes["partial"] = _partial_bytes(shape, work, usable)
    elif not traits.keeps_output:
        moved_bytes["output_round_trips"] = _round_trip_bytes(shape, config, work, 0.0, 1)
    if "block_table" in reads:
        moved_bytes["page_table"] = reads["block_table"]
    if config.block_sparse:
        # One list of visited key blocks per query tile, and its length.
        moved_bytes["block_lists"] = (
            work.total_blocks + work.head_count * work.blocks.tiles_count
        ) * BLOCK_NUMBER_BYTES
    return tuple((name, size) for name, size in moved_bytes.items() if size or name in ("q", "kv", "o"))


def _kv_visited_ratio(shape: AttentionShape, config: FlashAttentionConfig, work: Work) -> float:
    """Return the share of K and V that some query tile still reads under block sparsity.

    Each query tile is taken to skip blocks of its own, so a key block is left out only when all tiles of its head skip
    it; in decode, with one tile, the reads shrink with the blocks.
    """
    if not config.sparsity_ratio:
        return 1.0
    tiles_per_kv_head = work.blocks.tiles_count * (1 if work.packed else shape.group_size)
    return 1.0 - float(config.sparsity_ratio) ** tiles_per_kv_head


def _kv_passes(shape: AttentionShape, work: Work, kv_bytes: float, usable_bytes: float, concurrent: int) -> int:
    """Return how often K and V come from DRAM: once while the concurrent heads' share stays in L2.

    Otherwise the thread blocks that work on a head at the same time still share its reads, so it is read once per wave
    of them.
    """
    if not work.splits_keys:
        return 1
    units = shape.batch_size * shape.kv_heads
    tiles_per_unit = math.ceil(work.ctas_count / units)
    concurrent_units = min(units, max(1, math.ceil(concurrent / tiles_per_unit)))
    if kv_bytes / units * concurrent_units <= usable_bytes:
        return 1
    return max(
        1, math.ceil(work.blocks.tiles_count * (work.head_count / units) / max(1.0, concurrent / concurrent_units))
    )


def _round_trip_bytes(
    shape: AttentionShape, config: FlashAttentionConfig, work: Work, usable_bytes: float, concurrent: int
) -> float:
    """Return FA1's bytes beyond the first block of keys: Q again, and the FP32 output read and written.

    The rows of the concurrent thread blocks come back once per key block. The share of them that fits into L2 stays
    there, the rest goes to memory: between a cache that keeps what it can and one that evicts in order of use and keeps
    nothing.
    """
    steps = work.total_blocks - work.head_count * work.blocks.tiles_count
    if steps <= 0:
        return 0.0
    row_bytes = shape.head_dim * config.query_format.traffic_bytes_per_element, shape.head_dim * 4
    rows_per_cta = shape.query_count / work.split_count
    in_work_bytes = min(concurrent, work.ctas_count) * rows_per_cta * sum(row_bytes)
    missed_ratio = max(0.0, 1 - usable_bytes / in_work_bytes)
    return steps * work.tile.rows_count * (row_bytes[0] + 2 * row_bytes[1]) * missed_ratio


def _partial_bytes(shape: AttentionShape, work: Work, usable_bytes: float) -> float:
    """Return the DRAM bytes of split results and the rows' log-sums: nothing while they stay in L2."""
    size = partial_result_bytes(shape, work)
    return 0.0 if size <= usable_bytes else 2 * size


def partial_result_bytes(shape: AttentionShape, work: Work) -> float:
    """Return the FP32 results that splits leave for the combine kernel: B·Hq·Sq·splits·(D + 1)·4 bytes."""
    if not work.splits_keys or work.split_count == 1:
        return 0.0
    rows = shape.batch_size * shape.query_heads * shape.query_count
    return float(rows * work.split_count * (shape.head_dim + 1) * 4)
