"""Ranked configurations as JSON, spelled here alone: the report's, the terminal's `--json` and the API's are the same keys.

Every number's key ends in its unit; missing is null. A row of one run and a row of the whole store share what both know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reports.formats.answer_json import answer_json
from reports.ranking.ranked_row import RankedRow, ShapeRecommendation
from roofline_model.core.finding import short_text

if TYPE_CHECKING:
    from reports.stored.answer import Night, RankChange, StoredRanking, StoredRecommendations, StoredRow


def ranked_json(row: RankedRow) -> dict[str, Any]:
    """Return a row of one run; `time_source` says what its time is."""
    return {
        **_configuration_json(row),
        "time_source": row.source,
        "interval_half_width_ratio": row.interval_ratio,
        "speedup_ratio": row.speedup,
    }


def shape_recommendation_json(one: ShapeRecommendation) -> dict[str, Any]:
    """Return the ranking of one shape in one run."""
    return {
        "op": one.op,
        "shape": one.shape_label,
        "cache": one.cache,
        "mode": one.mode,
        "phase": one.phase or None,
        "baseline": one.baseline_label or None,
        "baseline_doubts": list(one.baseline_doubts),
        "summary": one.summary,
        "ranked": [ranked_json(row) for row in one.rows],
        "excluded": [{"configuration": name, "reason": reason} for name, reason in one.excluded],
    }


def recommendations_json(recommendations: StoredRecommendations) -> dict[str, Any]:
    """Return the whole answer; every number's key ends in its unit, missing is null."""
    return {
        "run_count": recommendations.run_count,
        "record_count": recommendations.record_count,
        "missing": list(recommendations.missing),
        "notes": list(recommendations.notes),
        "rankings": [ranking_json(ranking) for ranking in recommendations.rankings],
    }


def ranking_json(one: StoredRanking) -> dict[str, Any]:
    """Return one ranking with its rows, what was refused and what changed."""
    return {
        "subject": one.subject,
        "hardware": one.hardware_key,
        "hardware_name": one.hardware_name,
        "title": one.title,
        "op": one.op,
        "model": one.model or None,
        "shape": one.shape_label,
        "phase": one.phase or None,
        "cache": one.cache,
        "mode": one.mode,
        "baseline": one.baseline_label or None,
        "baseline_doubts": list(one.baseline_doubts),
        "calibration_doubt": one.calibration_doubt or None,
        "summary": one.summary,
        "rows": [stored_row_json(row) for row in one.rows],
        "refused": [{"label": refused.label, "reason": refused.reason} for refused in one.refused],
        "missing": list(map(short_text, one.missing)),
        "compared": one.compared or None,
        "changes": [_change_json(change) for change in one.changes],
    }


def stored_row_json(row: StoredRow) -> dict[str, Any]:
    """Return a row of the whole store with its evidence."""
    return {
        **_configuration_json(row),
        "is_baseline": row.is_baseline,
        "time_source": row.time_source,
        "speedup_ratio": row.speedup_ratio,
        "speedup_low_ratio": row.speedup_low_ratio,
        "speedup_high_ratio": row.speedup_high_ratio,
        "speedup_basis": row.speedup_basis or None,
        "tokens_per_s": row.tokens_per_s,
        "is_memory_measured": row.is_memory_measured,
        "confidence": row.confidence,
        "confidence_reason": row.confidence_words,
        "stale_reason": row.stale_reason or None,
        "process_count": row.process_count,
        "evidence": [_night_json(night) for night in row.nights],
    }


def _configuration_json(row: RankedRow | StoredRow) -> dict[str, Any]:
    """Return what a ranked row says whatever it was ranked from."""
    return {
        "rank": row.rank,
        "label": row.label,
        "weight_format": row.weight_format or None,
        "activation_format": row.activation_format or None,
        "kernel": row.kernel,
        "method": row.method or None,
        "path": row.path or None,
        "time_s": row.time_s,
        "low_s": row.low_s,
        "high_s": row.high_s,
        "expected_s": row.expected_s,
        "ideal_s": row.ideal_s,
        "memory_bytes": row.memory_bytes,
        "memory_saved_ratio": row.memory_saved_ratio,
        "loss": answer_json(row.loss),
        "reason": row.reason,
        "kernel_gap": row.kernel_gap or None,
        "doubts": list(row.doubts),
        "record_ids": list(row.record_ids),
    }


def _night_json(one: Night) -> dict[str, Any]:
    return {
        "run_id": one.run_id,
        "started_at": one.started_at,
        "label": one.label or None,
        "process_count": one.process_count,
        "record_ids": list(one.record_ids),
    }


def _change_json(one: RankChange) -> dict[str, Any]:
    return {
        "label": one.label,
        "before_rank": one.before_rank,
        "after_rank": one.after_rank,
        "change_ratio": one.change_ratio,
        "verdict": one.verdict or None,
        "environment": list(one.environment),
        "sentence": one.sentence,
    }
