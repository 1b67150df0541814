"""A measured speed-up: how sure it is, its text (never finer than the precision of both times), and whether it may make
a headline.

Its interval is that of both times, 95 % each, joined on the logarithmic scale as `results.statistics.replication.agree`
joins them. A flag that puts either time in doubt makes it "about": an interval knows how a time scatters, not what else
slowed it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from results.records.flags import KERNEL_FLAGS
from roofline_model.core.answer import SLOW_IDEAL_RATIO, Option, Ranking
from roofline_model.core.finding import Finding, finding
from roofline_model.core.units import format_speedup

WIDE_GAIN_RATIO = 0.10
"""Half an interval from which a speed-up is told with its ends: `1.7×` says no more than that anyway."""


@dataclass(frozen=True, slots=True)
class GainSide:
    """One of the two times of a speed-up."""

    low_s: float | None
    """Lower end of its 95 % interval; None where none is known."""
    high_s: float | None
    doubts: tuple[str, ...]
    """What puts it in doubt: flags of `DOUBTFUL_FLAGS`, and what else does."""

    @classmethod
    def of(cls, option: Option) -> GainSide:
        """Return the measured time of a pooled option; of too few samples it has no interval."""
        low_s, high_s = (None, None) if option.times.measured is None else option.times.measured.interval_s
        return cls(low_s, high_s, option.trust.doubts)


@dataclass(frozen=True, slots=True)
class Gain:
    """A measured speed-up with what both of its times leave open."""

    ratio: float
    """Of the medians: the baseline's time over the configuration's."""
    low_ratio: float | None
    """Ends of its 95 % interval; None where one of the times has none."""
    high_ratio: float | None
    doubts: tuple[str, ...]
    """Of the configuration's own time."""
    baseline_doubts: tuple[str, ...]

    @property
    def is_doubtful(self) -> bool:
        """Whether either time is in doubt."""
        return bool(self.doubts or self.baseline_doubts)

    @property
    def figure(self) -> str:
        """`2.4×`; `about 2.4×`, `about 8×` where a time is in doubt: that says nothing of a second digit."""
        return f"about {roughly(self.ratio)}" if self.is_doubtful else format_speedup(self.ratio)

    def over(self, name: str) -> str:
        """Return it over a baseline: `2.4× BF16`, `about 8× FP16 (5.5× to 12×)` where it is in doubt and wide."""
        return f"{self.figure} {name}{self.ends_text}"

    @property
    def ends_text(self) -> str:
        """` (5.5× to 12×)`; empty where no interval is known, or a narrow one: that of a time in doubt would promise
        too much.
        """
        low, high = self.low_ratio, self.high_ratio
        if low is None or high is None:
            return ""
        return self.range_text if math.log(high / low) / 2 > math.log1p(WIDE_GAIN_RATIO) else ""

    @property
    def range_text(self) -> str:
        """The same of a narrow one, too."""
        low, high = self.low_ratio, self.high_ratio
        return "" if low is None or high is None else f" ({roughly(low)} to {roughly(high)})"


def gain_of(ratio: float, option: GainSide, baseline: GainSide) -> Gain:
    """Return a measured speed-up between two times."""
    ends = (option.low_s, option.high_s, baseline.low_s, baseline.high_s)
    if any(end is None or not 0 < end < math.inf for end in ends):
        return Gain(ratio, None, None, option.doubts, baseline.doubts)
    own_low, own_high, base_low, base_high = (math.log(end) for end in ends if end is not None)
    centre = (base_low + base_high - own_low - own_high) / 2
    half = math.hypot(base_high - base_low, own_high - own_low) / 2
    # The medians may lie aside of the middle of their intervals: these are about the mean of the processes.
    low, high = (
        math.exp(max(-300.0, min(end, 300.0))) for end in (centre - half, centre + half)
    )  # exp() of more is not a number
    return Gain(ratio, min(low, ratio), max(high, ratio), option.doubts, baseline.doubts)


def measured_gain(option: Option | None, baseline: Option | None) -> Gain | None:
    """Return the measured speed-up of a pooled option over another; None where one was not measured."""
    if option is None or baseline is None:
        return None
    own_s, baseline_s = option.times.measured_s, baseline.times.measured_s
    if own_s is None or baseline_s is None:
        return None
    return gain_of(baseline_s / own_s, GainSide.of(option), GainSide.of(baseline))


def gain_over_baseline(option: Option, ranking: Ranking) -> Gain | None:
    """Return the measured speed-up of an option over the baseline of its ranking; None of the baseline itself, and
    where one of the two was not measured.
    """
    return None if ranking.is_baseline(option) else measured_gain(option, ranking.baseline)


def doubts_to_mend(option: Option | None) -> tuple[str, ...]:
    """Return what puts a measured time in doubt that measuring again may mend: nothing mends that it was simulated."""
    if option is None or not option.is_measured:
        return ()
    return tuple(doubt for doubt in option.trust.doubts if doubt != "simulated")


def roughly(ratio: float) -> str:
    """Print a speed-up of which nobody knows the second digit: `8×`, `2.4×`."""
    return f"{ratio:.0f}×" if ratio >= 4.95 else format_speedup(ratio)


DISTURBING_FLAGS = ("quarantined", "contended", "stolen")
"""Flags of a time that something else than the kernel made longer."""
SLOW_EXPECTED_RATIO = 5.0
"""A flagged baseline this many times slower than the upper end of its expected interval compares with nothing; where
nothing is expected, one `SLOW_IDEAL_RATIO` times slower than its ideal.
"""
PLAUSIBLE_GAIN_RATIO = 3.0
"""How far a speed-up may exceed the ratio of the ideal times, or 1. Of 1,971 products in public tables, measured
faster than BF16, 0.1 % exceed it by more (A100, H100, B200, L40S, RTX PRO 6000; aiconfigurator, TensorRT-LLM 1.0).
"""


def headline_gap(winner: Option | None, baseline: Option | None) -> Finding | None:
    """Return why no headline may rest on a measured winner over a baseline; None where one may.

    Predictions, and a winner without a baseline, are judged by their own time alone. Forced runs were measured on
    another chip than they were predicted for: nothing is said of their speed-up.
    """
    if winner is None or not winner.is_measured:
        return None
    sides = [winner, *([] if baseline is None or baseline.key == winner.key else [baseline])]
    disturbed = [option for option in sides if option.is_measured and is_disturbed(option)]
    if disturbed:
        suspects = [option for option in disturbed if not option.flags.isdisjoint(KERNEL_FLAGS)]
        if suspects:
            flags = tuple(flag for flag in KERNEL_FLAGS if flag in suspects[0].flags)
            return finding("implausible-result", suspects[0].label, kind="work", flags=flags)
        flags = tuple(sorted(disturbed[0].flags.intersection(DISTURBING_FLAGS)))
        return finding("disturbed-result", disturbed[0].label, kind="option", flags=flags)
    if baseline is None or len(sides) == 1 or "forced" in winner.flags | baseline.flags:
        return None
    gain, most = measured_gain(winner, baseline), largest_gain(winner, baseline)
    if gain is None or most is None:
        return None
    low = gain.ratio if gain.low_ratio is None else gain.low_ratio
    if low > most:
        return finding(
            "implausible-result", winner.label, kind="gain", speedup_ratio=gain.ratio, most_speedup_ratio=most
        )
    if baseline.trust.doubts and (slow := _slowness(baseline)) is not None and slow > 1:
        return finding("implausible-result", baseline.label, kind="baseline", flags=tuple(baseline.trust.doubts))
    return None


def first_gap(winners: Iterable[Option | None], baseline: Option | None) -> Finding | None:
    """Return why no headline may name all of some winners, the choice and what is fastest; None where one may."""
    gaps = (headline_gap(winner, baseline) for winner in winners)
    return next((gap for gap in gaps if gap is not None), None)


def gap_of_all(gaps: Sequence[Finding | None]) -> Finding | None:
    """Return why several results together make no headline: the gap of the one, or their count; None where any has
    none.
    """
    known_gaps = [gap for gap in gaps if gap is not None]
    if not known_gaps or len(known_gaps) < len(gaps):
        return None
    if len(known_gaps) == 1:
        return known_gaps[0]
    return finding("disturbed-result", kind="cases", disturbed_count=len(known_gaps), case_count=len(gaps))


def is_disturbed(option: Option) -> bool:
    """Return whether every run behind a measured time was disturbed; one quiet night is evidence enough."""
    timed = [run for run in option.evidence if run.process_count]
    return bool(timed) and all(not set(run.flags).isdisjoint(DISTURBING_FLAGS) for run in timed)


def largest_gain(winner: Option, baseline: Option) -> float | None:
    """Return the largest plausible speed-up: `PLAUSIBLE_GAIN_RATIO` times the ratio of the ideal times (or 1: wider
    formats win over slow kernels), or the upper end of the baseline's expected time over the winner's ideal time,
    whichever is more.

    None where an ideal time is not known, or that of the baseline leaves out what emulating costs.
    """
    own_s, baseline_s = winner.times.ideal_s, baseline.times.ideal_s
    if own_s is None or baseline_s is None or baseline.path == "emulated":
        return None
    return max(PLAUSIBLE_GAIN_RATIO * max(baseline_s, own_s), _expected_high_s(baseline) or 0.0) / own_s


def _slowness(option: Option) -> float | None:
    """Return the measured time of a baseline over the slowest that is plausible; None where nothing says it."""
    expected_s, ideal_s, measured_s = _expected_high_s(option), option.times.ideal_s, option.times.measured_s
    if measured_s is None or option.path == "emulated":
        return None
    if expected_s is not None:
        return measured_s / (SLOW_EXPECTED_RATIO * expected_s)
    return None if ideal_s is None else measured_s / (SLOW_IDEAL_RATIO * ideal_s)


def _expected_high_s(option: Option) -> float | None:
    expected = option.times.expected
    return None if expected is None else expected.high_s
