"""Expected time of a fused prefill: RoPE and cache append, then the attention kernel over whole score tiles.

Source: attention study of 2026-11-21 (8,900 measured rows of TensorRT-LLM's attention module), section 1.2, with four
changes found on the same rows: the fixed cost of a CTA and its latency are fitted for each head size and width, the
launch floor for each width, and Hopper's FP8 kernel reads two more blocks per tile under a sliding window. Times in µs.

Score tiles are counted exactly and without a loop: a CTA owns `rows` query rows of one head and walks over the key
blocks of `columns` keys that its rows can see.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from roofline_model.expected.attention.chip import PREFILL_EDGE, AttentionChip, hit_ratio, memory_times, smooth_max
from roofline_model.expected.attention.shape import AttentionShapes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    IntArray = NDArray[Any]
    FloatArray = NDArray[Any]


@dataclass(frozen=True, slots=True)
class TileCounts:
    """Counted tiles of one head of one sequence, one entry per shape."""

    query_tiles: IntArray
    """CTAs per head: ceil(Sq / rows)."""
    blocks: IntArray
    """Key blocks over all query tiles."""
    longest: IntArray
    """Key blocks of the query tile that has most of them."""


def count_tiles(
    query: IntArray, keys: IntArray, window: IntArray, causal: IntArray, *, rows: int, columns: int
) -> TileCounts:
    """Count query tiles and key blocks of `query` new tokens whose last one sees `keys` keys.

    `window` is the number of keys a token may see (`keys` where there is none); `rows` and `columns` must divide one
    another. Without a causal mask every tile ends at the last key.
    """
    import numpy as np

    prefix = keys - query
    tiles = -(-query // rows)
    # Last block of tile i: that of its last row; the last tile may be cut short.
    ends = _floor_sum(rows - 1 + prefix, tiles - 1, rows, columns) + (keys - 1) // columns
    last = np.where(causal, ends, tiles * ((keys - 1) // columns))
    # First block of tile i: that of the oldest key its first row sees; 0 before tile `sliding`.
    start = prefix - (window - 1)
    sliding = np.clip(-(start // rows), 0, tiles)
    first = _floor_sum(sliding * rows + start, tiles - sliding, rows, columns)
    # The count of blocks per tile grows up to `sliding`, then repeats with the alignment of the two tile sizes.
    period = max(1, columns // rows)
    offsets = np.arange(-1, period + 1)
    candidates = np.concatenate([sliding + offsets[:, None], tiles[None] - 1, tiles[None] - 2])
    index = np.clip(candidates, 0, tiles - 1)
    tail = np.where(causal, np.minimum((index + 1) * rows, query) - 1 + prefix, keys - 1)
    head = np.maximum(0, index * rows + start)
    longest = (tail // columns - head // columns + 1).max(axis=0)
    return TileCounts(tiles, last - first + tiles, longest)


def _floor_sum(start: IntArray, count: IntArray, step: int, divisor: int) -> IntArray:
    """Return the sum of (start + i·step) // divisor over i < count, for start ≥ 0."""
    if step % divisor == 0:
        return (step // divisor) * (count * (count - 1) // 2) + count * (start // divisor)  # type: ignore[no-any-return]
    ratio = divisor // step
    offset = start // step
    return _staircase(count + offset, ratio) - _staircase(offset, ratio)


def _staircase(count: IntArray, ratio: int) -> IntArray:
    """Return the sum of i // ratio over i < count."""
    whole = count // ratio
    return ratio * (whole * (whole - 1) // 2) + whole * (count - ratio * whole)  # type: ignore[no-any-return]


WINDOW_BLOCKS = 2
"""Blocks more that Hopper's FP8 kernel reads per query tile when the window cuts; 1 is 0.6 points worse there."""
PADDED_192_ASYNC = 0.75
"""192 of 256 columns of the padded tile are useful."""
PADDED_192_SYNC = 0.60
PADDED_192_SYNC_FP8 = 0.65


@dataclass(frozen=True, slots=True)
class PrefillWork:
    """What a prefill has to do, before any constant: one entry per row."""

    chip: AttentionChip
    is_8bit: bool
    """Whether the tensor cores compute in FP8."""
    scores: FloatArray
    """Score elements of whole tiles, all heads and sequences."""
    longest: FloatArray
    """Score elements of the longest CTA."""
    ctas: FloatArray
    head_dim: FloatArray
    append_bytes: FloatArray
    """RoPE and cache append: packed QKV read, Q written, K and V written to the cache."""
    attention_bytes: FloatArray
    evicted_bytes: FloatArray
    """Of those, cached tokens of earlier calls that a cold call must fetch from DRAM."""


def prefill_work(
    chip: AttentionChip,
    shapes: AttentionShapes,
    *,
    is_8bit: bool,
    cache_bytes: float,
    is_cold: bool,
    is_alone: bool = False,
) -> PrefillWork:
    """Count the work of prefills; `cache_bytes` per element of K and V, `is_cold`: earlier tokens are not in L2.

    `is_alone`: without rotation and append to the cache.
    """
    import numpy as np

    rules = chip.rules
    rows, columns = rules.tile_rows_count, rules.tile_columns_count
    tiles = count_tiles(shapes.query, shapes.keys, shapes.window, shapes.causal, rows=rows, columns=columns)
    more = WINDOW_BLOCKS if rules.key == "sm90" and is_8bit else 0
    extra = more * (shapes.window < shapes.keys)
    blocks = tiles.blocks + extra * tiles.query_tiles
    batch, heads, kv_heads, query, keys, dim = (
        getattr(shapes, name).astype(np.float64) for name in ("batch", "heads", "kv_heads", "query", "keys", "head_dim")
    )
    query_bytes = 1.0 if is_8bit else 2.0
    token = batch * dim
    seen = np.minimum(keys, query + shapes.window)
    append = token * query * ((heads + 2 * kv_heads) * 2 + heads * query_bytes + 2 * kv_heads * cache_bytes)
    return PrefillWork(
        chip=chip,
        is_8bit=is_8bit,
        scores=batch * heads * blocks * (rows * columns),
        longest=(tiles.longest + extra) * float(rows * columns),
        ctas=batch * heads * tiles.query_tiles,
        head_dim=dim,
        append_bytes=append * (0.0 if is_alone else 1.0),
        attention_bytes=token * (query * heads * (query_bytes + 2) + seen * 2 * kv_heads * cache_bytes),
        evicted_bytes=token * (seen - query) * 2 * kv_heads * cache_bytes * (1.0 if is_cold else 0.0),
    )


def prefill_terms(work: PrefillWork, values: Mapping[str, float]) -> tuple[FloatArray, dict[str, FloatArray]]:
    """Return the time in µs and its terms by name (see `ExpectedBatch.parts`).

    launch, append and waves add; tensor, l2 and dram overlap. waves: the last CTAs that run while others have finished.
    """
    import numpy as np

    chip, width = work.chip, "8bit" if work.is_8bit else "16bit"
    cta, rate, ratio = _per_size(work, values)
    append = sum(_memory(work.append_bytes, hit_ratio(work.append_bytes, chip, PREFILL_EDGE), chip, values))
    hits = hit_ratio(work.attention_bytes, chip, PREFILL_EDGE) * (1 - work.evicted_bytes / work.attention_bytes)
    l2, dram = _memory(work.attention_bytes, hits, chip, values)
    flops = 4.0 * work.head_dim
    spread = (flops * work.scores / rate + cta * work.ctas) / chip.sm_count
    # A CTA that is alone on its SM: slower than its share of a full one (it hides less latency) or faster.
    longest = ratio * flops * work.longest / rate
    tail = longest * np.minimum(1.0, work.ctas / chip.sm_count)
    compute = np.maximum(spread + tail, longest + cta)
    launch = values[f"launch_us_{width}"]
    joint = smooth_max(compute, l2 + dram)
    even = np.minimum(spread, compute)
    waves = joint * (compute / joint) ** 4 * (1 - even / compute)
    return launch + append + joint, {
        "launch": np.full_like(joint, launch),
        "append": append,
        "waves": waves,
        "tensor": even,
        "l2": l2,
        "dram": dram,
    }


def peak_us(work: PrefillWork) -> FloatArray:
    """Return the time in µs of the whole score tiles at the chip's dense peak: no kernel is faster."""
    peak = work.chip.peak_8bit_flops_per_s if work.is_8bit else work.chip.peak_16bit_flops_per_s
    assert peak is not None, "checked when the width was chosen"
    return 4.0 * work.head_dim * work.scores / (peak * 1e-6)


def _memory(
    moved: FloatArray, hits: FloatArray, chip: AttentionChip, values: Mapping[str, float]
) -> tuple[FloatArray, FloatArray]:
    return memory_times(moved, hits, chip, values["dram_ratio"], values["l2_bytes_per_clock"])


def fitted_size(head_dim: int, *, is_8bit: bool, is_sync: bool) -> int:
    """Return the head size, 64, 128 or 256, whose constants a prefill of `head_dim` uses."""
    if head_dim <= 64:
        return 64
    if head_dim <= 128 or (head_dim <= 192 and is_sync and is_8bit):
        return 128
    return 256


def _per_size(work: PrefillWork, values: Mapping[str, float]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return (overhead per CTA in µs·SM, FLOP per µs per SM, latency ratio) for each row's head dimension."""
    import numpy as np

    dim, is_sync = work.head_dim, work.chip.rules.is_sync
    width = "8bit" if work.is_8bit else "16bit"

    def chosen(stem: str) -> FloatArray:
        small, middle, large = (values[f"{stem}_{size}_{width}"] for size in (64, 128, 256))
        return np.where(dim <= 64, small, np.where(dim <= 128, middle, large))

    efficiency = chosen("efficiency")
    padded = PADDED_192_ASYNC * efficiency
    if is_sync:
        e128, e256 = values[f"efficiency_128_{width}"], values[f"efficiency_256_{width}"]
        padded = np.full_like(dim, PADDED_192_SYNC_FP8 * e128 if work.is_8bit else PADDED_192_SYNC * e256)
    efficiency = np.where((dim > 128) & (dim <= 192), padded, efficiency)
    peak = work.chip.peak_8bit_flops_per_s if work.is_8bit else work.chip.peak_16bit_flops_per_s
    assert peak is not None, "checked when the width was chosen"
    return chosen("cta_us"), efficiency * peak * 1e-6 / work.chip.sm_count, chosen("latency_ratio")
