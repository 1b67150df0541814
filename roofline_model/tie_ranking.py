"""Which configuration comes first: the one rule for predictions.

A prediction is held to the end of its 80 % interval, which nine of ten stay below: the interval is wide where a kernel was
never timed on such a chip, and such a one has to promise more than one that was. docs/pareto.md argues it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

Item = TypeVar("Item")
LEVEL_RATIO = 0.05
"""Predictions of two configurations closer than this cannot be told apart: the model's own error is larger."""
PREDICTION_RULE = (
    "by the end of the 80 % interval of the expected time; ends within 5 % by that time, and where this is within 5 %, too, by "
    "the smaller loss (unknown last), then the smaller memory; nothing lossy before what loses nothing and is expected as fast"
)
"""What `order_predictions` does, for the line under a table."""


@dataclass(frozen=True, slots=True, eq=False)
class _Contender(Generic[Item]):
    end_s: float
    time_s: float
    loss_pct: float
    item: Item


def order_predictions(
    items: Iterable[Item],
    *,
    time_s: Callable[[Item], float],
    high_s: Callable[[Item], float | None],
    loss_pct: Callable[[Item], float | None],
    memory_bytes: Callable[[Item], float | None],
) -> list[Item]:
    """Return predicted configurations in the order of every recommendation (`PREDICTION_RULE` says it in a sentence).

    `high_s`: the upper end of the 80 % interval; None where a time has none, and then the time itself is its end. Those whose
    end is within `LEVEL_RATIO` of the earliest go by time, and those whose time is within it of the fastest of these by the
    smaller loss, then the smaller memory, then the end; an unknown loss or memory counts as the largest. So nothing stands
    behind what is not faster, not surer, loses no less and is no smaller. What loses something waits for what loses nothing
    (0) and is expected as fast: a surer end is no gain to pay a loss for. Equal ones stay in the order they come in.
    """
    left = [_Contender(_end_s(time_s(one), high_s(one)), time_s(one), _or_last(loss_pct(one)), one) for one in items]
    ordered: list[Item] = []
    while left:
        lossless_s = min((one.time_s for one in left if one.loss_pct <= 0), default=math.inf)
        gaining = [one for one in left if one.loss_pct <= 0 or one.time_s < lossless_s]
        last_end_s = min(one.end_s for one in gaining) * (1 + LEVEL_RATIO)
        last_s = min(one.time_s for one in gaining if one.end_s <= last_end_s) * (1 + LEVEL_RATIO)
        level = [one for one in gaining if one.end_s <= last_end_s and one.time_s <= last_s]
        left = [one for one in left if one not in level]
        level.sort(key=lambda one: (one.loss_pct, _or_last(memory_bytes(one.item)), one.end_s, one.time_s))
        ordered += [one.item for one in level]
    return ordered


def are_level_predictions(
    one_s: float, other_s: float, *, one_high_s: float | None = None, other_high_s: float | None = None
) -> bool:
    """Return whether two predictions are level: their times and the ends of their 80 % intervals within `LEVEL_RATIO`."""
    ends = _end_s(one_s, one_high_s), _end_s(other_s, other_high_s)
    return all(max(pair) <= min(pair) * (1 + LEVEL_RATIO) for pair in ((one_s, other_s), ends))


def _end_s(time_s: float, high_s: float | None) -> float:
    return time_s if high_s is None else high_s


def _or_last(value: float | None) -> float:
    return math.inf if value is None else value
