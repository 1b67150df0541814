"""The order of options from stored runs: the policy `stored` of `roofline_model.recommend.ranking`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from roofline_model.core.answer import Option, Question, Ranking
from roofline_model.recommend.ranking import (
    POLICIES,
    Limits,
    Standing,
    Tier,
    are_level_measured,
    are_level_predictions,
    maybe_faster,
    rank,
    standing,
    tier_of,
)

_POLICY = POLICIES["stored"]


def rank_stored(question: Question, options: Iterable[Option], baseline: Option | None, limits: Limits) -> Ranking:
    """Return the ranking of options from stored runs; the order they come in makes no difference."""
    by_time = sorted(options, key=lambda option: (option.estimate.time_s, option is not baseline, option.key))
    return rank(question, by_time, baseline, limits=limits)


def evidence_tier(option: Option) -> Tier:
    """Return what goes before any time: kernels that are known, what really runs, measured before expected before
    ideal.
    """
    return tier_of(option, None, "", _POLICY)


def level_with(option: Option, options: Iterable[Option]) -> tuple[Option, ...]:
    """Return the other options of the same kind of evidence that one is tied with, as every ranking takes it."""
    tier = evidence_tier(option)
    alike = [other for other in options if other.key != option.key and evidence_tier(other) == tier]
    return tuple(other for other in alike if _is_level(option, other))


def maybe_faster_option(options: Sequence[Option]) -> Option | None:
    """Return the measured option that stands behind the first for its loss alone and may be faster; see
    `maybe_faster`.
    """
    return maybe_faster([option for option in options if option.is_measured], stored_standing)


def _is_level(option: Option, other: Option) -> bool:
    pair = sorted(map(stored_standing, (option, other)), key=lambda item: item.time_s)
    return are_level_measured(*pair) if option.is_measured else are_level_predictions(*pair)


def stored_standing(option: Option) -> Standing:
    """Return what an option of a stored run is ordered by."""
    return standing(option, _POLICY)
