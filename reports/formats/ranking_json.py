"""Ranked configurations as JSON, spelled here alone: the report's, the terminal's `--json` and the API's are the same keys.

Every number's key ends in its unit; missing is null. A row of one run and a row of the whole store share what both know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reports.formats.answer_json import answer_json
from reports.ranking.ranked_row import RankedRow, ShapeRecommendation
from reports.stored.words import confidence_words
from roofline_model.core.finding import first_with, optional_json, short_text

if TYPE_CHECKING:
    from reports.stored.answer import StoredRanking, StoredRecommendations
    from roofline_model.core.answer import Option


def ranked_json(row: RankedRow) -> dict[str, Any]:
    """Return a row of one run; `time_source` says what its time is."""
    return {
        "rank": row.rank,
        "label": row.label,
        "weight_format": row.weight_format or None,
        "activation_format": row.activation_format or None,
        "kernel": row.kernel,
        "method": row.method or None,
        "path": row.path or None,
        "time_source": row.source,
        "time_s": row.time_s,
        "low_s": row.low_s,
        "high_s": row.high_s,
        "interval_half_width_ratio": row.interval_ratio,
        "expected_s": row.expected_s,
        "ideal_s": row.ideal_s,
        "speedup_ratio": row.speedup,
        "memory_bytes": row.memory_bytes,
        "memory_saved_ratio": row.memory_saved_ratio,
        "loss": answer_json(row.loss),
        "reason": row.reason,
        "kernel_gap": optional_json(first_with(row.findings, "kernel-gap")),
        "doubts": list(row.doubts),
        "record_ids": list(row.record_ids),
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
        "rows": [stored_row_json(row, one) for row in one.rows],
        "refused": [answer_json(refused) for refused in one.refused],
        "missing": list(map(short_text, one.missing)),
        "compared": one.compared or None,
        "changes": [answer_json(change) for change in one.changes],
    }


def stored_row_json(row: Option, ranking: StoredRanking) -> dict[str, Any]:
    """Return an option of the whole store with its evidence."""
    estimate, times, trust, memory = row.estimate, row.times, row.trust, row.memory
    return {
        "rank": ranking.rank_of(row),
        "label": row.label,
        "weight_format": row.weight_format or None,
        "activation_format": row.activation_format or None,
        "kernel": row.kernel,
        "method": row.method or None,
        "path": row.path or None,
        "is_baseline": ranking.is_baseline(row),
        "time_source": estimate.source,
        "time_s": estimate.time_s,
        "low_s": estimate.low_s,
        "high_s": estimate.high_s,
        "expected_s": None if times.expected is None else times.expected.time_s,
        "ideal_s": None if times.ideal is None else times.ideal.time_s,
        "speedup_ratio": row.speedup_ratio,
        "speedup_low_ratio": trust.speedup_low_ratio,
        "speedup_high_ratio": trust.speedup_high_ratio,
        "speedup_basis": trust.speedup_basis or None,
        "tokens_per_s": row.tokens_per_s,
        "memory_bytes": None if memory is None else memory.total_bytes,
        "is_memory_measured": memory is not None and memory.is_measured,
        "memory_saved_ratio": None if memory is None else memory.saved_ratio,
        "loss": answer_json(row.loss),
        "confidence": trust.confidence,
        "confidence_reason": confidence_words(trust),
        "reason": ranking.reasons[row.key],
        "kernel_gap": optional_json(first_with(row.findings, "kernel-gap")),
        "doubts": list(trust.doubts),
        "stale_reason": trust.stale_reason or None,
        "process_count": sum(run.process_count for run in row.evidence) if row.is_measured else 0,
        "record_ids": list(row.record_ids),
        "evidence": [{**answer_json(run), "label": run.label or None} for run in row.evidence],
    }
