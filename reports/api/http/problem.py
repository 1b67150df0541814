"""What went wrong, as RFC 9457's problem details: what was asked, what is known, what to do next, and which field."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from reports.present.display_text import shown
from roofline_model.core.errors import (
    DatabaseAwayError,
    MissingDependencyError,
    RooflineError,
    StoreError,
    UnknownNameError,
    nearest_names,
)

CONTENT_TYPE = "application/problem+json"
MOST_FIELDS = 20
"""Wrong fields that are named; more tell a reader nothing."""
MOST_CHARACTERS = 1_000
MOST_SHOWN = 60
"""Characters of a wrong value that are told."""

Location = Literal["body", "query", "path", "header"]


class FieldProblem(BaseModel):
    """One field that is wrong."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    field: str = Field(description="name of the field, an element of a list by its place: `N[1]`")
    location: str = Field(description="body, query, path or header")
    message: str = Field(description="what is wrong with it")
    nearest: tuple[str, ...] = Field(
        default=(), description="for an unknown name: known ones that come near, best first"
    )


class Problem(BaseModel):
    """RFC 9457 problem details."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: str = Field(description="urn:roofline-bench:error:SLUG", examples=["urn:roofline-bench:error:unknown-format"])
    title: str = Field(description="the kind of problem, the same for every occurrence")
    status: int = Field(description="HTTP status code")
    detail: str = Field(description="what was asked, what is known, what to do next")
    slug: str = Field(
        description="heading of docs/reference/errors.md, or of docs/reference/api.md where it is about HTTP"
    )
    instance: str = Field(description="path of the request")
    errors: list[FieldProblem] = Field(description="fields that are wrong; empty where no single one is")


class ProblemError(HTTPException):
    """Ends a request with a problem."""

    def __init__(
        self,
        status: int,
        slug: str,
        detail: str,
        *,
        fields: tuple[FieldProblem, ...] = (),
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(status, detail, headers)
        self.slug = slug
        self.fields = fields


REFUSED = {
    400: ("not-json", "the body cannot be read; send one JSON object"),
    404: ("not-found", "there is nothing at this path; /api/openapi.json lists the endpoints, / is the explorer"),
    405: ("method-not-allowed", "this path does not take this method; /api/openapi.json says which"),
    415: ("not-json", "the body has to be application/json: add -H 'Content-Type: application/json'"),
}
"""Status → slug and detail of what the framework refuses."""


def wrong_field(
    field: str,
    message: str,
    location: Location = "body",
    *,
    status: int = 422,
    slug: str = "invalid-value",
    nearest: tuple[str, ...] = (),
) -> ProblemError:
    """Return the problem of one field."""
    message = shown(message, MOST_CHARACTERS)
    return ProblemError(
        status,
        slug,
        message,
        fields=(FieldProblem(field=shown(field, MOST_SHOWN), location=location, message=message, nearest=nearest),),
    )


@contextmanager
def naming(field: str, location: Location = "body") -> Iterator[None]:
    """Turn a `RooflineError` of the block into a problem with this field: 404 for an unknown name in a path, else
    422.
    """
    try:
        yield
    except (StoreError, MissingDependencyError):
        raise
    except RooflineError as error:
        status = 404 if location == "path" and isinstance(error, UnknownNameError) else 422
        nearest = error.nearest if isinstance(error, UnknownNameError) else ()
        raise wrong_field(field, str(error), location, status=status, slug=error.slug, nearest=nearest) from None


async def check_query(request: Request) -> None:
    """End a request that says what its path does not read: `?hardware=h100` would get another chip's numbers."""
    names = {parameter.alias for parameter in request.scope["route"].dependant.query_params}
    for name in request.query_params:
        if name not in names:
            nearest = tuple(nearest_names(name, names))
            hint = f"did you mean {nearest[0]}?" if nearest else f"this path takes {', '.join(sorted(names)) or 'none'}"
            raise wrong_field(name, f"unknown parameter {shown(name, MOST_SHOWN)!r}: {hint}", "query", nearest=nearest)


async def on_error(request: Request, error: Exception) -> JSONResponse:
    """Answer what ended a request."""
    return response(request.url.path, error)


def response(path: str, error: Exception) -> JSONResponse:
    """Return an error as the problem that a client is told: nothing of the innards of a fault."""
    problem = _problem(error)
    body = {
        "type": f"urn:roofline-bench:error:{problem.slug}",
        "title": problem.slug.replace("-", " "),
        "status": problem.status_code,
        "detail": shown(problem.detail, MOST_CHARACTERS),
        "slug": problem.slug,
        "instance": shown(path, 200),
        "errors": [field.model_dump() for field in problem.fields],
    }
    headers = {"Cache-Control": "no-store", **(problem.headers or {})}
    return JSONResponse(body, problem.status_code, headers=headers, media_type=CONTENT_TYPE)


def _problem(error: Exception) -> ProblemError:
    if isinstance(error, ProblemError):
        return error
    if isinstance(error, RequestValidationError):
        return invalid(error)
    if isinstance(error, HTTPException):
        slug, detail = REFUSED.get(error.status_code, ("http-error", str(error.detail)))
        return ProblemError(error.status_code, slug, detail, headers=dict(error.headers or {}))
    if isinstance(error, RooflineError):
        is_ours = isinstance(error, StoreError | MissingDependencyError)
        status = 503 if is_ours else 404 if isinstance(error, UnknownNameError) else 422
        headers = {"Retry-After": "5"} if isinstance(error, DatabaseAwayError) else None
        return ProblemError(status, error.slug, str(error), headers=headers)
    return ProblemError(500, "fault", "a fault of the server; its log says where")


def invalid(error: RequestValidationError) -> ProblemError:
    """Return the problem of a request that does not fit its model: every wrong field once, in pydantic's words.

    A field that may be one of several (a number, a list, a text) fails as each of them.
    """
    faults: dict[tuple[str, str], list[Any]] = {}
    for fault in error.errors():
        location, *parts = fault["loc"] or ("body",)
        if fault["type"] == "json_invalid":
            return ProblemError(400, *REFUSED[400])
        if not parts and isinstance(fault["input"], bytes):
            return ProblemError(415, *REFUSED[415])
        # Other parts than the first are places in a list, or pydantic's names of the branches that it tried.
        places = "".join(f"[{part}]" for part in parts[1:] if isinstance(part, int))
        name = shown(parts[0], MOST_SHOWN) if parts else ""
        faults.setdefault((location, f"{name}{places}"), []).append(fault)
    fields = tuple(
        FieldProblem(field=name, location=location, message=shown(_message(name or "the body", of_field), 300))
        for (location, name), of_field in faults.items()
        if not any(other.startswith(f"{name}[") for _, other in faults)  # which element says more
    )
    first, more = fields[0], f" and {len(fields) - 1} more" if len(fields) > 1 else ""
    detail = f"{first.location}: {first.message}{more}; /api/openapi.json says what is accepted"
    return ProblemError(422, "invalid-value", detail, fields=fields[:MOST_FIELDS])


def _message(name: str, faults: list[Any]) -> str:
    """Return what is wrong with a field: `M should be greater than or equal to 1, got 0`."""
    if faults[0]["type"] == "extra_forbidden":
        return f"{name} is an unknown field; remove it"
    if faults[0]["type"] == "missing":
        return f"{name} is missing"
    # `Input should be …`, `List should have …`
    wants = " or ".join(dict.fromkeys(fault["msg"].partition(" should ")[2] or fault["msg"] for fault in faults))
    return f"{name} should {wants}, got {_given(faults[0]['input'])}"


def _given(value: Any) -> str:
    """Return what was sent in a few characters; of a list its length alone."""
    if isinstance(value, list | tuple):
        return f"a list of {len(value):,}"
    return (
        repr(shown(value, MOST_SHOWN)) if isinstance(value, str) else shown(json.dumps(value, default=str), MOST_SHOWN)
    )
