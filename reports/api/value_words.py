"""What is wrong with a value of a request, in the words of every other error here: the field, what it takes, what was given."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import TypeAdapter

from reports.display_text import shown
from roofline_model.core.memo import Memo

# PostgreSQL takes no NUL in a text, and a name of several lines is none.
NAME_PATTERN = r"^[^\x00-\x1f\x7f]+$"
"""Of names that a request may hold: no control characters."""

MOST_SHOWN = 60
"""Characters of a wrong value that are told."""

Schema = Mapping[str, Any]

_KEPT: Memo[Mapping[tuple[str, str], Schema]] = Memo(256)


def schemas_of(route: APIRoute) -> Mapping[tuple[str, str], Schema]:
    """Return (location, field) → JSON schema of everything that a route declares."""
    return _KEPT.of((route,), lambda: _schemas(route))


def _schemas(route: APIRoute) -> Mapping[tuple[str, str], Schema]:
    found: dict[tuple[str, str], Schema] = {}
    for location, parameters in _parameters(route.dependant):
        for one in parameters:
            declared: Any = Annotated[one.field_info.annotation, one.field_info]
            found[location, one.alias] = TypeAdapter(declared).json_schema()
    if route.body_field is not None:
        model: Any = route.body_field.field_info.annotation
        found |= {("body", name): one for name, one in model.model_json_schema()["properties"].items()}
    return found


def _parameters(dependant: Dependant) -> Iterator[tuple[str, Sequence[Any]]]:
    yield "query", dependant.query_params
    yield "path", dependant.path_params
    yield "header", dependant.header_params


def element_schema(schema: Schema) -> Schema:
    """Return the schema of a list's elements; empty for what is no list."""
    found: Schema = _branch(schema, "array").get("items", {})
    return found


def problem_text(name: str, errors: Sequence[Mapping[str, Any]], schema: Schema) -> str:
    """Return what is wrong with a field: `M must be a whole number from 1 to 1,000,000,000, got 0`.

    `errors`: pydantic's, of one value; more than one where it may be of several kinds. `schema`: of the field, or of its
    elements; empty where it is not known.
    """
    kinds = {one["type"] for one in errors}
    if "extra_forbidden" in kinds:
        return "unknown field; remove it"
    if "missing" in kinds:
        return f"{name} is missing"
    wants = dict.fromkeys(_wanted(one, schema) for one in errors)
    if None in wants:  # a kind of error that no field of ours has: pydantic knows more of it
        return f"{name}: {'; or: '.join(dict.fromkeys(one['msg'] for one in errors))}"
    return f"{name} must be {' or '.join(str(one) for one in wants)}, got {_given(errors[0]['input'])}"


def _wanted(error: Mapping[str, Any], schema: Schema) -> str | None:
    """Return what a value has to be; None where it cannot be told."""
    kind, context = error["type"], error.get("ctx") or {}
    if kind.startswith(("greater_than", "less_than", "int_", "float_", "finite_number")):
        return _number_words(_branch(schema, "integer", "number"), is_whole=kind.startswith("int_"))
    if kind.startswith("string_"):
        text = _branch(schema, "string")
        if kind == "string_pattern_mismatch":
            pattern = text.get("pattern", context.get("pattern", ""))
            return "text without control characters" if pattern == NAME_PATTERN else f"text like {pattern}"
        return f"text{_length_words(text.get('minLength'), text.get('maxLength'), 'character')}"
    if kind in ("list_type", "too_short", "too_long"):
        entries = _branch(schema, "array")
        return f"a list{_length_words(entries.get('minItems'), entries.get('maxItems'), 'entry')}"
    if kind == "literal_error":
        return str(context["expected"]).replace("'", "")
    if kind.startswith("bool_"):
        return "true or false"
    return "a JSON object" if kind in ("model_attributes_type", "model_type", "dict_type") else None


def _branch(schema: Schema, *types: str) -> Schema:
    """Return the part of a schema that is of one of these types."""
    return next((one for one in (schema, *schema.get("anyOf", ())) if one.get("type") in types), {})


def _number_words(schema: Schema, *, is_whole: bool) -> str:
    """Return `a whole number from 1 to 9`, `a number above 0 and at most 1,000`, or what of both ends is declared."""
    noun = "a whole number" if is_whole or schema.get("type") == "integer" else "a number"
    starts = {"minimum": "from", "exclusiveMinimum": "above"}
    start = next((f" {word} {schema[name]:,.12g}" for name, word in starts.items() if name in schema), "")
    joint = " to" if "minimum" in schema else " and" if start else ""
    if "maximum" in schema:
        return f"{noun}{start}{joint}{'' if 'minimum' in schema else ' at most'} {schema['maximum']:,.12g}"
    if "exclusiveMaximum" in schema:
        return f"{noun}{start}{joint} below {schema['exclusiveMaximum']:,.12g}"
    return noun + start


def _length_words(least: int | None, most: int | None, unit: str) -> str:
    units = {"character": "characters", "entry": "entries"}
    if most is None:
        return "" if not least else f" of at least {least} {unit if least == 1 else units[unit]}"
    return f" of {f'{least} to ' if least else 'at most '}{most:,} {units[unit]}"


def _given(value: Any) -> str:
    """Return what was sent, as JSON has it, in a few characters; of a list its length alone."""
    if isinstance(value, list | tuple):
        return f"a list of {len(value):,}"
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, str):
        return repr(shown(value, MOST_SHOWN))
    return shown(json.dumps(value, default=str), MOST_SHOWN)
