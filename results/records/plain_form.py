"""Record types as plain JSON values and back. What comes back is checked field by field; nothing is repaired.

Floats that JSON cannot write are the texts NaN, Infinity and -Infinity in fields, and tagged inside free-form values as
`{"$float": "NaN"}`: bare NaN is not JSON, and PostgreSQL, jq and browsers refuse it. A user's own object with the
single key `$float` is wrapped once more, so that nothing is ambiguous. A field that a file lacks takes its default.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, NoReturn, TypeVar

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


def from_plain(kind: type[T], data: Any, where: str, *, with_limits: bool = False) -> T:
    """Return the `kind` (a record type) that `to_plain` made `data` of. Raises `FormError` naming the first field that
    is wrong.

    `with_limits`: the limits that the type declares hold, and dates come in UTC. Without them whatever has the right
    form is read.
    """
    from pydantic import ValidationError

    try:
        (value,) = _adapter(kind).validate_python([data], context=with_limits)  # type: ignore[arg-type]
    except ValidationError as error:
        _refuse(error.errors(include_url=False)[0], where)
    return value  # type: ignore[no-any-return]


def check_limits(value: Any, where: str) -> None:
    """Raise `FormError` naming the first field of a record type, or of a part of it, that an import would refuse."""
    from_plain(type(value), to_plain(value), where, with_limits=True)


@cache
def _adapter(kind: type[Any]) -> Any:
    from pydantic import ConfigDict, TypeAdapter

    return TypeAdapter(tuple[kind], config=ConfigDict(extra="forbid"))  # type: ignore[valid-type]


_WANTED = {
    "float_type": "a number",
    "int_type": "a whole number",
    "string_type": "text",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "dict_type": "an object",
    "mapping_type": "an object",
    "dataclass_type": "an object",
}
"""Kind of an error of pydantic → what the value should be."""


def _refuse(error: Any, where: str) -> NoReturn:
    """Raise `FormError` for an error of pydantic; its first step is the tuple that carries the value."""
    steps, kind, data = error["loc"][1:], error["type"], error["input"]
    if steps and steps[-1] == "[key]":
        where, steps = f"a key of {where}", steps[:-2]
    if kind == "unexpected_keyword_argument":
        raise FormError(f"{_place(where, steps[:-1])} has an unknown field {str(steps[-1])[:40]!r}")
    place = _place(where, steps)
    if kind == "missing":
        raise FormError(f"{place} is missing")
    if kind == "value_error":
        raise FormError(f"{place}{error['ctx']['error']}"[:600])
    if kind == "literal_error":
        raise FormError(f"{place} is {str(data)[:40]!r}, not one of {error['ctx']['expected'].replace(chr(39), '')}")
    if kind == "float_type" and type(data) is int:
        raise FormError(f"{place} is too large for a 64-bit float")
    raise FormError(f"{place} is {kind_name(data)}, not {_WANTED.get(kind, error['msg'])}")


def _place(where: str, steps: tuple[int | str, ...]) -> str:
    return where + "".join(f"[{step}]" if isinstance(step, int) else f".{step[:40]}" for step in steps)


def shown_value(value: Any) -> str:
    """Return a value for a message; a whole number may be longer than a float can say."""
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, int):
        return str(value)[:40]
    return repr(value) if isinstance(value, str) and len(value) <= 40 else f"of length {len(value):,}"


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


def check_number(value: Any, where: str) -> None:
    """Raise `FormError` for a number that no figure can be: not finite, or a whole one that no float can say."""
    if isinstance(value, list | tuple):
        for item in value:
            check_number(item, where)
    elif isinstance(value, float) and not math.isfinite(value):
        raise FormError(f"{where} is {float_name(value)}, not a finite number")
    elif isinstance(value, int) and abs(value) > MOST_WHOLE:
        raise FormError(f"{where} is a whole number of {len(str(value))} digits, more than a float holds")


def from_tagged(data: Any) -> dict[str, Any]:
    """Return the object that `tag` encoded. Raises `FormError`, which goes on where the place of the object is told."""
    if not isinstance(data, dict):
        raise FormError(f" is {kind_name(data)}, not an object")
    mapping = untag(data)
    if not isinstance(mapping, dict):
        raise FormError(" is a number, not an object")
    return mapping


def kind_name(data: Any) -> str:
    """Return what a JSON value is, for a message: text, a list, missing or null, …"""
    if data is None:
        return "missing or null"
    names = {bool: "true or false", int: "a number", float: "a number", str: "text", list: "a list", dict: "an object"}
    return names.get(type(data), type(data).__name__)
