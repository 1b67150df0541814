"""Text from outside (labels, reasons, device names) made safe to show: printable, bounded, one line.

HTML escaping is the template's task; this is about what no escaping mends: control and bidirectional characters
that break SVG or turn a sentence round, and labels of a hundred kilobytes.
"""

from __future__ import annotations

import re

SHOWN_CHARACTERS = 240
"""Longer texts are cut here; the store keeps them whole."""


def shown(text: object, limit: int = SHOWN_CHARACTERS) -> str:
    """Return `text` as one printable line of at most `limit` characters; what cannot be printed becomes `�`."""
    raw = str(text)
    cut = re.sub(r"\s+", " ", raw[: limit * 4]).strip()
    printable = "".join(ch if ch.isprintable() else "�" for ch in cut)
    return printable if len(printable) <= limit and len(raw) <= limit * 4 else printable[: limit - 1] + "…"


def counted(count: int, noun: str, plural: str = "") -> str:
    """Return `1 case`, `2 cases`; an irregular plural is given."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"
