"""The order of measured configurations, in every ranking: by time, and where times cannot be told apart by loss, then memory.

Of two, the one that is faster, smaller and loses no more is never below the other: a run of level times begins at its fastest,
and inside it loss, memory and time decide in this order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from results.verdict import UNKNOWN_LEVEL_RATIO

LEVEL_LIMIT_RATIO = 0.10
"""Measured times further apart than this are never level, however wide their intervals are. Two processes can have intervals
of several hundred percent; calling a kernel level that took 1.7 times as long would prefer it for its loss, against what was
seen. A judgement: a gain of a tenth that noise may explain is not worth more loss, a larger one is the likelier truth."""
MEASURED_RULE = "by time; where intervals overlap and times are within 10 % of the fastest of them, by the smaller loss, then the smaller memory"
"""What `order_measured` does, for the line under a table."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class MeasuredTime:
    """What a measured configuration is ordered by."""

    time_s: float
    low_s: float | None
    """Lower end of the 95 % interval; None where none is known."""
    high_s: float | None
    loss_pct: float | None
    memory_bytes: float | None
    name: str
    """Decides where nothing else does."""

    @property
    def _tie_key(self) -> tuple[float, float, float, str]:
        infinite = float("inf")
        loss, memory = self.loss_pct, self.memory_bytes
        return infinite if loss is None else loss, infinite if memory is None else memory, self.time_s, self.name


def order_measured(rows: Iterable[T], of: Callable[[T], MeasuredTime]) -> list[T]:
    """Return measured rows in order, best first; the order they come in makes no difference."""
    by_time = sorted(((of(row), row) for row in rows), key=lambda one: (one[0].time_s, *one[0]._tie_key))
    found: list[T] = []
    run: list[tuple[MeasuredTime, T]] = []
    for one in by_time:
        if run and not are_level_times(run[0][0], one[0]):
            found += _by_tie(run)
            run = []
        run.append(one)
    return found + _by_tie(run)


def are_level_times(faster: MeasuredTime, slower: MeasuredTime) -> bool:
    """Return whether two measured times cannot be told apart: intervals that overlap, with times at most `LEVEL_LIMIT_RATIO`
    apart, or times at most `UNKNOWN_LEVEL_RATIO` apart where an interval is unknown."""
    if slower.time_s > faster.time_s * (1 + LEVEL_LIMIT_RATIO):
        return False
    if faster.low_s is None or faster.high_s is None or slower.low_s is None or slower.high_s is None:
        return slower.time_s <= faster.time_s * (1 + UNKNOWN_LEVEL_RATIO)
    return faster.low_s <= slower.high_s and slower.low_s <= faster.high_s


def _by_tie(run: list[tuple[MeasuredTime, T]]) -> list[T]:
    return [row for _, row in sorted(run, key=lambda one: one[0]._tie_key)]
