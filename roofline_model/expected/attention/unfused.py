"""The time of attention as three kernels, for contrast: scores = Q·Kᵀ, softmax, output = P·V, the score matrix in
memory.

What PyTorch's eager path does. Scores are written, read by softmax, written again and read by the second product:
4·B·Hq·Sq·Skv elements, Θ(N²), against Θ(N·D) for a fused kernel. Work and bytes are
`attention_ops.unfused_attention_parts`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from roofline_model.chips.hardware import Device, get_hardware
from roofline_model.core.cost import OpCost
from roofline_model.expected.attention.flash.config import AttentionShape, FlashAttentionVersion
from roofline_model.expected.attention.flash.units import ChipUnits, chip_units
from roofline_model.expected.attention.flash.versions import TRAITS
from roofline_model.formats.catalog import NumberFormat, get_format
from roofline_model.operators.attention import unfused_attention_parts


@dataclass(frozen=True, slots=True)
class UnfusedStage:
    """One of the three kernels."""

    name: str
    """qk_scores, softmax or scores_value."""
    time_s: float
    bound: str
    """memory, tensor, exp or launch."""
    cost: OpCost


@dataclass(frozen=True, slots=True)
class UnfusedAttention:
    """The three kernels one after the other."""

    hardware: str
    shape: AttentionShape
    stages: tuple[UnfusedStage, ...]
    provenance: str

    @property
    def time_s(self) -> float:
        """Sum over the kernels."""
        return math.fsum(stage.time_s for stage in self.stages)

    @property
    def dram_bytes(self) -> float:
        """DRAM bytes of all kernels."""
        return math.fsum(stage.cost.total_bytes for stage in self.stages)

    @property
    def score_matrix_bytes(self) -> float:
        """Memory the scores occupy: B·Hq·Sq·Skv elements, once."""
        return self.stages[0].cost.total_write_bytes

    @property
    def bound(self) -> str:
        """What binds the longest kernel."""
        return max(self.stages, key=lambda stage: stage.time_s).bound


def unfused_attention(
    hardware: Device | str,
    shape: AttentionShape,
    precision: str | NumberFormat = "FP16",
    *,
    kv_precision: str | NumberFormat | None = None,
    causal: bool = False,
    window: int | None = None,
) -> UnfusedAttention:
    """Return the three kernels of unfused attention, each at the rates a good matrix product or copy reaches on the
    chip.

    A mask saves nothing: masked scores are computed, but keys that no query sees are left out. Raises
    `InvalidValueError` for a mask that cannot be, `UnsupportedError` when the chip has no path for the products'
    format.
    """
    device = get_hardware(hardware)
    parts = unfused_attention_parts(
        shape.batch_size,
        shape.query_heads,
        shape.kv_heads,
        shape.query_count,
        shape.kv_count,
        shape.head_dim,
        q=precision,
        kv=kv_precision,
        causal=causal,
        window=window,
    )
    # Library products use the chip's best matrix instruction: the sustained rate that FA4 counts with.
    units = chip_units(device, TRAITS[FlashAttentionVersion.FA4], get_format(precision).key)
    stages = []
    for name, operator in parts.items():
        if name == "softmax":
            elements = shape.batch_size * shape.query_heads * shape.query_count * dict(operator.shape)["width"]
            unit, unit_s = "exp", _exponentials_s(elements, units)
        else:
            unit, unit_s = "tensor", operator.cost.total_flops / (units.peak_flops_per_s * units.tensor_ratio)
        stages.append(_stage(name, operator.cost, unit, unit_s, units))
    return UnfusedAttention(device.key, shape, tuple(stages), units.provenance)


def _stage(name: str, cost: OpCost, unit: str, unit_s: float, units: ChipUnits) -> UnfusedStage:
    launch_s = units.launch_s or 0.0
    times = {"memory": cost.total_bytes / units.bandwidth_bytes_per_s, unit: unit_s, "launch": launch_s}
    return UnfusedStage(name, max(times["memory"], unit_s) + launch_s, max(times, key=lambda unit: times[unit]), cost)


def _exponentials_s(count: int, units: ChipUnits) -> float:
    """Return the time of `count` exponentials; 0 where the chip's rate is not known."""
    if units.sm_count is None or units.clock_hz is None or units.exp_per_clock is None:
        return 0.0
    return count / (units.exp_per_clock * units.sm_count * units.clock_hz)
