"""Text from outside (labels, reasons, device names) made safe to show: printable, bounded, one line.

HTML escaping is the template's task; this is about what no escaping mends: control and bidirectional characters
that break SVG or turn a sentence round, and labels of a hundred kilobytes.
"""

from __future__ import annotations

import re

from roofline_model.core.units import DECIMAL_PREFIXES, counted

__all__ = ["SHOWN_CHARACTERS", "counted", "prefixed", "shown", "stored_text"]

SHOWN_CHARACTERS = 240
"""Longer texts are cut here; the store keeps them whole."""
STORED_CHARACTERS = 1_000
"""The same for the API's answers."""


def shown(text: object, limit: int = SHOWN_CHARACTERS) -> str:
    """Return `text` as one printable line of at most `limit` characters; what cannot be printed becomes `�`."""
    raw = str(text)
    if len(raw) <= limit and raw.isprintable() and "  " not in raw and raw == raw.strip(" "):
        return raw  # nearly all of them: one line already
    cut = re.sub(r"\s+", " ", raw[: limit * 4]).strip()
    printable = "".join(ch if ch.isprintable() else "�" for ch in cut)
    return printable if len(printable) <= limit and len(raw) <= limit * 4 else printable[: limit - 1] + "…"


def stored_text(text: str) -> str:
    """Return a stored text for an answer over HTTP: cleaned, at most a thousand characters."""
    is_clean = len(text) <= STORED_CHARACTERS and text.isprintable() and "  " not in text and text == text.strip(" ")
    return text if is_clean else shown(text, STORED_CHARACTERS)  # nearly all are: an answer has thousands of them


def prefixed(value: float | None, unit: str, digits: int = 3) -> str:
    """Print a value in SI with the prefix that reads best, from pico to peta: 2.5e-5 J → `25 µJ`; missing → `–`."""
    if value is None:
        return "–"
    rounded = float(f"{value:.{digits}g}")
    if rounded == 0 or rounded - rounded != 0:  # zero, infinite, not a number
        return f"{rounded:g} {unit}"
    fitting = [name for name, scale in DECIMAL_PREFIXES.items() if abs(rounded) >= scale * (1 - 1e-12)]
    chosen = fitting[-1] if fitting else "p"
    text = f"{rounded / DECIMAL_PREFIXES[chosen]:.{digits}g}"
    return f"{float(text):g} {chosen}{unit}" if "e" in text else f"{text} {chosen}{unit}"
