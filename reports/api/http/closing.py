"""Whether the server was asked to stop: what waits for long hears of it at once, and ends."""

from __future__ import annotations

import asyncio


class Closing:
    """Set in the event loop; may be read anywhere."""

    def __init__(self) -> None:
        self._is_set = False
        self._waiting: set[asyncio.Future[None]] = set()

    @property
    def is_set(self) -> bool:
        """Whether the server ends."""
        return self._is_set

    def set(self) -> None:
        """End every wait."""
        self._is_set = True
        for task in self._waiting:
            if not task.done():
                task.set_result(None)

    def clear(self) -> None:
        """Say that a server starts: an app may be served again after it ended."""
        self._is_set = False

    async def within(self, wait_s: float) -> bool:
        """Wait so many seconds, less where the server is asked to stop meanwhile; return whether it is."""
        if not self._is_set:
            waiting = asyncio.get_running_loop().create_future()
            self._waiting.add(waiting)
            try:
                await asyncio.wait({waiting}, timeout=wait_s)
            finally:
                self._waiting.discard(waiting)
        return self._is_set
