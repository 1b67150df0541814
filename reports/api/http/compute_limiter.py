"""A bounded queue for long computations, one at a time; waiting holds no thread, and disconnected clients are
dropped.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from fastapi import Request

from reports.api.http.problem import ProblemError

RETRY_AFTER_S = 5


class ComputeLimiter:
    """Limits one kind of computation to one at a time. For the event loop only."""

    def __init__(self, work: str, most_waiting_count: int) -> None:
        """`work` is what the others wait for, as it reads after “requests wait for”."""
        self._work = work
        self._most_waiting_count = most_waiting_count
        self._limiter = anyio.CapacityLimiter(1)

    @asynccontextmanager
    async def taken(self, request: Request) -> AsyncIterator[None]:
        """Wait for the request's turn; ends it with 503 where many wait already, and where its client has gone."""
        waiting_count = self._limiter.statistics().tasks_waiting
        if waiting_count >= self._most_waiting_count:
            raise ProblemError(
                503,
                "busy",
                f"{waiting_count} requests wait for {self._work}, the most of this server; ask again later",
                headers={"Retry-After": str(RETRY_AFTER_S)},
            )
        async with self._limiter:
            await check_is_wanted(request)
            yield


async def check_is_wanted(request: Request) -> None:
    """End a request that nobody waits for any more; its body has been read. Nobody sees the answer."""
    if await request.is_disconnected():
        raise ProblemError(503, "busy", "the client went before its turn came")
    if request.app.state.service.closing.is_set:
        raise ProblemError(503, "closing", "the server ends; ask again when it is back", headers={"Retry-After": "5"})
