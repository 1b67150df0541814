"""Single values of an imported file: a date, a number in its range, a text of a bearable length."""

from __future__ import annotations

import math
from datetime import UTC, datetime

from results.plain_form import FormError

MAX_TIME_S = 1e9
"""Thirty years: a longer time is a slip of a unit."""
MAX_COUNT = 2**40


def utc_date(text: str, where: str) -> str:
    """Return a date and time as the store keeps them, so that texts sort like times: ISO 8601 in UTC with microseconds.

    One without an offset is taken as UTC, a date alone as its midnight. Raises `FormError` for anything else.
    """
    try:
        return in_utc(datetime.fromisoformat(text))
    except (ValueError, OverflowError):
        raise FormError(f"{where} is {text[:40]!r}, not a date and time in ISO 8601") from None


def in_utc(moment: datetime) -> str:
    """Return a time as the store keeps it. Raises `OverflowError` for one at the very edge of the calendar."""
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return aware.astimezone(UTC).isoformat(timespec="microseconds")


def check_date(text: str, where: str) -> None:
    """Raise `FormError` unless the text is a date and time in ISO 8601."""
    try:
        datetime.fromisoformat(text)
    except ValueError:
        raise FormError(f"{where} is {text[:40]!r}, not a date and time in ISO 8601") from None


def check_least(value: float | None, least: float, where: str) -> None:
    """Raise `FormError` unless the value is unknown (None) or a finite number of `least` or more."""
    if value is not None and not (least <= value < math.inf):
        raise FormError(f"{where} is {_shown(value)}, not a finite number of {least:g} or more")


def check_above_zero(value: float | None, where: str) -> None:
    """Raise `FormError` unless the value is unknown (None) or a finite number above 0: what is not known is not 0."""
    if value is not None and not (0 < value < math.inf):
        raise FormError(f"{where} is {_shown(value)}, not a finite number above 0")


def check_finite(value: float | None, where: str) -> None:
    """Raise `FormError` unless the value is unknown (None) or a finite number."""
    if value is not None and not math.isfinite(value):
        raise FormError(f"{where} is {_shown(value)}, not a finite number")


def check_duration(value: float | None, where: str) -> None:
    """Raise `FormError` unless the value is unknown (None) or a time of 0 s or more that somebody can have waited for."""
    check_least(value, 0, where)
    if value is not None and value >= MAX_TIME_S:
        raise FormError(f"{where} is {_shown(value)}, not a time below {MAX_TIME_S:g} s")


def check_count(value: int | None, least: int, where: str) -> None:
    """Raise `FormError` unless the value is unknown (None) or a number from `least` up that every database can hold."""
    if value is not None and not (least <= value <= MAX_COUNT):
        bound = "below 0" if value < least == 0 else f"not a whole number from {least} to {MAX_COUNT:,}"
        raise FormError(f"{where} is {_shown(value)}, {bound}")


def check_text(text: str, longest: int, where: str) -> None:
    """Raise `FormError` for an empty text and for one of more than `longest` characters."""
    if not text or len(text) > longest:
        found = f"{len(text):,} characters long" if text else "empty"
        raise FormError(f"{where} is {found}, not text of 1 to {longest:,} characters")


def _shown(value: float) -> str:
    """Return a number for a message; a whole one may be longer than a float can say."""
    return f"{value:g}" if isinstance(value, float) else str(value)[:40]
