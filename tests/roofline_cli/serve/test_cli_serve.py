"""`roofline serve`: starts, says where, answers, ends with Ctrl-C; refuses what would be open to others or cannot
be.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import pytest
from typer.testing import CliRunner

from roofline_cli.main import app
from roofline_cli.serve import server as serve
from roofline_cli.shared.interruption import EXIT_INTERRUPTED
from roofline_model.core.errors import InvalidValueError

pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install 'roofline-bench[api]'")

ROOT = Path(__file__).parents[3]
TOKEN = "0123456789abcdef0123"


def test_it_serves_until_it_is_interrupted(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), serve.TOKEN_VARIABLE: ""}
    command = [
        sys.executable,
        "-m",
        "roofline_cli",
        "serve",
        "--port",
        "0",
        "--json",
        "--db",
        str(tmp_path / "none.db"),
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        printed = ""
        while not printed.rstrip().endswith("}"):
            line = process.stdout.readline()
            assert line, process.stderr.read()
            printed += line
        started = json.loads(printed)
        assert started["needs_token"] is False
        request = urllib.request.Request(
            f"{started['url']}/api/analyze?hardware_key=b10",
            data=b'{"M":1,"N":4096,"K":4096,"precision":"FP16"}',
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=20) as answer:
            assert round(json.load(answer)["time_s"] * 1e6, 2) == 33.57
            assert "server" not in {name.lower() for name in answer.headers}
        with urllib.request.urlopen(f"{started['url']}/api/nvml/status", timeout=20) as answer:
            assert json.load(answer)["available"] in (True, False)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == EXIT_INTERRUPTED
        assert process.stderr.read() == "interrupted\n"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_open_answers_do_not_keep_it_and_nothing_is_printed(tmp_path, capfd, number):
    """A stream that sleeps, a body that never comes, a thread that computes: the end is quick, in order and
    quiet.
    """
    from starlette.responses import StreamingResponse

    from reports.api.http.app import create_app

    app = create_app(tmp_path / "none.db")
    is_busy, may_end, asked_at_s = threading.Event(), threading.Event(), []

    @app.get("/api/slow")
    def slow():
        is_busy.set()
        may_end.wait(20)

    @app.get("/api/endless")
    async def endless():
        async def parts():
            yield b" "
            await asyncio.sleep(60)

        return StreamingResponse(parts())

    def ask(port):
        requests = (
            b"GET /api/endless HTTP/1.1\r\nHost: localhost\r\n\r\n",
            b"POST /api/analyze HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{",
            b"GET /api/slow HTTP/1.1\r\nHost: localhost\r\n\r\n",
        )
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(socket.create_connection(("127.0.0.1", port), 20)) for _ in requests]
            for client, request in zip(clients, requests, strict=True):
                client.sendall(request)
            assert b"200 OK" in clients[0].recv(4096)
            assert is_busy.wait(20)
            asked_at_s.append(time.monotonic())
            os.kill(os.getpid(), number)
            while clients[0].recv(4096):
                pass
            may_end.wait(20)

    before = signal.getsignal(signal.SIGTERM)
    listening = serve._bound("127.0.0.1", 0)
    client = threading.Thread(target=ask, args=(listening.getsockname()[1],), daemon=True)
    try:
        is_interrupted = serve._run(app, listening, client.start)
        has_ended = serve._threads_end()
        took_s = time.monotonic() - asked_at_s[0]
    finally:
        may_end.set()
        signal.signal(signal.SIGTERM, before)
        client.join(5)
    assert is_interrupted is (number == signal.SIGINT)
    assert has_ended is False  # the thread of /api/slow: `serve` does not wait for it
    assert took_s < serve.SHUTDOWN_S
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.invalid", "127.0.0.1.example.invalid"])
def test_elsewhere_it_wants_a_token(monkeypatch, host):
    monkeypatch.delenv(serve.TOKEN_VARIABLE, raising=False)
    result = CliRunner().invoke(app, ["serve", "--host", host])
    assert result.exit_code == 2
    assert "give a token, ROOFLINE_TOKEN" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.0.1", "::1", "localhost", "LOCALHOST"])
def test_loopback_is_this_machine(host):
    assert serve.is_loopback(host)


def test_the_token_of_a_file_goes_before_the_environment(tmp_path, monkeypatch):
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\nmore\n", encoding="utf-8")
    monkeypatch.setenv(serve.TOKEN_VARIABLE, "other")
    assert serve.find_token(file) == TOKEN
    assert serve.find_token(None) == "other"
    monkeypatch.setenv(serve.TOKEN_VARIABLE, " ")
    assert serve.find_token(None) is None


@pytest.mark.parametrize("content", [None, b"", b"\n" + TOKEN.encode(), b"\xff\xfe"])
def test_a_token_file_that_holds_none(tmp_path, content):
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(InvalidValueError, match="--token-file"):
        serve.find_token(file)


def test_a_short_token_and_a_taken_port_are_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv(serve.TOKEN_VARIABLE, "short")
    result = CliRunner().invoke(app, ["serve", "--host", "127.0.0.1", "--port", "0"])
    assert result.exit_code == 2
    assert "at least 16" in result.stderr
    assert "short" not in result.stderr
    monkeypatch.delenv(serve.TOKEN_VARIABLE)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        result = CliRunner().invoke(app, ["serve", "--port", str(taken.getsockname()[1])])
    assert result.exit_code == 2
    assert "choose another --port" in result.stderr
    assert result.stderr.count("\n") == 1
