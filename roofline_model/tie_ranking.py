"""Order by time where near-equal times count as equal: inside each run of them something else decides."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

Item = TypeVar("Item")


def by_time_with_ties(
    items: Iterable[Item],
    *,
    time_s: Callable[[Item], float],
    better: Callable[[Item], Any],
    tie_ratio: float,
) -> list[Item]:
    """Return the items by time; each run of times within `tie_ratio` of its fastest is ordered by `better`, least first.

    A run begins at the fastest of those left, so that a chain of small steps never ties its two ends.
    """
    ordered: list[Item] = []
    left = sorted(items, key=time_s)
    while left:
        fastest_s = time_s(left[0])
        tied = [one for one in left if time_s(one) <= fastest_s * (1 + tie_ratio)]
        ordered += sorted(tied, key=better)
        left = left[len(tied) :]
    return ordered
