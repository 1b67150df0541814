"""Plans of `--roofline-plan`: read strictly, and their keys held against what the model is known to have. No torch
here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from bench_cases.models.reference import SEEDED_LLAMAS, ModelReference
from bench_cases.quantization.plans.precisions import parse_precision
from roofline_model.core.definition_text import parse_json_definition, read_definition_text, shown
from roofline_model.core.errors import DefinitionError, InvalidValueError, RooflineError
from roofline_model.models.model_shapes import ModelShape
from roofline_model.models.strategies.module_names import ROLES, layer_group, layer_role, operators_of_module

REGEX_PREFIX = "re:"
_PLAN = '{"ffn": "INT4", "lm_head": "INT8"}'
_LLAMA_MODULES = (
    "self_attn.q_proj",
    "self_attn.k_proj",
    "self_attn.v_proj",
    "self_attn.o_proj",
    "mlp.gate_proj",
    "mlp.up_proj",
    "mlp.down_proj",
)


def read_plan(path: Path, model: ModelReference) -> tuple[tuple[str, str], ...]:
    """Return key → precision of a plan file, for one model.

    Raises `DefinitionError` naming the file and the key: no JSON object, a key given twice, a precision nobody knows,
    and, where the model's shape is known, a key that none of its layers can have. What only its modules tell is told
    when they are there.
    """
    where = f"--roofline-plan {path.name}"
    text = read_definition_text(path, where, fix=f"give a JSON file such as {_PLAN}")
    try:
        data = parse_json_definition(text, "a plan")
    except ValueError as error:
        raise DefinitionError(f"{where} cannot be read as JSON: {str(error)[:120]}") from None
    plan = data.get("plan", data) if isinstance(data, Mapping) else None
    if not isinstance(plan, Mapping) or not plan or not all(isinstance(value, str) for value in plan.values()):
        raise DefinitionError(f"{where} must be a JSON object of layer, pattern or role to precision, e.g. {_PLAN}")
    for key, precision in plan.items():
        try:
            parse_precision(precision)
        except RooflineError as error:
            raise DefinitionError(f"{where}, {shown(key)}: {error}") from None
        try:
            _check_key(key, model)
        except InvalidValueError as error:
            raise DefinitionError(
                f"{where}: {shown(key)} matches no layer of {model.name}: {error}. Keys are full names, groups "
                f"(layers.3.qkv_proj), re:PATTERN, {', '.join(ROLES)} or *"
            ) from None
    return tuple(plan.items())


def plan_name(path: Path) -> str:
    """Return the name of a plan in results: the file's name in plain letters."""
    return "".join(ch if ch.isalnum() and ch.isascii() else "_" for ch in path.stem)[:40] or "plan"


def _check_key(key: str, model: ModelReference) -> None:
    """Raise `InvalidValueError` where no Linear of the model can match a key."""
    shape = model.shape
    if key.startswith(REGEX_PREFIX):
        try:
            pattern = re.compile(key[len(REGEX_PREFIX) :])
        except (re.error, RecursionError, OverflowError) as error:
            raise InvalidValueError(f"not a regular expression ({error})") from None
        if model.text in SEEDED_LLAMAS and shape is not None and not any(map(pattern.fullmatch, _llama_names(shape))):
            raise InvalidValueError("the pattern must match a whole name, such as model.layers.0.mlp.up_proj")
        return
    if shape is None or key == "*":
        return
    if model.text in SEEDED_LLAMAS:
        names = _llama_names(shape)
        is_accepted = key in {*names, *(layer_role(name) for name in names), *(layer_group(name) for name in names)}
    elif key in ROLES:
        if key == "router" and shape.experts is None:
            raise InvalidValueError("it has no router")
        return
    else:
        operators, layer = operators_of_module(key)
        if layer is not None and layer >= shape.layer_count:
            raise InvalidValueError(f"it has layers 0 to {shape.layer_count - 1}")
        # A name without a dot that is no role is hardly a decoder's module; others may be called as nobody here knows.
        is_accepted = bool(operators) or "." in key
    if not is_accepted:
        raise InvalidValueError("it has no such name, group or role")


def _llama_names(shape: ModelShape) -> list[str]:
    """Return the full names of the Linears of transformers' Llama."""
    layers = [f"model.layers.{layer}.{module}" for layer in range(shape.layer_count) for module in _LLAMA_MODULES]
    return [*layers, "lm_head"]
