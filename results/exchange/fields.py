"""Fields of a foreign record, checked as they are read: every complaint names the record and the field."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from results.records.limits import MAX_COUNT, MAX_TIME_S, in_utc
from results.records.plain_form import FormError, kind_name

LONGEST_TEXT = 4096

Located = tuple[str, Any]
"""Where a value stands in its file (`[3]`, `line 7`; empty for all of it), and the value."""


class Fields:
    """One JSON object (or row of a table) of a foreign file."""

    def __init__(self, data: Any, where: str) -> None:
        if not isinstance(data, Mapping):
            raise FormError(f"{where} is {kind_name(data)}, not an object")
        self.data: Mapping[str, Any] = data
        self.where = where

    def has(self, name: str) -> bool:
        """Return whether a field is there and not null or empty text."""
        return self.data.get(name) not in (None, "")

    def picked(self, *names: str) -> dict[str, Any]:
        """Return those of some fields that are there; true is 1, as a CSV writes it: equal tests are equal in every
        form.
        """
        values = {name: self.data[name] for name in names if name in self.data}
        return {name: int(value) if isinstance(value, bool) else value for name, value in values.items()}

    def inside(self, name: str) -> Fields:
        """Return an object inside this one. Raises `FormError` where there is none."""
        return Fields(self.data.get(name), self.name(name))

    def text(self, name: str, default: str | None = None) -> str:
        """Return text; `default` where it is absent (None: it must be there)."""
        value = self.data.get(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, str) or (default is None and not value.strip()):
            raise FormError(f"{self.name(name)} is {_shown(value)}, not text")
        if len(value) > LONGEST_TEXT:
            raise FormError(f"{self.name(name)} is {len(value):,} characters long, not {LONGEST_TEXT:,} or fewer")
        return value.strip()

    def number(self, name: str, *, least: float = -math.inf) -> float:
        """Return a finite number of `least` or more."""
        value = self.data.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise FormError(f"{self.name(name)} is {_shown(value)}, not a number")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number) or number < least:
            limits = "" if least == -math.inf else f" of {least:g} or more"
            raise FormError(f"{self.name(name)} is {number:g}, not a finite number{limits}")
        return number

    def time_s(self, name: str, unit_s: float = 1.0) -> float:
        """Return a time in seconds that a clock can give, written in units of `unit_s` seconds."""
        value = self.number(name) * unit_s
        if not 0 < value < MAX_TIME_S:
            raise FormError(f"{self.name(name)} is {value:g} s, not a time above 0 s and below {MAX_TIME_S:g} s")
        return value

    def times_s(self, name: str, unit_s: float = 1.0) -> tuple[float, ...]:
        """Return a list of times in seconds; empty where the field is absent."""
        values = self.data.get(name)
        if values is not None and not isinstance(values, list):
            raise FormError(f"{self.name(name)} is {kind_name(values)}, not a list")
        items = Fields({f"{name}[{position}]": value for position, value in enumerate(values or ())}, self.where)
        return tuple(items.time_s(item, unit_s) for item in items.data)

    def count(self, name: str, *, least: int = 0) -> int:
        """Return a whole number of `least` or more."""
        value = self.data.get(name)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise FormError(f"{self.name(name)} is {_shown(value)}, not a whole number")
        if not least <= value < MAX_COUNT:
            raise FormError(f"{self.name(name)} is {str(value)[:40]}, not a whole number from {least} to {MAX_COUNT:,}")
        return value

    def date(self, name: str) -> str:
        """Return a date and time as ISO 8601 in UTC; empty where the field is absent. vLLM writes `20260211-101530`."""
        if not self.has(name):
            return ""
        text = self.text(name)
        try:
            return in_utc(datetime.fromisoformat(re.sub(r"^(\d{8})-(\d{6})$", r"\1T\2", text)))
        except (ValueError, OverflowError):
            raise FormError(f"{self.name(name)} is {text[:40]!r}, not a date and time") from None

    def name(self, name: str) -> str:
        """Return a field's name with where its record stands, for a message."""
        return f"{self.where}.{name}" if self.where else name


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return repr(value[:40])
    return kind_name(value) if value is None or isinstance(value, list | dict | bool) else str(value)[:40]
