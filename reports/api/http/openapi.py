"""The OpenAPI document: FastAPI's own, with the answers described and every error as problem+json."""

from __future__ import annotations

import pkgutil
from dataclasses import is_dataclass
from threading import Lock
from typing import Any, Literal

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from reports.api.answer_models import document_model
from reports.api.http.problem import CONTENT_TYPE, Problem

PATH = "/api/openapi.json"
_MEANINGS = {
    "400": "the body is not JSON",
    "401": "the token is missing or wrong (servers that ask for one)",
    "404": "nothing of this name",
    "413": "the body is too large",
    "415": "the body is not declared as JSON",
    "421": "asked by a host name that this server does not answer to",
    "422": "a value is wrong; errors names the field",
    "503": "the database cannot be read now",
}
_OF_BODIES = ("400", "413", "415")
_DESCRIPTION = """Predictions and measurements of transformer-inference kernels: what the roofline model says of a product, a
model or a grid, and what the results database holds. Read-only. Numbers are SI with the unit in the name; what is not
known is null. docs/reference/api.md explains it with examples."""
_REFERENCE = "#/components/schemas/{model}"


def answered(answer: type | str) -> dict[int | str, dict[str, Any]]:
    """Return the `responses` of an endpoint that answers with the JSON of a dataclass or model.

    `module:name` is one that takes long to import: only the document asks for it.
    """
    name = answer if isinstance(answer, str) else f"{answer.__module__}:{answer.__qualname__}"
    return {200: {"content": {"application/json": {"schema": {"$ref": name}}}}}


def describe(app: FastAPI) -> None:
    """Make `app.openapi` return our document, made when it is first asked for, and serve it at `PATH`."""
    making = Lock()

    def document() -> dict[str, Any]:
        with making:  # CPython 3.11 fails where two threads parse at once, and pydantic parses for docstrings
            if app.openapi_schema is None:
                app.openapi_schema = _document(app)
            return app.openapi_schema

    @app.get(PATH, include_in_schema=False)
    def openapi() -> JSONResponse:  # seconds, once: in a thread
        return JSONResponse(document())

    app.openapi = document  # type: ignore[method-assign]


def _document(app: FastAPI) -> dict[str, Any]:
    openapi = get_openapi(title=app.title, version=app.version, description=_DESCRIPTION, routes=app.routes)
    operations = [operation for path in openapi["paths"].values() for operation in path.values()]
    answers = [
        schema
        for operation in operations
        for content in operation["responses"]["200"].get("content", {}).values()
        if ":" in (schema := content["schema"]).get("$ref", "")
    ]
    models = [_model(schema["$ref"]) for schema in answers]
    described: list[tuple[Any, Literal["serialization"]]] = [
        (model, "serialization") for model in dict.fromkeys([*models, Problem])
    ]
    schemas, definitions = models_json_schema(described, ref_template=_REFERENCE)
    for schema, model in zip(answers, models, strict=True):
        schema |= schemas[model, "serialization"]
    problem = {CONTENT_TYPE: {"schema": {"$ref": _REFERENCE.format(model=Problem.__name__)}}}
    for operation in operations:
        for status, meaning in _MEANINGS.items():
            if status not in _OF_BODIES or "requestBody" in operation:
                operation["responses"][status] = {"description": meaning, "content": problem}
    components = openapi["components"]
    components["schemas"] |= definitions["$defs"]
    for name in ("HTTPValidationError", "ValidationError"):
        components["schemas"].pop(name, None)
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    openapi["security"] = [{}, {"token": []}]
    return openapi


def _model(name: str) -> type[BaseModel]:
    answer: type = pkgutil.resolve_name(name)
    return document_model(answer) if is_dataclass(answer) or hasattr(answer, "JSON_OF") else answer
