"""What the baseline's time takes from the rows over it: a gain is no surer than the worse of its two times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from results.cases.gain import Gain, GainSide, doubts_to_mend, gain_of
from roofline_model.core.answer import CONFIDENCES, Option, Ranking


def with_baseline_trust(options: Sequence[Option], baseline: Option | None) -> list[Option]:
    """Return the options with the ends of their measured speed-ups and the worse confidence of both times."""
    if baseline is None or not baseline.is_measured:
        return list(options)
    return [option if option is baseline or not option.is_measured else _over(option, baseline) for option in options]


def _over(option: Option, baseline: Option) -> Option:
    own_trust, base = option.trust, baseline.trust
    if option.speedup_ratio is None:
        return option
    gain = (
        None
        if own_trust.speedup_night_count is not None
        else gain_of(option.speedup_ratio, _side(option), _side(baseline))
    )
    worse = max(own_trust.confidence, base.confidence, key=CONFIDENCES.index)
    is_over_doubt = bool(doubts_to_mend(baseline))
    trust = replace(
        own_trust,
        confidence=worse,
        baseline_reasons=base.reasons if is_over_doubt or worse != own_trust.confidence else (),
        is_over_doubt=is_over_doubt,
        speedup_low_ratio=None if gain is None else gain.low_ratio,
        speedup_high_ratio=None if gain is None else gain.high_ratio,
    )
    return replace(option, trust=trust)


def stored_gain(option: Option, ranking: Ranking) -> Gain | None:
    """Return the measured gain of an option that `with_baseline_trust` gave; None of the baseline and of what was not
    measured.
    """
    if option.speedup_ratio is None or not option.is_measured or ranking.is_baseline(option):
        return None
    trust = option.trust
    return Gain(
        option.speedup_ratio,
        trust.speedup_low_ratio,
        trust.speedup_high_ratio,
        doubts_to_mend(option),
        doubts_to_mend(ranking.baseline),
    )


def _side(option: Option) -> GainSide:
    estimate = option.estimate
    return GainSide(estimate.low_s, estimate.high_s, doubts_to_mend(option))
