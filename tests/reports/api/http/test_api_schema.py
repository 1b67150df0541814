"""Generated requests over the whole OpenAPI document: no fault of the server, nothing that the document does not say.

A few per endpoint in the normal suite, thousands in the full one.
"""

from __future__ import annotations

import os
import re

import pytest

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")
# Imported by schemathesis in the middle of generating, where CPython 3.11 may fail to compile it for pytest.
pytest.importorskip("schemathesis.generation.dictionaries")

from hypothesis import HealthCheck, Phase, settings  # noqa: E402
from schemathesis.checks import not_a_server_error  # noqa: E402
from schemathesis.python import asgi  # noqa: E402
from schemathesis.specs.openapi.checks import (  # noqa: E402
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
OPERATION_COUNT = 22
FEW = 3
MANY = 400
"""Of each of 27 operations: 10,800 requests."""


@pytest.fixture
def generated_client(api_database):
    """An app of its own: schemathesis ends the app that it was given with every test."""
    from reports.api.http.app import create_app

    app = create_app(api_database)
    with asgi.get_client(app) as session:
        yield app, session


@pytest.fixture
def api_schema(generated_client):
    return schemathesis.openapi.from_dict(generated_client[0].openapi())


def operations(schema):
    return [all_operation.ok() for all_operation in schema.get_all_operations()]


def ask(client, operation, count):
    """Send generated requests, those that fit the document and those that do not, and check what comes back."""
    app, session = client
    sent = []

    @settings(
        max_examples=count,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
        derandomize=count == FEW,
        database=None,
    )
    @hypothesis_given(operation)
    def once(case):
        response = case.call(app=app, session=session)
        sent.append(response.status_code)
        case.validate_response(response, checks=CHECKS)
        check_text(response)

    once()
    return sent


def hypothesis_given(operation):
    from hypothesis import given
    from schemathesis.generation import GenerationMode

    modes = [operation.as_strategy(generation_mode=mode) for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)]
    return given(case=modes[0] | modes[1])


def check_text(response):
    """No NaN in JSON, no traceback, no path of this machine beyond the database's."""
    text = response.text
    if "json" in response.headers.get("content-type", [""])[0]:
        assert not re.search(r"[\[:,]\s*-?(NaN|Infinity)\b", text)
    assert "Traceback" not in text
    assert os.path.expanduser("~") + "/" not in text


def test_few_generated_requests(generated_client, api_schema):
    by_id = operations(api_schema)
    assert len(by_id) == OPERATION_COUNT
    statuses = []
    for operation in by_id:
        if not operation.path.endswith("/report"):  # drawing takes a second each
            statuses += ask(generated_client, operation, FEW)
    assert {200, 422} <= set(statuses)


@pytest.mark.full
@pytest.mark.parametrize("index", range(OPERATION_COUNT))
def test_many_generated_requests(generated_client, api_schema, index):
    ask(generated_client, operations(api_schema)[index], MANY)
