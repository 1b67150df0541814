"""A plan as the file that applies it: what `recommend --model … -o` writes, and `apply_plan` and `--roofline-plan`
read.
"""

from __future__ import annotations

import json
from pathlib import Path

from roofline_model.core.definition_text import user_path, write_definition_text
from roofline_model.core.errors import UnsupportedError
from roofline_model.models.format_plan import FormatPlan, ffn_parts_of, parts_of
from roofline_model.models.model_shapes import ModelShape
from roofline_model.models.strategies.module_names import spelled_formats

_GROUPS = ("qkv_proj", "o_proj", "gate_up_proj", "down_proj")
"""Keys of an applied plan, beside their layer: what engines run as one product."""


def applied_plan(plan: FormatPlan, shape: ModelShape) -> dict[str, str]:
    """Return key → `WEIGHT.ACTIVATION` for every group of Linears of a model, 16-bit ones included.

    Both formats are always said where the weight is narrow, because `INT8` alone is weight-only to torchao. The cache
    is not part of it. Raises `UnsupportedError` for experts, which transformers keeps as one tensor, and for single
    projections whose formats differ inside a group.
    """
    chosen: dict[str, str] = {}
    for layer in range(shape.layer_count):
        if shape.has_experts(layer):
            raise UnsupportedError(
                f"{shape.name} has experts in layer {layer}: torchao quantises Linears, and transformers keeps experts "
                "as one tensor"
            )
        for group in _GROUPS:
            is_input = group == "gate_up_proj"
            parts = ffn_parts_of("", is_gated=shape.ffn == "gated") if is_input else parts_of(group)
            agreeing = plan.agreeing(parts, layer)
            if len(agreeing) > 1:
                raise UnsupportedError(
                    f"layer {layer}: the parts of {group} differ; a file gives each group one format"
                )
            chosen[f"layers.{layer}.{group}"] = spelled_formats(agreeing[0][1])
    chosen["lm_head"] = spelled_formats(plan.of("lm_head"))
    return chosen


def write_plan(plan: FormatPlan, shape: ModelShape, path: str | Path) -> Path:
    """Write a plan's file; returns the path, raises `UnsupportedError` as `applied_plan` and `DefinitionError` when it
    cannot.
    """
    document = {"schema": 1, "model": shape.name, "label": plan.label, "kv": plan.kv, "plan": applied_plan(plan, shape)}
    return write_definition_text(user_path(path), json.dumps(document, indent=2) + "\n", "plan file")
