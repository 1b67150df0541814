"""The rows of a shape: `reports.ranking.shape_ranking` gives times, speed-ups and reasons; memory and trust are added here."""

from __future__ import annotations

from collections.abc import Mapping

from reports.ranking.ranked_row import RankedRow, ShapeRecommendation
from reports.stored.rows.levels import CaseLevel
from reports.stored.rows.night_speedups import NightSpeedup, NightSpeedups
from reports.stored.rows.rows import StoredOptions, evidence_of, measured_interval, predicted_half_ratio, trust_of
from results.records.records import RunInfo
from results.statistics.replication import TotalInterval
from results.verdicts.gain import times_faster
from results.verdicts.shape_verdict import Totals
from roofline_model.core.answer import Estimate, Evidence, Memory, Option, Times, Trust
from roofline_model.core.finding import finding


def shape_options(
    recommendation: ShapeRecommendation,
    levels: Mapping[str, CaseLevel],
    reference: RunInfo | None,
    totals: Totals,
    speedups: NightSpeedups,
    *,
    is_calibration_doubtful: bool = False,
) -> StoredOptions:
    """Return the options of a ranked shape, unordered. `levels`: by case key; `reference`: the chip's newest measuring run;
    `totals`: the intervals over processes by case key; `is_calibration_doubtful`: whether expected times are of a busy machine."""
    baseline = next((row for row in recommendation.rows if _is_baseline(row, recommendation.baseline_label)), None)
    options, reasons = [], {}
    for row in recommendation.rows:
        speedup = None
        if row.source == "measured" and baseline is not None and row is not baseline and baseline.source == "measured":
            speedup = speedups.of(row.case_key, baseline.case_key, row.speedup)
        level = levels.get(row.case_key)
        times = _times(row, level, totals.get(row.case_key))
        trust = trust_of(times.best, level, reference, is_calibration_doubtful=is_calibration_doubtful)
        options.append(_option(row, baseline, times, evidence_of(level), trust, speedup))
        reasons[_key(row)] = row.reason if speedup is None else _reason(row, speedup)
    key = "" if baseline is None else _key(baseline)
    return StoredOptions(options, next((option for option in options if option.key == key), None), reasons)


def _key(row: RankedRow) -> str:
    return row.case_key or f"{row.weight_format}.{row.activation_format}"


def _is_baseline(row: RankedRow, baseline_label: str) -> bool:
    return row.label == baseline_label or (row.kernel is None and row.weight_format == baseline_label)


def _times(row: RankedRow, level: CaseLevel | None, total: TotalInterval | None) -> Times:
    ideal = None if row.ideal_s is None else Estimate(row.ideal_s, source="ideal")
    is_measured, low_s, high_s = row.source == "measured", row.low_s, row.high_s
    expected = measured = None
    if row.expected_s is not None:
        ends = (None, None) if is_measured else (low_s, high_s)
        half_ratio = predicted_half_ratio(row.expected_s, *ends)
        expected = Estimate(row.expected_s, *ends, "expected", row.provenance, half_ratio)
    if is_measured:
        if level is not None:
            low_s, high_s = measured_interval(level.records, total)
        measured = Estimate(row.time_s, low_s, high_s, "measured", half_width_ratio=row.interval_ratio)
    return Times(ideal, expected, measured)


def _option(
    row: RankedRow,
    baseline: RankedRow | None,
    times: Times,
    evidence: tuple[Evidence, ...],
    trust: Trust,
    speedup: NightSpeedup | None,
) -> Option:
    is_emulated = row.is_emulated and row.source != "measured"
    gains = baseline is not None and baseline.ideal_s is not None and row.ideal_s is not None
    return Option(
        key=_key(row),
        formats=(("a", row.activation_format), ("b", row.weight_format)),
        method=row.method,
        path=row.path,
        bound="",
        times=times,
        memory=None if row.memory_bytes is None else Memory(row.memory_bytes, saved_ratio=row.memory_saved_ratio),
        loss=row.loss,
        speedup_ratio=1.0 if row is baseline else row.speedup if speedup is None else speedup.ratio,
        ideal_speedup_ratio=baseline.ideal_s / row.ideal_s if gains else None,  # type: ignore[operator, union-attr]
        label=row.label,
        kernel=row.kernel,
        evidence=evidence,
        trust=trust if speedup is None else speedup.trusted(trust),
        findings=(*row.findings, *([finding("emulated", row.label)] if is_emulated else [])),
    )


def _reason(row: RankedRow, speedup: NightSpeedup) -> str:
    """Return the reason with the speed-up that the row shows in place of the ratio of the two levels."""
    if not row.is_gain:
        return row.reason
    first = f"{times_faster(speedup.ratio)} "
    told = f"across runs {first}" if speedup.is_across_runs else f"measured {first}"
    since = "" if speedup.is_across_runs else f", speed-up: {speedup.basis}"
    return f"{told}{row.reason_rest}{since}"
