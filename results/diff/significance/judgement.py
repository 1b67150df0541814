"""From evidence to a verdict: SLOWER, FASTER, SAME or AMBIGUOUS, with the reason code. Pure."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from results.diff.rules import Verdict
from results.diff.significance.t_test import RANK_LEVEL, Evidence, Flags, Floats

Ranks = Callable[[int, bool], float | None]
"""(index of the case, is it slower) → one-sided p of the rank test, or None where so few processes cannot tell."""


def judge(
    evidence: Evidence,
    *,
    false_discovery_ratio: float,
    limit_ratio: Floats | float,
    ranks: Ranks,
    is_replicated: Flags | bool = True,
    asked_ratio: Floats | float = 0.0,
) -> list[tuple[Verdict, str]]:
    """Return verdict and reason of every case.

    SLOWER, FASTER: significant over the suite, at least the minimum effect, the order of the processes agrees, and the
    95 % interval of the case itself holds no zero. SLOWER needs it wholly beyond `asked_ratio`, what a gate asks for;
    a slow-down wholly below that is SAME. AMBIGUOUS: at least the minimum effect without that; or the interval reaches
    beyond the limit (and the minimum effect). `is_replicated`: whether a case has processes enough, or a stored floor,
    to be called changed at all. SAME: everything else.
    """
    change, least = evidence.change_log, evidence.min_effect_log
    limit = np.fmax(least, np.log1p(limit_ratio))
    is_known = np.isfinite(evidence.floor_log)
    is_slower = is_known & (evidence.slower_q <= false_discovery_ratio)
    is_faster = is_known & (evidence.faster_q <= false_discovery_ratio)
    can_be_called = np.broadcast_to(np.asarray(is_replicated), change.shape)
    is_large = np.abs(change) >= least
    asked = np.broadcast_to(np.log1p(asked_ratio), change.shape)
    has_zero = (evidence.low_log <= 0) & (evidence.high_log >= 0) & (change != 0)
    is_hidden = (evidence.high_log > limit) | (evidence.low_log < -limit)
    verdicts: list[tuple[Verdict, str]] = []
    for index in range(len(change)):
        if not is_known[index]:
            verdicts.append(("AMBIGUOUS", "noise-unknown"))
        elif is_large[index] and (is_slower[index] or is_faster[index]) and not has_zero[index]:
            p_value = ranks(index, bool(is_slower[index]))
            if not can_be_called[index]:
                verdicts.append(("AMBIGUOUS", "few-processes"))
            elif p_value is not None and p_value > RANK_LEVEL:
                verdicts.append(("AMBIGUOUS", "ranks-disagree"))
            elif is_faster[index] or evidence.low_log[index] > asked[index] or not asked[index]:
                verdicts.append(("SLOWER" if is_slower[index] else "FASTER", "significant"))
            elif evidence.high_log[index] <= asked[index]:
                verdicts.append(("SAME", "below-limit"))
            else:
                verdicts.append(("AMBIGUOUS", "limit-unproven"))
        elif is_large[index]:
            verdicts.append(("AMBIGUOUS", "not-significant"))
        elif is_hidden[index]:
            verdicts.append(("AMBIGUOUS", "too-noisy"))
        else:
            is_certain = is_slower[index] or is_faster[index]
            verdicts.append(("SAME", "below-minimum" if is_certain else "no-difference"))
    return verdicts
