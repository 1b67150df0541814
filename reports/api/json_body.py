"""The JSON of a request, read as the framework reads it, but a key that stands twice is refused: which one was meant?"""

from __future__ import annotations

import json
from typing import Any

from fastapi import Request
from starlette.exceptions import HTTPException


class RepeatedKeyError(ValueError):
    """An object has a key twice; `key` is its name."""

    def __init__(self, key: str) -> None:
        super().__init__(f"the key {key!r} stands twice")
        self.key = key


class ParsedOnce(Request):
    """A request whose body the route, the framework and the endpoint share: it is read and parsed once.

    The body is kept by the request that was given, for who handles its errors asks that one.
    """

    def __init__(self, request: Request) -> None:
        super().__init__(request.scope, request.receive)
        self._given = request
        self._outcome: tuple[Any, Exception | None] | None = None

    async def body(self) -> bytes:
        """Return the whole body, as `read_body`."""
        return await read_body(self._given)

    async def json(self) -> Any:
        """Return the value of the body, or raise what `parsed` does; another call gives the same."""
        if self._outcome is None:
            content = await self.body()
            try:
                self._outcome = parsed(content), None
            except (ValueError, RecursionError) as error:
                self._outcome = None, error
        value, why_not = self._outcome
        if why_not is not None:
            raise why_not
        return value


async def read_body(request: Request) -> bytes:
    """Return the whole body; the request keeps it.

    Raises `HTTPException` (400) where the client went, or sends more than it may (`guard.py` says so).
    """
    try:
        return await request.body()
    except Exception as error:  # as the framework has it: what was taken from the connection cannot be read again
        raise HTTPException(400) from error


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
