"""What a model needs of a device's memory: weights, KV cache and working buffers, in the formats of a plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from roofline_model.chips.hardware import Device
from roofline_model.chips.usable_memory import usable_bytes
from roofline_model.core.errors import InvalidValueError
from roofline_model.formats.catalog import get_format
from roofline_model.models.decoder_step import Workload, layer_kinds
from roofline_model.models.format_plan import EXPERTS, FFN, SHARED_EXPERTS, FormatPlan, attention_part
from roofline_model.models.hf.parameters import attention_matrices, ffn_matrix_count, parameter_counts
from roofline_model.models.model_shapes import ModelShape

LOGIT_BYTES = 4
"""Logits are kept in FP32 for sampling."""


@dataclass(frozen=True, slots=True)
class ModelMemory:
    """Bytes of one device that a model and its workload occupy."""

    DERIVED: ClassVar = ("total_bytes", "fits")

    weights_bytes: float
    """Weights, bytes."""
    kv_bytes: float
    """KV cache, bytes."""
    activation_bytes: float
    """Estimate of the working buffers of one pass: residual stream, the widest pair of tensors of a layer, logits;
    bytes.
    """
    capacity_bytes: float | None
    """Memory of the device, bytes; null where its file does not say."""
    usable_bytes: float | None = None
    """What of it a model can have, beside system, driver, engine and headroom, bytes; null where it is not known."""
    headroom_ratio: float = 0.0
    """Share of the capacity that the caller keeps free."""

    def __post_init__(self) -> None:
        if not 0 <= self.headroom_ratio < 1:
            raise InvalidValueError(f"memory headroom must be a share from 0 to below 1, got {self.headroom_ratio!r}")

    @property
    def total_bytes(self) -> float:
        """Weights, cache and working buffers, bytes. Ignores fragmentation; an engine's share is off `usable_bytes`."""
        return self.weights_bytes + self.kv_bytes + self.activation_bytes

    @property
    def fits(self) -> bool | None:
        """Whether it fits in the usable memory; null where that is not known."""
        return None if self.usable_bytes is None else self.total_bytes <= self.usable_bytes

    @property
    def used_ratio(self) -> float | None:
        """Share of the capacity; more than 1 when it does not fit."""
        return None if self.capacity_bytes is None else self.total_bytes / self.capacity_bytes


def model_memory(
    shape: ModelShape,
    workload: Workload,
    plan: FormatPlan,
    device: Device | None = None,
    *,
    headroom_ratio: float = 0.0,
) -> ModelMemory:
    """Return what `shape` occupies with this workload in the formats of `plan`; it has to leave `headroom_ratio`
    free.
    """
    capacity = None if device is None or device.capacity is None else device.capacity.value
    return ModelMemory(
        weights_bytes=weights_bytes(shape, plan),
        kv_bytes=plan_kv_bytes(shape, plan, workload.context_count, workload.batch_count),
        activation_bytes=_activation_bytes(shape, workload, plan),
        capacity_bytes=capacity,
        usable_bytes=None if device is None else usable_bytes(device, headroom_ratio),
        headroom_ratio=headroom_ratio,
    )


def weights_bytes(shape: ModelShape, plan: FormatPlan) -> float:
    """Return the bytes of all parameters: every matrix in its plan's format with scales, the rest in the wide format.

    A tied embedding is stored once, in the format of the head.
    """
    counts = parameter_counts(shape)
    width = plan.weight_bytes_per_element
    total = counts.small_count * _width(plan.wide)
    if counts.head_count:
        total += counts.head_count * width(plan.of("lm_head").weights)
        total += counts.embedding_count * width(plan.of("embedding").weights)
    else:
        total += counts.embedding_count * width(plan.of("lm_head").weights)
    return total + layer_weights_bytes(shape, plan)


def layer_weights_bytes(shape: ModelShape, plan: FormatPlan) -> float:
    """Return the bytes of all matrices inside the layers."""
    width, total = plan.weight_bytes_per_element, 0.0
    for layer, times in layer_kinds(shape, plan):
        total += times * sum(size * width(plan.of(part, layer).weights) for part, size in layer_matrices(shape, layer))
    return total


def plan_kv_bytes(shape: ModelShape, plan: FormatPlan, context: int, batch: int = 1) -> float:
    """Return the bytes of the cache, each layer in its own format; windowed layers keep their window."""
    total = 0.0
    for layer, times in layer_kinds(shape, plan):
        window = shape.window_size if shape.is_windowed(layer) else None
        tokens = context if window is None else min(context, window)
        total += times * tokens * shape.cached_elements_per_token * _width(plan.kv_of(layer))
    return batch * total


def layer_matrices(shape: ModelShape, layer: int) -> list[tuple[str, int]]:
    """Return (part, elements) of one layer's matrices; a part may come more than once, and may be empty."""
    hidden, experts = shape.hidden_size, shape.experts
    matrices = [(attention_part(name), rows * columns) for name, (rows, columns) in attention_matrices(shape).items()]
    if experts is None or not shape.has_experts(layer):
        names = FFN if shape.ffn == "gated" else FFN[1:]
        return [*matrices, *((name, hidden * shape.ffn_size) for name in names)]
    routed, shared = experts.expert_count * hidden * experts.ffn_size, hidden * experts.shared_ffn_size
    return [
        *matrices,
        ("router", hidden * experts.expert_count),
        *((name, routed) for name in EXPERTS),
        *((name, shared) for name in SHARED_EXPERTS),
        (SHARED_EXPERTS[0], hidden if experts.has_shared_gate else 0),  # scales the shared experts' output
    ]


def _activation_bytes(shape: ModelShape, workload: Workload, plan: FormatPlan) -> float:
    rows, experts = workload.row_count, shape.experts
    ffn = (ffn_matrix_count(shape)) * shape.ffn_size
    if experts is not None:
        ffn = max(ffn, 3 * experts.active_count * experts.ffn_size + 3 * experts.shared_ffn_size)
    attention = shape.query_width + 2 * shape.kv_width + shape.attention_width
    logits = workload.batch_count if workload.phase == "prefill" else rows
    return (
        rows * (2 * shape.hidden_size + max(ffn, attention)) * _width(plan.wide)
        + logits * shape.vocab_size * LOGIT_BYTES
    )


def _width(key: str) -> float:
    return get_format(key).traffic_bytes_per_element
