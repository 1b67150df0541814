"""The text of a definition file: plain values as TOML, for what the standard library reads and does not write."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

_INLINE_FIELD_COUNT = 6
"""A table of at most so many plain values is written in a line, inside another table."""


def toml_text(document: Mapping[str, Any], *, comment: str = "") -> str:
    """Return TOML that reads back as an equal document; None is left out, `comment` goes above it.

    Values are texts, numbers, lists, tables and lists of tables. A table has its plain values before those inside it.
    """
    lines = [f"# {line}".rstrip() for line in comment.splitlines()]
    return "\n".join([*lines, *_table_lines("", document)]) + "\n"


def _table_lines(place: str, table: Mapping[str, Any]) -> Iterator[str]:
    own = {_key(name): value for name, value in table.items() if value is not None}
    inner = {name: value for name, value in own.items() if _is_table(value, is_inside=bool(place))}
    yield from (f"{name} = {_value(value)}" for name, value in own.items() if name not in inner)
    for name, value in inner.items():
        below = f"{place}.{name}" if place else name
        is_single = isinstance(value, Mapping)
        for each in [value] if is_single else value:
            yield from ("", f"[{below}]" if is_single else f"[[{below}]]", *_table_lines(below, each))


def _is_table(value: Any, *, is_inside: bool) -> bool:
    """Return whether a value has a head of its own: a list of tables, or a table that does not fit in a line."""
    if isinstance(value, list | tuple):
        return bool(value) and all(isinstance(each, Mapping) for each in value)
    if not isinstance(value, Mapping):
        return False
    is_plain = not any(isinstance(each, Mapping | list | tuple) for each in value.values())
    return not (is_inside and is_plain and len(value) <= _INLINE_FIELD_COUNT)


def _key(name: str) -> str:
    is_bare = name.isascii() and name.replace("-", "").replace("_", "").isalnum()
    return name if is_bare else _value(name)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):  # JSON's escapes are TOML's, but for DEL, which TOML wants escaped, too
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(key)} = {_value(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, list | tuple):
        is_nested = any(isinstance(entry, list | tuple) for entry in value)
        opening, joint, closing = ("[\n  ", ",\n  ", ",\n]") if is_nested else ("[", ", ", "]")
        return opening + joint.join(map(_value, value)) + closing
    short = f"{value:.6g}" if isinstance(value, float) else ""
    is_short = short and float(short) == value and len(short) < len(repr(value)) and not short.isdecimal()
    return short if is_short else repr(value)
