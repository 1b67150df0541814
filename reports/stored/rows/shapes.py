"""The options of a shape: `reports.ranking.shape_ranking` gives times, speed-ups and losses; nights and trust are added
here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from reports.stored.rows.levels import CaseLevel
from reports.stored.rows.run_speedups import RunSpeedups
from reports.stored.rows.stored_option import (
    StoredOptions,
    evidence_of,
    predicted_half_ratio,
    trust_of,
)
from results.records.records import RunInfo
from roofline_model.core.answer import Ranking, Times


def shape_options(
    ranking: Ranking,
    levels: Mapping[str, CaseLevel],
    reference: RunInfo | None,
    speedups: RunSpeedups,
) -> StoredOptions:
    """Return the options of a ranked shape, unordered. `levels`: by case key; `reference`: the chip's newest measuring
    run; `totals`: the intervals over processes by case key.
    """
    baseline = ranking.baseline
    options = []
    for option in ranking.options:
        level, speedup_ratio = levels.get(option.key), option.speedup_ratio
        times = _times(option.times, level)
        trust = trust_of(times.best, level, reference)
        if baseline is not None and ranking.is_baseline(option):
            speedup_ratio = 1.0
        elif baseline is not None and option.is_measured and baseline.is_measured:
            speedup = speedups.of(option.key, baseline.key, speedup_ratio)
            if speedup is not None:
                speedup_ratio, trust = speedup.ratio, speedup.trusted(trust)
        options.append(
            replace(option, times=times, speedup_ratio=speedup_ratio, evidence=evidence_of(level), trust=trust)
        )
    return StoredOptions(options, next((option for option in options if ranking.is_baseline(option)), None))


def _times(times: Times, level: CaseLevel | None) -> Times:
    """Return the times with half the interval of an expected one, and the interval over the nights of a measured
    one.
    """
    expected, measured = times.expected, times.measured
    if expected is not None:
        half_ratio = predicted_half_ratio(expected.time_s, expected.low_s, expected.high_s)
        expected = replace(expected, half_width_ratio=half_ratio)
    if measured is not None and level is not None and level.result is not None:
        low_s, high_s = level.result.interval_s
        measured = replace(measured, low_s=low_s, high_s=high_s)
    return Times(times.ideal, expected, measured)
