"""Short answers go past the framework: what it would have said, a refusal included, comes out byte for byte."""

from __future__ import annotations

import asyncio
import json

import pytest
from fastapi import Request
from fastapi.routing import APIRoute
from starlette.testclient import TestClient

from reports.api.http.app import create_app

SHAPE = {"M": 3, "N": 4160, "K": 4096}
DIRECT, USUAL = "application/json", "application/json; charset=utf-8"
PATHS = ("/api/analyze", "/api/recommend", "/api/tiling")
ATTENTION = {"Hq": 32, "Hkv": 8, "Sq": 1, "Skv": 8192, "D": 128}


def both_ways(client, path: str, body: bytes):
    """Return (status, headers, body) as answered directly and by the framework."""
    answers = []
    for kind in (DIRECT, USUAL):
        answer = client.post(path, content=body, headers={"Content-Type": kind})
        headers = {name: value for name, value in answer.headers.items() if name != "server-timing"}
        answers.append((answer.status_code, headers, answer.content))
    return answers


@pytest.mark.parametrize(
    "query",
    [
        "",
        "?hardware_key=h100",
        "?hardware_key=B10",
        "?hardware_key=rtx-5090",
        "?hardware_key=nope",
        "?hardware_key=auto",
        "?hardware_key=",
        "?hardware_key=%67b10",
        "?hardware_key=l4&hardware_key=h100",
        "?x=1",
        f"?hardware_key={'a' * 61}",
    ],
)
@pytest.mark.parametrize("path", PATHS)
def test_any_query_is_answered_alike(api_client, path, query):
    direct, usual = both_ways(api_client, path + query, json.dumps(SHAPE).encode())
    assert direct == usual


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b'"x"',
        b"{",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"M":1.0,"N":2,"K":3}',
        b'{"M":true,"N":2,"K":3}',
        b'{"M":1,"M":2,"N":2,"K":3}',
        b'{"M":NaN,"N":2,"K":3}',
        b' {"M":1,"N":2,"K":3}\n',
        b'{"M":1,"N":2,"K":3} x',
        b'{"M":1,"N":2,"K":3,"m":4}',
        b'{"M":1,"N":2,"K":3,"precision":"FP17"}',
        rb'{"M":1,"N":2,"K":3,"precision":"\ud800"}',
        b'\xef\xbb\xbf{"M":1,"N":2,"K":3}',
        '{"M":1,"N":2,"K":3}'.encode("utf-16"),
        b'{"M":1,"N":2,"K":3,"cache":"warm"}',
        b'{"M":' + b"9" * 5_000 + b',"N":1,"K":1}',
        b'{"M":1,"N":2,"K":3,"memory_limit_gb":"24"}',
    ],
)
@pytest.mark.parametrize("path", PATHS)
def test_any_body_is_answered_alike(api_client, path, body):
    direct, usual = both_ways(api_client, path, body)
    assert direct == usual


@pytest.mark.parametrize("path", ["/api/attention", "/api/attention/recommend"])
def test_attention_is_answered_alike(api_client, path):
    for shape, status in ((ATTENTION, 200), ({**ATTENTION, "Hkv": 5}, 422)):
        direct, usual = both_ways(api_client, path, json.dumps(shape).encode())
        assert direct == usual
        assert direct[0] == status


def test_plain_requests_do_go_past_the_framework(monkeypatch):
    async def never(_request):
        raise AssertionError("the framework was asked")

    monkeypatch.setattr(APIRoute, "get_route_handler", lambda self: never)
    with TestClient(create_app(), raise_server_exceptions=False) as client:
        direct, usual = both_ways(client, "/api/analyze?hardware_key=h100", json.dumps(SHAPE).encode())
    assert direct[0] == 200
    assert usual[0] == 500


def test_a_body_is_parsed_once(monkeypatch):
    async def never(_request):
        raise AssertionError("parsed once more")

    monkeypatch.setattr(Request, "json", never)
    sweep = json.dumps({"M": [1, 2], "N": 64, "K": 64}).encode()
    with TestClient(create_app()) as client:
        for path, body in (("/api/sweep", sweep), ("/api/analyze", json.dumps(SHAPE).encode())):
            assert client.post(path, content=body, headers={"Content-Type": USUAL}).status_code == 200


def test_a_client_that_goes_in_the_middle_of_its_body_is_no_fault():
    """What was taken from the connection cannot be read twice: asking again would wait for ever."""
    messages = [{"type": "http.request", "body": b'{"M":1', "more_body": True}, {"type": "http.disconnect"}]
    sent = []

    async def receive():
        return messages.pop(0)

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/api/analyze",
        "raw_path": b"/api/analyze",
        "query_string": b"",
        "root_path": "",
        "headers": [(b"host", b"localhost"), (b"content-type", DIRECT.encode())],
    }
    asyncio.run(create_app()(scope, receive, send))
    assert sent[0]["status"] == 400
