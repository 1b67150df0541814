"""Result of a pipeline, also as plain JSON values."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench_cases.pipeline.recommend import PipelineRecommendation, memory_bytes, time_finding
from bench_cases.pipeline.records import MeasuredCase, ModelFacts, SavedModel, quality_plain, spread_plain
from bench_cases.pipeline.settings import PipelineLimits, PipelineSettings
from bench_cases.pipeline.verdict import MeasuredOption, Verdict
from bench_cases.pipeline.words import (
    sentences,
    verdict_sentence,
)
from roofline_model.core.finding import reason_text, short_text
from roofline_model.core.units import format_memory

REPORT_VERSION = 1


@dataclass(frozen=True, slots=True)
class PipelineResult:
    """The answer of a pipeline."""

    folder: Path
    settings: PipelineSettings
    hardware: str
    """Key of the chip."""
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
            "model": self.facts.plain(),
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
            "saved_model": None if self.saved is None else self.saved.plain(),
            "runs": dict(self.run_ids),
        }


def _judged(judged: MeasuredOption, recommendation: PipelineRecommendation) -> dict[str, Any]:
    speedup = judged.speedup
    return {
        "precision": judged.option.key,
        "method": judged.measured.method or judged.option.method,
        "status": judged.measured.status,
        "reason": judged.measured.reason,
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


def _measured(case: MeasuredCase) -> dict[str, Any]:
    quality = case.quality
    return {
        "median_s": case.median_s,
        "tokens_per_s": case.tokens_per_s,
        "held_bytes": case.held_bytes,
        "cache_bytes": case.cache_bytes,
        "peak_bytes": case.peak_bytes,
        "flags": list(case.flags),
        "quality": {
            "source": quality.source,
            "reason": quality.reason,
            "text": quality.text,
            "is_language": quality.is_language,
            "tokens_count": quality.tokens_count,
            "loss_pct": spread_plain(quality.loss_pct),
            **quality_plain(quality),
        },
    }
