"""The models that describe answers in the OpenAPI document, derived from the dataclasses that hold them.

Only the document is made from them: an answer itself is made by `answer_json`, which takes a tenth of the time. Tests
check that each answer is one of its model, strictly.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import re
import sys
import threading
from collections.abc import Mapping
from dataclasses import is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from pydantic import Field, create_model
from pydantic_core import to_json

from reports.answers.answer_json import Text, answer_json, answer_keys, is_pairs
from reports.api.base_models import Answer, FindingBody
from roofline_model.core.finding import Finding


def answer_bytes(answer: Any, text: Text | None = None) -> bytes:
    """Return an answer as the JSON of a response. `text` cleans every string."""
    return to_json(answer_json(answer, text), inf_nan_mode="null")


@cache
def answer_model(cls: type) -> type[Answer]:
    """Return the model of a dataclass: its name, its docstring, a field for each key with the dataclass's own words."""
    described: dict[str, Any] = {
        key: (_described(part.hint), Field(description=_field_words(part.owner).get(part.name, "")))
        for key, part in answer_keys(cls).items()
    }
    model: type[Answer] = create_model(cls.__name__, __base__=Answer, __doc__=inspect.getdoc(cls), **described)
    return model


def _described(hint: Any) -> Any:
    """Return the type of a key for a type of an answer."""
    if hint is Finding:
        return FindingBody
    if is_dataclass(hint):
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
    """Return what the docstrings under the fields and derived properties of a dataclass say, its bases' included."""
    words: dict[str, str] = {}
    for base in reversed(cls.__mro__[:-1]):
        body = _class_body(base)
        for statement, after in zip(body, [*body[1:], None], strict=True):
            if isinstance(statement, ast.FunctionDef):
                words[statement.name] = _one_line(ast.get_docstring(statement) or "")
            elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                words[statement.target.id] = _docstring(after)
    return words


_PARSING = threading.Lock()
"""CPython 3.11 counts the depth of a parse per interpreter: two threads that parse at once end in a `SystemError`."""
PARSE_ATTEMPTS = 5
"""Others in the process parse without our lock: an import hook that rewrites what it imports."""


_TOP_LEVEL = re.compile(r"^(?=[\w@#])", re.MULTILINE)
_CLASS = re.compile(r"class (\w+)")


@cache
def _class_sources(module: str) -> dict[str, str]:
    """Return the lines of the classes at the top of a module, by name."""
    file = sys.modules[module].__file__
    source = "".join(linecache.getlines(str(file), vars(sys.modules[module])))
    return {match[1]: match.string for match in map(_CLASS.match, _TOP_LEVEL.split(source)) if match is not None}


@cache
def _class_body(cls: type) -> list[ast.stmt]:
    """Return the statements of a class at the top of its module; no other lines are parsed."""
    source = _class_sources(cls.__module__)[cls.__name__]
    for attempt in range(PARSE_ATTEMPTS):
        try:
            with _PARSING:
                definition = ast.parse(source).body[0]
            break
        except SystemError:
            if attempt == PARSE_ATTEMPTS - 1:
                raise
    assert isinstance(definition, ast.ClassDef)
    return definition.body


def _docstring(statement: ast.stmt | None) -> str:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return _one_line(str(statement.value.value))
    return ""


def _one_line(text: str) -> str:
    return " ".join(text.split())
