"""Tables for the page: columns by name, every text once, every number as it is stored."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Texts:
    """Texts that cells refer to by their number: five thousand cases repeat a hundred of them."""

    known: dict[str, int] = field(default_factory=dict)

    def number(self, text: str) -> int:
        """Return the number of a text, the same for the same text."""
        return self.known.setdefault(text, len(self.known))

    def all(self) -> list[str]:
        """Return the texts by number."""
        return list(self.known)


def packed(rows: Iterable[Mapping[str, Any]], texts: Texts, names: Sequence[str]) -> dict[str, Any]:
    """Return rows as `{"columns": names, "texts": names of text columns, "rows": cells}`; a text cell is a number of `texts`.

    A column is a text column when its cells are text; missing is null in either kind. A list of texts is a list of numbers.
    """
    rows = list(rows)
    is_text = {name: any(isinstance(row[name], str | tuple) for row in rows) for name in names}
    return {
        "columns": list(names),
        "texts": [name for name in names if is_text[name]],
        "rows": [[_cell(row[name], texts) for name in names] for row in rows],
    }


def packed_floats(values: Sequence[float]) -> str:
    """Return numbers as base64 of little-endian doubles: every bit of them in half the bytes of their digits."""
    return base64.b64encode(struct.pack(f"<{len(values)}d", *values)).decode("ascii")


def difference(value: Any, base: Any) -> Any:
    """Return what of a plain value is not in another; the page lays it over that one (`overlaid`). Objects keep no fewer names."""
    if isinstance(value, dict) and isinstance(base, dict):
        return {
            name: difference(item, base.get(name))
            for name, item in value.items()
            if name not in base or item != base[name]
        }
    are_lists = isinstance(value, list) and isinstance(base, list) and len(value) == len(base)
    if are_lists and all(isinstance(item, dict) for item in (*value, *base)):
        return [difference(item, other) for item, other in zip(value, base, strict=True)]
    return value


def _cell(value: Any, texts: Texts) -> Any:
    if isinstance(value, str):
        return texts.number(value)
    if isinstance(value, tuple):
        return [texts.number(one) for one in value]
    return value
