"""An option in its ranking, and what every answer in JSON says of a predicted one: a format of a product or of a cache,
a plan of a model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from reports.present.encoder import Keys, null_if_empty
from roofline_model.core.answer import AlternativeRole, Exclusion, Option, Ranking
from roofline_model.core.finding import Finding, findings_text, first_with


@dataclass(frozen=True, slots=True)
class PlacedOption:
    """An option in its ranking."""

    option: Option
    ranking: Ranking

    @property
    def rank(self) -> int:
        """Place, from 1, count."""
        return self.ranking.rank_of(self.option)

    @property
    def role(self) -> Literal["take"] | AlternativeRole | None:
        """What it is named for: the choice, or an alternative beside it; null for the others."""
        return self.ranking.roles.get(self.option.key)

    @property
    def is_baseline(self) -> bool:
        """Whether speed-ups are counted against it."""
        return self.ranking.is_baseline(self.option)

    @property
    def kernel_gap(self) -> Finding | None:
        """Why no kernel is known to run it on this chip: it is ranked last, and a plan that was named is never the one
        to take; null where none is known to be missing.
        """
        return first_with(self.option.findings, "kernel-gap")


def placed(ranking: Ranking) -> tuple[PlacedOption, ...]:
    """Return the options in their ranking, best first."""
    return tuple(PlacedOption(option, ranking) for option in ranking.options)


def findings_once(ranking: Ranking) -> tuple[Finding, ...]:
    """Return what to know about it, may be empty."""
    return tuple(dict.fromkeys(ranking.findings))


def exclusion_text(exclusion: Exclusion) -> str:
    """Return why it is not ranked."""
    return findings_text(exclusion.findings)


def _speedup_ratio(each: PlacedOption) -> float:
    """Return the 16-bit time over this one, from times of the same source; ideal against ideal where one has no
    expected time.
    """
    return 1.0 if each.option.speedup_ratio is None else each.option.speedup_ratio


PREDICTED: Keys = {
    "path": "option.path",
    "time_s": "option.estimate.time_s",
    "time_source": "option.estimate.source",
    "low_s": "option.estimate.low_s",
    "high_s": "option.estimate.high_s",
    "time_provenance": ("option.estimate.provenance", null_if_empty),
    "ideal_s": "option.times.ideal_s",
    "speedup_ratio": _speedup_ratio,
    "bound": "option.bound",
    "reason": "",
    "kernel_gap": "kernel_gap",
}
"""Keys of a predicted option; each kind of it has a `reason` of its own."""
