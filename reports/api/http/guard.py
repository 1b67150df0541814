"""What every request passes before it is read: host, token, size; and what every answer gets: headers, the time it
took.

Plain ASGI: a layer that holds whole requests or answers would cost more than most of our answers.
"""

from __future__ import annotations

import asyncio
import hmac
import re
import time
from collections.abc import Sequence

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from reports.api.http.problem import ProblemError, response

SECURITY_HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
API_HEADERS = SECURITY_HEADERS | {
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cache-control": "no-store",
}
PAGE_HEADERS = SECURITY_HEADERS | {
    # Everything from this server, and as files. What plotly would write into the page as styles is
    # `explorer/plotly.css`.
    "content-security-policy": (
        "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "cache-control": "no-cache",
}
LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "[::1]")
OPEN_PATHS = ("/api/health",)
"""Asked by those who watch the server; everything else under /api/ needs the token."""

_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^:\[\]]+)(?::[0-9]{0,5})?")
"""RFC 9110 §7.2: a name or an address, IPv6 in brackets, and a port or none."""


class Guard:
    """The outermost layer of the app."""

    def __init__(
        self, app: ASGIApp, *, token: str | None, max_body_bytes: int, allowed_hosts: Sequence[str] | None
    ) -> None:
        self._app = app
        self._token = None if token is None else token.encode()
        self._max_body_bytes = max_body_bytes
        self._hosts = None if allowed_hosts is None else frozenset(host.lower() for host in allowed_hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun_s, is_begun, left_bytes = time.perf_counter(), False, self._max_body_bytes
        defaults = API_HEADERS if scope["path"].startswith("/api/") else PAGE_HEADERS

        async def counted() -> Message:
            nonlocal left_bytes
            message = await receive()
            left_bytes -= len(message.get("body", b""))
            if left_bytes < 0:  # a chunked body says no length beforehand
                raise self._too_large()
            return message

        async def answer(message: Message) -> None:
            nonlocal is_begun
            if message["type"] == "http.response.start":
                is_begun = True
                headers = MutableHeaders(scope=message)
                for name, value in defaults.items():
                    headers.setdefault(name, value)
                headers["server-timing"] = f"app;dur={(time.perf_counter() - begun_s) * 1e3:.3f}"
            await send(message)

        try:
            self._check(scope["path"], Headers(scope=scope))
            # RFC 9110 §9.3.2: HEAD is GET without the content, which the server leaves out.
            is_head = scope["method"] == "HEAD"
            await self._app({**scope, "method": "GET"} if is_head else scope, counted, answer)
        except asyncio.CancelledError:
            return  # the server ends and has cut the connection: nobody waits for the answer
        except Exception as error:
            # The framework would answer outside of this layer, without its headers.
            if not is_begun:
                await response(scope["path"], error)(scope, receive, answer)
            if not isinstance(error, HTTPException):
                raise  # who runs the server logs it

    def _check(self, path: str, headers: Headers) -> None:
        if self._hosts is not None and _host(headers) not in self._hosts:
            # A page of another site whose name was pointed at this machine would be same-origin to a browser.
            names = ", ".join(sorted(self._hosts))
            raise _refused(421, "wrong-host", f"this server answers to {names} only; ask it by that name")
        if path.startswith("/api/") and path not in OPEN_PATHS and not self._is_known(headers):
            detail = "this server asks for its token: send the header Authorization: Bearer TOKEN"
            raise _refused(401, "unauthorized", detail, {"WWW-Authenticate": "Bearer"})
        length = headers.get("content-length", "")
        if length.isdecimal() and int(length[:20]) > self._max_body_bytes:
            raise self._too_large()

    def _is_known(self, headers: Headers) -> bool:
        kind, _, given = headers.get("authorization", "").partition(" ")
        return self._token is None or (
            kind.lower() == "bearer" and hmac.compare_digest(given.strip().encode("latin-1"), self._token)
        )

    def _too_large(self) -> ProblemError:
        return _refused(
            413, "too-large", f"the body has more than {self._max_body_bytes:,} bytes: ask for less at a time"
        )


def _refused(status: int, slug: str, detail: str, headers: dict[str, str] | None = None) -> ProblemError:
    """Return a problem after which the rest of the body is not read: the connection cannot be used again."""
    return ProblemError(status, slug, detail, headers={"Connection": "close", **(headers or {})})


def _host(headers: Headers) -> str:
    """Return the host that was asked for, without its port; empty where it is no host and port."""
    match = _HOST.fullmatch(headers.get("host", "").lower())
    return "" if match is None else match[1]
