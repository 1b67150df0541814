"""The rows of a shape: `reports.ranking.shape_ranking` gives times, speed-ups and reasons; memory and trust are added here."""

from __future__ import annotations

from collections.abc import Mapping

from reports.ranking.ranked_row import RankedRow, ShapeRecommendation
from reports.stored.answer import StoredRow
from reports.stored.rows.levels import CaseLevel
from reports.stored.rows.night_speedups import NightSpeedup, NightSpeedups
from reports.stored.rows.rows import RowTime, measured_interval, predicted_half_ratio, trust_of
from results.records.records import RunInfo
from results.statistics.replication import TotalInterval
from results.verdicts.gain import times_faster
from results.verdicts.shape_verdict import Totals


def shape_rows(
    recommendation: ShapeRecommendation,
    levels: Mapping[str, CaseLevel],
    reference: RunInfo | None,
    totals: Totals,
    speedups: NightSpeedups,
    *,
    is_calibration_doubtful: bool = False,
) -> list[StoredRow]:
    """Return the rows of a ranked shape, unordered. `levels`: by case key; `reference`: the chip's newest measuring run;
    `totals`: the intervals over processes by case key; `is_calibration_doubtful`: whether expected times are of a busy machine."""
    baseline = next((row for row in recommendation.rows if _is_baseline(row, recommendation.baseline_label)), None)
    made = []
    for row in recommendation.rows:
        speedup = None
        if row.source == "measured" and baseline is not None and row is not baseline and baseline.source == "measured":
            speedup = speedups.of(row.case_key, baseline.case_key, row.speedup)
        made.append(
            _row(
                row,
                recommendation.baseline_label,
                levels.get(row.case_key),
                reference,
                totals.get(row.case_key),
                speedup,
                is_calibration_doubtful,
            )
        )
    return made


def _is_baseline(row: RankedRow, baseline_label: str) -> bool:
    return row.label == baseline_label or (row.kernel is None and row.weight_format == baseline_label)


def _row(
    row: RankedRow,
    baseline_label: str,
    level: CaseLevel | None,
    reference: RunInfo | None,
    total: TotalInterval | None,
    speedup: NightSpeedup | None,
    is_calibration_doubtful: bool,
) -> StoredRow:
    source = row.source
    low_s, high_s = row.low_s, row.high_s
    if source == "measured" and level is not None:
        low_s, high_s = measured_interval(level.records, total)
    is_measured = source == "measured"
    half_ratio = row.interval_ratio if is_measured else predicted_half_ratio(row.time_s, low_s, high_s)
    trust = trust_of(
        RowTime(source, row.time_s, low_s, high_s, half_ratio, row.provenance, is_calibration_doubtful),
        level,
        reference,
    )
    confidence, confidence_reason = trust.confidence, trust.confidence_reason
    if speedup is not None:
        confidence, confidence_reason = speedup.trusted(confidence, confidence_reason)
    is_baseline = _is_baseline(row, baseline_label)
    return StoredRow(
        rank=0,
        identity=row.case_key or f"{row.weight_format}.{row.activation_format}",
        label=row.label,
        weight_format=row.weight_format,
        activation_format=row.activation_format,
        kernel=row.kernel,
        method=row.method,
        path=row.path,
        is_baseline=is_baseline,
        time_source=source,
        time_s=row.time_s,
        low_s=low_s,
        high_s=high_s,
        interval_ratio=half_ratio,
        expected_s=row.expected_s,
        ideal_s=row.ideal_s,
        speedup_ratio=1.0 if is_baseline else row.speedup if speedup is None else speedup.ratio,
        memory_bytes=row.memory_bytes,
        is_memory_measured=False,
        memory_saved_ratio=row.memory_saved_ratio,
        loss=row.loss,
        confidence=confidence,
        confidence_reason=confidence_reason,
        reason=row.reason if speedup is None else _reason(row, speedup),
        doubts=trust.doubts,
        stale_reason=trust.stale_reason,
        nights=trust.nights,
        kernel_gap=row.kernel_gap,
        speedup_basis="" if speedup is None else speedup.basis,
    )


def _reason(row: RankedRow, speedup: NightSpeedup) -> str:
    """Return the reason with the speed-up that the row shows in place of the ratio of the two levels."""
    if not row.is_gain:
        return row.reason
    first = f"{times_faster(speedup.ratio)} "
    told = f"across runs {first}" if speedup.is_across_runs else f"measured {first}"
    since = "" if speedup.is_across_runs else f", speed-up: {speedup.basis}"
    return f"{told}{row.reason_rest}{since}"
