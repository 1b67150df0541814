"""Single values of an exported file: a date, a number in its range, a text of a bearable length."""

from __future__ import annotations

import math
from datetime import datetime

from results.plain_form import FormError


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


def check_text(text: str, longest: int, where: str) -> None:
    """Raise `FormError` for an empty text and for one of more than `longest` characters."""
    if not text or len(text) > longest:
        found = f"{len(text):,} characters long" if text else "empty"
        raise FormError(f"{where} is {found}, not text of 1 to {longest:,} characters")


def _shown(value: float) -> str:
    """Return a number for a message; a whole one may be longer than a float can say."""
    return f"{value:g}" if isinstance(value, float) else str(value)[:40]
