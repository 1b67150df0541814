"""Answers as JSON, derived from the frozen dataclasses that hold them: no answer spells its keys a second time.

A dataclass is an object of its fields, in their order, then of the properties that its `DERIVED` names; a field marked
`NOT_IN_JSON` is left out, the keys of one marked `IN_PLACE` stand among the others. One that is more than its answer
says in `JSON_KEYS` which keys it has, and what is behind each: an attribute (`"bound": "ideal.bound"`, null where there
is no `ideal`), or a function of the answer. A pair adds `null_if_empty`, for words that may be missing, or the type to
print the value as: a *form*, a class that is never made, whose `JSON_OF` names the type that it prints and whose
docstring describes the object. So one type has different keys in different answers, and no second type that mirrors it.
A tuple is a list, a tuple of (name, value) pairs an object, a finding what `finding_json` gives, a chip or a
format its key. The command line's
`--json` and the API give the same objects; `reports/api/answer_models.py` describes them. The one thing that the API
does to them is to clean texts that came from outside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import date
from functools import cache, cached_property
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from roofline_model.core.finding import Finding, finding_json

SCHEMA_VERSION = 3
"""Of `--json`: changes when a key of an answer changes its name or meaning (docs/reference/json_keys.md). 1 had no
number.
"""

KEYS = {"parts": "parts_s", "terms": "terms_s"}
"""Field of (name, seconds) pairs → key, so that the key says the unit of its values."""
CHIP_KEYS = {"hardware_key": "hardware", "hardware_keys": "hardware"}
"""Field of stored records → key: every answer calls the key of a chip `hardware`."""
MOST_DEPTH = 20
"""What a stored value nests deeper is told as text."""

Plain = Callable[[Any], Any]
Text = Callable[[str], str]
Source = str | Plain | tuple[str | Plain, Any]
Keys = Mapping[str, Source]
"""Key of an answer → what is behind it."""


def answer_json(answer: Any, text: Text | None = None, form: type | None = None) -> dict[str, Any]:
    """Return an answer as plain values: None, bool, int, float, str, list and dict. `text` cleans every string; `form`:
    how its type is printed here.
    """
    document: dict[str, Any] = _of_class(form or type(answer), text)(answer)
    return document


def cleaned(value: Any, text: Text, depth: int = 0) -> Any:
    """Return JSON values with every string cleaned, names too."""
    if isinstance(value, str) or depth > MOST_DEPTH:
        return text(str(value))
    if isinstance(value, Mapping):
        return {text(str(name)): cleaned(item, text, depth + 1) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [cleaned(item, text, depth + 1) for item in value]
    return value


def command_json(answer: Any, text: Text | None = None, form: type | None = None) -> dict[str, Any]:
    """Return the document of an answer, as `--json` prints it and the API sends it: the version of its keys first."""
    return {"schema_version": SCHEMA_VERSION, **answer_json(answer, text, form)}


@dataclass(frozen=True, slots=True)
class AnswerKey:
    """Where the value of a key of an answer comes from."""

    owner: type
    """Dataclass that declares it."""
    name: str
    """Its field or property there."""
    path: str
    """The same from the answer itself: `ideal.workload.phase`."""
    hint: Any
    """Its type."""
    make: Plain | None = None
    """The function that makes it, where it is no attribute."""
    about: str = ""
    """What that function says that it holds; of an attribute its owner says it."""


@cache
def answer_keys(cls: type) -> dict[str, AnswerKey]:
    """Return the keys of an answer in the order of its JSON: of its fields, then of its derived properties."""
    if "JSON_KEYS" in vars(cls):
        printed = vars(cls).get("JSON_OF", cls)
        return {key: _behind(printed, source) for key, source in vars(cls)["JSON_KEYS"].items()}
    hints = get_type_hints(cls)
    keys: dict[str, AnswerKey] = {}
    for field in fields(cls):
        hint = hints[field.name]
        if field.metadata.get("in_place", False):
            inner = answer_keys(hint).items()
            keys |= {key: replace(part, path=f"{field.name}.{part.path}") for key, part in inner}
        elif field.metadata.get("in_json", True):
            keys[_key(field.name, hint)] = AnswerKey(cls, field.name, field.name, hint)
    for base in reversed(cls.__mro__):
        for name in vars(base).get("DERIVED", ()):
            hint = _hint(cls, name)
            keys[_key(name, hint)] = AnswerKey(cls, name, name, hint)
    return keys


def _hint(cls: type, name: str) -> Any:
    """Return the type of a field or a property."""
    attribute = getattr(cls, name, None)
    if isinstance(attribute, property | cached_property):
        return get_type_hints(attribute.fget if isinstance(attribute, property) else attribute.func)["return"]
    return get_type_hints(cls)[name]


def _behind(cls: type, source: Source) -> AnswerKey:
    """Return where the value of one of the `JSON_KEYS` comes from."""
    if isinstance(source, tuple):
        getter, hint = source
        part = _behind(cls, getter)
        if hint is not null_if_empty:
            return replace(part, hint=hint)
        return replace(part, hint=part.hint | None, make=null_if_empty(part.make or _getter(part.path)))
    if isinstance(source, str):
        return _at(cls, source)
    about = " ".join((source.__doc__ or "").removeprefix("Return ").split())
    hint = get_type_hints(source)["return"]
    return AnswerKey(cls, source.__name__, "", hint, source, f"{about[:1].upper()}{about[1:]}")


def null_if_empty(text_of: Plain) -> Plain:
    """Return a function of an answer whose words are null where they are empty."""
    return lambda answer: text_of(answer) or None


def _at(cls: type, path: str) -> AnswerKey:
    """Return where the value of a path is, with the type it has there: one that may miss a part may be None."""
    name, _, rest = path.partition(".")
    hint = _hint(cls, name)
    if not rest:
        return AnswerKey(cls, name, name, hint)
    inner = next((each for each in get_args(hint) if each is not NoneType), hint)
    key = _at(inner, rest)
    return replace(key, path=path, hint=key.hint if inner is hint else key.hint | None)


def _getter(path: str) -> Plain:
    """Return what reads a path, None where a part of the way is None."""
    *way, last = path.split(".")
    if not way:
        return attrgetter(last)
    before, get = _getter(".".join(way)), attrgetter(last)
    return lambda value: None if (inner := before(value)) is None else get(inner)


def is_pairs(hint: Any) -> bool:
    """Return whether a type is a tuple of (name, value) pairs."""
    arguments = get_args(hint)
    if get_origin(hint) is not tuple or len(arguments) != 2 or arguments[1] is not Ellipsis:
        return False
    return get_origin(arguments[0]) is tuple and get_args(arguments[0])[0] is str and len(get_args(arguments[0])) == 2


def _key(name: str, hint: Any) -> str:
    return KEYS.get(name, name) if is_pairs(hint) else CHIP_KEYS.get(name, name)


@cache
def _of_class(cls: type, text: Text | None) -> Plain:
    """Return the function that makes an object of instances of a dataclass."""
    if cls is Finding:
        return finding_json if text is None else lambda item: cleaned(finding_json(item), text)
    parts = [
        (key, part.make or _getter(part.path), _of_type(part.hint, text)) for key, part in answer_keys(cls).items()
    ]

    def plain(value: Any) -> dict[str, Any]:
        return {key: get(value) if convert is None else convert(get(value)) for key, get, convert in parts}

    return plain


def _of_type(hint: Any, text: Text | None) -> Plain | None:
    """Return the function for values of a type; None for those that are plain as they are."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is str:
        return text
    if hint is Any:
        return None if text is None else lambda value: cleaned(value, text)
    if hint is date:
        return date.isoformat
    if isinstance(hint, type) and "JSON_OF" in vars(hint):
        return _of_class(hint, text)
    if is_dataclass(hint) or isinstance(hint, TypeVar):
        return lambda value: _of_class(type(value), text)(value)  # type: ignore[arg-type]
    if origin in (Union, UnionType):
        inner = {_of_type(each, text) for each in arguments if each is not NoneType} - {None}
        return _optional(next(iter(inner))) if inner else None
    if is_pairs(hint):
        return _mapping(_of_type(get_args(arguments[0])[1], text), text)
    if origin is tuple:
        return _sequence(_of_type(arguments[0], text))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping(_of_type(arguments[1], text), text)
    if origin is Literal or hint in (int, float, bool, NoneType):
        return None
    raise TypeError(f"an answer cannot hold a {hint}")


def _optional(convert: Plain | None) -> Plain | None:
    if convert is None:
        return None
    return lambda value: None if value is None else convert(value)


def _sequence(convert: Plain | None) -> Plain:
    return list if convert is None else lambda values: [convert(value) for value in values]


def _mapping(convert: Plain | None, text: Text | None) -> Plain:
    if convert is None and text is None:
        return dict
    name_of, value_of = text or _same, convert or _same
    return lambda pairs: {name_of(name): value_of(value) for name, value in dict(pairs).items()}


def _same(value: Any) -> Any:
    return value
