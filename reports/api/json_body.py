"""The JSON of a request, read as the framework reads it, but a key that stands twice is refused: which one was meant?"""

from __future__ import annotations

import json
from typing import Any


class RepeatedKeyError(ValueError):
    """An object has a key twice; `key` is its name."""

    def __init__(self, key: str) -> None:
        super().__init__(f"the key {key!r} stands twice")
        self.key = key


def parsed(content: bytes) -> Any:
    """Return the value of a JSON text in UTF-8, UTF-16 or UTF-32.

    Raises `RepeatedKeyError`; `ValueError` or `RecursionError` for what `json.loads` does not take either.
    """
    # What json.loads does with bytes, by a decoder that is made once: making one takes as long as reading a small request.
    return _DECODER.decode(content.decode(json.detect_encoding(content), "surrogatepass"))


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise RepeatedKeyError(key)
            seen.add(key)
    return found


_DECODER = json.JSONDecoder(object_pairs_hook=_without_repeats)
