"""The models that describe answers in the OpenAPI document, derived from the dataclasses that hold them.

Only the document is made from them: an answer itself is made by `command_json`, which takes a tenth of the time. Tests
check that each answer is one of its model, strictly.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import is_dataclass, make_dataclass
from functools import cache, cached_property
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from fastapi.responses import Response
from pydantic import ConfigDict, Field, TypeAdapter, create_model
from pydantic_core import to_json

from reports.api.base_models import Answer, Document, FindingBody
from reports.present.encoder import Text, answer_keys, command_json, is_pairs
from roofline_model.core.finding import Finding

_NONE = re.compile(r"\bNone\b")


def answer_bytes(answer: Any, text: Text | None = None, form: type | None = None) -> bytes:
    """Return an answer as the JSON of a response. `text` cleans every string; `form`: how its type is printed here."""
    return to_json(command_json(answer, text, form), inf_nan_mode="null")


def json_response(content: bytes) -> Response:
    """Return bytes of JSON as a response."""
    return Response(content, media_type="application/json")


@cache
def document_model(cls: type) -> type[Answer]:
    """Return the model of a whole document: the keys of an answer and `schema_version`."""
    model: type[Answer] = create_model(
        cls.__name__, __base__=(answer_model(cls), Document), __doc__=inspect.getdoc(cls)
    )
    return model


@cache
def answer_model(cls: type) -> type[Answer]:
    """Return the model of a dataclass: its name, its docstring, a field for each key with the dataclass's own words."""
    described: dict[str, Any] = {
        key: (_described(part.hint), Field(description=part.about or _field_words(part.owner).get(part.name, "")))
        for key, part in answer_keys(cls).items()
    }
    model: type[Answer] = create_model(cls.__name__, __base__=Answer, __doc__=inspect.getdoc(cls), **described)
    return model


def _described(hint: Any) -> Any:
    """Return the type of a key for a type of an answer."""
    if hint is Finding:
        return FindingBody
    if is_dataclass(hint) or hasattr(hint, "JSON_OF"):
        return answer_model(hint)  # type: ignore[arg-type]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return Union[tuple(None if each is NoneType else _described(each) for each in arguments)]  # noqa: UP007
    if is_pairs(hint):
        return dict[str, _described(get_args(arguments[0])[1])]  # type: ignore[misc]
    if origin is tuple:
        return list[_described(arguments[0])]  # type: ignore[misc]
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return dict[str, _described(arguments[1])]  # type: ignore[misc]
    return hint


@cache
def _field_words(cls: type) -> dict[str, str]:
    """Return the docstrings of the fields and derived properties of a dataclass, its bases' included."""
    words: dict[str, str] = {}
    for base in reversed(cls.__mro__[:-1]):
        # Only the names matter here: what nests deeper has its own turn.
        names = [(name, Any) for name in vars(base).get("__annotations__", ())]
        config = ConfigDict(use_attribute_docstrings=True)
        bare = make_dataclass(
            base.__name__, names, namespace={"__qualname__": base.__qualname__, "__pydantic_config__": config}
        )
        bare.__module__ = base.__module__
        properties = TypeAdapter(bare).json_schema().get("properties", {})
        derived = {
            name: value.__doc__ or ""
            for name, value in vars(base).items()
            if isinstance(value, property | cached_property)
        }
        described = {name: field.get("description", "") for name, field in properties.items()}
        words |= {name: " ".join(_NONE.sub("null", text).split()) for name, text in (derived | described).items()}
    return words
