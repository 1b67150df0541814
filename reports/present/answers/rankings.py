"""Rankings of cases as answers: what the report's JSON, `roofline compare --json`, `recommend --stored --json` and the
API print of a `Ranking`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from reports.present.answers.options import PlacedOption, exclusion_text, placed
from reports.present.display_text import stored_text
from reports.present.encoder import Keys, answer_json, null_if_empty
from reports.present.words.evidence_text import missing_texts, note_texts
from reports.present.words.ranking_text import shape_reason, shape_summary, speedup_basis_text, stale_text
from reports.present.words.stored_text import (
    calibration_text,
    change_sentence,
    compared_text,
    confidence_words,
    difference_text,
    reason_text,
    summary_of,
)
from results.cases.gain import doubts_to_mend
from results.cases.saved_bytes import saved_ratio
from results.rankings import RankChange, StoredRanking, StoredRecommendations
from roofline_model.core.answer import Exclusion, Ranking
from roofline_model.core.finding import Finding, short_text
from roofline_model.operators.case import pass_name


def excluded(ranking: Ranking) -> tuple[Exclusion, ...]:
    """Return what is not ranked, each once."""
    return tuple({(each.label, exclusion_text(each)): each for each in ranking.excluded}.values())


def baseline_doubts(ranking: Ranking) -> tuple[str, ...]:
    """Return what puts the baseline's time, and so every measured speed-up, in doubt; empty where nothing does."""
    return doubts_to_mend(ranking.baseline)


def _figures(saved: str | Callable[[PlacedOption], float | None], reason: Callable[[PlacedOption], str]) -> Keys:
    """Return what one run and all runs alike say of an option, with its saved share of the weights and its reason."""
    return {
        "rank": "rank",
        "label": "option.label",
        "role": "role",
        "weight_format": ("option.weight_format", null_if_empty),
        "activation_format": ("option.activation_format", null_if_empty),
        "kernel": "option.kernel",
        "method": ("option.method", null_if_empty),
        "path": ("option.path", null_if_empty),
        "time_source": "option.estimate.source",
        "time_s": "option.estimate.time_s",
        "low_s": "option.estimate.low_s",
        "high_s": "option.estimate.high_s",
        "expected_s": "option.times.expected_s",
        "ideal_s": "option.times.ideal_s",
        "speedup_ratio": "option.speedup_ratio",
        "memory_bytes": "option.memory.total_bytes",
        "memory_saved_ratio": saved,
        "loss": "option.loss",
        "reason": reason,
        "kernel_gap": "kernel_gap",
        "doubts": "option.trust.doubts",
        "record_ids": "option.record_ids",
    }


def _saved_ratio(each: PlacedOption) -> float | None:
    """Return the share of the 16-bit weights that is saved."""
    return saved_ratio(each.option)


def _reason_in_run(each: PlacedOption) -> str:
    """Return why it stands where it stands."""
    return shape_reason(each.option, each.ranking)


class RunConfiguration:
    """One configuration of a shape as one run has it."""

    JSON_OF = PlacedOption
    JSON_KEYS: ClassVar[Keys] = {
        **_figures(_saved_ratio, _reason_in_run),
        "interval_half_width_ratio": "option.estimate.half_width_ratio",
    }


class ExcludedConfiguration:
    """A configuration or format that one run's ranking leaves out."""

    JSON_OF = Exclusion
    JSON_KEYS: ClassVar[Keys] = {"configuration": "label", "reason": exclusion_text}


class RunRanking:
    """The ranking of one shape in one run."""

    JSON_OF = Ranking
    JSON_KEYS: ClassVar[Keys] = {
        "op": "question.op",
        "shape": "question.shape_label",
        "cache": "question.cache",
        "mode": "question.mode",
        "phase": ("question.phase", null_if_empty),
        "baseline": ("baseline_label", null_if_empty),
        "baseline_doubts": baseline_doubts,
        "summary": shape_summary,
        "ranked": (placed, tuple[RunConfiguration, ...]),
        "excluded": (excluded, tuple[ExcludedConfiguration, ...]),
    }


def _reason(each: PlacedOption) -> str:
    """Return why it stands where it stands."""
    assert isinstance(each.ranking, StoredRanking)
    return reason_text(each.option, each.ranking)


def _speedup_basis(each: PlacedOption) -> str:
    """Return what the speed-up is of where it and the baseline rest on different runs: `median of 3 runs`, `across
    runs`.
    """
    return speedup_basis_text(each.option.trust)


def _confidence_reason(each: PlacedOption) -> str:
    """Return why its confidence is what it is, of its time and of the baseline's."""
    return confidence_words(each.option.trust)


def _stale_reason(each: PlacedOption) -> str:
    """Return why the measurement may no longer hold; null for a fresh one."""
    return stale_text(each.option.trust)


def _is_memory_measured(each: PlacedOption) -> bool:
    """Return whether memory_bytes was measured; else computed from the sizes."""
    return each.option.memory is not None and each.option.memory.is_measured


def _process_count(each: PlacedOption) -> int:
    """Return the processes that measured it, over its runs, count."""
    return sum(run.process_count for run in each.option.evidence) if each.option.is_measured else 0


class StoredConfiguration:
    """One configuration with its time, its loss, its confidence and its evidence."""

    JSON_OF = PlacedOption
    JSON_KEYS: ClassVar[Keys] = {
        **_figures("option.memory.saved_ratio", _reason),
        "is_baseline": "is_baseline",
        "speedup_low_ratio": "option.trust.speedup_low_ratio",
        "speedup_high_ratio": "option.trust.speedup_high_ratio",
        "speedup_basis": (_speedup_basis, null_if_empty),
        "tokens_per_s": "option.tokens_per_s",
        "is_memory_measured": _is_memory_measured,
        "confidence": "option.trust.confidence",
        "confidence_reason": _confidence_reason,
        "stale_reason": (_stale_reason, null_if_empty),
        "process_count": _process_count,
        "evidence": "option.evidence",
    }


class Refused:
    """A configuration that is not ranked, and why."""

    JSON_OF = Exclusion
    JSON_KEYS: ClassVar[Keys] = {"label": "label", "reason": exclusion_text}


def _environment(change: RankChange) -> tuple[str, ...]:
    """Return what differs between the machines of both sides, in words: `driver 580.95 → 590.12`."""
    return tuple(map(difference_text, change.environment))


class StoredChange:
    """What became of one configuration since the run before."""

    JSON_OF = RankChange
    JSON_KEYS: ClassVar[Keys] = {
        "label": "label",
        "before_rank": "before_rank",
        "after_rank": "after_rank",
        "change_ratio": "change_ratio",
        "verdict": "verdict",
        "environment": _environment,
        "sentence": change_sentence,
    }


def _model(ranking: StoredRanking) -> str | None:
    """Return the name of the model; null for a shape."""
    name = pass_name(ranking.question.op, ranking.question.sizes)
    return None if name is None else name.model_name


def _gap(ranking: StoredRanking) -> Finding | None:
    """Return why there is no result: its times were disturbed or are implausible; null where there is one."""
    return ranking.gap if ranking.choice is None else None


def _missing(ranking: StoredRanking) -> tuple[str, ...]:
    """Return what is not known, and what would tell."""
    return tuple(map(short_text, ranking.missing))


class StoredAnswer:
    """The configurations of one shape, or of one phase of a model, on one chip."""

    JSON_OF = StoredRanking
    JSON_KEYS: ClassVar[Keys] = {
        "subject": "question.subject",
        "hardware": "question.hardware",
        "hardware_name": "hardware_name",
        "title": "question.name",
        "op": "question.op",
        "model": _model,
        "shape": "question.shape_label",
        "phase": ("question.phase", null_if_empty),
        "cache": "question.cache",
        "mode": "question.mode",
        "baseline": ("baseline_label", null_if_empty),
        "baseline_doubts": baseline_doubts,
        "calibration_doubt": (calibration_text, null_if_empty),
        "summary": summary_of,
        "gap": _gap,
        "rows": (placed, tuple[StoredConfiguration, ...]),
        "refused": (excluded, tuple[Refused, ...]),
        "missing": _missing,
        "compared": (compared_text, null_if_empty),
        "changes": ("changes", tuple[StoredChange, ...]),
    }


class StoredAnswers:
    """Rankings by chip, models before shapes."""

    JSON_OF = StoredRecommendations
    JSON_KEYS: ClassVar[Keys] = {
        "run_count": "run_count",
        "record_count": "record_count",
        "missing": missing_texts,
        "notes": note_texts,
        "rankings": ("rankings", tuple[StoredAnswer, ...]),
    }


def recommendations_json(recommendations: StoredRecommendations) -> dict[str, Any]:
    """Return the whole answer of the stored runs; every number's key ends in its unit, missing is null."""
    return answer_json(recommendations, stored_text, StoredAnswers)
