"""Recommendations from stored runs as JSON: the terminal's `--json`, the report and the API give the same."""

from __future__ import annotations

from typing import Any

from reports.stored.answer import Night, RankChange, RowQuality, StoredRanking, StoredRecommendations, StoredRow


def recommendations_json(found: StoredRecommendations) -> dict[str, Any]:
    """Return the whole answer; every number's key ends in its unit, missing is null."""
    return {
        "run_count": found.run_count,
        "record_count": found.record_count,
        "missing": list(found.missing),
        "rankings": [ranking_json(one) for one in found.rankings],
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
        "summary": one.summary,
        "rows": [row_json(row) for row in one.rows],
        "refused": [{"label": refused.label, "reason": refused.reason} for refused in one.refused],
        "missing": list(one.missing),
        "compared": one.compared or None,
        "changes": [_change_json(change) for change in one.changes],
    }


def row_json(row: StoredRow) -> dict[str, Any]:
    """Return one row with its evidence."""
    return {
        "rank": row.rank,
        "label": row.label,
        "weight_format": row.weight_format,
        "activation_format": row.activation_format,
        "kernel": row.kernel,
        "method": row.method or None,
        "path": row.path or None,
        "is_baseline": row.is_baseline,
        "time_source": row.time_source,
        "time_s": row.time_s,
        "low_s": row.low_s,
        "high_s": row.high_s,
        "expected_s": row.expected_s,
        "ideal_s": row.ideal_s,
        "speedup_ratio": row.speedup_ratio,
        "tokens_per_s": row.tokens_per_s,
        "memory_bytes": row.memory_bytes,
        "is_memory_measured": row.is_memory_measured,
        "memory_saved_ratio": row.memory_saved_ratio,
        "quality": _quality_json(row.quality),
        "confidence": row.confidence,
        "confidence_reason": row.confidence_reason,
        "reason": row.reason,
        "doubts": list(row.doubts),
        "stale_reason": row.stale_reason or None,
        "process_count": row.process_count,
        "evidence": [_night_json(night) for night in row.nights],
    }


def _quality_json(one: RowQuality) -> dict[str, Any]:
    return {
        "source": one.source,
        "text": one.text,
        "loss_pct": one.loss_pct,
        "kl_nats_per_token": one.kl_nats_per_token,
        "perplexity_ratio": one.perplexity_ratio,
        "top1_agreement_ratio": one.top1_agreement_ratio,
        "run_id": one.run_id or None,
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
