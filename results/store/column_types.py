"""Column types that give back exactly what was stored, on SQLite and on PostgreSQL alike.

Two databases, four traps: SQLite turns NaN into NULL; PostgreSQL refuses text with a NUL character; both refuse
lone surrogates (they come from file names in `sys.argv`); sqlite3 stores a numpy integer as raw bytes.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import BigInteger, Dialect, Double, Text
from sqlalchemy.types import TypeDecorator

ESCAPED_TEXT = "\x1bjson:"
"""Prefix of a text that no database would keep as it is; the rest is its JSON form, which is plain ASCII."""


class ExactText(TypeDecorator[str]):
    """Any Python string. Ordinary text is stored as it is; only what a database would refuse is escaped."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Return the text to store."""
        if value is None or value.isprintable():
            return value
        return ESCAPED_TEXT + json.dumps(value) if _needs_escape(value) else value

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        """Return the text that was given."""
        if value is None or not value.startswith(ESCAPED_TEXT):
            return value
        return str(json.loads(value.removeprefix(ESCAPED_TEXT)))


class ExactFloat(TypeDecorator[float]):
    """A 64-bit float, NaN and the infinities included; NULL means unknown and nothing else."""

    impl = Double
    cache_ok = True

    def bind_processor(self, dialect: Dialect) -> Callable[[float | None], Any]:
        """Return the converter of bound values; SQLite stores NaN as the text 'NaN', since it reads a bound NaN as NULL.

        Not `process_bind_param`: Double's own processor would follow it and make a NaN of the text again.
        """
        if dialect.name == "sqlite":
            return _number_or_nan_text
        return lambda value: None if value is None else float(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> float | None:
        """Return the number that was given."""
        return None if value is None else float(value)


class ExactInt(TypeDecorator[int]):
    """A 64-bit integer; numpy's integers become Python's before a driver sees them."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: int | None, dialect: Dialect) -> int | None:
        """Return the number to store."""
        return None if value is None else int(value)


def pack_samples(samples_s: Sequence[float]) -> bytes:
    """Return the samples as little-endian 64-bit floats, eight bytes each: nothing is rounded."""
    return struct.pack(f"<{len(samples_s)}d", *samples_s)


def unpack_samples(blob: bytes) -> tuple[float, ...]:
    """Return the samples that `pack_samples` wrote."""
    return struct.unpack(f"<{len(blob) // 8}d", blob)


def _number_or_nan_text(value: float | None) -> float | str | None:
    if value is None:
        return None
    number = float(value)
    return number if number == number else "NaN"


def _needs_escape(value: str) -> bool:
    if "\x00" in value or value.startswith(ESCAPED_TEXT):
        return True
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False
