"""The order of measured configurations, in every ranking: by time, and where times cannot be told apart by loss, then memory.

What loses something waits for the fastest that loses nothing, unless it is surely faster: the measured sibling of
`roofline_model.tie_ranking`. Of two, the one that is faster, surer, smaller and loses no more is never below the other: a run of
level times begins at its fastest, and inside it loss, memory and time decide in this order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TypeVar

from results.gain import Gain
from results.verdict import UNKNOWN_LEVEL_RATIO

LEVEL_LIMIT_RATIO = 0.10
"""Measured times further apart than this are never level, however wide their intervals are. Two processes can have intervals
of several hundred percent; calling a kernel level that took 1.7 times as long would prefer it for its loss, against what was
seen. A judgement: a gain of a tenth that noise may explain is not worth more loss, a larger one is the likelier truth. It is
not worth the step from no loss to some: what loses nothing goes before whatever is not surely faster."""
MEASURED_RULE = "by time; where intervals overlap and times are within 10 % of the fastest of them, by the smaller loss, then the smaller memory; nothing lossy before the fastest that loses nothing, unless their 95 % intervals are apart (more than 5 % faster where one is unknown)"
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
    def is_lossless(self) -> bool:
        """Whether it is known to lose nothing."""
        return self.loss_pct is not None and self.loss_pct <= 0

    @property
    def _tie_key(self) -> tuple[float, float, float, str]:
        infinite = float("inf")
        loss, memory = self.loss_pct, self.memory_bytes
        return infinite if loss is None else loss, infinite if memory is None else memory, self.time_s, self.name


def order_measured(rows: Iterable[T], of: Callable[[T], MeasuredTime]) -> list[T]:
    """Return measured rows in order, best first; the order they come in makes no difference."""
    left = sorted(((of(row), row) for row in rows), key=lambda one: (one[0].time_s, *one[0]._tie_key))
    gentle = next((time for time, _ in left if time.is_lossless), None)
    found: list[T] = []
    while left:
        # Once what loses nothing has its place, those behind it are ordered among themselves.
        is_open = gentle is None or all(time is not gentle for time, _ in left)
        fit = [one for one in left if is_open or _goes_before(one[0], gentle)]
        run = list(takewhile(lambda one, first=fit[0][0]: are_level_times(first, one[0]), fit))  # type: ignore[misc]
        found += _by_tie(run)
        placed = {id(time) for time, _ in run}
        left = [one for one in left if id(one[0]) not in placed]
    return found


def maybe_faster(ordered: Sequence[T], of: Callable[[T], MeasuredTime]) -> T | None:
    """Return the fastest that stands behind the first for its loss alone: faster by more than what is level, with intervals
    that overlap; None where there is none. `ordered`: measured rows in their order."""
    times = [(of(row), row) for row in ordered]
    if not times or not times[0][0].is_lossless:
        return None
    first = times[0][0]
    faster = [one for one in times[1:] if one[0].time_s < first.time_s and not are_level_times(one[0], first)]
    return min(faster, key=lambda one: one[0].time_s)[1] if faster else None


def maybe_faster_words(label: str, gain: Gain | None, baseline_name: str) -> str:
    """Return what is said of `maybe_faster` behind the one that is taken: figure, range, and what would tell."""
    told = "" if gain is None else f", {gain.figure} {baseline_name}{gain.range_text}"
    return f"; {label} may be faster{told}, but their intervals overlap: measure both again"


def are_level_times(faster: MeasuredTime, slower: MeasuredTime) -> bool:
    """Return whether two measured times cannot be told apart: intervals that overlap, with times at most `LEVEL_LIMIT_RATIO`
    apart, or times at most `UNKNOWN_LEVEL_RATIO` apart where an interval is unknown."""
    if slower.time_s > faster.time_s * (1 + LEVEL_LIMIT_RATIO):
        return False
    if faster.low_s is None or faster.high_s is None or slower.low_s is None or slower.high_s is None:
        return slower.time_s <= faster.time_s * (1 + UNKNOWN_LEVEL_RATIO)
    return faster.low_s <= slower.high_s and slower.low_s <= faster.high_s


def _goes_before(one: MeasuredTime, gentle: MeasuredTime | None) -> bool:
    """Return whether one may stand before the fastest that loses nothing: it loses nothing either, or is surely faster."""
    if gentle is None or one.is_lossless:
        return True
    if one.high_s is None or gentle.low_s is None:
        return gentle.time_s > one.time_s * (1 + UNKNOWN_LEVEL_RATIO)
    return one.high_s < gentle.low_s


def _by_tie(run: list[tuple[MeasuredTime, T]]) -> list[T]:
    return [row for _, row in sorted(run, key=lambda one: one[0]._tie_key)]
