"""HTTP connections that a client cannot hold for nothing, and a log that it cannot fill.

uvicorn ends a connection that waits for the next request (`timeout_keep_alive`) and answers 503 beyond
`limit_concurrency`, but waits for ever for the rest of a request and for a client that does not read its answer.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

CLIENT_S = 20.0
"""How long a client may take for a whole request, header and body, and how long it may read nothing of its answer."""
MOST_CONNECTIONS = 256
DESCRIPTORS_KEPT = 64
"""For the listening socket, the database, workers, and connections that were accepted and not yet counted."""
ACCEPTED_AT_ONCE = 8
"""Accepted before the event loop looks at those it has; asyncio takes this from the length of the queue."""
LOG_AGAIN_S = 10.0


def most_connections() -> int:
    """Return how many connections this process may have open beside everything else that takes a descriptor."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return (
        MOST_CONNECTIONS if soft == resource.RLIM_INFINITY else max(4, min(MOST_CONNECTIONS, soft - DESCRIPTORS_KEPT))
    )


class BoundedConnection(H11Protocol):
    """A connection that ends when its client owes something for too long, or when another one needs its place."""

    _given_up: asyncio.TimerHandle | None = None
    _since_s = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count the connection; beyond the limit the one that has waited longest for its client makes room."""
        super().connection_made(transport)
        if self.limit_concurrency is not None and len(self.connections) >= self.limit_concurrency:
            others = (cast(BoundedConnection, other) for other in self.connections if other is not self)
            waiting = [other for other in others if other._is_waiting]
            if waiting:
                longest = min(waiting, key=lambda other: other._since_s)
                longest.transport.abort()
                self.connections.discard(longest)  # it hears of its end only later
            # Else all are being answered, and uvicorn answers this one 503 once it asks.
        self._watch()

    @property
    def _is_waiting(self) -> bool:
        return self._given_up is not None or self.timeout_keep_alive_task is not None

    def _watch(self) -> None:
        """Let the client's time run while it owes a request or does not read, and no longer."""
        is_owing = self.conn.their_state in (h11.IDLE, h11.SEND_BODY) and self.timeout_keep_alive_task is None
        if not (is_owing or self.flow.write_paused):
            self._unwatch()
        elif self._given_up is None and not self.transport.is_closing():
            self._since_s = self.loop.time()
            self._given_up = self.loop.call_later(CLIENT_S, self.transport.abort)

    def _unwatch(self) -> None:
        if self._given_up is not None:
            self._given_up.cancel()
            self._given_up = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock."""
        self._unwatch()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on; a part of a request leaves the clock running."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Wait for the next request, of which a part may be here."""
        super().on_response_complete()
        self._since_s = self.loop.time()
        self._watch()

    def pause_writing(self) -> None:
        """Start the clock: the client does not read."""
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        """Stop the clock: the client has read."""
        super().resume_writing()
        self._watch()


class SparseLog(logging.Filter):
    """Lets each kind of message through once in `LOG_AGAIN_S` and says how many more there were."""

    def __init__(self) -> None:
        super().__init__()
        self._next_s: dict[Any, float] = {}
        self._left_out_count: dict[Any, int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a message is written."""
        raised = record.exc_info[0] if isinstance(record.exc_info, tuple) else None
        kind = (record.pathname, record.lineno, str(record.msg)[:40], raised)
        now_s = time.monotonic()
        if now_s < self._next_s.get(kind, 0.0):
            self._left_out_count[kind] = self._left_out_count.get(kind, 0) + 1
            return False
        self._next_s[kind] = now_s + LOG_AGAIN_S
        if count := self._left_out_count.pop(kind, 0):
            record.msg, record.args = f"{count:,} more like this were left out: {record.getMessage()}", ()
        return True


@contextmanager
def sparse_log() -> Iterator[None]:
    """Keep what the server and the event loop say of single connections from filling a disk."""
    sparse = SparseLog()
    loggers = [logging.getLogger(name) for name in ("uvicorn.error", "asyncio")]
    for logger in loggers:
        logger.addFilter(sparse)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(sparse)
