"""What the endpoints of one server share."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

import anyio
from fastapi import Request

from reports.api.catalog.sensors import SharedSensors
from reports.api.catalog.this_machine import ThisMachine
from reports.api.http.problem import ProblemError
from reports.api.stored.store_access import StoreAccess
from roofline_model.core.errors import InvalidValueError

T = TypeVar("T")

MOST_COMPUTING = 2
"""Long computations at a time: each takes the interpreter from the answers beside it."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a server. Everything beyond is refused with a problem that names the limit."""

    max_body_bytes: int = 1_048_576
    max_sweep_points_count: int = 100_000
    max_page_count: int = 1_000
    min_reading_interval_s: float = 0.2
    """The sensors are asked no more often, however many clients watch."""

    def __post_init__(self) -> None:
        for limit in fields(self):
            value = getattr(self, limit.name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e12:
                raise InvalidValueError(f"{limit.name} must be a positive number, got {str(value)[:40]!r}")


@dataclass(slots=True)
class Service:
    """The state of a running server; only the event loop changes it."""

    store: StoreAccess
    sensors: SharedSensors
    limits: Limits
    version: str
    this_machine: ThisMachine
    started_s: float = field(default_factory=time.monotonic)
    computing: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(MOST_COMPUTING))
    """For sweeps, reports and rankings: the threads of the other endpoints stay free."""
    looking: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(1))
    """Health's own thread: those of the other endpoints may all be busy."""
    look: asyncio.Future[bool | None] | None = None
    """Health's last question whether the database can be read; many who ask share one."""


async def computed(request: Request, function: Callable[..., T], *arguments: Any) -> T:
    """Return what a long computation returns, in a thread; who waits holds none, and who went is passed over."""
    async with request.app.state.service.computing:
        if await request.is_disconnected():
            raise ProblemError(503, "busy", "the client went before its turn came")
        return await anyio.to_thread.run_sync(function, *arguments)
