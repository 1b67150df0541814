"""What every request passes before it is read: host, token, size; and what every answer gets: headers, the time it
took.

Plain ASGI: a layer that holds whole requests or answers would cost more than most of our answers.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import re
import time
from collections.abc import Sequence
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from reports.api.http.closing import Closing
from reports.api.http.problem import CONTENT_TYPE, FAULT, ProblemError, document

SECURITY_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)
API_POLICY = (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'")
LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "[::1]")
OPEN_PATHS = ("/api/health",)
"""Asked by those who watch the server; everything else under /api/ needs the token."""


_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^:\[\]]+)(?::[0-9]{0,5})?")
"""RFC 9110 §7.2: a name or an address, IPv6 in brackets, and a port or none."""


class Guard:
    """The outermost layer of the app."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        token: str | None,
        max_body_bytes: int,
        allowed_hosts: Sequence[str] | None,
        closing: Closing,
    ) -> None:
        self._app = app
        self._closing = closing
        self._token = None if token is None else token.encode()
        self._max_body_bytes = max_body_bytes
        self._hosts = None if allowed_hosts is None else frozenset(host.lower() for host in allowed_hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = _Counted(receive, self._max_body_bytes)
        answer = _Answer(send, scope["path"], body, is_head=scope["method"] == "HEAD")
        if scope["method"] == "HEAD":  # RFC 9110 §9.3.2: as GET, without the content
            scope = {**scope, "method": "GET"}
        try:
            self._check(scope)
        except ProblemError as problem:
            await answer.problem(problem)
            return
        try:
            await self._app(scope, body, answer)
        except _HeadEnd:
            return
        except asyncio.CancelledError:
            if not self._closing.is_set:
                raise
            # The server ends and has cut the connection: nobody waits for the answer, and that is no fault to log.
        except Exception:
            # The framework would answer outside of this layer, without its headers. Who runs the server logs what is
            # raised.
            await answer.fault()
            raise

    def _check(self, scope: Scope) -> None:
        headers = dict(scope["headers"])
        if self._hosts is not None and _host(headers) not in self._hosts:
            # A page of another site whose name was pointed at this machine would be same-origin to a browser.
            raise ProblemError(
                421, "wrong-host", f"this server answers to {', '.join(sorted(self._hosts))} only; ask it by that name"
            )
        path = scope["path"]
        if (
            self._token is not None
            and path.startswith("/api/")
            and path not in OPEN_PATHS
            and not self._is_known(headers)
        ):
            raise ProblemError(
                401,
                "unauthorized",
                "this server asks for its token: send the header Authorization: Bearer TOKEN",
                headers={"WWW-Authenticate": "Bearer"},
            )
        length = headers.get(b"content-length", b"")
        if length.isdigit() and int(length[:20]) > self._max_body_bytes:
            raise too_large(self._max_body_bytes)

    def _is_known(self, headers: dict[bytes, bytes]) -> bool:
        kind, _, given = headers.get(b"authorization", b"").partition(b" ")
        return kind.lower() == b"bearer" and hmac.compare_digest(given.strip(), self._token or b"")


def too_large(most_bytes: int) -> ProblemError:
    """Return the problem of a body beyond the limit."""
    return ProblemError(413, "too-large", f"the body has more than {most_bytes:,} bytes: ask for less at a time")


class _Counted:
    """Hands the body on until it is longer than allowed: a chunked one says no length beforehand."""

    def __init__(self, receive: Receive, most_bytes: int) -> None:
        self._receive = receive
        self._left = most_bytes
        self._most_bytes = most_bytes
        self.problem: ProblemError | None = None
        """Why the rest was not read; the framework takes what is raised here for a body it cannot parse."""

    async def __call__(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._left -= len(message.get("body", b""))
            if self._left < 0:
                self.problem = too_large(self._most_bytes)
                raise self.problem
        return message


class _HeadEnd(Exception):
    """Ends what would go on making a body that nobody is sent."""


class _Answer:
    """Sends an answer with the headers that all have, and to HEAD nothing else."""

    def __init__(self, send: Send, path: str, body: _Counted, *, is_head: bool) -> None:
        self._send = send
        self._path = path
        self._body = body
        self._is_head = is_head
        self._begun_s = time.perf_counter()
        self._is_begun = False
        self._is_replaced = False

    async def __call__(self, message: Message) -> None:
        if self._is_replaced:
            return
        if message["type"] == "http.response.start" and self._body.problem is not None:
            await self.problem(self._body.problem)
            self._is_replaced = True
            return
        await self._pass_on(message)

    async def _pass_on(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._is_begun = True
            headers: list[tuple[bytes, bytes]] = list(message.get("headers", ()))
            present = {name.lower() for name, _ in headers}
            headers += [pair for pair in (*SECURITY_HEADERS, API_POLICY) if pair[0] not in present]
            if b"cache-control" not in present:
                headers.append((b"cache-control", b"no-store"))
            spent_ms = (time.perf_counter() - self._begun_s) * 1e3
            headers.append((b"server-timing", b"app;dur=%.3f" % spent_ms))
            message = {**message, "headers": headers}
        elif self._is_head and message["type"] == "http.response.body":
            await self._send({"type": "http.response.body"})
            if message.get("more_body", False):
                raise _HeadEnd
            return
        await self._send(message)

    async def fault(self) -> None:
        """Say that the server failed, without its innards; an answer that has begun can only break off."""
        if not self._is_begun:
            await self.problem(FAULT)

    async def problem(self, problem: ProblemError) -> None:
        """Send a problem in place of what the app would answer."""
        body = json.dumps(document(self._path, problem)).encode()
        headers: list[tuple[bytes, bytes]] = [
            (b"content-type", CONTENT_TYPE.encode()),
            (b"content-length", str(len(body)).encode()),
            # The rest of a refused body is not read: the connection cannot be used again.
            (b"connection", b"close"),
            *((name.lower().encode(), value.encode()) for name, value in (problem.headers or {}).items()),
        ]
        start: dict[str, Any] = {"type": "http.response.start", "status": problem.status, "headers": headers}
        await self._pass_on(start)
        await self._pass_on({"type": "http.response.body", "body": body})


def _host(headers: dict[bytes, bytes]) -> str:
    """Return the host that was asked for, without its port; empty where it is no host and port."""
    match = _HOST.fullmatch(headers.get(b"host", b"").decode("latin-1").lower())
    return "" if match is None else match[1]
