"""Strategies as TOML or JSON files: read strictly, written so that they read back equal.

    schema = 1
    name = "fp8-attention-fp4-ffn"
    description = "…"
    default_activation_precision = "FP16"
    kv_cache_precision = "NVFP4"
    layer_count = 32                     # needed when layers vary, else the strategy fits any depth

    [operator_precisions]                # what is not named stays in 16 bit
    q_proj = "FP8_E4M3"
    ffn_gate = "NVFP4.FP8_E4M3"          # WEIGHT.ACTIVATION

    [[layers]]
    first = 0
    last = 3
    operator_precisions = { ffn_gate = "FP8_E4M3" }

JSON has the same fields, `layers` as a list. A file is refused with its name, the field and the reason.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roofline_model.core.definition_text import (
    parse_definition,
    parse_json_definition,
    read_definition_text,
    shown,
    user_path,
    write_definition_text,
)
from roofline_model.core.errors import DefinitionError, InvalidValueError, RooflineError
from roofline_model.core.toml_text import toml_text
from roofline_model.core.typed_fields import read_as
from roofline_model.models.strategies.config import MixedPrecisionConfig
from roofline_model.models.strategies.layer_precisions import LayerPrecisions
from roofline_model.models.strategies.strategies import get_strategy

SCHEMA = 1
_SUFFIXES = (".toml", ".json")


def find_strategy(name: str | Path | MixedPrecisionConfig, *, num_layers: int | None = None) -> MixedPrecisionConfig:
    """Return a strategy by name, or from the file whose path is given; a `MixedPrecisionConfig` is returned unchanged.

    `num_layers` is the depth of the model it is for, see `get_strategy`. Text with a slash, or that ends in .toml or
    .json, is a path. Raises `UnknownNameError` or `DefinitionError`.
    """
    if isinstance(name, MixedPrecisionConfig):
        return name
    text = str(name).strip()
    if isinstance(name, Path) or "/" in text or text.lower().endswith(_SUFFIXES):
        return read_strategy(text)
    return get_strategy(text, num_layers=num_layers)


def read_strategy(path: str | Path) -> MixedPrecisionConfig:
    """Return the strategy of a TOML or JSON file, by its suffix; raises `DefinitionError` naming the field."""
    file = user_path(path)
    kind = _kind(file)
    text = read_definition_text(
        file, "strategy file", fix="`write_strategy(get_strategy('nvfp4_blackwell'), PATH)` writes one to start from"
    )
    return read_strategy_text(text, kind, str(file))


def read_strategy_text(text: str, kind: str = "toml", where: str = "strategy") -> MixedPrecisionConfig:
    """Parse and check the text of a strategy; `kind` is toml or json, `where` names it in errors."""
    try:
        data = parse_definition(text) if kind == "toml" else parse_json_definition(text, "a strategy")
    except ValueError as error:
        raise DefinitionError(f"{where}: not valid {kind.upper()}: {error}") from None
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        given = shown(data.get("schema") if isinstance(data, dict) else data)
        raise DefinitionError(
            f"{where}: schema must be {SCHEMA}, got {given} (a newer file needs a newer roofline-bench)"
        )
    table = read_as(_StrategyTable, data, f"{where}: ")
    try:
        return MixedPrecisionConfig(
            table.name,
            table.description,
            table.operator_precisions,
            table.default_activation_precision,
            table.kv_cache_precision,
            tuple(LayerPrecisions(each.first, each.last, each.operator_precisions) for each in table.layers),
            table.layer_count,
        )
    except RooflineError as error:
        raise DefinitionError(f"{where}: {error}") from None


@dataclass(frozen=True, slots=True)
class _LayerTable:
    first: int
    last: int
    operator_precisions: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _StrategyTable:
    schema: int
    name: str
    operator_precisions: Mapping[str, str]
    description: str = ""
    default_activation_precision: str = "FP16"
    kv_cache_precision: str | None = None
    layers: tuple[_LayerTable, ...] = ()
    layer_count: int | None = None


def write_strategy(config: MixedPrecisionConfig, path: str | Path) -> Path:
    """Write a strategy to a .toml or .json file that `read_strategy` reads back equal; returns the path.

    The file is written beside and moved into place, so that a failure leaves an older one as it was. Raises
    `DefinitionError` when it cannot be written.
    """
    file = user_path(path)
    return write_definition_text(file, strategy_text(config, _kind(file)), "strategy file")


def strategy_text(config: MixedPrecisionConfig, kind: str = "toml") -> str:
    """Return the text of a strategy file; claims of the named strategies are not part of it."""
    fields = strategy_fields(config)
    if kind == "json":
        return json.dumps(fields, indent=2, ensure_ascii=False) + "\n"
    return toml_text(fields)


def strategy_fields(config: MixedPrecisionConfig) -> dict[str, Any]:
    """Return the fields of a strategy file as plain values."""
    fields: dict[str, Any] = {"schema": SCHEMA, "name": config.name, "description": config.description}
    fields["default_activation_precision"] = config.default_activation_precision
    fields["kv_cache_precision"] = config.kv_cache_precision
    if config.layer_count is not None:
        fields["layer_count"] = config.layer_count
    fields["operator_precisions"] = dict(config.operator_precisions)
    if config.layers:
        fields["layers"] = [
            {
                "first": layer.first_layer_index,
                "last": layer.last_layer_index,
                "operator_precisions": dict(layer.operator_precisions),
            }
            for layer in config.layers
        ]
    return fields


def _kind(file: Path) -> str:
    if file.suffix.lower() not in _SUFFIXES:
        raise InvalidValueError(f"a strategy file ends in .toml or .json, got {shown(file.name)}")
    return file.suffix.lower().removeprefix(".")
