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
from pathlib import Path
from typing import Any

from roofline_model.core.definition_text import (
    only_known_fields,
    parse_definition,
    parse_json_definition,
    read_definition_text,
    shown,
    user_path,
    write_definition_text,
)
from roofline_model.core.errors import DefinitionError, InvalidValueError, RooflineError
from roofline_model.core.toml_text import toml_text
from roofline_model.models.strategies.config import MixedPrecisionConfig
from roofline_model.models.strategies.layer_precisions import LayerPrecisions
from roofline_model.models.strategies.strategies import get_strategy

SCHEMA = 1
_FIELDS = {
    "schema",
    "name",
    "description",
    "default_activation_precision",
    "kv_cache_precision",
    "layer_count",
    "operator_precisions",
    "layers",
}
_LAYER_FIELDS = {"first", "last", "operator_precisions"}
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
    if not isinstance(data, dict):
        raise DefinitionError(f"{where}: expected a table of fields, got {shown(data)}")
    return _strategy(data, where)


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


def _strategy(data: Mapping[str, Any], where: str) -> MixedPrecisionConfig:
    only_known_fields(where, "the top level", data, _FIELDS)
    if data.get("schema") != SCHEMA or isinstance(data.get("schema"), bool):
        raise DefinitionError(
            f"{where}: schema must be {SCHEMA}, got {shown(data.get('schema'))} (a newer file needs a newer "
            "roofline-bench)"
        )
    for name in ("name", "description", "default_activation_precision", "kv_cache_precision"):
        if name in data and not isinstance(data[name], str):
            raise DefinitionError(f"{where}: {name} must be text, got {shown(data[name])}")
    if "name" not in data or "operator_precisions" not in data:
        missing = "name" if "name" not in data else "operator_precisions"
        raise DefinitionError(f"{where}: {missing} is missing")
    layers = data.get("layers", [])
    if not isinstance(layers, list) or not all(isinstance(layer, dict) for layer in layers):
        raise DefinitionError(f"{where}: layers must be written as [[layers]] tables, got {shown(layers)}")
    precisions = _precisions(where, "operator_precisions", data["operator_precisions"])
    ranges = tuple(_layer(where, f"layers {i + 1}", table) for i, table in enumerate(layers))
    optional = {
        name: data[name]
        for name in ("description", "default_activation_precision", "kv_cache_precision", "layer_count")
        if name in data
    }
    try:
        return MixedPrecisionConfig(name=data["name"], operator_precisions=precisions, layers=ranges, **optional)
    except RooflineError as error:
        raise DefinitionError(f"{where}: {error}") from None


def _layer(where: str, place: str, table: Mapping[str, Any]) -> LayerPrecisions:
    only_known_fields(where, place, table, _LAYER_FIELDS)
    for name in sorted(_LAYER_FIELDS):
        if name not in table:
            raise DefinitionError(f"{where}: {place}: {name} is missing")
    precisions = _precisions(where, f"{place} operator_precisions", table["operator_precisions"])
    try:
        return LayerPrecisions(table["first"], table["last"], precisions)
    except RooflineError as error:
        raise DefinitionError(f"{where}: {place}: {error}") from None


def _precisions(where: str, place: str, table: Any) -> dict[str, str]:
    if not isinstance(table, dict):
        raise DefinitionError(f"{where}: {place} must be a table of operator = format, got {shown(table)}")
    for name, value in table.items():
        if not isinstance(value, str):
            raise DefinitionError(f"{where}: {place}: {shown(name)} must be the name of a format, got {shown(value)}")
    return table


def _kind(file: Path) -> str:
    if file.suffix.lower() not in _SUFFIXES:
        raise InvalidValueError(f"a strategy file ends in .toml or .json, got {shown(file.name)}")
    return file.suffix.lower().removeprefix(".")
