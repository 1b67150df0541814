"""Whether what a database gave back has the types that were stored: SQLite keeps any value in any column."""

from __future__ import annotations

import types
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

Values = dict[str, Any]


def checked(kind: type[Any], values: Values) -> Values:
    """Return the values of fields of `kind` as they are. Raises `ValueError` naming the first of another type.

    A float field may hold None only where it may be unknown, an object must be an object; ranges are not looked at.
    """
    allowed = _allowed(kind)  # type: ignore[arg-type]
    for name, value in values.items():
        expected, choices = allowed[name]
        if type(value) not in expected:
            raise ValueError(f"{name} is {_named(value)}")
        if choices and value not in choices:
            raise ValueError(f"{name} is {str(value)[:40]!r}, not one of {', '.join(choices)}")
    return values


def texts(name: str, value: Any) -> tuple[str, ...]:
    """Return a stored list of texts as a tuple. Raises `ValueError` for anything else."""
    if type(value) is not list or not all(type(item) is str for item in value):
        raise ValueError(f"{name} is {_named(value)}, not a list of texts")
    return tuple(value)


@cache
def _allowed(kind: type[Any]) -> dict[str, tuple[frozenset[type], tuple[str, ...]]]:
    return {name: _of_hint(hint) for name, hint in get_type_hints(kind).items()}


def _of_hint(hint: Any) -> tuple[frozenset[type], tuple[str, ...]]:
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        found = [_of_hint(argument) for argument in get_args(hint)]
        return frozenset().union(*(one for one, _ in found)), ()
    if origin is Literal:
        return frozenset({str}), tuple(get_args(hint))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return frozenset({dict}), ()
    return frozenset({origin or hint}), ()


def _named(value: Any) -> str:
    names = {"NoneType": "missing", "str": "text", "dict": "an object", "list": "a list", "bytes": "bytes"}
    return names.get(type(value).__name__, f"the {type(value).__name__} {str(value)[:40]}")
