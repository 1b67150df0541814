"""Blocks as JSON for a page that makes its elements of them: texts stay texts, nothing is markup."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

Text = Callable[[str], str]


def block_json(value: Any, text: Text) -> Any:
    """Return a block, or anything inside one, as plain values: the name of its type as `type`, then every field that
    differs from its default. `text` cleans every string.
    """
    if is_dataclass(value):
        members = ((each, getattr(value, each.name)) for each in fields(value))
        return {"type": type(value).__name__} | {
            each.name: block_json(member, text)
            for each, member in members
            if not callable(member) and (each.default is MISSING or member != each.default)
        }
    if isinstance(value, list | tuple):
        return [block_json(member, text) for member in value]
    return text(value) if isinstance(value, str) else value
