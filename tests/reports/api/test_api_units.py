"""The document tells the unit of every number, and has an example of every request."""

from __future__ import annotations

import re

import pytest

UNITS = (
    "second",
    "byte",
    "bits",
    "count",
    "FLOP",
    "ratio",
    "share",
    "Hz",
    "watts",
    "joules",
    "elements",
    "tokens",
    "degrees",
    "unit",
    "over ",
    "code",
    "p_value",
    "95 %",
    "(after − before)",
    "− measured",
    "Benjamini",
    "relative",
    "rows",
    "ordinal",
    "half the",
    "kernel running",
    "magnitude",
    "SMs",
    "upper end",
    "median",
    "idles",
    "outside",
    "serves",
    "reached",
    "beyond",
    "size",
    "percent",
    "nats per token",
)


@pytest.fixture(scope="module")
def document(api_client):
    return api_client.get("/api/openapi.json").json()


def numbers(document):
    """Yield (model, field, schema) of every field that holds a number, a list of numbers or a mapping to numbers."""
    for model, schema in document["components"]["schemas"].items():
        for name, field in schema.get("properties", {}).items():
            if re.search(r"'type': '(number|integer)'", str(field)):
                yield model, name, field


def test_every_number_says_its_unit(document):
    field_values = list(numbers(document))
    assert len(field_values) > 150
    silent = [
        f"{model}.{name}"
        for model, name, field in field_values
        if name != "schema_version" and not any(unit.lower() in field.get("description", "").lower() for unit in UNITS)
    ]
    assert silent == []


def test_every_field_is_described(document):
    fields = [
        (f"{model}.{name}", field.get("description", ""))
        for model, schema in document["components"]["schemas"].items()
        for name, field in schema.get("properties", {}).items()
    ]
    assert len(fields) > 700
    assert [name for name, text in fields if len(text) < 5] == []


def test_every_request_has_an_example_that_works(api_client, document):
    request_count = 0
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if method != "post":
                continue
            reference = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
            for example in document["components"]["schemas"][reference]["examples"]:
                request_count += 1
                response = api_client.post(path.replace("{key}", "llama-3.1-8b"), json=example)
                assert response.status_code == 200, (path, example, response.text)
    assert request_count >= 8


def test_every_endpoint_is_described(document):
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert operation["summary"], path
            assert len(operation["description"]) > 20, path
            problems = [status for status in operation["responses"] if status[0] in "45"]
            assert {"401", "404", "422", "503"} <= set(problems)
            assert ("413" in problems) == (method == "post")
            for status in problems:
                assert list(operation["responses"][status]["content"]) == ["application/problem+json"]
            for parameter in operation.get("parameters", []):
                assert parameter["description"], (path, parameter["name"])
