"""Which model a name means: a shipped one (models/catalog), a config.json on disk, or an id in the local hub cache."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import fields, replace
from functools import cache
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Any

from roofline_model.core.definition_text import user_path
from roofline_model.core.errors import DefinitionError, InvalidValueError, UnknownNameError
from roofline_model.models.hf.config import cached_config, read_config
from roofline_model.models.model_shapes import Experts, LatentAttention, ModelShape

MAX_NAME_CHARS = 200
"""Longer texts are no name of a shipped model; they may be a path."""


@cache
def _registry() -> Mapping[str, ModelShape]:
    """Read every model file. The keys of all files together are unique (tested)."""
    folder = resources.files("roofline_model.models").joinpath("catalog")
    shapes: dict[str, ModelShape] = {}
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.name.endswith(".toml"):
            for name, table in tomllib.loads(entry.read_text(encoding="utf-8")).items():
                if name in shapes:
                    raise DefinitionError(f"models/{entry.name}: model {name!r} is defined twice; rename one")
                shapes[name] = shape_from_table(name, table, f"models/{entry.name}")
    return MappingProxyType(shapes)


@cache
def _names() -> Mapping[str, ModelShape]:
    """Return every name, squeezed: keys, hub ids, and hub ids without their owner."""
    names: dict[str, ModelShape] = {}
    for key, shape in _registry().items():
        names[_squeezed(key)] = shape
    for shape in _registry().values():
        for checkpoint in shape.checkpoints:
            names.setdefault(_squeezed(checkpoint), shape)
            names.setdefault(_squeezed(checkpoint.rpartition("/")[2]), shape)
    return MappingProxyType(names)


def _squeezed(name: str) -> str:
    """Return a name without what people write differently: case, separators, Meta's name, and that a model was tuned.

    "llama3.1:8b", "Meta-Llama-3.1-8B-Instruct" and "llama-3.1-8b" are one shape. A suffix that says another number
    format stays: it is another checkpoint.
    """
    owner, slash, model = name.strip().lower().rpartition("/")
    pieces = [
        piece for piece in re.split(r"[-_: ]+", model) if piece not in ("instruct", "chat", "hf", "it", "base", "meta")
    ]
    return owner + slash + "".join(pieces)


def is_called(name: str, key: str) -> bool:
    """Return whether a name means the model of a key, and no other one of its shape; an empty one means it.

    >>> [is_called(name, "llama-3.1-70b") for name in ("meta-llama/Meta-Llama-3.1-70B-Instruct", "llama-3.3-70b")]
    [True, False]
    """
    return not name or _squeezed(name.rpartition("/")[2]) == _squeezed(key)


def list_models() -> list[ModelShape]:
    """Return every shipped model, sorted by name."""
    return [shape for _, shape in sorted(_registry().items())]


def shipped_model(name: str) -> ModelShape | None:
    """Return the shipped model of a name or hub id, None for any other; no path and no cache is looked at."""
    return _names().get(_squeezed(name)) if len(name) < MAX_NAME_CHARS else None


def is_makers_checkpoint(shape: ModelShape) -> bool:
    """Return whether a shipped model has this shape and these stored formats: its maker ships nothing wider."""
    return any(_unnamed(shape) == _unnamed(shipped) for shipped in _registry().values())


def _unnamed(shape: ModelShape) -> ModelShape:
    return replace(shape, name="", source="", checkpoints=())


def get_model(name: str | Path | ModelShape) -> ModelShape:
    """Return the model called `name`.

    A shipped name or hub id (any case), the path of a config.json or of a folder that holds one, or the id of a
    checkpoint in the local hub cache. A `ModelShape` is returned unchanged. Raises `UnknownNameError` with the nearest
    names, or what `hf_config` raises for a file it cannot read. Nothing is downloaded.
    """
    if isinstance(name, ModelShape):
        return name
    text = str(name).strip()
    if not text:  # as a path it would be the folder one stands in
        raise InvalidValueError(
            "the name of the model is empty; give one of `roofline predict model --help`, or the path of a config.json"
        )
    shape = shipped_model(text)
    if shape is not None:
        return shape

    path = config_path(name)
    if path is not None:
        return read_config(path, name="" if _is_path(name) else text)
    raise UnknownNameError(
        "model",
        text,
        _registry(),
        aliases=(checkpoint for shape in _registry().values() for checkpoint in shape.checkpoints),
        fix=(
            "Or give the path of a config.json; an id works once its config.json is in the local hub cache (nothing is "
            "downloaded here)."
        ),
    )


def config_path(name: str | Path) -> Path | None:
    """Return the config.json that a path or an id of the local hub cache means, None for any other name; a path that
    is spelled as one need not exist.
    """
    if not _is_path(name):
        return cached_config(str(name).strip())
    path = user_path(str(name).strip())
    return path / "config.json" if path.is_dir() else path


def _is_path(name: str | Path) -> bool:
    text = str(name).strip()
    return isinstance(name, Path) or text.endswith(".json") or _exists(user_path(text))


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a name too long for the file system, or with a null byte
        return False


def shape_from_table(name: str, table: Any, where: str) -> ModelShape:
    """Build a shape from a TOML table; raises `DefinitionError` naming file, model and field."""
    if not isinstance(table, dict):
        raise DefinitionError(f"{where}: [{name}] must be a table with layer_count, hidden_size, …")
    values = dict(table)
    for part, kind in (("experts", Experts), ("latent", LatentAttention)):
        if part in values:
            values[part] = _part(kind, values[part], f"{where}, [{name}] {part}")
    for name_of_list in ("checkpoints", "format_exceptions"):
        values[name_of_list] = tuple(values.get(name_of_list, ()))
    shape: ModelShape = _part(ModelShape, {"name": name, **values}, f"{where}, [{name}]")
    return shape


def _part(kind: Any, values: Any, where: str) -> Any:
    names = {field.name for field in fields(kind)}
    if not isinstance(values, dict):
        raise DefinitionError(f"{where} must be a table. Known fields: {', '.join(sorted(names))}.")
    for field_name in values:
        if field_name not in names:
            raise DefinitionError(f"{where}: unknown field {field_name!r}. Known: {', '.join(sorted(names))}.")
    try:
        return kind(**values)
    except TypeError:
        absent = sorted(name for name in _required(kind) if name not in values)
        raise DefinitionError(f"{where}: field {', '.join(absent)} is missing") from None
    except InvalidValueError as error:
        raise DefinitionError(f"{where}: {error}") from None


def _required(kind: Any) -> list[str]:
    from dataclasses import MISSING

    return [field.name for field in fields(kind) if field.default is MISSING and field.default_factory is MISSING]
