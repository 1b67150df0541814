"""Do the visits to a case agree? Pure: the samples of each visit in, the samples that count out.

A shared machine has slow states that last longer than a visit. The samples of one visit then resemble each other and
say nothing about the next one; only visits that lie apart tell.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

LEAST_AGREEING = 3
"""Undisturbed visits that have to agree before a case is left alone."""
LEAST_CONTENDED = 6
"""Contended ones that have to, where no others are to be had."""
AGREE_MULTIPLE = 2.0
"""Medians agree within this many times the target of the precision …"""
AGREEING_RATIO = 2 / 3
"""… and this share of the undisturbed visits has to, of the contended ones where none is undisturbed."""


@dataclass(frozen=True, slots=True)
class Visit:
    """One stay at a case."""

    samples_s: tuple[float, ...]
    clocks_hz: tuple[float | None, ...]
    is_contended: bool
    """Whether other processes used the CPUs meanwhile."""

    @property
    def median_s(self) -> float:
        """Median seconds per call."""
        return median(self.samples_s)


@dataclass(frozen=True, slots=True)
class Agreement:
    """What the visits to a case say together."""

    visits: tuple[Visit, ...]
    used: tuple[Visit, ...]
    """Those whose samples count, in order: the ones that agree where they are most of the undisturbed ones, else all
    undisturbed ones; where there are none, those like the fastest.
    """
    agreed_count: int
    contended_count: int
    is_settled: bool
    """Whether so many agree that more visits would tell nothing new."""

    @property
    def is_disturbed(self) -> bool:
        """Whether contended visits had to be used."""
        return any(visit.is_contended for visit in self.used)

    @property
    def samples_s(self) -> tuple[float, ...]:
        """The samples that count."""
        return tuple(sample for visit in self.used for sample in visit.samples_s)

    @property
    def clocks_hz(self) -> tuple[float | None, ...]:
        """Their clocks."""
        return tuple(clock for visit in self.used for clock in visit.clocks_hz)

    def facts(self) -> dict[str, Any]:
        """Return what a record keeps: how many visits there were, agreed and were contended, and their medians."""
        return {
            "count": len(self.visits),
            "agreed": self.agreed_count,
            "contended": self.contended_count,
            "medians_s": [visit.median_s for visit in self.visits],
        }


def agreement(visits: Sequence[Visit], target_ratio: float) -> Agreement:
    """Return what one or more visits say together.

    Contended visits are left out as soon as `LEAST_AGREEING` are not: the counters of a short stay are coarse, and one
    alone may have been found undisturbed by chance. The largest group that lies within twice ± `AGREE_MULTIPLE` × the
    target agrees; of equal groups the fastest. With fewer undisturbed ones, those that agree with the fastest of all
    count: other processes only ever add time. They settle a case too, if they are `LEAST_CONTENDED`.
    """
    contended = [visit for visit in visits if visit.is_contended]
    clean = [visit for visit in visits if not visit.is_contended]
    if contended and len(clean) < LEAST_AGREEING:
        clean = []
    ordered = sorted(clean or visits, key=lambda visit: visit.median_s)
    width = 2 * math.log1p(AGREE_MULTIPLE * target_ratio)
    groups = [
        [visit for visit in ordered[start:] if math.log(visit.median_s / first.median_s) <= width]
        for start, first in enumerate(ordered)
    ]
    best = max(groups, key=len) if clean else groups[0]
    counts = best if not clean or 2 * len(best) > len(clean) else clean
    used = tuple(visit for visit in visits if any(visit is member for member in counts))
    least_count = LEAST_AGREEING if clean else LEAST_CONTENDED
    is_settled = len(best) >= max(least_count, AGREEING_RATIO * len(ordered))
    return Agreement(tuple(visits), used, len(best), len(contended), is_settled)
