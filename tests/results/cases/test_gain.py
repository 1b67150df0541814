"""A measured speed-up is told no finer than both of its times bear: ends of its interval, `about`, and which time is in
doubt.
"""

from __future__ import annotations

import pytest

from reports.present.words.verdict_text import doubt_text, doubtful_side
from results.cases.gain import Gain, GainSide, gain_of

SURE = GainSide(0.99e-3, 1.01e-3, ())


def side(median_s: float, half_ratio: float, *doubts: str) -> GainSide:
    return GainSide(median_s * (1 - half_ratio), median_s * (1 + half_ratio), doubts)


def test_a_wide_baseline_is_told_as_a_range_and_a_doubtful_one_as_about() -> None:
    """The trial's finding: `8.3× FP16` over a baseline of ± 41 %."""
    sure = gain_of(8.3, SURE, side(8.3e-3, 0.01))
    assert (sure.over("FP16"), doubt_text(sure)) == ("8.3× FP16", "")
    wide = gain_of(8.3, SURE, side(8.3e-3, 0.41))
    # The interval of the ratio lies around the middle of the two: √(0.59 · 1.41) of 8.3, times or by √(1.41 / 0.59).
    assert (wide.over("FP16"), wide.low_ratio) == ("8.3× FP16 (4.9× to 12×)", pytest.approx(8.3 * 0.59, rel=0.001))
    doubtful = gain_of(8.3, SURE, side(8.3e-3, 0.41, "noisy"))
    assert doubtful.over("FP16") == "about 8× FP16 (4.9× to 12×)"
    assert doubt_text(doubtful) == "the baseline's time is doubtful (noisy): measure it again"
    assert doubtful_side(doubtful) == "the baseline"


def test_the_interval_is_of_both_times() -> None:
    gain = gain_of(2.0, side(1e-3, 0.1), side(2e-3, 0.1))
    # ln(1.1/0.9)/2 of each, joined as the square root of the squares.
    assert gain.low_ratio == pytest.approx(2.0 * (0.9 / 1.1) ** (2**0.5 / 2))
    assert gain.high_ratio == pytest.approx(2.0 * (1.1 / 0.9) ** (2**0.5 / 2))
    swapped = gain_of(0.5, side(2e-3, 0.1), side(1e-3, 0.1))
    assert swapped.low_ratio == pytest.approx(1 / gain.high_ratio)


def test_a_doubt_without_intervals_and_doubts_of_both() -> None:
    few = gain_of(2.04, GainSide(None, None, ("drift",)), SURE)
    assert (few.low_ratio, few.over("BF16")) == (None, "about 2.0× BF16")
    assert doubt_text(few) == "its time is doubtful (drift): measure it again"
    both = Gain(12.4, None, None, ("drift",), ("contended", "noisy"))
    assert both.figure == "about 12×"
    assert doubt_text(both) == "both times are doubtful (noisy, drift, contended): measure both again"
    narrow = gain_of(1.9, side(1e-3, 0.001), side(1.9e-3, 0.001, "contended"))
    assert narrow.over("BF16") == "about 1.9× BF16", "narrow ends would promise what the flag denies"


def test_the_medians_may_lie_beside_the_middle_of_their_intervals() -> None:
    aside = gain_of(3.0, GainSide(1e-3, 1.02e-3, ()), GainSide(2e-3, 2.02e-3, ()))
    assert aside.low_ratio < aside.high_ratio == 3.0
    assert gain_of(2.0, GainSide(0.0, 1e-3, ()), SURE).low_ratio is None
    endless = GainSide(1e-320, 1e300, ())
    assert gain_of(2.0, endless, endless).over("BF16").startswith("2.0× BF16 (")
