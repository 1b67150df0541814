"""A fused decode step: which kernel runs, into how many CTAs it splits the cache, which bytes it moves, and how long
that takes.

Kernel choice and bytes: attention study of 2026-11-21, section 1.3. Launch rules (threads and splits of the per-head
kernel, split counts of the grouped ones) follow the public sources of TensorRT-LLM, whose kernels were measured.

Time, in µs, is the latency of a CTA, waves of CTAs, and the memory beside them. Form: the same section, changed where
its error anatomy pointed and the public launch code of TensorRT-LLM gave the rule: waves of the per-head kernel with
their true residency and a cheaper last wave, whole waves of the mma kernel, a reduction that grows with the number of
splits, RoPE and append as a kernel of their own, and a start-up time of DRAM reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from roofline_model.expected.attention.chip import AttentionChip, hit_ratio, memory_times, smooth_max
from roofline_model.expected.attention.shape import AttentionShapes

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    FloatArray = NDArray[Any]

KERNELS = ("head", "mma", "gmma", "gen")
"""head: one CTA per query head, K and V read again by each head of a group; mma, gmma, gen: one per key/value head, on
warp-level tensor instructions, on Hopper's asynchronous ones, and the generated kernels of sm100."""

SPLIT_TOKENS = 256
"""Tokens of one step of a grouped CTA; a CTA of a split cache that owns no token of the window exits early."""
EMPTY_CTA_RATIO = 0.6
"""Cost of such a CTA over that of a busy one; 0.4 and 0.7 fit alike."""
HEAD_UNROLL = 8
"""Tokens that one group of threads of the per-head kernel reads per step (TensorRT-LLM, multi_block_grid_setup)."""


@dataclass(frozen=True, slots=True)
class DecodeWork:
    """What a decode step has to do, before any constant: one entry per row."""

    chip: AttentionChip
    is_8bit: bool
    """Whether the cache has one byte per element."""
    per_head: FloatArray
    """Boolean: the kernel with one CTA per query head runs, not the one that shares K and V in a group."""
    splits: FloatArray
    """CTAs that share the cache of one sequence and head."""
    busy_splits: FloatArray
    """Those that own tokens of the window."""
    ctas_per_sm: FloatArray
    """Grouped kernel: CTAs over SMs, an empty one counted with `EMPTY_CTA_RATIO`."""
    length: FloatArray
    """Grouped kernel: tokens of one CTA, in units of D = 128."""
    tile: FloatArray
    """Grouped kernel: padded query tile over 16 × 128."""
    waves: FloatArray
    """Per-head kernel: CTAs over the number that runs at once."""
    resident: FloatArray
    """Per-head kernel: CTAs that one SM holds."""
    head_length: FloatArray
    """Per-head kernel: tokens of one CTA, in units of D = 128."""
    append_bytes: FloatArray
    """RoPE and cache append where they are a kernel of their own, else 0."""
    moved_bytes: FloatArray
    """Bytes of the attention kernel itself: Q, O, the cache, and the append where it is fused."""
    evicted_bytes: FloatArray
    """Of those, the cache of a cold call: never in L2."""

    @property
    def has_separate_rope(self) -> bool:
        """Whether Hopper's FP8 kernel is meant, which rotates inside except at D = 64."""
        return self.chip.rules.key == "sm90" and self.is_8bit


def decode_work(
    chip: AttentionChip,
    shapes: AttentionShapes,
    *,
    cache_bytes: float,
    is_8bit: bool,
    is_cold: bool,
    cache_read_ratio: ArrayLike = 1.0,
) -> DecodeWork:
    """Choose kernel and splits, count CTAs and bytes. Several new tokens per sequence count as more query rows.

    `cache_read_ratio`: share of the cache bytes that grouped rows really read; 1 but for published rows whose benchmark
    let K and V share their pages.
    """
    import numpy as np

    batch, heads, kv_heads, query, keys, dim, window = (
        getattr(shapes, name).astype(np.float64)
        for name in ("batch", "heads", "kv_heads", "query", "keys", "head_dim", "window")
    )
    rows = heads / kv_heads * query
    per_head = _runs_per_head(chip, shapes, is_8bit=is_8bit)
    units = batch * kv_heads
    grouped = _grouped_splits(chip, units, keys, window, is_8bit=is_8bit)
    busy = np.minimum(grouped, np.ceil(window / SPLIT_TOKENS) + 1)
    head_units = batch * heads * query
    threads, resident = _head_launch(chip, head_units, is_8bit=is_8bit)
    head_dim = _power_of_two(dim)
    # A group of threads reads one row of K: 16 bytes per thread, 16-bit elements whatever the cache holds.
    step = threads / (head_dim * 2 / 16) * HEAD_UNROLL
    head_splits = np.clip(np.ceil(chip.sm_count / head_units), 1, np.ceil((keys + 1) / step))
    padded_dim = np.where(dim == 192, 256.0, dim)
    cache = 2 * batch * kv_heads * window * dim * cache_bytes
    cache = np.where(per_head, cache, cache * np.asarray(cache_read_ratio))
    new = 2 * batch * kv_heads * query * dim * (2 + cache_bytes)
    append = batch * query * dim * ((heads + 2 * kv_heads) * 2 + heads * 2 + 2 * kv_heads * cache_bytes)
    is_apart = ~per_head & ((dim == 64) if chip.rules.key == "sm90" and is_8bit else True)
    return DecodeWork(
        chip=chip,
        is_8bit=is_8bit,
        per_head=per_head,
        splits=np.where(per_head, head_splits, grouped),
        busy_splits=np.where(per_head, head_splits, busy),
        ctas_per_sm=units * (busy + EMPTY_CTA_RATIO * (grouped - busy)) / chip.sm_count,
        length=window / grouped * padded_dim / 128,
        tile=_padded_rows(chip, rows, is_8bit=is_8bit) * padded_dim / 2048,
        waves=head_units * head_splits / (chip.sm_count * resident),
        resident=resident,
        head_length=np.ceil((window + 1) / head_splits) * head_dim / 128,
        append_bytes=np.where(is_apart, append, 0.0),
        moved_bytes=cache + 4 * batch * heads * query * dim + new,
        evicted_bytes=cache if is_cold else np.zeros_like(cache),
    )


def kernels_of(work: DecodeWork) -> list[str]:
    """Return the kernel of each row, one of `KERNELS`, with its splits: `mma/4`."""
    grouped = grouped_kernel(work.chip, is_8bit=work.is_8bit)
    return [
        f"{'head' if is_per_head else grouped}/{int(splits)}"
        for is_per_head, splits in zip(work.per_head.tolist(), work.splits.tolist(), strict=True)
    ]


def unsplit_rows(work: DecodeWork) -> list[bool]:
    """Return for each row whether the grouped kernel of warp-level tensor instructions (mma) runs without splits."""
    is_mma = grouped_kernel(work.chip, is_8bit=work.is_8bit) == "mma"
    rows: list[bool] = (~work.per_head & (work.splits == 1) & is_mma).tolist()
    return rows


def grouped_kernel(chip: AttentionChip, *, is_8bit: bool) -> str:
    """Return which grouped kernel a chip runs: mma, gmma or gen."""
    if chip.rules.is_datacentre_blackwell:
        return "gen"
    return "gmma" if chip.rules.key == "sm90" and is_8bit else "mma"


def _runs_per_head(chip: AttentionChip, shapes: AttentionShapes, *, is_8bit: bool) -> FloatArray:
    """Return where the library takes the kernel that does not share K and V between the heads of a group."""
    import numpy as np

    group = shapes.heads // shapes.kv_heads
    if chip.rules.is_datacentre_blackwell:
        return group > 32
    # The grouped kernel is not taken where it would leave three quarters of the SMs idle.
    is_idle = shapes.batch * shapes.kv_heads * np.maximum(1, shapes.keys // 128) * 4 < chip.sm_count
    return (group == 1) | (group > 32) | (shapes.head_dim > 256) | (is_idle & (not is_8bit))  # type: ignore[no-any-return]


def _grouped_splits(
    chip: AttentionChip, units: FloatArray, keys: FloatArray, window: FloatArray, *, is_8bit: bool
) -> FloatArray:
    """Return the KV splits of the grouped kernel."""
    import numpy as np

    if chip.rules.is_datacentre_blackwell:
        return np.clip(np.floor(chip.sm_count / units), 1, np.ceil(window / 256))
    if is_8bit and chip.rules.is_sync:
        return np.ones_like(units)  # measured: that kernel never splits
    blocks = np.maximum(1, np.floor(keys / 128))
    blocks = np.maximum(1, np.minimum(blocks, np.round(np.sqrt(8 * blocks))))
    # At most about eight waves of CTAs.
    waves = units * blocks / chip.sm_count / 8
    return np.where(waves > 1, np.maximum(1, np.floor(blocks / np.maximum(waves, 1))), blocks)  # type: ignore[no-any-return]


def _padded_rows(chip: AttentionChip, rows: FloatArray, *, is_8bit: bool) -> FloatArray:
    """Return the query rows of the grouped kernel's tile."""
    import numpy as np

    if grouped_kernel(chip, is_8bit=is_8bit) == "mma":
        return 16.0 * np.ceil(rows / 16)
    return np.where(rows <= 8, 8.0, np.where(rows <= 16, 16.0, 32.0 * np.ceil(rows / 32)))


def _head_launch(chip: AttentionChip, units: FloatArray, *, is_8bit: bool) -> tuple[FloatArray, FloatArray]:
    """Return (threads per CTA, CTAs per SM) of the per-head kernel: few heads get large CTAs, many get small ones."""
    import numpy as np

    blocks = chip.rules.head_blocks_8bit_count if is_8bit else chip.rules.head_blocks_16bit_count
    factor = np.minimum(np.ceil(chip.sm_count * blocks / units), blocks)
    threads = np.where(factor >= 4, 1024.0, np.where(factor >= 2, 512.0, 256.0))
    return threads, np.maximum(1.0, np.floor(blocks * 256 / threads))


def _power_of_two(dim: FloatArray) -> FloatArray:
    """Return the head size that the per-head kernel is compiled for."""
    import numpy as np

    return np.maximum(32.0, 2.0 ** np.ceil(np.log2(dim)))


SEPARATE_ROPE_US = 2.0
"""Hopper's FP8 kernel rotates inside, except at D = 64 where one more kernel runs."""
RESIDENT = {"mma": 1.3, "gmma": 1.6, "gen": 0.9}
"""CTAs per SM whose token loops run side by side at no cost, by grouped kernel (effective; 1.3 for all costs 0.1
points).
"""
FILL_TOKENS = 64.0
"""Tokens (at D = 128) from which all threads of a per-head CTA have work."""


def decode_terms(work: DecodeWork, values: Mapping[str, float]) -> tuple[FloatArray, dict[str, FloatArray]]:
    """Return the time in µs and its terms by name (see `ExpectedBatch.parts`).

    launch, append, split and waves add; latency (of one CTA), l2 and dram overlap. waves: further CTAs on the same SM.
    """
    import numpy as np

    width = "8bit" if work.is_8bit else "16bit"
    chip = work.chip
    hits = hit_ratio(work.moved_bytes + work.append_bytes, chip, chip.rules.cache_edge_factor)
    rates = (chip, values["dram_ratio"], values["l2_bytes_per_clock"])
    append = sum(memory_times(work.append_bytes, hits, *rates))
    hit_share = hits * (1 - work.evicted_bytes / work.moved_bytes)
    l2, dram = memory_times(work.moved_bytes, hit_share, *rates)
    usable = chip.rules.usable_l2_ratio * chip.l2_bytes
    dram = dram + values["miss_us"] * (1 - hit_share) * np.minimum(1.0, work.moved_bytes / usable)
    memory = l2 + dram
    # Most calls run one kernel only; a single prediction should not pay for both.
    if not work.per_head.any():
        joint, cta_us = _grouped(work, values, memory, width)
    elif work.per_head.all():
        joint, cta_us = _per_head(work, values, memory, width)
    else:
        pairs = zip(_per_head(work, values, memory, width), _grouped(work, values, memory, width), strict=True)
        joint, cta_us = (np.where(work.per_head, head, grouped) for head, grouped in pairs)
    launch = np.where(work.per_head, values[f"head_launch_us_{width}"], values[f"launch_us_{width}"])
    split = _split_us(work, values, width)
    alone = smooth_max(cta_us, memory)
    return launch + append + split + joint, {
        "launch": launch,
        "append": append,
        "split": split,
        "waves": np.maximum(joint - alone, 0.0),
        "latency": cta_us,
        "l2": l2,
        "dram": dram,
    }


def _split_us(work: DecodeWork, values: Mapping[str, float], width: str) -> FloatArray:
    """Return the cost of reducing over KV splits, and of Hopper's separate RoPE kernel."""
    import numpy as np

    combine = values[f"combine_us_{width}"] + values[f"combine_split_us_{width}"] * work.busy_splits
    combine = np.where(work.per_head, values[f"head_split_us_{width}"], combine)
    split = np.where(work.splits > 1, combine, 0.0)
    if work.has_separate_rope:
        split = split + np.where(~work.per_head & (work.append_bytes > 0), SEPARATE_ROPE_US, 0.0)
    return split


def _grouped(
    work: DecodeWork, values: Mapping[str, float], memory: FloatArray, width: str
) -> tuple[FloatArray, FloatArray]:
    """Return (time beside memory, latency of one CTA) of the kernel that shares K and V in a group of heads."""
    import numpy as np

    cta, growth = values[f"cta_us_{width}"], values[f"tile_growth_{width}"]
    loop = values[f"token_ns_{width}"] * 1e-3 * work.length
    per_sm = work.ctas_per_sm
    kernel = grouped_kernel(work.chip, is_8bit=work.is_8bit)
    if kernel == "mma":
        # One CTA at a time: whole waves, softened where there are many; the token loops of neighbours overlap a little.
        cost = cta * (1 + growth * work.tile)
        waves = np.maximum(1.0, np.minimum(np.ceil(per_sm - 1e-9), per_sm + 0.5))
        return smooth_max(memory, cost * waves + loop * _crowding(per_sm, kernel)), cost + loop
    size = np.sqrt(1 + growth * work.tile)
    cta_us = cta * size + loop
    return smooth_max(memory, cta_us * _crowding(per_sm * size, kernel)), cta_us


def _crowding(per_sm: FloatArray, kernel: str) -> FloatArray:
    return (1 + (per_sm / RESIDENT[kernel]) ** 3) ** (1 / 3)


def _per_head(
    work: DecodeWork, values: Mapping[str, float], memory: FloatArray, width: str
) -> tuple[FloatArray, FloatArray]:
    """Return (time beside memory, latency of one CTA) of the kernel with one CTA per query head."""
    import numpy as np

    token = values[f"head_token_ns_{width}"] * 1e-3 * work.head_length
    fixed = values[f"head_cta_us_{width}"] + values[f"head_fill_us_{width}"] * np.minimum(
        1.0, work.head_length / FILL_TOKENS
    )
    whole = np.floor(work.waves + 1e-9)
    rest = np.maximum(work.waves - whole, 0.0)
    rest = np.where(rest < 1e-9, 0.0, rest)
    # CTAs of one SM share its loads: a last wave that fills the SMs less is faster.
    last = fixed + token * np.maximum(1.0, np.ceil(rest * work.resident - 1e-9))
    share = memory / work.waves
    time = smooth_max(share * whole, whole * (fixed + token * work.resident))
    return time + np.where(rest > 0, smooth_max(share * rest, last), 0.0), fixed + token
