"""Rows of the report page, unpacked as its script unpacks them."""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any


def unpacked(table: Mapping[str, Any], texts: Sequence[str]) -> list[dict[str, Any]]:
    """Return the rows of a packed table: a text cell is a number of `texts`, a column of floats is base64."""
    floats = {name: packed_numbers(packed) for name, packed in table["floats"].items()}
    others = [name for name in table["columns"] if name not in floats]
    rows = []
    for at, cells in enumerate(table["rows"]):
        cell_by_name = dict(zip(others, cells, strict=True))
        rows.append(
            {
                name: floats[name][at] if name in floats else _cell(name, cell_by_name[name], table, texts)
                for name in table["columns"]
            }
        )
    return rows


def packed_numbers(packed: str) -> list[float | None]:
    """Return the doubles of `packed_floats`; NaN is None."""
    data = base64.b64decode(packed)
    return [None if math.isnan(value) else value for value in struct.unpack(f"<{len(data) // 8}d", data)]


def _cell(name: str, value: Any, table: Mapping[str, Any], texts: Sequence[str]) -> Any:
    if name not in table["texts"] or value is None:
        return value
    return [texts[number] for number in value] if isinstance(value, list) else texts[value]
