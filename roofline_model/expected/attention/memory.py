"""Time to move the bytes of one attention kernel, from DRAM or from an L2 that still holds them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofline_model.expected.attention.chip import AttentionChip

if TYPE_CHECKING:
    from numpy.typing import NDArray

    FloatArray = NDArray[Any]

PREFILL_EDGE = 10.0
"""Exponent of the fall from hit to miss in prefill on every chip; 4 and 6 fit worse, 20 and 40 too."""
SMOOTH_MAX = 4
"""Exponent of the smooth maximum of two overlapping times; any value from 3 on fits alike."""


def hit_ratio(working_set: FloatArray, chip: AttentionChip, edge: float) -> FloatArray:
    """Return the share of bytes that a repeated call finds in L2, for the bytes it touches between two uses.

    `edge` is the exponent of the fall from all to none around the usable size.
    """
    import numpy as np

    relative = working_set / (chip.rules.usable_l2_ratio * chip.l2_bytes)
    return 1.0 / (1.0 + np.minimum(relative, 1e3) ** edge)


def memory_times(
    moved: FloatArray, hits: FloatArray, chip: AttentionChip, dram_ratio: float, l2_bytes_per_clock: float
) -> tuple[FloatArray, FloatArray]:
    """Return (L2, DRAM) times in µs of `moved` bytes, of which the share `hits` is found in L2.

    `dram_ratio` is the share of the specified bandwidth that is reached, `l2_bytes_per_clock` counts per SM.
    """
    found = hits * moved
    l2_rate = l2_bytes_per_clock * chip.sm_count * chip.clock_hz * 1e-6
    return found / l2_rate, (moved - found) / (dram_ratio * chip.bandwidth_bytes_per_s * 1e-6)


def smooth_max(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return (a⁴ + b⁴)^¼: the longer of two times that overlap, a little more where they are alike."""
    return (first**SMOOTH_MAX + second**SMOOTH_MAX) ** (1.0 / SMOOTH_MAX)  # type: ignore[no-any-return]
