"""Record types as plain JSON values and back. What comes back is checked field by field; nothing is repaired.

Floats that JSON cannot write are the texts NaN, Infinity and -Infinity in fields, and tagged inside free-form values as
`{"$float": "NaN"}`: bare NaN is not JSON, and PostgreSQL, jq and browsers refuse it. A user's own object with the
single key `$float` is wrapped once more, so that nothing is ambiguous. A field that a file lacks takes its default.
"""

from __future__ import annotations

import json
import math
import sys
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache, partial
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from roofline_model.core.errors import RooflineError
from roofline_model.core.finding import Finding, from_stored, stored_form
from roofline_model.operators.case import Case

TAG = "$float"
MOST_WHOLE = int(sys.float_info.max)
"""Largest whole number in what has no type of its own: readers make floats of it."""
NON_FINITE: dict[str, float] = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def float_name(value: float) -> str:
    """Return the name of a float that JSON cannot write: NaN, Infinity or -Infinity."""
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def tag(value: Any) -> Any:
    """Return `value` with every non-finite float tagged; tuples become lists, as in JSON."""
    if isinstance(value, float):
        return value if math.isfinite(value) else {TAG: float_name(value)}
    if isinstance(value, Mapping):
        tagged = {key: tag(item) for key, item in value.items()}
        return {TAG: tagged} if tagged.keys() == {TAG} else tagged
    if isinstance(value, list | tuple):
        return [tag(item) for item in value]
    return value


def untag(value: Any) -> Any:
    """Return the value that `tag` encoded."""
    if isinstance(value, list):
        return [untag(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {TAG}:
        inner = value[TAG]
        if isinstance(inner, str) and inner in NON_FINITE:
            return NON_FINITE[inner]
        if isinstance(inner, dict) and inner.keys() == {TAG}:
            return {TAG: untag(inner[TAG])}
    return {key: untag(item) for key, item in value.items()}


def dumps(value: Any) -> str:
    """Return `value` as strict ASCII JSON. Raises TypeError for what JSON does not know, ValueError for a cycle."""
    # Mappings that are not dicts (a mapping proxy, say) are unknown to json: `tag` makes dicts of them.
    try:
        text = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        text = TAG
    if TAG not in text:
        return text
    try:
        return json.dumps(tag(value), allow_nan=False)
    except RecursionError:
        raise ValueError("the value contains itself or is nested too deeply") from None


def loads(text: str | bytes) -> Any:
    """Return the value that `dumps` wrote."""
    value = json.loads(text)
    marker: Any = TAG if isinstance(text, str) else TAG.encode()
    return untag(value) if marker in text else value


T = TypeVar("T")


class FormError(ValueError):
    """A value that is not what its field holds; the text begins with where it stands, e.g. `records[3].status`."""


class OtherVersionFormError(FormError):
    """Written by a version whose exports this one does not read."""


class UnclearFormError(FormError):
    """Not damaged, but readable in more than one way; the text says how to make it clear."""


def to_plain(value: Any) -> Any:
    """Return a record type as JSON values: objects, lists, text, finite numbers, booleans, null."""
    if isinstance(value, Case):
        return value.to_dict()
    if isinstance(value, Finding):
        return stored_form(value)
    if is_dataclass(value):
        return {field.name: to_plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, float):
        return value if value - value == 0 else float_name(value)
    if isinstance(value, Mapping):
        return tag(dict(value))
    if isinstance(value, tuple):
        return [to_plain(item) for item in value]
    return value


def from_plain(kind: type[T], data: Any, where: str) -> T:
    """Return the `kind` (a record type) that `to_plain` made `data` of. Raises `FormError` naming the field."""
    if kind is Case:
        return _case(data, where)  # type: ignore[return-value]
    if not isinstance(data, dict):
        raise FormError(f"{where} is {_kind_name(data)}, not an object")
    readers = _field_readers(kind)  # type: ignore[arg-type]
    unknown = data.keys() - readers.keys()
    if unknown:
        raise FormError(f"{where} has an unknown field {sorted(unknown)[0][:40]!r}")
    values = {}
    for name, (read, is_required) in readers.items():
        if name in data:
            values[name] = read(data[name], f"{where}.{name}")
        elif is_required:
            raise FormError(f"{where}.{name} is missing")
    try:
        return kind(**values)
    except RooflineError as error:
        raise FormError(f"{where}: {error}") from None


Reader = Callable[[Any, str], Any]
"""Returns the value of JSON data; raises `FormError` that begins with where it stands, which it is told."""


@cache
def _field_readers(kind: type[Any]) -> dict[str, tuple[Reader, bool]]:
    """Return the reader of each field of a record type, and whether data must have the field."""
    hints = get_type_hints(kind)
    return {
        field.name: (_reader(hints[field.name]), field.default is MISSING and field.default_factory is MISSING)
        for field in fields(kind)
    }


def _reader(hint: Any) -> Reader:
    """Return the reader of a type."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        read = _reader(next(argument for argument in arguments if argument is not type(None)))
        return lambda data, where: None if data is None else read(data, where)
    if origin is Literal:
        return partial(_choice, arguments)
    if hint == tuple[Finding, ...]:
        return _findings
    if origin is tuple:
        return partial(_tuple, arguments[0], _reader(arguments[0]))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return partial(_mapping, None if arguments[1] is Any else _reader(arguments[1]))
    return partial(from_plain if is_dataclass(hint) else _scalar, hint)


def _choice(choices: tuple[Any, ...], data: Any, where: str) -> Any:
    if data not in choices:
        raise FormError(f"{where} is {str(data)[:40]!r}, not one of {', '.join(map(str, choices))}")
    return data


def _findings(data: Any, where: str) -> tuple[Finding, ...]:
    try:
        findings = read_findings(data)
    except ValueError as error:
        raise FormError(f"{where} is {error}") from None
    for item in findings:
        for name, value in item.values:
            _check_number(value, f"{where}.{item.code}.{name}"[:200])
    return findings


def read_findings(items: Any) -> tuple[Finding, ...]:
    """Return the findings of a stored list of `stored_form`s. Raises `ValueError` for anything else."""
    if type(items) is not list:
        raise ValueError("not a list of findings")
    for form in items:
        is_form = isinstance(form, dict) and form.keys() == {"code", "subject", "values"}
        if not is_form or not isinstance(form["code"], str) or not isinstance(form["subject"], str):
            raise ValueError("not a list of findings")
        if not isinstance(form["values"], dict) or not all(map(_is_value, form["values"].values())):
            raise ValueError("not a list of findings: its values are no numbers and texts")
    return tuple(map(from_stored, items))


def _is_value(value: Any) -> bool:
    if isinstance(value, list):
        return all(isinstance(item, str) for item in value)
    return isinstance(value, str | int | float)


def _check_number(value: Any, where: str) -> None:
    """Raise `FormError` for a number that no figure can be: not finite, or a whole one that no float can say."""
    if isinstance(value, list | tuple):
        for item in value:
            _check_number(item, where)
    elif isinstance(value, float) and not math.isfinite(value):
        raise FormError(f"{where} is {float_name(value)}, not a finite number")
    elif isinstance(value, int) and abs(value) > MOST_WHOLE:
        raise FormError(f"{where} is a whole number of {len(str(value))} digits, more than a float holds")


def _mapping(read: Reader | None, data: Any, where: str) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise FormError(f"{where} is {_kind_name(data)}, not an object")
    mapping = untag(data)
    if not isinstance(mapping, dict):
        raise FormError(f"{where} is a number, not an object")
    if read is None:
        _check_whole(mapping, where)
        return mapping
    return {key: read(item, f"{where}.{key[:40]}") for key, item in mapping.items()}


def _check_whole(value: Any, where: str) -> None:
    """Raise `FormError` for a whole number, at any depth, that no float can say."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            _check_whole(item, f"{where}.{key[:40]}"[:200])
    elif isinstance(value, list):
        for item in value:
            _check_whole(item, where)
    elif isinstance(value, int):
        _check_number(value, where)


def _tuple(hint: Any, read: Reader, data: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(data, list):
        raise FormError(f"{where} is {_kind_name(data)}, not a list")
    if hint is float and all(type(item) is float for item in data):
        return tuple(data)  # samples: thousands of them, nearly always plain
    return tuple([read(item, f"{where}[{number}]") for number, item in enumerate(data)])


def _scalar(hint: Any, data: Any, where: str) -> Any:
    if hint is float:
        if isinstance(data, str) and data in NON_FINITE:
            return NON_FINITE[data]
        if isinstance(data, int | float) and not isinstance(data, bool):
            try:
                return float(data)
            except OverflowError:
                raise FormError(f"{where} is too large for a 64-bit float") from None
    elif hint is int:
        if isinstance(data, int) and not isinstance(data, bool):
            return data
    elif hint in (str, bool) and isinstance(data, hint):
        return data
    wanted = {float: "a number", int: "a whole number", str: "text", bool: "true or false"}[hint]
    raise FormError(f"{where} is {_kind_name(data)}, not {wanted}")


def _case(data: Any, where: str) -> Case:
    if not isinstance(data, dict):
        raise FormError(f"{where} is {_kind_name(data)}, not an object")
    unknown = data.keys() - {"op", "shape", "formats", "kernel", "cache", "mode"}
    if unknown:
        raise FormError(f"{where} has an unknown field {sorted(unknown)[0][:40]!r}")
    for name in ("op", "kernel", "cache", "mode"):
        _scalar(str, data.get(name), f"{where}.{name}")
    for name, hint in (("shape", int), ("formats", str)):
        if not isinstance(data.get(name), dict):
            raise FormError(f"{where}.{name} is {_kind_name(data.get(name))}, not an object")
        for key, item in data[name].items():
            _scalar(hint, item, f"{where}.{name}.{key[:40]}")
    try:
        return Case.from_dict(data)
    except RooflineError as error:
        raise FormError(f"{where}: {error}") from None


def _kind_name(data: Any) -> str:
    if data is None:
        return "missing or null"
    names = {bool: "true or false", int: "a number", float: "a number", str: "text", list: "a list", dict: "an object"}
    return names.get(type(data), type(data).__name__)
