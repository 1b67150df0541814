"""`roofline serve`: the HTTP API and the explorer page on this machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reports.present.screen import show_json, show_line
from roofline_cli.shared import interruption
from roofline_cli.shared.database import shown_target
from roofline_cli.shared.options import DatabaseOption, JsonOption, this_chip
from roofline_model.core.errors import InvalidValueError, MissingDependencyError

if TYPE_CHECKING:
    import socket
    from types import FrameType

    from reports.api.catalog.sensors import GpuSensors

COMMANDS = {
    "serve": ("serve", "Serve the API and the explorer page; read-only."),
}

TOKEN_VARIABLE = "ROOFLINE_TOKEN"
KEEP_ALIVE_S = 30
CUT_AFTER_S = 0.4
"""How long open answers may go on after Ctrl-C."""
SHUTDOWN_S = 2
"""When uvicorn gives up what even that did not end."""
THREADS_END_S = 0.2
QUEUE_LENGTH = 128
"""Connections that wait to be accepted."""


def serve(
    host: Annotated[
        str,
        typer.Option(
            "--host",
            metavar="ADDRESS",
            help="Address to listen at; any other than this machine's needs a token.",
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", metavar="INT", min=0, max=65_535, help="Port; 0 takes a free one.")
    ] = 8000,
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file", metavar="FILE", help=f"File whose first line is the token (else {TOKEN_VARIABLE})."
        ),
    ] = None,
    db: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Serve the API and the explorer page; read-only.

    Ends with Ctrl-C (exit code 130) or SIGTERM (0). Listens on this machine only, unless --host names another address.
    """

    database = shown_target(db)[0]
    token = find_token(token_file)
    is_local = is_loopback(host)
    _check_token(host, is_local, token)
    create_app = _imported()
    sensors, why = find_sensors()
    listening = _bound(host, port)
    from reports.api.http.guard import LOOPBACK_HOSTS

    app = create_app(
        db,
        telemetry=sensors,
        telemetry_reason=why,
        token=token,
        allowed_hosts=(*LOOPBACK_HOSTS, host) if is_local else None,
        this_chip=this_chip,
    )
    is_interrupted = _run(
        app, listening, lambda: _announce(_url(host, listening), database, token is not None, as_json)
    )
    if not _threads_end():
        sys.stdout.flush()
        if is_interrupted:
            interruption.end_at_once()
        os._exit(0)
    if is_interrupted:
        raise typer.Abort


def find_token(file: Path | None) -> str | None:
    """Return the token of a file's first line, else of the environment, else None; raises `InvalidValueError` for a bad
    file.
    """

    if file is None:
        return os.environ.get(TOKEN_VARIABLE, "").strip() or None
    try:
        with file.open(encoding="utf-8") as lines:
            token = lines.readline(4096).strip()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is no text"
        raise InvalidValueError(f"--token-file {file}: {why}; name a file whose first line is the token") from None
    if not token:
        raise InvalidValueError(f"--token-file {file}: its first line is empty; write the token there")
    return token


def is_loopback(host: str) -> bool:
    """Return whether an address is reachable from this machine only."""
    import ipaddress

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def find_sensors() -> tuple[GpuSensors | None, str]:
    """Return the sensors of this machine's GPU, guarded against a driver that hangs; else None and why."""
    from plugin.sensors.bounded_sensors import bounded
    from plugin.sensors.nvml import open_nvml_device
    from roofline_model.core.finding import advice_text

    device, why = open_nvml_device()
    guarded: Any = None if device is None else bounded(device)
    return guarded, "" if why is None else advice_text(why)


def _check_token(host: str, is_local: bool, token: str | None) -> None:
    if not is_local and token is None:
        raise InvalidValueError(
            f"--host {host[:60]} can be reached from other machines: give a token, {TOKEN_VARIABLE}=… or --token-file "
            "FILE "
            "(e.g. of `openssl rand -hex 24`), or stay at 127.0.0.1 and use a tunnel"
        )


def _imported() -> Any:
    """Return `create_app`; raises `MissingDependencyError` with the install command where the extra is missing."""

    try:
        import uvicorn  # noqa: F401
    except ModuleNotFoundError:
        raise MissingDependencyError("uvicorn", "api", "roofline serve") from None
    from reports.api.http.app import create_app

    return create_app


def _bound(host: str, port: int) -> socket.socket:
    """Return a socket that listens there; raises `InvalidValueError` where that cannot be."""
    import socket

    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        # The protocol is said, for asyncio sets TCP_NODELAY only then: without it every answer waits 40 ms for an ACK.
        listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
        except OSError:
            listening.close()
            raise
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or "no such address"
        raise InvalidValueError(
            f"cannot listen at {host[:60]} port {port}: {why}; choose another --port (0 takes a free one) or --host"
        ) from None
    return listening


def _run(app: Any, listening: socket.socket, announce: Any) -> bool:
    """Serve until Ctrl-C or SIGTERM; both end in order, within a second. Return whether it was Ctrl-C."""
    import asyncio
    import signal

    import uvicorn

    from roofline_cli.serve.connections import ACCEPTED_AT_ONCE, BoundedConnection, most_connections, sparse_log

    class Server(uvicorn.Server):
        """Says so once it answers; cuts off what goes on when it is asked to stop."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets=sockets)
            listening.listen(QUEUE_LENGTH)  # longer than what is accepted at once
            if self.started:
                announce()

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            cutting = asyncio.ensure_future(self._cut_off())
            try:
                await super().shutdown(sockets=sockets)
            finally:
                cutting.cancel()

        async def _cut_off(self) -> None:
            await asyncio.sleep(CUT_AFTER_S)
            for connection in list(self.server_state.connections):
                if connection.transport is not None:
                    connection.transport.abort()
            await asyncio.sleep(0)  # the connections hear of it first: the end of their tasks is no fault to log then
            for task in list(self.server_state.tasks):
                task.cancel()

    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=SHUTDOWN_S,
        limit_concurrency=most_connections() + 1,
        backlog=ACCEPTED_AT_ONCE,
        http=BoundedConnection,
        lifespan="on",
        ws="none",
    )
    is_terminated = False

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal is_terminated
        is_terminated = True
        raise KeyboardInterrupt

    # uvicorn ends in order and then raises the signal it caught once more, for whoever handled it before.
    signal.signal(signal.SIGTERM, end)
    try:
        with sparse_log():
            Server(config).run(sockets=[listening])
    except KeyboardInterrupt:
        return not is_terminated
    return False


def _threads_end() -> bool:
    """Wait a moment for the threads that would keep this process; return whether none is left.

    One may be drawing a report that nobody waits for any more. It only reads.
    """
    import threading
    import time

    until_s = time.monotonic() + THREADS_END_S
    for thread in threading.enumerate():
        if thread is not threading.main_thread() and not thread.daemon:
            thread.join(max(0.0, until_s - time.monotonic()))
            if thread.is_alive():
                return False
    return True


def _url(host: str, listening: socket.socket) -> str:
    port = listening.getsockname()[1]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _announce(url: str, database: str, has_token: bool, as_json: bool) -> None:
    if as_json:
        show_json({"url": url, "database": database, "needs_token": has_token})
    else:
        show_line(f"explorer: {url}/{'#token=…' if has_token else ''}", "bold")
        show_line(f"API: {url}/api/openapi.json; database: {database}; Ctrl-C ends")
    sys.stdout.flush()
