"""Ranked configurations as JSON, spelled here alone: the report's, the terminal's `--json` and the API's are the same keys.

Every number's key ends in its unit; missing is null. A row of one run and a row of the whole store share what both know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reports.cases.weight_saving import saved_ratio
from reports.formats.answer_json import answer_json
from reports.ranking.words import excluded_texts, shape_reason, shape_summary
from reports.stored.words import calibration_text, compared_text, confidence_words, reason_text, summary_of
from roofline_model.core.finding import first_with, optional_json, short_text

if TYPE_CHECKING:
    from reports.ranking.case_ranking import CaseRanking, ShapeRanking
    from reports.stored.answer import StoredRanking, StoredRecommendations
    from roofline_model.core.answer import Option


def option_json(option: Option, ranking: CaseRanking) -> dict[str, Any]:
    """Return what one run and all runs alike say of an option; `time_source` says what its time is."""
    estimate, times, memory = option.estimate, option.times, option.memory
    return {
        "rank": ranking.rank_of(option),
        "label": option.label,
        "weight_format": option.weight_format or None,
        "activation_format": option.activation_format or None,
        "kernel": option.kernel,
        "method": option.method or None,
        "path": option.path or None,
        "time_source": estimate.source,
        "time_s": estimate.time_s,
        "low_s": estimate.low_s,
        "high_s": estimate.high_s,
        "expected_s": None if times.expected is None else times.expected.time_s,
        "ideal_s": None if times.ideal is None else times.ideal.time_s,
        "speedup_ratio": option.speedup_ratio,
        "memory_bytes": None if memory is None else memory.total_bytes,
        "memory_saved_ratio": None if memory is None else memory.saved_ratio,
        "loss": answer_json(option.loss),
        "kernel_gap": optional_json(first_with(option.findings, "kernel-gap")),
        "doubts": list(option.trust.doubts),
        "record_ids": list(option.record_ids),
    }


def ranked_json(option: Option, ranking: ShapeRanking) -> dict[str, Any]:
    """Return an option of one run."""
    return {
        **option_json(option, ranking),
        "interval_half_width_ratio": option.estimate.half_width_ratio,
        "memory_saved_ratio": saved_ratio(option),
        "reason": shape_reason(option, ranking),
    }


def shape_ranking_json(ranking: ShapeRanking) -> dict[str, Any]:
    """Return the ranking of one shape in one run."""
    return {
        "op": ranking.op,
        "shape": ranking.shape_label,
        "cache": ranking.cache,
        "mode": ranking.mode,
        "phase": ranking.phase or None,
        "baseline": ranking.baseline_label or None,
        "baseline_doubts": list(ranking.baseline_doubts),
        "summary": shape_summary(ranking),
        "ranked": [ranked_json(option, ranking) for option in ranking.options],
        "excluded": [{"configuration": name, "reason": reason} for name, reason in excluded_texts(ranking)],
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


def ranking_json(ranking: StoredRanking) -> dict[str, Any]:
    """Return one ranking with its options, what was refused and what changed."""
    return {
        "subject": ranking.subject,
        "hardware": ranking.hardware_key,
        "hardware_name": ranking.hardware_name,
        "title": ranking.title,
        "op": ranking.op,
        "model": ranking.model or None,
        "shape": ranking.shape_label,
        "phase": ranking.phase or None,
        "cache": ranking.cache,
        "mode": ranking.mode,
        "baseline": ranking.baseline_label or None,
        "baseline_doubts": list(ranking.baseline_doubts),
        "calibration_doubt": calibration_text(ranking) or None,
        "summary": summary_of(ranking),
        "rows": [stored_option_json(option, ranking) for option in ranking.options],
        "refused": [{"label": label, "reason": reason} for label, reason in excluded_texts(ranking)],
        "missing": list(map(short_text, ranking.missing)),
        "compared": compared_text(ranking) or None,
        "changes": [answer_json(change) for change in ranking.changes],
    }


def stored_option_json(option: Option, ranking: StoredRanking) -> dict[str, Any]:
    """Return an option of the whole store with its evidence."""
    trust, memory = option.trust, option.memory
    return {
        **option_json(option, ranking),
        "is_baseline": ranking.is_baseline(option),
        "speedup_low_ratio": trust.speedup_low_ratio,
        "speedup_high_ratio": trust.speedup_high_ratio,
        "speedup_basis": trust.speedup_basis or None,
        "tokens_per_s": option.tokens_per_s,
        "is_memory_measured": memory is not None and memory.is_measured,
        "confidence": trust.confidence,
        "confidence_reason": confidence_words(trust),
        "reason": reason_text(option, ranking),
        "stale_reason": trust.stale_reason or None,
        "process_count": sum(run.process_count for run in option.evidence) if option.is_measured else 0,
        "evidence": [{**answer_json(run), "label": run.label or None} for run in option.evidence],
    }
