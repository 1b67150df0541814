"""From which context on reading the KV cache costs more than reading the weights.

Source: the original document 002, "KV Cache Crossover Point", with its attention term corrected (docs/theory_math.md):
weights = layer matrices and head, no norms and no embedding table; cache = keys and values of all tokens.
"""

from __future__ import annotations

import math

from roofline_model.decoder.format_plan import FormatPlan, plan_from_text
from roofline_model.decoder.model_memory import plan_kv_bytes
from roofline_model.decoder.model_parameters import attention_matrices, ffn_matrix_count
from roofline_model.decoder.model_registry import get_model
from roofline_model.decoder.model_shapes import ModelShape
from roofline_model.errors import InvalidValueError
from roofline_model.ops.expert_ops import visited_experts

MAX_CROSSOVER = 10**12
"""Contexts beyond this are reported as none: the cache never catches up."""


def read_weight_bytes(shape: ModelShape, plan: FormatPlan, batch: int = 1) -> float:
    """Return the weight bytes that a decode step of `batch` sequences reads: visited experts only, no embedding table."""
    hidden, experts, width = shape.hidden_size, shape.experts, plan.weight_bytes_per_element
    total = shape.vocab_size * hidden * width(plan.of("lm_head").weights)
    attention = attention_matrices(shape)
    for layer in range(shape.layer_count):
        for name, (rows, columns) in attention.items():
            part = "o_proj" if name == "o_proj" else "qkv_proj"
            total += rows * columns * width(plan.of(part, layer).weights)
        if experts is None or not shape.has_experts(layer):
            total += ffn_matrix_count(shape) * hidden * shape.ffn_size * width(plan.of("ffn", layer).weights)
            continue
        visited = visited_experts(batch, experts)
        total += hidden * experts.expert_count * width(plan.of("router", layer).weights)
        total += visited * 3 * hidden * experts.ffn_size * width(plan.of("experts", layer).weights)
        total += 3 * hidden * experts.shared_ffn_size * width(plan.of("shared_experts", layer).weights)
    return total


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
