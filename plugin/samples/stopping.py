"""When enough samples have been taken: the median is known well enough, waiting no longer helps, or the budget is spent. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from plugin.samples.stats import estimate_median


class StoppingRule(Protocol):
    """Decides after each sample; the returned text is stored as the measurement's stop reason."""

    def reason_to_stop(self, samples_s: Sequence[float], elapsed_s: float) -> str | None:
        """Return why sampling ends now, or None to go on."""
        ...


@dataclass(slots=True)
class MedianInterval:
    """Stop when the 95 % interval of the median is within ± `target_ratio` at two looks in a row, or for lack of progress.

    Looks come when the count has grown by a quarter since the last: looking after every sample would stop on lucky
    streaks and make the stated 95 % untrue, and the second look is there because the first is chosen for being narrow.
    Cheap samples begin at `settled_samples`, fewer cannot tell whether they resemble each other; costly ones begin at
    `min_samples` after `min_seconds`, and until they are `settled_samples` they have to be tighter by √(count/settled).
    """

    target_ratio: float = 0.01
    max_seconds: float = 0.7
    min_samples: int = 12
    max_samples: int = 10_000
    settled_samples: int = 100
    min_seconds: float = 0.1
    stable_looks: int = 6
    """Noise is stable when this many looks (3.8 times the samples) made the interval less than a tenth narrower …"""
    stable_samples: int = 256
    """… of at least so many samples. Independent noise would have become half as wide."""
    next_look: int = 0
    within_target: int = 0
    """Looks in a row at which the interval was narrow enough."""
    half_widths: list[float] = field(default_factory=list)
    """Relative half width at each look, oldest first."""

    def reason_to_stop(self, samples_s: Sequence[float], elapsed_s: float) -> str | None:
        """Return `converged`, `noise-stable`, `budget` or `max-samples`, or None to go on.

        The budget never ends a series before 3 samples: a median of less says nothing about its own spread.
        """
        count = len(samples_s)
        if elapsed_s >= self.max_seconds and count >= 3:
            return "budget"
        if count >= self.max_samples:
            return "max-samples"
        if count < self.next_look or count < self.min_samples:
            return None
        if count < self.settled_samples and elapsed_s < self.min_seconds:
            return None
        self.next_look = count + max(1, count // 4)
        return self._look(samples_s)

    def _look(self, samples_s: Sequence[float]) -> str | None:
        width = estimate_median(samples_s).half_width_ratio
        if width is None:
            self.within_target = 0
            return None
        self.half_widths.append(width)
        needed = self.target_ratio * min(1.0, math.sqrt(len(samples_s) / self.settled_samples))
        self.within_target = self.within_target + 1 if width <= needed else 0
        if self.within_target >= 2:
            return "converged"
        # While the target is being reached there is progress by definition.
        return "noise-stable" if not self.within_target and self._is_stable(len(samples_s)) else None

    def _is_stable(self, count: int) -> bool:
        """Whether more samples have stopped making the interval narrower; each end is the mean of two looks.

        nvbench's rule for its standard deviation (stop when the ring of noise values no longer moves), put on the width
        that is reported: slow noise keeps it wide however long one waits, and so do ticks of a coarse clock.
        """
        if count < self.stable_samples or len(self.half_widths) < self.stable_looks + 2:
            return False
        now = sum(self.half_widths[-2:])
        before = sum(self.half_widths[-2 - self.stable_looks : -self.stable_looks])
        return now > 0.9 * before
