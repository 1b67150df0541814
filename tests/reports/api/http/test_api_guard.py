"""Token, host, size, headers; the sensors once and live."""

from __future__ import annotations

import asyncio
import json

import pytest
from fake_nvml import FakeNvml
from fastapi.testclient import TestClient

from plugin.sensors.nvml import NvmlDevice
from reports.api.http.app import create_app
from reports.api.http.guard import LOOPBACK_HOSTS
from reports.api.http.service import Limits
from roofline_model.core.errors import InvalidValueError

TOKEN = "0123456789abcdef0123"
SHAPE = {"M": 1, "N": 64, "K": 64}


@pytest.fixture(scope="module")
def guarded(api_database):
    app = create_app(api_database, token=TOKEN, allowed_hosts=LOOPBACK_HOSTS, limits=Limits(max_body_bytes=1_000))
    with TestClient(app, base_url="http://localhost:8000") as client:
        yield client


@pytest.mark.parametrize("given", ["", "Bearer", "Bearer x", f"Basic {TOKEN}", f"Bearer {TOKEN}x", TOKEN, "Bearer é"])
def test_nothing_is_answered_without_the_token(guarded, given):
    headers = {"Authorization": given.encode()} if given else {}
    for path in ("/api/runs", "/api/hardware", "/api/nvml/status", "/api/openapi.json", "/api/zz"):
        response = guarded.get(path, headers=headers)
        assert response.status_code == 401
        assert response.headers["www-authenticate"] == "Bearer"
        assert response.headers["content-type"] == "application/problem+json"
        assert TOKEN not in response.text
    assert guarded.post("/api/analyze", json=SHAPE, headers=headers).status_code == 401


def test_with_the_token_everything_is(guarded):
    for kind in ("Bearer", "bearer"):
        headers = {"Authorization": f"{kind} {TOKEN}"}
        assert guarded.get("/api/runs", headers=headers).status_code == 200
        assert guarded.post("/api/analyze", json=SHAPE, headers=headers).status_code == 200


def test_health_and_the_page_need_no_token(guarded):
    assert guarded.get("/api/health").json()["status"] == "ok"
    assert guarded.get("/").status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example:8000",
        "[::2]",
        "",
        "[::1]evil.com",
        "localhost:evil.com",
        "localhost:80:80",
        "[::1",
        "[::1]:x",
    ],
)
def test_a_name_that_was_pointed_here_is_refused(guarded, host):
    response = guarded.get("/api/health", headers={"Host": host})
    assert (response.status_code, response.json()["slug"]) == (421, "wrong-host")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:8000", "[::1]:8000", "[::1]"])
def test_the_names_of_this_machine_are_not(guarded, host):
    assert guarded.get("/api/health", headers={"Host": host}).status_code == 200


def test_a_body_beyond_the_limit_is_refused_declared_or_not(guarded):
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    body = json.dumps({**SHAPE, "precision": "x" * 2_000}).encode()
    declared = guarded.post("/api/analyze", content=body, headers=headers)
    chunked = guarded.post(
        "/api/analyze", content=(body[at : at + 100] for at in range(0, len(body), 100)), headers=headers
    )
    for response in (declared, chunked):
        assert (response.status_code, response.json()["slug"]) == (413, "too-large")
        assert "1,000 bytes" in response.json()["detail"]


def test_a_token_that_is_none_is_refused():
    for token in ("", "short", "x" * 15, "é" * 20, "x" * 20 + "\n"):
        with pytest.raises(InvalidValueError, match="token"):
            create_app(token=token)


@pytest.mark.parametrize("path", ["/", "/api/health", "/api/hardware", "/api/zz", "/api/runs/cases/report"])
def test_every_answer_is_guarded(api_client, path):
    headers = api_client.get(path, headers={"Origin": "https://evil.example"}).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert "cache-control" in headers
    assert "access-control-allow-origin" not in headers
    assert float(headers["server-timing"].removeprefix("app;dur=")) > 0


def test_no_other_site_may_ask_first(api_client):
    response = api_client.options(
        "/api/analyze", headers={"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    )
    assert response.status_code == 405
    assert "access-control-allow-origin" not in response.headers


def test_the_page_and_its_files_come_with_their_types(api_client):
    from reports.api.http.explorer_files import page_files

    assert "explorer/index.html" in page_files()
    for path, page_file in page_files().items():
        response = api_client.get(f"/{path}")
        assert (response.content, response.headers["content-type"]) == (page_file.content, page_file.content_type)
        assert response.headers["content-security-policy"].startswith("default-src 'self'")


def test_without_a_gpu_the_status_and_the_stream_say_why(api_database):
    with TestClient(create_app(api_database, telemetry_reason="no driver")) as client:
        answer = client.get("/api/nvml/status").json()
        assert (answer["available"], answer["reason"], answer["reading"]) == (False, "no driver", None)
        lines = client.get("/api/nvml/stream").text.split("\n")
    assert lines[0] == "event: unavailable"
    assert json.loads(lines[1].removeprefix("data: "))["reason"] == "no driver"
    assert [line for line in lines if line.startswith("event")] == ["event: unavailable"]


@pytest.fixture
def gpu_client(api_database):
    nvml = FakeNvml.h200()
    app = create_app(api_database, telemetry=NvmlDevice(nvml, object()), limits=Limits(max_streams_count=1))
    with TestClient(app) as client:
        yield client, nvml, app


def test_a_gpu_tells_its_power(gpu_client):
    client, _, _ = gpu_client
    answer = client.get("/api/nvml/status").json()
    assert (answer["available"], answer["reading"]["power_w"]) == (True, 139.0)
    assert client.get("/api/health").json()["has_gpu"] is True


def test_the_stream_sends_readings_at_its_pace_and_ends_after_count(gpu_client):
    client, _, app = gpu_client
    text = client.get("/api/nvml/stream?interval_s=0.2&count=3").text
    events = [part.split("\n") for part in text.strip().split("\n\n")]
    assert [event[0] for event in events] == ["event: reading"] * 3
    readings = [json.loads(event[1].removeprefix("data: ")) for event in events]
    assert len({reading["measured_at"] for reading in readings}) == 3
    assert app.state.service.stream_count == 0


def test_many_watchers_do_not_ask_the_driver_more_often(gpu_client):
    client, nvml, _ = gpu_client
    client.get("/api/nvml/status")
    reading_count = len(nvml.calls)
    for _ in range(20):
        client.get("/api/nvml/status")
    assert len(nvml.calls) - reading_count <= reading_count  # one more reading at most, if 0.2 s went by meanwhile


@pytest.mark.parametrize(
    "query", ["interval_s=0.01", "interval_s=nan", "interval_s=inf", "interval_s=0", "count=0", "interval_s=1e9"]
)
def test_a_stream_cannot_be_asked_for_too_much(gpu_client, query):
    assert gpu_client[0].get(f"/api/nvml/stream?{query}").status_code == 422


def test_a_stream_ends_when_its_client_goes_and_there_are_only_so_many(gpu_client):
    app = gpu_client[2]
    service = app.state.service

    async def watch() -> list[int]:
        counts, gone = [], asyncio.Event()
        scope = {
            "type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1", "method": "GET", "scheme": "http",
            "path": "/api/nvml/stream", "raw_path": b"/api/nvml/stream", "query_string": b"interval_s=0.2", "root_path": "",
            "headers": [(b"host", b"localhost")], "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8000), "app": app,
        }  # fmt: skip
        statuses = []

        async def receive():
            if not counts:
                counts.append(0)
                return {"type": "http.request", "body": b"", "more_body": False}
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message):
            if message["type"] == "http.response.body" and message.get("body"):
                counts.append(service.stream_count)
                second = await _status_of(app, dict(scope))
                statuses.append(second)
                gone.set()

        await asyncio.wait_for(app(scope, receive, send), 10)
        return [*counts[1:2], *statuses[:1], service.stream_count]

    assert asyncio.run(watch()) == [1, 503, 0]


async def _status_of(app, scope) -> int:
    """Return the status of a request that is made beside another one."""
    statuses = []

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    await app(scope, receive, send)
    return statuses[0]


def test_limits_are_positive_numbers():
    with pytest.raises(InvalidValueError, match="max_streams_count"):
        Limits(max_streams_count=0)


def test_a_missing_framework_names_the_extra(monkeypatch):
    import subprocess
    import sys

    code = (
        "import sys; sys.modules['fastapi'] = None\n"
        "from typer.testing import CliRunner\nfrom roofline_cli.main import app\n"
        "done = CliRunner().invoke(app, ['serve', '--port', '0'])\nprint(done.exit_code, done.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("2 error: ")
    assert "pip install -e '.[api]'" in done.stdout


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/api/health",
        "/api/hardware/gb10",
        "/api/runs",
        "/api/runs/cases/cases",
        "/api/zz",
        "/api/analyze",
        "/api/nvml/stream",
    ],
)
def test_head_is_get_without_the_content(api_client, path):
    head, get = api_client.head(path), api_client.get(path)
    headers = [
        {name: value for name, value in response.headers.items() if name != "server-timing"} for response in (head, get)
    ]
    if path == "/api/health":  # its uptime has as many digits as it has
        headers = [{**header, "content-length": ""} for header in headers]
    assert (head.status_code, headers[0]) == (get.status_code, headers[1])
    assert head.content == b""
    assert get.content


def test_head_asks_for_the_token_and_may_be_answered_304(guarded):
    assert guarded.head("/api/hardware").status_code == 401
    headers = {"Authorization": f"Bearer {TOKEN}"}
    tag = guarded.head("/api/hardware", headers=headers).headers["etag"]
    assert guarded.head("/api/hardware", headers={**headers, "If-None-Match": tag}).status_code == 304
    assert guarded.put("/api/hardware", headers=headers).headers["allow"] == "GET, HEAD"


def test_head_of_a_stream_ends_and_gives_its_place_back():
    app = create_app(telemetry=NvmlDevice(FakeNvml(), object()), limits=Limits(max_streams_count=1))
    with TestClient(app) as client:
        for _ in range(2):
            assert client.head("/api/nvml/stream").headers["content-type"].startswith("text/event-stream")
        assert app.state.service.stream_count == 0
        assert all("head" not in methods for methods in client.get("/api/openapi.json").json()["paths"].values())
