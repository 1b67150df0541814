"""Token, host, size, headers; the sensors."""

from __future__ import annotations

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


def test_without_a_gpu_the_status_says_why(api_database):
    with TestClient(create_app(api_database, telemetry_reason="no driver")) as client:
        answer = client.get("/api/nvml/status").json()
        assert (answer["available"], answer["reason"], answer["reading"]) == (False, "no driver", None)


@pytest.fixture
def gpu_client(api_database):
    nvml = FakeNvml.h200()
    limits = Limits(min_reading_interval_s=600)
    app = create_app(api_database, telemetry=NvmlDevice(nvml, object()), limits=limits)
    with TestClient(app) as client:
        yield client, nvml


def test_a_gpu_tells_its_power(gpu_client):
    client, _ = gpu_client
    answer = client.get("/api/nvml/status").json()
    assert (answer["available"], answer["reading"]["power_w"]) == (True, 139.0)
    assert client.get("/api/health").json()["has_gpu"] is True


def test_many_watchers_do_not_ask_the_driver_more_often(gpu_client):
    client, nvml = gpu_client
    client.get("/api/nvml/status")
    reading_count = len(nvml.calls)
    for _ in range(20):
        client.get("/api/nvml/status")
    assert len(nvml.calls) == reading_count


def test_limits_are_positive_numbers():
    with pytest.raises(InvalidValueError, match="max_page_count"):
        Limits(max_page_count=0)


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
        "/api/nvml/status",
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


def test_head_asks_for_the_token(guarded):
    assert guarded.head("/api/hardware").status_code == 401
    assert guarded.head("/api/hardware", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
    paths = guarded.get("/api/openapi.json", headers={"Authorization": f"Bearer {TOKEN}"}).json()["paths"]
    assert all("head" not in methods for methods in paths.values())
