"""What the endpoints of one server share."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import anyio

from reports.api.kept_runs import KeptRuns
from reports.api.limits import Limits
from reports.api.sensors import SharedSensors
from reports.api.store_access import StoreAccess
from reports.api.worker_pool import KeptAnswers, WorkerPool

KEPT_RECOMMENDATIONS = 4_096
"""A few kilobytes each."""


@dataclass(slots=True)
class Service:
    """The state of a running server; only the event loop changes it."""

    store: StoreAccess
    sensors: SharedSensors
    limits: Limits
    version: str
    workers: WorkerPool
    started_s: float = field(default_factory=time.monotonic)
    stream_count: int = 0
    is_closing: bool = False
    recommendations: KeptAnswers = field(default_factory=lambda: KeptAnswers(KEPT_RECOMMENDATIONS))
    read_runs: KeptRuns = field(default_factory=KeptRuns)
    sweeping: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(1))
    """One sweep at a time: it uses a core."""
    watching: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(1))
    """A driver that blocks holds one thread, not all of them."""
