"""Whether a measured winner may make a headline: its own time and its baseline's must be undisturbed and plausible."""

from __future__ import annotations

from collections.abc import Sequence

from results.verdicts.gain import measured_gain
from roofline_model.core.answer import Option
from roofline_model.core.finding import Finding, finding

DISTURBING_FLAGS = ("quarantined", "contended", "stolen")
"""Flags of a time that something else than the kernel made longer."""
SLOW_EXPECTED_RATIO = 5.0
"""A flagged baseline this many times slower than the upper end of its expected interval compares with nothing."""
SLOW_IDEAL_RATIO = 10.0
"""The slowest plausible time over the ideal one, where nothing is expected."""


def headline_gap(winner: Option | None, baseline: Option | None) -> Finding | None:
    """Return why no headline may rest on a measured winner over a baseline; None where one may.

    Predictions, and a winner without a baseline, are judged by their own time alone. Forced runs were measured on another chip
    than they were predicted for: nothing is said of their speed-up.
    """
    if winner is None or not winner.is_measured:
        return None
    sides = [winner, *([] if baseline is None or baseline.key == winner.key else [baseline])]
    disturbed = [option for option in sides if option.is_measured and is_disturbed(option)]
    if disturbed:
        flags = sorted(set().union(*(option.flags for option in disturbed)).intersection(DISTURBING_FLAGS))
        return finding("disturbed-result", winner.label, flags=tuple(flags))
    if baseline is None or len(sides) == 1 or "forced" in winner.flags | baseline.flags:
        return None
    gain, most = measured_gain(winner, baseline), largest_gain(winner, baseline)
    if gain is None or most is None:
        return None
    low = gain.ratio if gain.low_ratio is None else gain.low_ratio
    if low > most:
        return finding("implausible-gain", winner.label, speedup_ratio=gain.ratio, most_ratio=most)
    if baseline.trust.doubts and (slow := _slowness(baseline)) is not None and slow > 1:
        return finding("implausible-baseline", baseline.label, flags=tuple(baseline.trust.doubts))
    return None


def gap_of_all(gaps: Sequence[Finding | None]) -> Finding | None:
    """Return why several results together make no headline: the gap of the one, or their count; None where any has none."""
    known = [gap for gap in gaps if gap is not None]
    if not known or len(known) < len(gaps):
        return None
    if len(known) == 1:
        return known[0]
    return finding("disturbed-results", disturbed_count=len(known), case_count=len(gaps))


def is_disturbed(option: Option) -> bool:
    """Return whether every run behind a measured time was disturbed; one quiet night is evidence enough."""
    timed = [run for run in option.evidence if run.process_count]
    return bool(timed) and all(not set(run.flags).isdisjoint(DISTURBING_FLAGS) for run in timed)


def largest_gain(winner: Option, baseline: Option) -> float | None:
    """Return the largest plausible speed-up: the upper end of the baseline's expected time over the winner's ideal time.

    Without an expected time `SLOW_IDEAL_RATIO` times the baseline's ideal one stands for it.

    None where the ideal time leaves out what the kernel does (emulated), or is not known.
    """
    ideal_s, slowest_s = winner.times.ideal_s, _slowest_s(baseline, 1.0)
    if ideal_s is None or slowest_s is None or "emulated" in (winner.path, baseline.path):
        return None
    return slowest_s / ideal_s


def _slowest_s(option: Option, over_expected_ratio: float) -> float | None:
    expected, ideal_s = option.times.expected, option.times.ideal_s
    if expected is not None and expected.high_s is not None:
        return over_expected_ratio * expected.high_s
    return None if ideal_s is None else SLOW_IDEAL_RATIO * ideal_s


def _slowness(option: Option) -> float | None:
    slowest_s, measured_s = _slowest_s(option, SLOW_EXPECTED_RATIO), option.times.measured_s
    return None if slowest_s is None or measured_s is None or option.path == "emulated" else measured_s / slowest_s
