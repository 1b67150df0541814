"""From which context on reading the KV cache costs more than reading the weights.

Source: the original document 002, "KV Cache Crossover Point", with its attention term corrected (docs/theory_math.md):
weights = layer matrices and head, no norms and no embedding table; cache = keys and values of all tokens.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from roofline_model.core.errors import InvalidValueError
from roofline_model.models.experts import visited_experts
from roofline_model.models.format_plan import FormatPlan, plan_from_text
from roofline_model.models.hf.parameters import attention_matrices
from roofline_model.models.model_memory import plan_kv_bytes
from roofline_model.models.model_registry import get_model
from roofline_model.models.model_shapes import ModelShape
from roofline_model.models.plan_parts import EXPERTS, FFN, SHARED_EXPERTS, attention_part

MAX_CROSSOVER = 10**12
"""Contexts beyond this are reported as none: the cache never catches up."""


def read_weight_bytes(shape: ModelShape, plan: FormatPlan, batch: int = 1) -> float:
    """Return the weight bytes that a decode step of `batch` sequences reads: visited experts only, no embedding table."""
    total = shape.vocab_size * shape.hidden_size * plan.weight_bytes_per_element(plan.of("lm_head").weights)
    known: dict[tuple[object, ...], list[float]] = {}
    for layer, formats in enumerate(plan.layer_keys(shape.layer_count)):
        kind = (shape.has_experts(layer), formats)
        if kind not in known:
            known[kind] = list(_layer_bytes(shape, plan, layer, batch))
        for size in known[kind]:
            total += size
    return total


def _layer_bytes(shape: ModelShape, plan: FormatPlan, layer: int, batch: int) -> Iterator[float]:
    """Yield the weight bytes that a decode step reads in one layer, matrix by matrix."""
    hidden, experts, width = shape.hidden_size, shape.experts, plan.weight_bytes_per_element
    for name, (rows, columns) in attention_matrices(shape).items():
        yield rows * columns * width(plan.of(attention_part(name), layer).weights)
    if experts is None or not shape.has_experts(layer):
        for parts, formats in plan.agreeing(FFN if shape.ffn == "gated" else FFN[1:], layer):
            yield len(parts) * hidden * shape.ffn_size * width(formats.weights)
        return
    visited = visited_experts(batch, experts)
    yield hidden * experts.expert_count * width(plan.of("router", layer).weights)
    for parts, formats in plan.agreeing(EXPERTS, layer):
        yield visited * len(parts) * hidden * experts.ffn_size * width(formats.weights)
    for parts, formats in plan.agreeing(SHARED_EXPERTS, layer):
        yield len(parts) * hidden * experts.shared_ffn_size * width(formats.weights)


def kv_crossover_tokens(
    model: ModelShape | str, formats: str | FormatPlan = "FP16", *, kv: str | None = None, batch: int = 1
) -> float | None:
    """Return the context from which on a decode step reads more cache than weights; None when it never does.

    It may lie beyond the model's own maximum. Llama-3 8B: 114,512 tokens with weights and cache of the same width,
    202,173 with FP8 weights and an NVFP4 cache. It falls as 1/batch in a dense model.
    """
    if isinstance(batch, bool) or not isinstance(batch, int) or batch < 1:
        raise InvalidValueError(f"batch must be a whole number of at least 1, got {batch!r}")
    shape = get_model(model)
    plan = formats if isinstance(formats, FormatPlan) else plan_from_text(formats, shape, kv=kv)
    weights = read_weight_bytes(shape, plan, batch)
    # The cache grows in two straight lines: with every layer up to the window, with the full layers alone beyond it.
    corner = shape.window_size if shape.windowed_count and shape.window_size else 0
    below = plan_kv_bytes(shape, plan, corner, batch) if corner else 0.0
    if corner and below >= weights:
        return corner * weights / below
    slope = plan_kv_bytes(shape, plan, corner + 1, batch) - below
    if slope <= 0:
        return None
    found = corner + (weights - below) / slope
    return found if math.isfinite(found) and found <= MAX_CROSSOVER else None
