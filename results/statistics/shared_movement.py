"""How much the cases of a suite move together from process to process, and how many independent ones they are worth.
Pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from statistics import fmean
from typing import TYPE_CHECKING

from roofline_model.core.grouping import grouped

if TYPE_CHECKING:
    from results.cases.pooling import Pooled

Deviations = Mapping[tuple[int, tuple[str, int]], float]
"""By ordinal of the side and process: its logarithm less the mean of its side, over the standard deviation."""


def deviations_of(*sides: Pooled) -> Deviations:
    """Return the deviations of a case that was measured on one side or several; empty where they have no spread."""
    df = sum(len(side.logs) - 1 for side in sides)
    squares = sum(side.squares for side in sides)
    if df <= 0 or squares <= 0:
        return {}
    sd, means = math.sqrt(squares / df), [side.mean_log for side in sides]
    return {
        (number, key): (log - means[number]) / sd for number, side in enumerate(sides) for key, log in side.logs.items()
    }


def shared_ratio(cases: Iterable[Deviations]) -> float:
    """Return which share of the spread between processes all cases have in common, 0 to 1 (intraclass correlation).

    The mean over independent cases averages out, what is common does not. Over the cases that were measured in all the
    processes that most cases were measured in.
    """
    groups = grouped(filter(None, cases), frozenset)
    members = max(groups.values(), key=len, default=[])
    if len(members) < 2:
        return 0.0
    count = len(members)
    of_mean = math.fsum(fmean(member[key] for member in members) ** 2 for key in members[0])
    of_cases = fmean(math.fsum(value**2 for value in member.values()) for member in members)
    return min(1.0, max(0.0, (of_mean / of_cases * count - 1) / (count - 1)))


def effective_cases(case_count: int, shared: float) -> float:
    """Return how many independent cases a suite is worth: the design effect of a mean of variances, correlated by
    shared².
    """
    correlation = shared * shared
    return 1.0 / (1 / case_count + (1 - 1 / case_count) * correlation) if case_count else 0.0
