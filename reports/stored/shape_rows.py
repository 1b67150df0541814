"""The rows of a shape: `reports.shape_ranking` gives times, speed-ups and reasons; quality, memory and trust are added here."""

from __future__ import annotations

from collections.abc import Mapping

from reports.ranked_row import RankedRow, ShapeRecommendation
from reports.stored.answer import StoredRow, TimeSource
from reports.stored.levels import CaseLevel
from reports.stored.quality import product_quality
from reports.stored.rows import RowTime, trust_of
from results.records import RunInfo

_SOURCES: Mapping[str, TimeSource] = {"measured": "measured", "expected": "expected", "predicted": "ideal"}


def shape_rows(
    found: ShapeRecommendation, levels: Mapping[str, CaseLevel], reference: RunInfo | None
) -> list[StoredRow]:
    """Return the rows of a ranked shape, unordered. `levels`: by case key; `reference`: the chip's newest measuring run."""
    return [_row(row, found.baseline_label, levels.get(row.case_key), reference) for row in found.rows]


def _row(row: RankedRow, baseline_label: str, level: CaseLevel | None, reference: RunInfo | None) -> StoredRow:
    source = _SOURCES[row.source]
    trust = trust_of(RowTime(source, row.time_s, row.low_s, row.high_s, row.provenance), level, reference)
    is_baseline = row.label == baseline_label or (row.kernel is None and row.weight_format == baseline_label)
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
        low_s=row.low_s,
        high_s=row.high_s,
        expected_s=row.expected_s,
        ideal_s=row.ideal_s,
        speedup_ratio=1.0 if is_baseline else row.speedup,
        memory_bytes=row.memory_bytes,
        is_memory_measured=False,
        memory_saved_ratio=row.memory_saved_ratio,
        quality=product_quality(row.weight_format, row.activation_format),
        confidence=trust.confidence,
        confidence_reason=trust.confidence_reason,
        reason=row.reason,
        doubts=trust.doubts,
        stale_reason=trust.stale_reason,
        nights=trust.nights,
        kernel_gap=row.kernel_gap,
    )
