"""The JSON of a request, read as the framework reads it, but a key that stands twice is refused."""

from __future__ import annotations

import json
from typing import Any

from fastapi import Request
from starlette.exceptions import HTTPException

from reports.api.http.problem import repeated
from roofline_model.core.definition_text import whole_number


class StrictRequest(Request):
    """A request whose JSON may hold no key twice.

    The body is kept by the request that was given: the fast path has read it there, and who handles its errors asks
    that one.
    """

    def __init__(self, request: Request) -> None:
        super().__init__(request.scope, request.receive)
        self._given = request

    async def body(self) -> bytes:
        """Return the whole body, as `read_body`."""
        return await read_body(self._given)

    async def json(self) -> Any:
        """Return the value of the body, or raise what `parsed` does."""
        return parsed(await self.body())


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

    Raises `ProblemError` for a repeated key; `ValueError` or `RecursionError` for what `json.loads` does not take
    either.
    """
    # What json.loads does with bytes, by a decoder that is made once: making one takes as long as reading a small
    # request.
    return _DECODER.decode(content.decode(json.detect_encoding(content), "surrogatepass"))


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        seen: set[str] = set()
        raise repeated(next(key for key, _ in pairs if key in seen or seen.add(key)), "body")  # type: ignore[func-returns-value]
    return fields


_DECODER = json.JSONDecoder(object_pairs_hook=_without_repeats, parse_int=whole_number)
