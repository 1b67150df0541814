"""The ideal time of whole tables: `roofline.predict` for arrays of shapes, the same counts and the same roofs.

Source: `operators.gemm` for products; attention counts QKᵀ and PV over the pairs the mask leaves, reads Q and the visible
K and V once and writes O once (docs/theory_math.md). Tested against the scalar functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofline_model.formats import NumberFormat, get_format
from roofline_model.hardware import Device
from roofline_model.operators import compute_format

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

SCALE_GROUP_ELEMS = 128
"""Narrow integer weights without scales of their own have a 16-bit one per this many elements, as the kernels store them."""


def ideal_gemm_s(device: Device, m: Floats, n: Floats, k: Floats, *, weight: str, activation: str, output: str) -> Floats:  # fmt: skip
    """Return max(bytes / bandwidth, FLOPs / peak) of each product, in seconds.

    Raises `UnsupportedError` when the chip cannot compute in the formats.
    """
    import numpy as np

    fa, fb, fc = get_format(activation), with_group_scales(get_format(weight)), get_format(output)
    traffic = (
        m * k * fa.traffic_bytes_per_element
        + k * n * fb.traffic_bytes_per_element
        + m * n * fc.traffic_bytes_per_element
    )
    peak = device.peak_flops_per_s(compute_format(fa, fb))
    result: Floats = np.maximum(traffic / device.bandwidth.value, 2 * m * n * k / peak)
    return result


def with_group_scales(fmt: NumberFormat) -> NumberFormat:
    """Return INT4 and INT2 with the group scales that weight-only kernels read; other formats unchanged."""
    return fmt.grouped(SCALE_GROUP_ELEMS) if fmt.kind == "int" and fmt.is_sub_byte and not fmt.scales else fmt


def ideal_attention_s(
    device: Device, batch: Floats, heads: Floats, kv_heads: Floats, q_len: Floats, kv_len: Floats, head_dim: Floats, *,
    causal: Floats, window: Floats, activation: str, kv: str, output: str,
) -> Floats:  # fmt: skip
    """Return the ideal time of fused attention, in seconds.

    `causal`: 1 or 0; `window`: keys a token may see, NaN for all. With a causal mask query i sees its own and earlier keys.
    """
    import numpy as np

    fq, fkv, fo = get_format(activation), get_format(kv), get_format(output)
    seen = np.where(np.isfinite(window), np.minimum(window, kv_len), kv_len)
    pairs = np.where(causal == 1, _causal_pairs(q_len, kv_len, seen), q_len * seen)
    flops = 4 * batch * heads * head_dim * pairs
    touched = np.where(causal == 1, np.minimum(kv_len, q_len + seen - 1), kv_len)
    traffic = batch * head_dim * (
        q_len * heads * (fq.traffic_bytes_per_element + fo.traffic_bytes_per_element)
        + 2 * kv_heads * touched * fkv.traffic_bytes_per_element
    )  # fmt: skip
    result: Floats = np.maximum(traffic / device.bandwidth.value, flops / device.peak_flops_per_s(fq.key))
    return result


def _causal_pairs(q_len: Floats, kv_len: Floats, seen: Floats) -> Floats:
    """Return Σ over queries of min(window, keys up to the query's own)."""
    import numpy as np

    # Query i (from 0) sees min(seen, first + i) keys, first = kv_len − q_len + 1: a ramp, then a plateau.
    first = kv_len - q_len + 1
    ramp = np.clip(seen - first, 0, q_len)
    plateau = q_len - ramp
    return ramp * first + ramp * (ramp - 1) / 2 + plateau * np.minimum(seen, kv_len)
