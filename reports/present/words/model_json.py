"""Whole models for a page and for JSON: `results.cases.model_results` with names that are fit to be shown."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from reports.present.words.model_text import phase_verdict, text_source
from results.cases.model_results import ModelResult, PassResult, PhaseResult
from roofline_model.core.answer import Times


def part_columns(model: ModelResult) -> tuple[str, ...]:
    """Return the parts of an expected pass that any of the passes has, the longest first by their longest time."""
    longest: dict[str, float] = {}
    for model_pass in model.passes:
        for name, time_s in model_pass.parts_s:
            longest[name] = max(longest.get(name, 0.0), time_s)
    return tuple(sorted(longest, key=lambda name: -longest[name]))


def model_json(model: ModelResult) -> dict[str, Any]:
    """Return one model at one batch and context as JSON; every key ends in its unit, missing is null."""
    return {
        "model": model.name.model_name,
        "batch_count": model.name.batch_count,
        "context_count": model.name.context_count,
        "hardware": model.hardware_key or None,
        "cache": model.cache,
        "mode": model.mode,
        "phases": [_phase_json(model, phase) for phase in model.phases],
    }


def pass_json(model_pass: PassResult) -> dict[str, Any]:
    """Return one precision in one phase as JSON: its times, speed-ups, memory, quality, energy and expected parts."""
    figures, times = model_pass.figures, Times() if model_pass.option is None else model_pass.option.times
    return {
        "precision": model_pass.label,
        "case_key": model_pass.records[0].case.case_key,
        "status": model_pass.records[0].status,
        "reason": model_pass.reason or None,
        "is_baseline": model_pass.is_baseline,
        "measured_s": model_pass.measured_s,
        "interval_half_width_ratio": model_pass.case.plus_minus_ratio,
        "expected_s": times.expected_s,
        "ideal_s": times.ideal_s,
        "tokens_per_s": model_pass.tokens_per_s,
        "expected_tokens_per_s": model_pass.expected_tokens_per_s,
        "measured_speedup_ratio": model_pass.measured_speedup,
        "expected_speedup_ratio": model_pass.expected_speedup,
        "ideal_speedup_ratio": model_pass.ideal_speedup,
        "energy_j_per_token": figures.energy_j_per_token,
        "flags": sorted(model_pass.option.flags) if model_pass.option is not None else [],
        **asdict(figures),
        "layer_counts": dict(figures.layer_counts),
        "quality_tokens": text_source(figures) or None,
        "expected_parts_s": dict(model_pass.parts_s),
    }


def _phase_json(model: ModelResult, phase: PhaseResult) -> dict[str, Any]:
    best = phase.of(phase.judged.best)
    return {
        "phase": phase.phase,
        "verdict": phase_verdict(model, phase),
        "is_win": phase.judged.is_win,
        "best": None if best is None else best.label,
        "passes": [pass_json(model_pass) for model_pass in phase.passes],
    }
