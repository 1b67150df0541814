"""Result of a pipeline, also as plain JSON values."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench_cases.pipeline.facts import ModelFacts, SavedModel
from bench_cases.pipeline.recommend import PipelineRecommendation, memory_bytes, time_finding
from bench_cases.pipeline.settings import PipelineLimits, PipelineSettings
from bench_cases.pipeline.verdict import MeasuredOption, Verdict
from bench_cases.pipeline.words import (
    sentences,
    verdict_sentence,
)
from results.cases.case_result import CaseResult
from results.records.model_figures import Interval, ModelFigures
from roofline_model.core.finding import reason_text, short_text, stored_form
from roofline_model.core.units import format_memory

REPORT_VERSION = 1
_QUALITY_FIGURES = (
    "kl_nats_per_token",
    "top1_agreement_ratio",
    "perplexity_ratio",
    "embedding_cosine_ratio",
    "rank_agreement_ratio",
    "nearest_kept_ratio",
)


@dataclass(frozen=True, slots=True)
class PipelineResult:
    """The answer of a pipeline."""

    folder: Path
    settings: PipelineSettings
    wide: str
    """The 16-bit format of the baseline."""
    context_count: int
    facts: ModelFacts
    recommendation: PipelineRecommendation
    verdict: Verdict
    saved: SavedModel | None
    """None: no candidate won, the original model is the recommendation."""
    run_ids: tuple[tuple[str, str], ...]
    """(precision, stored run that measured it)."""

    @property
    def hardware(self) -> str:
        """Key of the chip."""
        return self.recommendation.hardware

    @property
    def sentence(self) -> str:
        """The recommendation in one sentence."""
        return verdict_sentence(self.verdict, self.recommendation, self.limits, self.wide)

    @property
    def limits(self) -> PipelineLimits:
        """The limits that decided."""
        return self.settings.limits_of(is_seeded=self.facts.is_seeded)

    @property
    def is_within_limits(self) -> bool:
        """False: no model keeps the limits."""
        return self.verdict.is_within_limits

    @property
    def sentences(self) -> tuple[str, ...]:
        """Everything to be said beside the table: verdict, predictions against the clock, quality, what is saved,
        doubts.
        """
        return sentences(self)

    def plain(self) -> dict[str, Any]:
        """Return JSON values: everything that is in report.json."""
        verdict = self.verdict
        return {
            "format": "roofline-bench pipeline report",
            "version": REPORT_VERSION,
            "model": asdict(self.facts),
            "hardware": self.hardware,
            "settings": self.settings.described(),
            "workload": {
                "phase": self.settings.phase,
                "batch_count": self.settings.batch_count,
                "context_count": self.context_count,
            },
            "outcome": verdict.outcome,
            "recommendation": self.wide if verdict.winner is None else verdict.winner.key,
            "sentence": self.sentence,
            "sentences": list(self.sentences),
            "baseline": {
                "precision": self.wide,
                **_measured(verdict.baseline),
                "misses": [short_text(miss.finding) for miss in verdict.baseline_misses],
            },
            "candidates": [_judged(judged, self.recommendation) for judged in verdict.judged],
            "not_measured": [
                *(
                    {
                        "precision": large.key,
                        "reason": f"needs {format_memory(memory_bytes(large))}",
                    }
                    for large in self.recommendation.too_large
                ),
                *({"precision": name, "reason": short_text(reason)} for name, reason in self.recommendation.left_out),
            ],
            "saved_model": None if self.saved is None else _saved(self.saved),
            "runs": dict(self.run_ids),
        }


def _judged(judged: MeasuredOption, recommendation: PipelineRecommendation) -> dict[str, Any]:
    speedup = judged.speedup
    return {
        "precision": judged.option.key,
        "method": judged.method,
        "status": judged.status,
        "reason": judged.reason,
        "kernel": judged.option.kernel,
        "is_emulated": judged.option.path == "emulated",
        "ideal_speedup": recommendation.speedup(judged.option, "ideal"),
        "expected_speedup": recommendation.speedup(judged.option, "expected"),
        "expected_s": judged.option.times.expected_s,
        "note": reason_text(time_finding(judged.option)),
        "measured_speedup": None
        if speedup is None
        else {
            "value": speedup.value,
            "low": speedup.low_value,
            "high": speedup.high_value,
            "processes_count": speedup.processes_count,
        },
        **_measured(judged.measured),
        "misses": [short_text(miss.finding) for miss in judged.misses],
    }


def _saved(saved: SavedModel) -> dict[str, Any]:
    engines = [[engine, answer, stored_form(reason)] for engine, answer, reason in saved.engines]
    return {**asdict(saved), "engines": engines}


def _measured(case: CaseResult | None) -> dict[str, Any]:
    figures = None if case is None else case.model
    return {
        "median_s": None if case is None else case.measured_s,
        "tokens_per_s": tokens_per_s(case),
        "held_bytes": None if figures is None else figures.held_bytes,
        "cache_bytes": None if figures is None else figures.cache_bytes,
        "peak_bytes": None if figures is None else figures.peak_bytes,
        "flags": [] if case is None else list(case.flags),
        "quality": {} if figures is None else _quality(figures),
    }


def tokens_per_s(case: CaseResult | None) -> float | None:
    """Return the tokens that a pass computes in a second; None where it was not measured."""
    if case is None or case.model is None or not case.measured_s:
        return None
    return case.model.tokens_per_call / case.measured_s


def _quality(figures: ModelFigures) -> dict[str, Any]:
    """Return the loss, and the figures that were measured under the names that stored records give them."""
    measured = {name: getattr(figures, name) for name in _QUALITY_FIGURES}
    return {
        "source": figures.quality_source,
        "reason": figures.quality_reason,
        "text": figures.quality_text,
        "is_language": figures.is_language,
        "tokens_count": figures.quality_tokens_count,
        "loss_pct": _interval(figures.loss),
        **{name: _interval(interval) for name, interval in measured.items() if interval is not None},
    }


def _interval(interval: Interval | None) -> dict[str, float | None] | None:
    if interval is None:
        return None
    return {"value": interval.value, "low": interval.low_value, "high": interval.high_value}
