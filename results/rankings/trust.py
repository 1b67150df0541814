"""How far the options of one question from stored runs can be trusted: nights, doubts, staleness and confidence, the
same for shapes and models, by a rule that can be read; and what the baseline's time takes from the options over it,
because a gain is no surer than the worse of its two times.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from results.cases import shape_verdict
from results.cases.case_result import CaseResult
from results.cases.gain import Gain, GainSide, doubts_to_mend, gain_of
from results.rankings.levels import CaseLevel, stale_findings
from results.rankings.run_speedups import RunSpeedups
from results.records.flags import DOUBTFUL_FLAGS, doubts_text
from results.records.records import RunInfo
from roofline_model.core.answer import (
    CONFIDENCES,
    Confidence,
    Estimate,
    Evidence,
    Option,
    Ranking,
    Times,
    Trust,
)
from roofline_model.core.finding import Finding, finding

LEAST_PROCESS_COUNT = 3
"""Processes a measured time needs for full confidence."""
WIDE_RATIO = 0.05
"""Half an interval beyond which a time is not stable: that of the flag `noisy`."""
OWN_PROVENANCES = frozenset({"fitted", "measured-here"})
"""Of expected times whose constants come from measurements of this very chip."""


def stored_options(
    options: Iterable[Option],
    baseline: Option | None,
    levels: Mapping[str, CaseLevel],
    reference: RunInfo | None,
    speedups: RunSpeedups,
) -> list[Option]:
    """Return options of one question, unordered, with what the nights of their cases say: intervals, evidence, trust,
    and a speed-up over the baseline that some run saw. `levels`: by case key; `reference`: the chip's newest measuring
    run.
    """
    made = []
    for option in options:
        level, speedup_ratio = levels.get(option.key), option.speedup_ratio
        times = _times(option.times, level)
        trust = trust_of(times.best, level, reference)
        if baseline is not None and option.key == baseline.key:
            speedup_ratio = 1.0
        elif option.is_measured and baseline is not None and baseline.is_measured:
            speedup = speedups.of(option.key, baseline.key, speedup_ratio)
            if speedup is not None:
                speedup_ratio, trust = speedup.ratio, speedup.trusted(trust)
        made.append(replace(option, times=times, speedup_ratio=speedup_ratio, evidence=evidence_of(level), trust=trust))
    return made


def _times(times: Times, level: CaseLevel | None) -> Times:
    """Return the times with half the interval of an expected one, and the interval over the nights of a measured
    one.
    """
    expected, measured = times.expected, times.measured
    if expected is not None:
        low_s, high_s = expected.low_s, expected.high_s
        half_ratio = None if low_s is None or high_s is None else (high_s - low_s) / 2 / expected.time_s
        expected = replace(expected, half_width_ratio=half_ratio)
    if measured is not None and level is not None and level.result is not None:
        low_s, high_s = level.result.interval_s
        measured = replace(measured, low_s=low_s, high_s=high_s)
    return Times(times.ideal, expected, measured)


def trust_of(estimate: Estimate, level: CaseLevel | None, reference: RunInfo | None) -> Trust:
    """Return the trust in a time. `level`: of its case, None where nothing is stored; `reference`: the chip's newest
    measuring run.
    """
    if estimate.source != "measured" or level is None or level.result is None:
        return Trust(*predicted_confidence(estimate))
    doubts = _doubts(level.result, level)
    stale = () if reference is None else stale_findings(level, reference)
    confidence, reasons = measured_confidence(
        level.result.process_count, estimate.half_width_ratio, doubts, is_stale=bool(stale)
    )
    return Trust(confidence, reasons, doubts, stale)


def _doubts(case: CaseResult, level: CaseLevel) -> tuple[str, ...]:
    """Return what puts the times of a level in doubt: flags in the order they are explained, then its nights' own
    doubt.
    """
    flags = [flag for flag in case.flags if flag in DOUBTFUL_FLAGS or flag == "simulated"]
    other_doubts = [item for item in level.doubts if item.code not in flags]
    return (*flags, *([doubts_text(other_doubts)] if other_doubts else []))


def evidence_of(level: CaseLevel | None) -> tuple[Evidence, ...]:
    """Return the runs behind a level with the records of each, oldest first; none where nothing is stored."""
    if level is None or level.result is None:
        return ()
    by_run = {evidence.run_id: evidence for evidence in shape_verdict.evidence_of(level.result)}
    return tuple(
        replace(by_run[run.run_id], started_at=run.started_at, label=run.label or None)
        for run in level.runs
        if run.run_id in by_run
    )


def measured_confidence(
    process_count: int, half_width_ratio: float | None, doubts: Sequence[str], *, is_stale: bool
) -> tuple[Confidence, tuple[Finding, ...]]:
    """Return the confidence in a measured time, and why.

    high: at least three processes, an interval of at most ±5 %, no doubt, not stale. Each of these that is missed takes
    one step: too few processes; an interval that is wide, or unknown though there are enough processes to know it; a
    flag that puts the time in doubt; staleness. Simulated times are low.
    """
    if "simulated" in doubts:
        return "low", (finding("simulated"),)
    weak = []
    if process_count == 1:
        weak.append(finding("less-sure", kind="one-process"))
    elif process_count < LEAST_PROCESS_COUNT:
        weak.append(finding("less-sure", kind="few-processes", process_count=process_count))
    if half_width_ratio is None and process_count >= LEAST_PROCESS_COUNT:
        weak.append(finding("less-sure", kind="interval-unknown"))
    elif half_width_ratio is not None and half_width_ratio > WIDE_RATIO:
        weak.append(finding("less-sure", kind="interval-wide", half_width_ratio=half_width_ratio))
    if doubts:
        weak.append(finding("less-sure", kind="doubtful", doubts=tuple(doubts)))
    if is_stale:
        weak.append(finding("less-sure", kind="stale"))
    reasons = tuple(weak) or (finding("sure", kind="measured", process_count=process_count),)
    return CONFIDENCES[min(len(weak), 2)], reasons


def predicted_confidence(estimate: Estimate) -> tuple[Confidence, tuple[Finding, ...]]:
    """Return the confidence in a predicted time: medium for an expected one with an interval, from constants of this
    chip.
    """
    provenance = estimate.provenance or None
    if estimate.source == "ideal":
        return "low", (finding("less-sure", kind="ideal"),)
    has_interval = estimate.low_s is not None and estimate.high_s is not None
    if has_interval and estimate.provenance in OWN_PROVENANCES:
        return "medium", (finding("sure", kind="expected", provenance=provenance),)
    return "low", (
        finding("less-sure", kind="other-chips" if has_interval else "without-interval", provenance=provenance),
    )


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
