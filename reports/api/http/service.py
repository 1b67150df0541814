"""What the endpoints of one server share."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field, fields

import anyio

from reports.api.catalog.sensors import SharedSensors
from reports.api.catalog.this_machine import ThisMachine
from reports.api.http.closing import Closing
from reports.api.http.compute_limiter import ComputeLimiter
from reports.api.http.worker_pool import AnswerCache, WorkerPool
from reports.api.stored.run_cache import RunCache
from reports.api.stored.store_access import StoreAccess
from roofline_model.core.errors import InvalidValueError


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a server. Everything beyond is refused with a problem that names the limit."""

    max_body_bytes: int = 1_048_576
    max_sweep_points_count: int = 100_000
    max_page_count: int = 1_000
    max_streams_count: int = 16
    """Live streams of the sensors at a time."""
    min_stream_interval_s: float = 0.2
    """Time between two readings of a stream; the sensors are asked no more often, however many streams there are."""

    def __post_init__(self) -> None:
        for limit in fields(self):
            value = getattr(self, limit.name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e12:
                raise InvalidValueError(f"{limit.name} must be a positive number, got {str(value)[:40]!r}")


KEPT_RECOMMENDATIONS = 4_096
"""A few kilobytes each."""
KEPT_BATCH_CURVES = 64
"""Of a model on a chip: some ten kilobytes each."""
KEPT_STORED_ADVICE = 8
"""Of thousands of cases a few megabytes each."""
MOST_WAITING_SWEEPS = 64
"""A request waits with its body."""
MOST_WAITING_PAGES = 64
"""As many: fifty clients of a page that reloads itself are an ordinary load, and who waits holds no thread."""


@dataclass(slots=True)
class Service:
    """The state of a running server; only the event loop changes it."""

    store: StoreAccess
    sensors: SharedSensors
    limits: Limits
    version: str
    workers: WorkerPool
    this_machine: ThisMachine
    started_s: float = field(default_factory=time.monotonic)
    stream_count: int = 0
    closing: Closing = field(default_factory=Closing)
    recommendations: AnswerCache = field(default_factory=lambda: AnswerCache(KEPT_RECOMMENDATIONS))
    stored_advice: AnswerCache = field(default_factory=lambda: AnswerCache(KEPT_STORED_ADVICE))
    """For who has the turn of `ranking`."""
    batch_curves: AnswerCache = field(default_factory=lambda: AnswerCache(KEPT_BATCH_CURVES))
    read_runs: RunCache = field(default_factory=RunCache)
    sweeping: ComputeLimiter = field(default_factory=lambda: ComputeLimiter("a sweep", MOST_WAITING_SWEEPS))
    """One sweep at a time: it uses a core."""
    drawing: ComputeLimiter = field(default_factory=lambda: ComputeLimiter("a report", MOST_WAITING_PAGES))
    ranking: ComputeLimiter = field(
        default_factory=lambda: ComputeLimiter("a ranking of stored runs", MOST_WAITING_PAGES)
    )
    watching: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(1))
    """A driver that blocks holds one thread, not all of them."""
    looking: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(1))
    """Health's own thread: those of the other endpoints may all be busy."""
    look: asyncio.Future[bool | None] | None = None
    """Health's last question whether the database can be read; many who ask share one."""
