"""A client that never ends a request, or never reads its answer, holds no connection, no descriptor and no log."""

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
from pathlib import Path

import pytest

pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install 'roofline-bench[api]'")

from roofline_cli.serve import connections
from roofline_cli.serve import server as serve

ROOT = Path(__file__).parents[3]
GET = b"GET /api/health HTTP/1.1\r\nHost: localhost\r\n\r\n"
WAIT_S = 30.0
"""For what should take a fraction of a second, on a machine that is busy."""
HELD = {
    "nothing sent": (b"", b""),
    "half a request line": (b"GET /api/he", b""),
    "half a header": (b"GET /api/health HTTP/1.1\r\nHost: local", b""),
    "headers that go on": (b"GET /api/health HTTP/1.1\r\nHost: localhost\r\n", b"X-%d: 1\r\n"),
    "half a body": (b"POST /api/analyze HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{", b""),
    "a body that trickles": (
        b"POST /api/analyze HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000\r\n\r\n{",
        b"    ",
    ),
    "chunks that trickle": (
        b"POST /api/analyze HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
        b"1\r\n \r\n",
    ),
    "half a second request": (GET + b"GET /api/he", b""),
}
UNREAD = b"GET /api/many HTTP/1.1\r\nHost: localhost\r\n\r\n"


def served(app, ask) -> list[BaseException]:
    """Serve an app in this thread until `ask(port)`, in another one, has ended; return what that raised."""
    raised: list[BaseException] = []

    def asking() -> None:
        try:
            ask(listening.getsockname()[1])
        except BaseException as error:
            raised.append(error)
        finally:
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGTERM)
    listening = serve._bound("127.0.0.1", 0)
    client = threading.Thread(target=asking, daemon=True)
    try:
        serve._run(app, listening, client.start)
    finally:
        signal.signal(signal.SIGTERM, before)
        client.join(WAIT_S)
    return raised


def ends(client: socket.socket, trickle: bytes) -> bool:
    """Return whether the server ends a connection, while bytes trickle in."""
    client.settimeout(0.1)
    until_s = time.monotonic() + WAIT_S
    while time.monotonic() < until_s:
        try:
            if trickle:
                client.sendall(trickle.replace(b"%d", str(time.monotonic_ns()).encode()))
            if not client.recv(65_536):
                return True
        except TimeoutError:
            continue
        except OSError:
            return True
    return False


def test_a_client_that_owes_or_does_not_read_is_given_up(tmp_path, capfd, monkeypatch):
    from starlette.responses import StreamingResponse

    from reports.api.http.app import create_app

    monkeypatch.setattr(connections, "CLIENT_S", 1.0)
    monkeypatch.setattr(serve, "KEEP_ALIVE_S", 1)
    app = create_app(tmp_path / "none.db")
    unread_has_ended = threading.Event()

    @app.get("/api/many")
    async def many():
        async def parts():
            try:
                while True:
                    yield b" " * 65_536
                    await asyncio.sleep(0)
            finally:
                unread_has_ended.set()

        return StreamingResponse(parts())

    @app.get("/api/slow")
    async def slow():
        async def parts():
            yield b" "
            await asyncio.sleep(60)

        return StreamingResponse(parts())

    outcomes: dict[str, bool] = {}

    def ask(port: int) -> None:
        with contextlib.ExitStack() as stack:

            def opened(request: bytes) -> socket.socket:
                client = stack.enter_context(socket.create_connection(("127.0.0.1", port), WAIT_S))
                client.sendall(request)
                return client

            stream = opened(b"GET /api/slow HTTP/1.1\r\nHost: localhost\r\n\r\n")
            opened(UNREAD)
            held = {name: (opened(start), trickle) for name, (start, trickle) in HELD.items()}
            for name, (client, trickle) in held.items():
                outcomes[name] = ends(client, trickle)
            outcomes["unread"] = unread_has_ended.wait(WAIT_S)
            honest = opened(GET)
            outcomes["honest"] = b"200 OK" in honest.recv(4096)
            stream.settimeout(0.2)
            with contextlib.suppress(TimeoutError):
                while stream.recv(4096):
                    pass
                outcomes["a stream that is read goes on"] = False

    assert served(app, ask) == []
    assert outcomes == dict.fromkeys([*HELD, "unread", "honest"], True)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("count", [200, pytest.param(3000, marks=pytest.mark.full)])
def test_with_few_descriptors_it_answers_beside_half_sent_requests_and_logs_little(tmp_path, count):
    """Every descriptor would be held by a request without an end, and asyncio would log a page for each it refuses."""
    program = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)); "
        "from roofline_cli.entry import run; sys.argv[0] = 'roofline'; run()"
    )
    command = [sys.executable, "-c", program, "serve", "--port", "0", "--json", "--db", str(tmp_path / "none.db")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), serve.TOKEN_VARIABLE: ""}
    log = tmp_path / "log"
    with log.open("wb") as stream:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stream, text=True, env=environment)
    clients: list[socket.socket] = []
    try:
        printed = ""
        while not printed.rstrip().endswith("}"):
            line = process.stdout.readline()
            assert line, log.read_text()
            printed += line
        port = int(json.loads(printed)["url"].rpartition(":")[2])
        for number in range(count):
            clients.append(socket.create_connection(("127.0.0.1", port), WAIT_S))
            clients[-1].sendall(HELD["half a header"][0])
            if len(clients) > 200:
                clients.pop(0).close()
            if number % 50 == 49:
                with socket.create_connection(("127.0.0.1", port), WAIT_S) as honest:
                    honest.sendall(GET)
                    assert b"200 OK" in honest.recv(4096), number
        assert len(os.listdir(f"/proc/{process.pid}/fd")) < 64
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT_S) == 0
        assert log.stat().st_size < 4_000
    finally:
        for client in clients:
            client.close()
        process.kill()
        process.wait()
        process.stdout.close()


def test_what_a_client_can_have_logged_is_logged_once_in_a_while(tmp_path, capfd):
    from reports.api.http.app import create_app

    def ask(port: int) -> None:
        for _ in range(50):
            with socket.create_connection(("127.0.0.1", port), WAIT_S) as client:
                client.sendall(b"\x00nonsense\r\n\r\n")
                assert b"400" in client.recv(4096)

    assert served(create_app(tmp_path / "none.db"), ask) == []
    assert 1 <= capfd.readouterr().err.count("\n") <= 5
