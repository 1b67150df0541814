"""The ideal time of attention over whole tables: the counts and roofs of `roofline.predict` for arrays of shapes.

QKᵀ and PV are counted over the pairs the mask leaves; Q and the visible K and V are read once, O is written once
(docs/theory/math.md). The counts under a mask are those of `operators/attention_shape.py`, whole numbers like there.
Tested against the scalar functions on random calls.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from roofline_model.chips.hardware import Device
from roofline_model.formats.catalog import get_format
from roofline_model.operators.operand_formats import product_format

Floats = NDArray[np.float64]
Sizes = NDArray[np.int64]


def ideal_attention_s(
    device: Device,
    batch: Floats,
    heads: Floats,
    kv_heads: Floats,
    q_len: Floats,
    kv_len: Floats,
    head_dim: Floats,
    *,
    causal: Floats,
    window: Floats,
    activation: str,
    kv: str,
    output: str,
) -> Floats:
    """Return the ideal time of fused attention, in seconds.

    `causal`: 1 or 0; `window`: keys a token may see of those up to its own, NaN for all. With a causal mask it sees no
    later one. Raises `UnsupportedError` when the chip cannot compute in the formats.
    """
    fq, fkv, fo = get_format(activation), get_format(kv), get_format(output)
    computed = product_format("q", fq, "kv", fkv)
    seen = np.where(np.isfinite(window), np.minimum(window, kv_len), kv_len)
    flops = 4 * batch * heads * head_dim * visible_pairs(q_len, kv_len, seen, causal)
    touched = np.minimum(kv_len, q_len + seen - 1)
    traffic = (
        batch
        * head_dim
        * (
            q_len * heads * (fq.traffic_bytes_per_element + fo.traffic_bytes_per_element)
            + 2 * kv_heads * touched * fkv.traffic_bytes_per_element
        )
    )
    result: Floats = np.maximum(traffic / device.bandwidth.value, flops / device.peak_flops_per_s(computed))
    return result


def visible_pairs(q_len: Floats, kv_len: Floats, seen: Floats, causal: Floats) -> Floats:
    """Return the (query, key) pairs of one head that no mask hides: `operators/attention_shape.py` for arrays.

    `seen`: the window, at most `kv_len`; `kv_len` without one.
    """
    # Whole numbers: the difference of two sums of squares would lose its last digits as floats.
    query, keys, width = (np.asarray(sizes).astype(np.int64) for sizes in (q_len, kv_len, seen))
    before = keys - query
    backwards = _seen_backwards(keys, width) - _seen_backwards(before, width)
    hidden = _hidden_by_window(keys, width) - _hidden_by_window(before, width)
    pairs: Floats = np.where(causal == 1, backwards, query * keys - hidden).astype(np.float64)
    return pairs


def _seen_backwards(count: Sizes, width: Sizes) -> Sizes:
    """Return the sum of min(position, width) over positions 1 … count."""
    rising = np.minimum(count, width)
    total: Sizes = rising * (rising + 1) // 2 + (count - rising) * width
    return total


def _hidden_by_window(count: Sizes, width: Sizes) -> Sizes:
    """Return the sum of max(0, position − width) over positions 1 … count."""
    beyond = np.maximum(0, count - width)
    total: Sizes = beyond * (beyond + 1) // 2
    return total
