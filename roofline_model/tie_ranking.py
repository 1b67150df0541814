"""Which configuration comes first: the one rule for predictions.

A prediction is held to the end of its 80 % interval, which nine of ten stay below: the interval is wide where a kernel was
never timed on such a chip, and such a one has to promise more than one that was. docs/pareto.md argues it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TypeVar

Item = TypeVar("Item")
LEVEL_RATIO = 0.05
"""Predictions of two configurations closer than this cannot be told apart: the model's own error is larger."""
PREDICTION_RULE = (
    "by the end of the 80 % interval of the expected time; ends within 5 % by that time, and where this is within 5 %, too, by "
    "the smaller loss (unknown last), then the smaller memory"
)
"""What `order_predictions` does, for the line under a table."""


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
    behind what is not faster, not surer, loses no less and is no smaller. Equal ones stay in the order they come in.
    """
    left = [(_end_s(time_s(one), high_s(one)), time_s(one), one) for one in items]
    ordered: list[Item] = []
    while left:
        last_end_s = min(end_s for end_s, _, _ in left) * (1 + LEVEL_RATIO)
        last_s = min(found_s for end_s, found_s, _ in left if end_s <= last_end_s) * (1 + LEVEL_RATIO)
        level = [one for one in left if one[0] <= last_end_s and one[1] <= last_s]
        left = [one for one in left if one[0] > last_end_s or one[1] > last_s]
        level.sort(key=lambda one: (_or_last(loss_pct(one[2])), _or_last(memory_bytes(one[2])), one[0], one[1]))
        ordered += [one for _, _, one in level]
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
