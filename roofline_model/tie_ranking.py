"""Order by time where near-equal times count as equal: inside each run of them something else decides."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

Item = TypeVar("Item")
TIE_RATIO = 0.01
"""Predicted times closer than this are equal."""
INTERVAL_TIE_RATIO = 0.05
"""Expected times whose 80 % intervals overlap are equal up to this difference: a larger one is the likelier truth, however
wide the intervals are."""


def by_time_with_ties(
    items: Iterable[Item],
    *,
    time_s: Callable[[Item], float],
    better: Callable[[Item], Any],
    tie_ratio: float,
    is_level: Callable[[Item, Item], bool] | None = None,
) -> list[Item]:
    """Return the items by time; each run of times within `tie_ratio` of its fastest is ordered by `better`, least first.

    A run begins at the fastest of those left, so that a chain of small steps never ties its two ends. `is_level` may say of the
    fastest and another one within the ratio that they are told apart nevertheless.
    """
    ordered: list[Item] = []
    left = sorted(items, key=time_s)
    while left:
        fastest_s = time_s(left[0])
        near = [one for one in left if time_s(one) <= fastest_s * (1 + tie_ratio)]
        tied = [one for one in near if is_level is None or one is left[0] or is_level(left[0], one)]
        ordered += sorted(tied, key=better)
        left = left[len(tied) :] if len(tied) == len(near) else [one for one in left if not _is_in(one, tied)]
    return ordered


def are_level_predictions(
    faster_s: float, slower_s: float, *, faster_high_s: float | None, slower_low_s: float | None
) -> bool:
    """Return whether two predicted times of one kind cannot be told apart: 1 %, or overlapping 80 % intervals and 5 %.

    `faster_high_s`, `slower_low_s`: the ends that face each other; None for a time without an interval.
    """
    if slower_s <= faster_s * (1 + TIE_RATIO):
        return True
    if faster_high_s is None or slower_low_s is None:
        return False
    return slower_s <= faster_s * (1 + INTERVAL_TIE_RATIO) and slower_low_s <= faster_high_s


def _is_in(one: Item, many: list[Item]) -> bool:
    return any(one is other for other in many)
