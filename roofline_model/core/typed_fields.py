"""Plain values of a file, read as a frozen dataclass and checked field by field against its annotations.

Annotations are str, int, float, bool, a `Literal`, a tuple, a mapping, another dataclass, or one of these or None. What
no annotation says a dataclass checks itself, when it is made. One that has a `from_dict` of its own is read by that.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from roofline_model.core.definition_text import shown
from roofline_model.core.errors import DefinitionError, OtherVersionError, RooflineError

T = TypeVar("T")
Limits = tuple[float, float]
"""Least and most of any number."""
FINITE: Limits = (-sys.float_info.max, sys.float_info.max)


def read_as(kind: type[T], data: Any, where: str, limits: Limits = FINITE) -> T:
    """Return a dataclass from its table.

    Raises `OtherVersionError` where a field is missing or unknown, and `DefinitionError` for the first field of another
    value; both begin with `where` and the place below it. `limits` are of all numbers.
    """
    if not isinstance(data, Mapping):
        raise refused(where.rstrip(), data, "a table")
    hints, required = _fields(kind)  # type: ignore[arg-type]
    names = ", ".join(sorted(hints))
    for name in data:
        if name not in hints:
            raise OtherVersionError(f"{where.rstrip()} has an unknown field {shown(name)}. Known: {names}.")
    for name in required:
        if name not in data:
            raise OtherVersionError(f"{below(where, name)} is missing. Fields: {names}.")
    values = {name: value_as(hints[name], item, below(where, name), limits) for name, item in data.items()}
    try:
        return kind(**values)
    except RooflineError as error:
        raise DefinitionError(f"{where.rstrip(' :')}: {error}") from None


def below(where: str, name: object) -> str:
    """Return the place of a field: behind a dot, or where its table is named with a space behind it."""
    text = str(name)[:40]
    printable = text if text.isprintable() else repr(text)
    return f"{where}{printable}" if where.endswith(" ") else f"{where}.{printable}"


@cache
def _fields(kind: type[Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the types of the fields that are given, and the names of those that must be."""
    own = [each for each in fields(kind) if each.init]
    required = [each.name for each in own if each.default is MISSING and each.default_factory is MISSING]
    hints = get_type_hints(kind)
    return {each.name: hints[each.name] for each in own}, tuple(required)


def value_as(hint: Any, data: Any, where: str, limits: Limits = FINITE) -> Any:
    """Return one value of an annotation's type; raises as `read_as` does."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        if NoneType in arguments:
            return None if data is None else value_as(arguments[0], data, where, limits)
        if isinstance(data, arguments):
            return data
        raise refused(where, data, "text, a number, true or false")
    if hint is Any or (is_dataclass(hint) and isinstance(data, hint)):  # type: ignore[arg-type]
        return data
    if is_dataclass(hint):
        own = getattr(hint, "from_dict", None)
        return read_as(hint, data, where, limits) if own is None else own(data, where)  # type: ignore[arg-type]
    if origin is tuple:
        if not isinstance(data, list | tuple):
            raise refused(where, data, f"a list{' of tables' * is_dataclass(arguments[0])}")
        if Ellipsis not in arguments and len(data) != len(arguments):
            raise refused(where, data, f"a list of {len(arguments)}")
        kinds = (arguments[0],) * len(data) if Ellipsis in arguments else arguments
        pairs = enumerate(zip(kinds, data, strict=True))
        return tuple(value_as(own, item, f"{where}[{number}]", limits) for number, (own, item) in pairs)
    if origin is Literal:
        if data not in arguments:
            raise refused(where, data, f"one of {', '.join(arguments)}")
        return data
    if isinstance(origin, type) and issubclass(origin, Mapping):
        if not isinstance(data, Mapping):
            raise refused(where, data, "a table")
        return {key: value_as(arguments[1], item, below(where, key), limits) for key, item in data.items()}
    return _scalar(hint, data, where, limits)


def _scalar(kind: type[Any], data: Any, where: str, limits: Limits) -> Any:
    if kind in (float, int):
        if isinstance(data, bool) or not isinstance(data, int | kind) or not limits[0] <= data <= limits[1]:
            between = "" if limits == FINITE else f" from {limits[0]:g} to {limits[1]:g}"
            raise refused(where, data, f"a {'whole ' * (kind is int)}number{between}")
        return data
    if not isinstance(data, kind):
        raise refused(where, data, "text" if kind is str else "true or false")
    return data


def refused(where: str, data: Any, wanted: str) -> DefinitionError:
    """Return the error of a value that is none of what is wanted."""
    return DefinitionError(f"{where} is {shown(data)}, not {wanted}")
