"""The rows of one phase of a model: its precisions with time, held memory and loss, as the stored runs know them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from reports.ranking.losses import StoredLosses, pass_loss
from reports.stored.answer import Refused, StoredRow, TimeSource
from reports.stored.rows.levels import CaseLevel
from reports.stored.rows.night_speedups import NightSpeedup, NightSpeedups
from reports.stored.rows.rows import RowTime, Trust, measured_interval, predicted_half_ratio, trust_of
from reports.text.display_text import shown
from results.records.records import RunInfo
from results.statistics.replication import TotalInterval
from results.verdicts.gain import times_faster
from results.verdicts.model_results import PassResult, PhaseResult
from results.verdicts.shape_verdict import Totals
from roofline_model.core.answer import Loss
from roofline_model.recommend.search.losses_file import MeasuredLosses


def model_rows(
    phase: PhaseResult,
    levels: Mapping[str, CaseLevel],
    reference: RunInfo | None,
    known: StoredLosses,
    losses: Sequence[MeasuredLosses],
    totals: Totals,
    speedups: NightSpeedups,
    *,
    is_calibration_doubtful: bool = False,
) -> tuple[list[StoredRow], list[Refused]]:
    """Return the precisions of a phase that have a time, unordered, and the others with the reason. `totals`: the intervals
    over processes by case key; `is_calibration_doubtful`: whether expected times are of a busy machine."""
    rows, refused = [], []
    baseline = phase.of(phase.judged.baseline)
    for one in phase.passes:
        if one.contender is None:
            refused.append(Refused(shown(one.label, 100), shown(one.reason)))
            continue
        case_key = one.records[0].case.case_key
        speedup = None
        if baseline is not None and one is not baseline and one.measured_s is not None:
            speedup = speedups.of(case_key, baseline.records[0].case.case_key, one.measured_speedup)
        time = replace(_time(one, totals.get(case_key)), is_calibration_doubtful=is_calibration_doubtful)
        loss = pass_loss(one, known, losses)
        rows.append(_row(one, baseline, trust_of(time, levels.get(case_key), reference), time, loss, speedup))
    return rows, refused


def _row(
    one: PassResult,
    baseline: PassResult | None,
    trust: Trust,
    time: RowTime,
    loss: Loss,
    speedup: NightSpeedup | None,
) -> StoredRow:
    assert one.contender is not None  # model_rows keeps no others
    case, figures = one.records[0].case, one.figures
    formats = dict(case.formats)
    measured_ratio = one.measured_speedup if speedup is None else speedup.ratio
    speedups = {"measured": measured_ratio, "expected": one.expected_speedup, "ideal": one.ideal_speedup}
    confidence, confidence_reason = trust.confidence, trust.confidence_reason
    if speedup is not None:
        confidence, confidence_reason = speedup.trusted(confidence, confidence_reason)
    return StoredRow(
        rank=0,
        identity=case.case_key,
        label=shown(one.label, 100),
        weight_format=formats.get("b", ""),
        activation_format=formats.get("a", ""),
        kernel=shown(case.kernel, 60),
        method=shown(figures.method, 60) or "none",
        path="emulated" if figures.is_emulated else _path(one),
        is_baseline=one.is_baseline,
        time_source=time.source,
        time_s=time.time_s,
        low_s=time.low_s,
        high_s=time.high_s,
        interval_ratio=time.interval_ratio,
        expected_s=one.contender.expected_s,
        ideal_s=one.contender.ideal_s,
        speedup_ratio=1.0 if one.is_baseline else speedups[time.source],
        memory_bytes=figures.whole_bytes,
        is_memory_measured=figures.resident_bytes is not None,
        memory_saved_ratio=None if figures.held_ratio is None else 1 - figures.held_ratio,
        loss=loss,
        confidence=confidence,
        confidence_reason=confidence_reason,
        reason=_reason(one, baseline, speedup),
        doubts=trust.doubts,
        stale_reason=trust.stale_reason,
        nights=trust.nights,
        tokens_per_s=figures.tokens_per_call / time.time_s,
        speedup_basis="" if speedup is None else speedup.basis,
    )


def _time(one: PassResult, total: TotalInterval | None) -> RowTime:
    """Return the best-founded time of a pass; one without any is no contender."""
    contender = one.contender
    assert contender is not None  # model_rows keeps no others
    if contender.measured_s is not None:
        low_s, high_s = measured_interval(one.records, total)
        return RowTime("measured", contender.measured_s, low_s, high_s, one.interval_ratio, "")
    expected = next((record.expected for record in one.records if record.expected is not None), None)
    if expected is not None:
        half_ratio = predicted_half_ratio(expected.time_s, expected.low_s, expected.high_s)
        return RowTime("expected", expected.time_s, expected.low_s, expected.high_s, half_ratio, expected.provenance)
    source: TimeSource = "ideal"
    assert contender.ideal_s is not None  # a contender is measured or predicted
    return RowTime(source, contender.ideal_s, None, None, None, "")


def _path(one: PassResult) -> str:
    ideal = one.records[0].ideal
    return "" if ideal is None else shown(ideal.path, 30)


def _reason(one: PassResult, baseline: PassResult | None, speedup: NightSpeedup | None) -> str:
    if one.is_baseline:
        return "the baseline"
    words = []
    name = "" if baseline is None else f" {baseline.label}"
    measured = one.measured_speedup if speedup is None else speedup.ratio
    kind = "across runs" if speedup is not None and speedup.is_across_runs else "measured"
    told = [(kind, measured), ("expected", one.expected_speedup), ("ideal", one.ideal_speedup)]
    known = [f"{source} {times_faster(ratio)}" for source, ratio in told if ratio is not None]
    if known:
        words.append(f"{known[0]}{name}" + (f" ({', '.join(known[1:])})" if known[1:] else ""))
    if one.measured_s is None:
        words.append("not measured")
    elif speedup is not None and not speedup.is_across_runs:
        words.append(f"speed-up: {speedup.basis}")
    if one.figures.is_emulated:
        words.append("emulated: every call decodes the weights")
    if one.figures.held_ratio is not None:
        words.append(f"holds {one.figures.held_ratio * 100:.0f} % of its 16-bit bytes")
    return shown(", ".join(words) or "no baseline to compare with")
