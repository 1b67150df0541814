"""What went wrong, as RFC 9457's problem details: what was asked, what is known, what to do next, and which field."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from reports.text.display_text import shown
from roofline_model.core.errors import (
    DatabaseAwayError,
    MissingDependencyError,
    RooflineError,
    StoreError,
    UnknownNameError,
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

    field: str = Field(description="name of the field, parts joined by dots")
    location: str = Field(description="body, query, path or header")
    message: str = Field(description="what is wrong with it")
    nearest: tuple[str, ...] = Field(
        default=(), description="for an unknown name: known ones that come near, best first"
    )


class Problem(BaseModel):
    """RFC 9457 problem details."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        json_schema_extra={
            "examples": [
                {
                    "type": "urn:roofline-bench:error:unknown-format",
                    "title": "unknown format",
                    "status": 422,
                    "detail": "unknown format 'FP17'. Did you mean FP16? …",
                    "slug": "unknown-format",
                    "instance": "/api/analyze",
                    "errors": [{"field": "precision", "location": "body", "message": "unknown format 'FP17'. …"}],
                }
            ]
        },
    )

    type: str = Field(description="urn:roofline-bench:error:SLUG")
    title: str = Field(description="the kind of problem, the same for every occurrence")
    status: int = Field(description="HTTP status code")
    detail: str = Field(description="what was asked, what is known, what to do next")
    slug: str = Field(
        description="heading of docs/reference/errors.md, or of docs/reference/api.md where it is about HTTP"
    )
    instance: str = Field(description="path of the request")
    errors: list[FieldProblem] = Field(description="fields that are wrong; empty where no single one is")


class ProblemError(Exception):
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
        super().__init__(detail)
        self.status = status
        self.slug = slug
        self.detail = detail
        self.fields = fields
        self.headers = headers

    def __reduce__(self) -> tuple[Any, ...]:
        # A worker process hands it to the server.
        return _rebuilt, (self.status, self.slug, self.detail, self.fields, self.headers)


def _rebuilt(status: int, slug: str, detail: str, fields: tuple[FieldProblem, ...], headers: Any) -> ProblemError:
    return ProblemError(status, slug, detail, fields=fields, headers=headers)


FAULT = ProblemError(500, "fault", "a fault of the server; its log says where")
"""What a client is told of a fault of ours: nothing of its innards; the server's log has the traceback."""


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
        message = _text(error)
        nearest = error.nearest if isinstance(error, UnknownNameError) else ()
        raise ProblemError(
            404 if location == "path" and isinstance(error, UnknownNameError) else 422,
            error.slug,
            message,
            fields=(FieldProblem(field=field, location=location, message=message, nearest=nearest),),
        ) from None


def repeated(name: str, location: Location) -> ProblemError:
    """Return the problem of a name that stands twice in query or body: which one was meant?"""
    key, message = shown(name, 60), f"stands twice in the {location}; keep one"
    field = FieldProblem(field=key, location=location, message=message)
    return ProblemError(422, "invalid-value", f"{location} {key}: {message}", fields=(field,))


def response(request: Request, problem: ProblemError) -> JSONResponse:
    """Return a problem as its HTTP response."""
    body = document(request.url.path, problem)
    return JSONResponse(body, problem.status, headers=problem.headers, media_type=CONTENT_TYPE)


def document(path: str, problem: ProblemError) -> dict[str, Any]:
    """Return a problem as JSON values; text from the request is cut and cleaned."""
    return {
        "type": f"urn:roofline-bench:error:{problem.slug}",
        "title": problem.slug.replace("-", " "),
        "status": problem.status,
        "detail": shown(problem.detail, MOST_CHARACTERS),
        "slug": problem.slug,
        "instance": shown(path, 200),
        "errors": [field.model_dump() for field in problem.fields],
    }


async def on_problem(request: Request, error: Exception) -> JSONResponse:
    """Answer a `ProblemError`."""
    assert isinstance(error, ProblemError)
    return response(request, error)


async def on_roofline_error(request: Request, error: Exception) -> JSONResponse:
    """Answer a `RooflineError` that no field could be named for."""
    assert isinstance(error, RooflineError)
    if isinstance(error, DatabaseAwayError):
        return response(request, ProblemError(503, error.slug, _text(error), headers={"Retry-After": "5"}))
    if isinstance(error, StoreError | MissingDependencyError):
        return response(request, ProblemError(503, error.slug, _text(error)))
    status = 404 if isinstance(error, UnknownNameError) else 422
    return response(request, ProblemError(status, error.slug, _text(error)))


async def on_invalid_request(request: Request, error: Exception) -> JSONResponse:
    """Answer a request that does not fit its model: 400 for what is not JSON, else 422 naming the fields."""
    assert isinstance(error, RequestValidationError)
    errors = error.errors()
    if any(error["type"] == "json_invalid" for error in errors):
        return response(request, ProblemError(400, "not-json", "the body is not JSON; send one JSON object"))
    fields = _fields(errors)
    more = f" and {len(fields) - 1} more" if len(fields) > 1 else ""
    fields = fields[:MOST_FIELDS]
    first = fields[0]
    detail = f"{first.location}{_named(first)}: {first.message}{more}; /api/openapi.json says what is accepted"
    return response(request, ProblemError(422, "invalid-value", detail, fields=fields))


async def on_http_error(request: Request, error: Exception) -> JSONResponse:
    """Answer what the router or the framework refuses: unknown path, method, content type."""
    assert isinstance(error, HTTPException)
    cause = error.__cause__
    if isinstance(cause, ProblemError):  # the framework wraps what `Request.json` raises
        return response(request, cause)
    if error.status_code == 400 and isinstance(cause, ValueError) and not isinstance(cause, UnicodeError):
        return response(request, await _long_number(request))
    slugs = {400: "not-json", 404: "not-found", 405: "method-not-allowed", 415: "not-json"}
    details = {
        400: "the body cannot be read; send one JSON object",
        404: "there is nothing at this path; /api/openapi.json lists the endpoints",
        405: "this path does not take this method; /api/openapi.json says which",
        415: "the body has to be application/json: add -H 'Content-Type: application/json'",
    }
    status = error.status_code
    detail = details.get(status, str(error.detail))
    headers = dict(error.headers) if error.headers else None
    if status == 405 and headers and headers.get("Allow") == "GET":
        headers["Allow"] = "GET, HEAD"  # the guard turns HEAD into GET
    return response(request, ProblemError(status, slugs.get(status, "http-error"), detail, headers=headers))


def _named(problem: FieldProblem) -> str:
    """Return a field's name where its message does not begin with it."""
    return "" if not problem.field or problem.message.startswith(problem.field) else f" {problem.field}"


def _fields(errors_found: Sequence[Any]) -> tuple[FieldProblem, ...]:
    """Return every wrong field once, an element of a list by its place: `N[1]`.

    A field that may be one of several (a number, a list, a text) fails as each of them. What says most goes: the
    element that is wrong, else the limit that is broken, else all that it could have been.
    """
    by_field: dict[tuple[str, str], list[Any]] = {}
    for fault in errors_found:
        location, *parts = fault["loc"] or ("body",)
        by_field.setdefault((str(location), shown(parts[0], 60) if parts else ""), []).append(fault)
    problems = []
    for (location, name), errors in by_field.items():
        elements = [error for error in errors if _places(error)]
        limits = [error for error in errors if not error["type"].endswith(("_type", "_parsing"))]
        same: dict[str, list[Any]] = {}
        for fault in elements or limits or errors:
            places = "".join(f"[{place}]" for place in _places(fault))
            same.setdefault(f"{name}{places}", []).append(fault)
        problems += [
            FieldProblem(
                field=field, location=location, message=shown(_message(field or f"the {location}", of_field), 300)
            )
            for field, of_field in same.items()
        ]
    return tuple(problems)


def _message(name: str, errors: Sequence[Any]) -> str:
    """Return what is wrong with a field in pydantic's words: `M should be greater than or equal to 1, got 0`.

    `errors`: of one value; more than one where it may be of several kinds.
    """
    if any(error["type"] == "extra_forbidden" for error in errors):
        return "unknown field; remove it"
    if any(error["type"] == "missing" for error in errors):
        return f"{name} is missing"
    messages = dict.fromkeys(error["msg"] for error in errors)
    wants = [message.partition(" should ")[2] for message in messages]  # `Input should be …`, `List should have …`
    what = f" should {' or '.join(wants)}" if all(wants) else f": {'; or: '.join(messages)}"
    return f"{name}{what}, got {_given(errors[0]['input'])}"


def _given(value: Any) -> str:
    """Return what was sent, as JSON has it, in a few characters; of a list its length alone."""
    if isinstance(value, list | tuple):
        return f"a list of {len(value):,}"
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, str):
        return repr(shown(value, MOST_SHOWN))
    return shown(json.dumps(value, default=str), MOST_SHOWN)


def _places(error: Any) -> list[int]:
    # Between field and place stands the name of the branch that was tried, `list[constrained-int]`: that is pydantic's
    # affair.
    return [part for part in error["loc"][2:] if isinstance(part, int)]


_KEY_AND_DIGITS = re.compile(rb'"([^"\\]{1,60})"\s*:|([0-9]+)')


async def _long_number(request: Request) -> ProblemError:
    """Return the problem of a number with more digits than Python reads; names the field whose key stands before it."""
    most, field = sys.get_int_max_str_digits(), ""
    for match in _KEY_AND_DIGITS.finditer(await request.body()):
        key, digits = match.groups()
        if key is not None:
            field = shown(key.decode(errors="replace"), 60)
        elif len(digits) > most:
            break
    message = f"a number is too long: it has more than {most:,} digits; write a smaller one"
    return ProblemError(
        422,
        "invalid-value",
        f"body {field or 'as a whole'}: {message}",
        fields=(FieldProblem(field=field, location="body", message=message),),
    )


def _text(error: RooflineError) -> str:
    return shown(error, MOST_CHARACTERS)
