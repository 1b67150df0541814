"""Long computing two at a time: who waits holds no thread, who went is passed over."""

from __future__ import annotations

import asyncio
import json
import threading

import httpx
import pytest
from fastapi.testclient import TestClient

from reports.api.http.app import create_app
from reports.api.predict import sweep
from reports.api.stored import run_endpoints

SWEEP = {"M": [1, 2], "N": [64], "K": [64], "formats": ["FP16"]}


def scope_of(app, method, path, query=b""):
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query,
        "root_path": "",
        "client": ("127.0.0.1", 1),
        "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
        "server": ("127.0.0.1", 8000),
        "app": app,
    }


def test_reports_that_wait_hold_no_thread(api_database, monkeypatch):
    app = create_app(api_database)
    drawing, may_end = threading.Event(), threading.Event()

    def slow(*_):
        drawing.set()
        assert may_end.wait(20)
        return "<html></html>"

    monkeypatch.setattr(run_endpoints, "_page", slow)

    async def ask():
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            reports = [asyncio.ensure_future(client.get("/api/runs/latest/report")) for _ in range(80)]
            try:
                await asyncio.to_thread(drawing.wait, 10)
                beside = [await asyncio.wait_for(client.get(path), 5) for path in ("/api/health", "/api/runs?limit=1")]
            finally:
                may_end.set()
            return beside, await asyncio.gather(*reports)

    beside, answers = asyncio.run(ask())
    assert [response.status_code for response in (*beside, *answers)] == [200] * (2 + 80)


def test_health_waits_for_no_database(api_database, monkeypatch):
    app = create_app(api_database)
    may_end = threading.Event()
    reads = []
    monkeypatch.setattr("reports.api.http.app.HEALTH_WAIT_S", 0.05)
    monkeypatch.setattr(app.state.service.store, "is_readable", lambda: reads.append(1) or may_end.wait(20))

    async def ask():
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            try:
                return [(await client.get("/api/health")).json()["has_database"] for _ in range(3)]
            finally:
                may_end.set()

    assert asyncio.run(ask()) == [None, None, None]
    assert reads == [1]


@pytest.mark.parametrize("is_gone", [True, False])
def test_a_sweep_of_a_client_that_went_is_not_computed(api_database, monkeypatch, is_gone):
    app = create_app(api_database)
    computed = []
    answer = sweep.sweep_json
    monkeypatch.setattr(sweep, "sweep_json", lambda *given: computed.append(1) or answer(*given))
    messages = [{"type": "http.request", "body": json.dumps(SWEEP).encode(), "more_body": False}]
    statuses = []

    async def receive():
        if messages:
            return messages.pop()
        if not is_gone:
            await asyncio.sleep(20)
        return {"type": "http.disconnect"}

    async def send(message):
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    asyncio.run(asyncio.wait_for(app(scope_of(app, "POST", "/api/sweep"), receive, send), 10))
    assert computed == ([] if is_gone else [1])
    assert statuses == ([503] if is_gone else [200])


def test_an_app_that_ended_can_be_served_again(api_database):
    app = create_app(api_database)
    for _ in range(2):
        with TestClient(app) as client:
            assert client.post("/api/sweep", json=SWEEP).status_code == 200


def test_a_client_that_goes_in_the_middle_of_its_body_is_no_fault():
    """What was taken from the connection cannot be read twice: asking again would wait for ever."""
    app = create_app()
    messages = [{"type": "http.request", "body": b'{"M":1', "more_body": True}, {"type": "http.disconnect"}]
    sent = []

    async def receive():
        return messages.pop(0)

    async def send(message):
        sent.append(message)

    asyncio.run(app(scope_of(app, "POST", "/api/analyze"), receive, send))
    assert sent[0]["status"] == 400
