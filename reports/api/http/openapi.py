"""The OpenAPI document: FastAPI's own, with every error as problem+json and only the statuses that can happen."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable
from dataclasses import is_dataclass
from functools import cache
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.openapi.utils import get_openapi
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from reports.api.answer_models import answer_model
from reports.api.http.problem import CONTENT_TYPE, Problem
from reports.api.http.strict_route import StrictRoute

_MEANINGS = {
    "400": "the body is not JSON",
    "401": "the token is missing or wrong (servers that ask for one)",
    "404": "nothing of this name",
    "413": "the body is too large",
    "415": "the body is not declared as JSON",
    "421": "asked by a host name that this server does not answer to",
    "422": "a value is wrong; errors names the field",
    "503": "the database cannot be read now, or too many streams are open",
}
_DESCRIPTION = """Predictions and measurements of transformer-inference kernels: what the roofline model says of a product, a
model or a grid, and what the results database holds. Read-only. Numbers are SI with the unit in the name; what is not
known is null. docs/reference/api.md explains it with examples."""


PATH = "/api/openapi.json"
_REFERENCE = "#/components/schemas/{model}"


def describe(app: FastAPI, routers: Iterable[APIRouter], version: str) -> None:
    """Make `app.openapi` return our document, and serve it at `PATH`; made once, when it is first asked for, and the
    models of the answers with it.
    """
    routes = [route for router in routers for route in router.routes if isinstance(route, StrictRoute)]

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            openapi = get_openapi(title="roofline-bench", version=version, description=_DESCRIPTION, routes=app.routes)
            _set_answers(openapi, routes)
            for path in openapi["paths"].values():
                for method, operation in path.items():
                    _set_problems(operation, has_body=method == "post")
            for name in ("HTTPValidationError", "ValidationError"):
                openapi["components"]["schemas"].pop(name, None)
            openapi["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            openapi["security"] = [{}, {"token": []}]
            app.openapi_schema = openapi
        return app.openapi_schema

    @cache
    def response() -> JSONResponse:
        return JSONResponse(document())

    async def openapi(_: Request) -> JSONResponse:
        return response()

    app.openapi = document  # type: ignore[method-assign]
    app.add_route(PATH, openapi, include_in_schema=False)


def _set_answers(openapi: dict[str, Any], routes: Iterable[StrictRoute]) -> None:
    """Describe what each endpoint answers, and a problem."""
    models = [(route, _model(route.answer)) for route in routes if route.answer is not None]
    described: dict[type[BaseModel], None] = dict.fromkeys([*(model for _, model in models), Problem])
    schemas, definitions = models_json_schema(
        [(model, "serialization") for model in described], ref_template=_REFERENCE
    )
    openapi["components"]["schemas"].update(definitions["$defs"])
    for route, model in models:
        for method in route.methods or ():
            content = openapi["paths"][route.path][method.lower()]["responses"]["200"]["content"]
            content["application/json"]["schema"] = schemas[model, "serialization"]


def _model(answer: Any) -> type[BaseModel]:
    """Return the model of a type of answers, or of `module:name`."""
    cls: type = pkgutil.resolve_name(answer) if isinstance(answer, str) else answer
    return answer_model(cls) if is_dataclass(cls) else cls


def _set_problems(operation: dict[str, Any], *, has_body: bool) -> None:
    statuses = ["401", "404", "421", "422", "503", *(("400", "413", "415") if has_body else ())]
    content = {CONTENT_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    for status in sorted(statuses):
        operation["responses"][status] = {"description": _MEANINGS[status], "content": content}
