"""When enough samples have been taken: the interval of the median is tight, or the budget is spent. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from plugin.stats import summarize


class StoppingRule(Protocol):
    """Decides after each sample; the returned text is stored as the measurement's stop reason."""

    def reason_to_stop(self, samples_s: Sequence[float], elapsed_s: float) -> str | None:
        """Return why sampling ends now, or None to go on."""
        ...


@dataclass(slots=True)
class MedianInterval:
    """Stop when the 95 % interval of the median is within ± `target_ratio`, or when the budget ends.

    The interval is looked at only when the count has grown by a quarter since the last look: looking after every
    sample would stop on lucky streaks and make the stated 95 % untrue.
    """

    target_ratio: float = 0.01
    max_seconds: float = 0.7
    min_samples: int = 12
    max_samples: int = 10_000
    next_look: int = 0

    def reason_to_stop(self, samples_s: Sequence[float], elapsed_s: float) -> str | None:
        """Return `converged`, `budget` or `max-samples`, or None to go on.

        The budget never ends a series before 3 samples: a median of less says nothing about its own spread.
        """
        count = len(samples_s)
        if not count:
            return None
        if elapsed_s >= self.max_seconds and count >= 3:
            return "budget"
        if count >= self.max_samples:
            return "max-samples"
        if count < self.min_samples or count < self.next_look:
            return None
        self.next_look = count + max(1, count // 4)
        width = summarize(samples_s).half_width_ratio
        return "converged" if width is not None and width <= self.target_ratio else None
