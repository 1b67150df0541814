"""Time of a decode step from its work: latency of a CTA, waves of CTAs, and the memory beside them. Times in µs.

Form: attention study of 2026-11-21, section 1.3, changed where its error anatomy pointed and the public launch code of
TensorRT-LLM gave the rule: waves of the per-head kernel with their true residency and a cheaper last wave, whole waves
of the mma kernel, a reduction that grows with the number of splits, RoPE and append as a kernel of their own, and a
start-up time of DRAM reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from roofline_model.expected.attention.decode import DecodeWork, grouped_kernel
from roofline_model.expected.attention.memory import hit_ratio, memory_times, smooth_max

if TYPE_CHECKING:
    from numpy.typing import NDArray

    FloatArray = NDArray[Any]

SEPARATE_ROPE_US = 2.0
"""Hopper's FP8 kernel rotates inside, except at D = 64 where one more kernel runs."""
RESIDENT = {"mma": 1.3, "gmma": 1.6, "gen": 0.9}
"""CTAs per SM whose token loops run side by side at no cost, by grouped kernel (effective; 1.3 for all costs 0.1 points)."""
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
    found = hits * (1 - work.evicted_bytes / work.moved_bytes)
    l2, dram = memory_times(work.moved_bytes, found, *rates)
    usable = chip.rules.usable_l2_ratio * chip.l2_bytes
    dram = dram + values["miss_us"] * (1 - found) * np.minimum(1.0, work.moved_bytes / usable)
    memory = l2 + dram
    # Most calls run one kernel only; a single prediction should not pay for both.
    if not work.per_head.any():
        joint, one = _grouped(work, values, memory, width)
    elif work.per_head.all():
        joint, one = _per_head(work, values, memory, width)
    else:
        pairs = zip(_per_head(work, values, memory, width), _grouped(work, values, memory, width), strict=True)
        joint, one = (np.where(work.per_head, head, grouped) for head, grouped in pairs)
    launch = np.where(work.per_head, values[f"head_launch_us_{width}"], values[f"launch_us_{width}"])
    split = _split_us(work, values, width)
    alone = smooth_max(one, memory)
    return launch + append + split + joint, {
        "launch": launch,
        "append": append,
        "split": split,
        "waves": np.maximum(joint - alone, 0.0),
        "latency": one,
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
    one = cta * size + loop
    return smooth_max(memory, one * _crowding(per_sm * size, kernel)), one


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
