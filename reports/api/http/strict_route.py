"""The route of every endpoint: what a request says and nobody declared is refused, never passed over.

A parameter that is not read (`?hardware=h100`) would be answered with somebody else's numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request
from fastapi.datastructures import DefaultPlaceholder
from fastapi.routing import APIRoute
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.responses import Response

from reports.api.http.json_body import StrictRequest
from reports.api.http.problem import MOST_FIELDS, FieldProblem, ProblemError, repeated
from reports.text.display_text import shown
from roofline_model.core.errors import nearest_names

Handler = Callable[[Request], Coroutine[Any, Any, Response]]

_JSON_TYPE = re.compile(r"\s*application/([\w.!#$&^+-]+\+)?json\s*(;.*)?", re.IGNORECASE | re.DOTALL)
"""What the framework reads as JSON: RFC 8259 §11, and the suffix of RFC 6839 §3.1."""


class StrictRoute(APIRoute):
    """Refuses unknown query parameters and what stands twice in query or body (422), and a body that is not declared as
    JSON (415).
    """

    answer: Any
    """Type of the answer: a dataclass, a pydantic model, or `module:name` of one that takes long to import; None:
    FastAPI's own.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], *, response_model: Any, **options: Any) -> None:
        """Keep a given type of the answer for the OpenAPI document alone: the endpoint makes the bytes itself."""
        is_given = not isinstance(response_model, DefaultPlaceholder)
        super().__init__(path, endpoint, response_model=None if is_given else response_model, **options)
        self.answer = response_model if is_given else None

    def get_route_handler(self) -> Handler:
        """Return what answers a request."""
        usual = super().get_route_handler()
        names = frozenset(query_param.alias for query_param in self.dependant.query_params)
        fields = _body_fields(self)

        async def handle(request: Request) -> Response:
            if request.scope["query_string"]:
                check_query(request.query_params, names, fields)
            if fields is not None:
                _check_content_type(request)
                request = StrictRequest(request)
            return await usual(request)

        return handle


def check_query(given: QueryParams, allowed: frozenset[str], body_fields: frozenset[str] | None = None) -> None:
    """End the request with 422 where a parameter is none of `allowed`, or stands twice; `body_fields` are told where
    they belong.
    """
    unknown = [name for name in given if name not in allowed]
    if not unknown:
        names = [name for name, _ in given.multi_items()]
        if len(names) > len(given):
            raise repeated(next(name for name in names if names.count(name) > 1), "query")
        return
    problems = tuple(_unknown(name, allowed, body_fields or frozenset()) for name in unknown[:MOST_FIELDS])
    more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
    detail = f"query: {problems[0].message}{more}"
    raise ProblemError(422, "invalid-value", detail, fields=problems)


def _unknown(name: str, names: frozenset[str], body_fields: frozenset[str]) -> FieldProblem:
    nearest = tuple(nearest_names(name, names))
    if name in body_fields:
        hint = "it belongs in the JSON body"
    elif nearest:
        hint = f"did you mean {' or '.join(nearest)}?"
    elif names:
        hint = f"this path takes {', '.join(sorted(names))}"
    else:
        hint = "this path takes none"
    message = f"unknown parameter {shown(name, 60)!r}: {hint}"
    return FieldProblem(field=shown(name, 60), location="query", message=message, nearest=nearest)


def _check_content_type(request: Request) -> None:
    """End the request with 415 where its body is not declared as JSON; no body at all is for the framework to miss."""
    headers = request.headers
    declared = headers.get("content-type")
    if declared is None:
        is_wrong = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
    else:
        is_wrong = _JSON_TYPE.fullmatch(declared) is None
    if is_wrong:
        raise HTTPException(415)


def _body_fields(route: APIRoute) -> frozenset[str] | None:
    """Return the fields of the route's body; None for a route that takes none."""
    if route.body_field is None:
        return None
    return frozenset(getattr(route.body_field.field_info.annotation, "model_fields", ()))
