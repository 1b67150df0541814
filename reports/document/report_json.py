"""The report's view as one JSON document: keys end in their unit, missing is null, `schema_version` counts its changes.

`docs/reference/report.md` explains every key. A new key does not raise the version; a key that goes or changes its
meaning does."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from reports.advice.trade_offs import trade_groups
from reports.present.answers.rankings import RunRanking, recommendations_json
from reports.present.cases import name_of, option_label, remarks_of
from reports.present.display_text import shown, stored_text
from reports.present.encoder import answer_json
from reports.present.shapes import shape_sentence, shape_title
from reports.present.words.model_json import model_json
from reports.present.words.verdict_text import Action, actions
from reports.view.roofline_view import RooflineView
from reports.view.views import ChipView, ReportView
from results.cases.case_result import CaseResult
from results.cases.errors import case_gap
from results.cases.shape_verdict import ShapeVerdict
from results.records.flags import DOUBTFUL_FLAGS
from roofline_model.core.answer import Option
from roofline_model.core.finding import code_text

if TYPE_CHECKING:
    from reports.view.comparison import Comparison
    from results.rankings import StoredRecommendations

SCHEMA = "roofline-report"
_FIGURE_ONLY = ("ordinal", "expected_flops_per_s")
"""Fields of a point that the cases of the document have."""
SCHEMA_VERSION = 3


def report_json(
    view: ReportView, comparison: Comparison | None = None, stored: StoredRecommendations | None = None
) -> dict[str, Any]:
    """Return the document as plain values; `comparison` is null without a baseline, `stored` where it was not asked
    for.
    """
    return {
        "schema": SCHEMA,
        "schema_version": SCHEMA_VERSION,
        "title": view.title,
        "machine": view.machine or None,
        "run": answer_json(view.run, stored_text),
        "verdict": {
            "headlines": list(view.headlines),
            "findings": list(view.findings),
            "warnings": list(view.warnings),
            "missing": list(view.missing),
            "actions": [_action(chip.hardware_key, action) for chip in view.chips for action in actions(chip.answers)],
        },
        "comparison": None if comparison is None else _comparison(comparison),
        "counts": dict(view.counts),
        "chips": [_chip(view, chip) for chip in view.chips],
        "stored": None if stored is None else recommendations_json(stored),
        "not_measured": [
            {"status": reason.status, "reason": reason.reason, "cases": [name_of(case.case) for case in reason.cases]}
            for reason in view.reasons
        ],
        "machine_state": {
            "canaries": [asdict(canary) for canary in view.state.canaries],
            "quarantined": list(view.state.quarantined),
            "clock_held_down": list(view.state.capped),
            "worker_ends": list(view.state.restarts),
            "warnings": list(view.state.warnings),
        },
        "flags": [
            {"key": flag, "is_doubtful": flag in DOUBTFUL_FLAGS, "meaning": code_text(flag)} for flag in view.flags
        ],
        "environment": dict(view.environment),
    }


def _action(hardware_key: str, action: Action) -> dict[str, Any]:
    return {
        "hardware": hardware_key or None,
        "phase": action.phase,
        "take": action.take,
        "evidence": action.evidence,
        "caveat": action.caveat or None,
        "record_ids": list(action.record_ids),
    }


def _comparison(comparison: Comparison) -> dict[str, Any]:
    from reports.document.comparison_json import comparison_json  # it brings the diff and the database along

    return comparison_json(comparison)


def _chip(view: ReportView, chip: ChipView) -> dict[str, Any]:
    return {
        "hardware": chip.hardware_key or None,
        "hardware_name": chip.hardware_name,
        "roofline": _roofline(chip.roofline),
        "cases": [_case(case) for case in chip.cases],
        "shapes": [_shape(shape) for shape in chip.shapes],
        "models": [model_json(model) for model in chip.models],
        "errors": [answer_json(error, stored_text) for error in chip.errors],
        "calibration_doubts": list(chip.calibration_doubts),
        "overall_error": None if chip.overall is None else answer_json(chip.overall, stored_text),
        "recommendations": [answer_json(ranking, stored_text, RunRanking) for ranking in chip.recommendations],
        "trade_offs": [
            answer_json(group) for group in trade_groups(view.run, chip.models, chip.recommendations, chip.cases)
        ],
    }


def _roofline(view: RooflineView) -> dict[str, Any]:
    return {
        "memory_bandwidth_bytes_per_s": view.memory_bandwidth_bytes_per_s,
        "memory_provenance": view.memory_provenance or None,
        "roofs": [
            {**asdict(roof), "critical_intensity_flop_per_byte": roof.critical_intensity_flop_per_byte}
            for roof in view.roofs
        ],
        "cache_roofs": [asdict(cache_roof) for cache_roof in view.cache_roofs],
        "points": [
            {name: value for name, value in asdict(point).items() if name not in _FIGURE_ONLY} for point in view.points
        ],
        "missing": list(view.missing),
    }


def _case(case: CaseResult) -> dict[str, Any]:
    gap, energy = case_gap(case), case.energy
    return {
        **answer_json(case, stored_text),
        "is_doubtful": bool(case.doubts),
        "remarks": list(remarks_of(case)),
        "energy": None if energy is None else asdict(energy),
        "time_parts": None if gap is None else [{"name": name, "time_s": time_s} for name, time_s in gap.parts],
    }


def _shape(result: ShapeVerdict) -> dict[str, Any]:
    gain = result.gain
    return {
        "op": shown(result.question.op, 60),
        "title": shape_title(result),
        "cache": result.question.cache,
        "mode": result.question.mode,
        "verdict": shape_sentence(result),
        "is_win": result.is_win,
        "best": _configuration(result.best),
        "choice": _configuration(result.choice),
        "riskier": _configuration(result.riskier),
        "baseline": _configuration(result.baseline),
        "level_with": _configuration(result.level_with),
        "measured_speedup_ratio": result.measured_speedup,
        "measured_speedup_low_ratio": None if gain is None else gain.low_ratio,
        "measured_speedup_high_ratio": None if gain is None else gain.high_ratio,
        "expected_speedup_ratio": result.expected_speedup,
        "ideal_speedup_ratio": result.predicted_speedup,
    }


def _configuration(option: Option | None) -> dict[str, Any] | None:
    if option is None:
        return None
    return {
        "label": option_label(option),
        "case_key": option.key,
        "measured_s": option.times.measured_s,
        "ideal_s": option.times.ideal_s,
        "doubts": list(option.trust.doubts),
    }
