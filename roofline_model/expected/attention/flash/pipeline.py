"""Clocks that one score costs each unit of an SM, and how far a kernel overlaps the units.

Per score (one query row against one key) of a tile of `rows` × `keys` with padded head dimension D: tensor: 4·D FLOPs
at the instruction's rate; shared memory: every MMA group reads K and V for its rows; exp: one ex2 on the special
function unit (FA4 emulates a share on the FMA units); vector: a few FP32 instructions; dequantize: widening K and V.
exp, vector and dequantize run one after the other in the softmax warps, so they form one chain. Source of the tensor,
exp and shared-memory cycles: FA4 paper (arXiv:2603.05451): 1024, 1024 and 768 clocks for 128³ on B200.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from roofline_model.expected.attention.flash.config import FlashAttentionConfig, FlashAttentionVersion
from roofline_model.expected.attention.flash.tiles import Tile
from roofline_model.expected.attention.flash.units import SHARED_BYTES_PER_CLOCK, ChipUnits
from roofline_model.expected.attention.flash.versions import POLYNOMIAL_OPS_PER_EXP, VersionTraits
from roofline_model.formats.catalog import NumberFormat

DEQUANTIZE_OPS = {2: 4.5, 4: 1.5, 6: 2.0, 8: 1.0}
"""FP32-lane instructions to widen one element of K or V to the format of the products, by element bits: INT8 and FP8 1,
6-bit floats 2, INT4 and FP4 1.5, INT2 and table formats 4.5. Estimates (research of weight-only kernels), not measured.
"""


@dataclass(frozen=True, slots=True)
class StepClocks:
    """Clocks per score on one SM, each unit alone."""

    tensor_clocks_per_score: float
    shared_clocks_per_score: float
    exp_clocks_per_score: float
    vector_clocks_per_score: float
    dequantize_clocks_per_score: float

    @property
    def softmax_clocks_per_score(self) -> float:
        """The chain of the softmax warps."""
        return self.exp_clocks_per_score + self.vector_clocks_per_score + self.dequantize_clocks_per_score

    def combined(self, overlap_factor: float) -> float:
        """Return clocks per score with the overlap of a kernel: (Σ t^p)^(1/p) over tensor, shared memory and
        softmax.
        """
        units = (self.tensor_clocks_per_score, self.shared_clocks_per_score, self.softmax_clocks_per_score)
        return overlapped(units, overlap_factor)


def step_clocks(
    tile: Tile, config: FlashAttentionConfig, traits: VersionTraits, units: ChipUnits, emulated_ratio: float
) -> StepClocks | None:
    """Return the clocks per score, or None where the chip's geometry is not known.

    `emulated_ratio`: share of exponentials that run on the FMA units (FA4; 0 otherwise).
    """
    if (
        units.sm_count is None
        or units.clock_hz is None
        or units.exp_per_clock is None
        or units.fp32_lanes_count is None
    ):
        return None
    flops_per_clock = units.peak_flops_per_s / (units.sm_count * units.clock_hz)
    lanes = units.fp32_lanes_count
    operations = traits.vector_ops_per_score + emulated_ratio * POLYNOMIAL_OPS_PER_EXP
    widened = dequantize_ops(config.cache_format, config.math_format) * 2 * tile.head_dim / tile.step_rows_count
    return StepClocks(
        tensor_clocks_per_score=4 * tile.head_dim / (flops_per_clock * units.tensor_ratio),
        shared_clocks_per_score=_shared_bytes(tile, config) / tile.scores_count / SHARED_BYTES_PER_CLOCK,
        exp_clocks_per_score=(1 - emulated_ratio) / units.exp_per_clock,
        vector_clocks_per_score=operations / lanes,
        dequantize_clocks_per_score=widened / lanes,
    )


def dequantize_ops(stored: NumberFormat, computed: NumberFormat) -> float:
    """Return the FP32-lane instructions per element of K or V; 0 when it is stored as it is computed."""
    if stored.element_bits == computed.element_bits and not stored.scales:
        return 0.0
    if stored.kind == "table":
        return DEQUANTIZE_OPS[2]
    return next((cost for bits, cost in DEQUANTIZE_OPS.items() if stored.element_bits <= bits), DEQUANTIZE_OPS[8])


def overlapped(times: tuple[float, ...], factor: float) -> float:
    """Return (Σ t^p)^(1/p): the sum at p = 1, the maximum for large p. Never below the longest, never above the sum."""
    longest = max(times)
    if longest <= 0:
        return 0.0
    shares = math.fsum(math.pow(time / longest, factor) for time in times)
    return longest * math.pow(shares, 1 / factor)


def _shared_bytes(tile: Tile, config: FlashAttentionConfig) -> float:
    """Return shared-memory bytes of one step: Q once, K and V once per MMA group, and FA1's exchange of partial
    outputs.

    mma.sync: each warp loads its own fragments of K and V. wgmma and tcgen05: each group of 64 or 128 rows reads them
    as operand B; P comes from registers or tensor memory.
    """
    element_bytes = 1 if config.math_format.element_bits == 8 else 2
    query = tile.step_rows_count * tile.head_dim * element_bytes
    keys_and_values = 2 * tile.keys_count * tile.head_dim * element_bytes
    if config.version is FlashAttentionVersion.FA1:
        # Four warps split the keys: every warp reads all of Q, K and V stay in registers, and four FP32 partial outputs
        # are written and read back.
        return 4 * query + 2 * 4 * tile.step_rows_count * tile.head_dim * 4
    return query + tile.operand_readers_count * keys_and_values
