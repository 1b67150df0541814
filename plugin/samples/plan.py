"""Timing plan of one case: cache state, mode and their limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MeasurePlan:
    """Input of the runner beside the kernel, the timer and the stopping rule."""

    cache: str = "warm"
    """cold (rotation), flushed, warm or none: `roofline_model.operators.case.CACHE_STATES`."""
    mode: str = "eager"
    """eager, graph, burst or sustained: `roofline_model.operators.case.MODES`."""
    cache_bytes: float | None = None
    """The cache that cold has to defeat; None when unknown."""
    free_bytes: float | None = None
    """Memory that rotated operands may come from; None when unknown."""
    flush: Callable[[], None] | None = None
    """Overwrites the caches; given for `flushed`."""
    wants_read_bytes: bool = False
    """Whether to find out which operands a call reads whole: where no `work=` says it."""
