"""The fast path of short answers: a plain request goes to its endpoint without FastAPI's dependency resolution.

FastAPI prepares each call for dependencies, cookies, forms and background tasks, which takes 0.09 ms, as long as an
answer from memory. The model of the body and the text of every refusal stay the framework's: what is not plain, or not
right, is handed to it.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable
from typing import get_type_hints

from fastapi import Request
from pydantic import BaseModel
from starlette.responses import Response

from reports.api.catalog.chip_lookup import DEFAULT_CHIP
from reports.api.http.json_body import parsed, read_body
from reports.api.http.strict_route import Handler, StrictRoute

_PLAIN_QUERY = re.compile(rb"hardware_key=([A-Za-z0-9_.-]{1,60})")
"""A chip's name that needs no decoding and keeps the limits of `HardwareKey`."""


class FastPathRoute(StrictRoute):
    """The route of an endpoint of the form `async (request, body: SomeModel, hardware_key) -> Response`."""

    def get_route_handler(self) -> Handler:
        """Return what answers a request."""
        usual, endpoint = super().get_route_handler(), self.endpoint
        model: type[BaseModel] = get_type_hints(endpoint)["body"]

        async def handle(request: Request) -> Response:
            chip = _plain_chip(request)
            body = None if chip is None else await _plain_body(request, model)
            if body is None:
                return await usual(request)
            answer: Awaitable[Response] = endpoint(request, body, chip)
            return await answer

        return handle


def _plain_chip(request: Request) -> str | None:
    """Return the chip that the query names, or the default; None where the query says anything else."""
    query = request.scope["query_string"]
    if not query:
        return DEFAULT_CHIP
    match = _PLAIN_QUERY.fullmatch(query)
    return None if match is None else match.group(1).decode()


async def _plain_body(request: Request, model: type[BaseModel]) -> BaseModel | None:
    """Return the body as its model; None for one that is not declared as JSON, is none, or does not fit.

    The request keeps what was read, so that the framework may look at it once more. Raises what `read_body` does.
    """
    kind = next((value for name, value in request.scope["headers"] if name == b"content-type"), b"")
    if kind != b"application/json":
        return None
    content = await read_body(request)
    try:
        # Parsed and checked in the framework's own two steps: one step of pydantic's takes a little other JSON.
        return model.model_validate(parsed(content))
    except (ValueError, RecursionError):
        return None  # the framework meets the same, and says it in its own words
