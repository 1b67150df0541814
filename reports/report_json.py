"""The report's view as one JSON document: keys end in their unit, missing is null, `schema_version` counts its changes.

`docs/report.md` explains every key. A new key does not raise the version; a key that goes or changes its meaning does.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from reports.case_energy import case_energy
from reports.case_gap import case_gap
from reports.case_summary import CaseSummary
from reports.model_results import model_json
from reports.recommend import ShapeRecommendation
from reports.roofline_view import RooflineView
from reports.run_json import case_json, ranked_json, run_json, summary_json
from reports.shape_results import Configuration, ShapeResult
from reports.views import ChipView, ReportView

SCHEMA = "roofline-report"
SCHEMA_VERSION = 1


def report_json(view: ReportView) -> dict[str, Any]:
    """Return the document as plain values."""
    return {
        "schema": SCHEMA,
        "schema_version": SCHEMA_VERSION,
        "title": view.title,
        "machine": view.machine or None,
        "run": run_json(view.run),
        "verdict": {
            "headlines": list(view.headlines),
            "findings": list(view.findings),
            "warnings": list(view.warnings),
            "missing": list(view.missing),
        },
        "counts": dict(view.counts),
        "chips": [_chip(chip) for chip in view.chips],
        "not_measured": [
            {"status": one.status, "reason": one.reason, "cases": list(one.case_ids)} for one in view.reasons
        ],
        "machine_state": {
            "canaries": [asdict(one) for one in view.state.canaries],
            "quarantined": list(view.state.quarantined),
            "clock_held_down": list(view.state.capped),
            "worker_ends": list(view.state.restarts),
            "warnings": list(view.state.warnings),
        },
        "flags": [{"key": one.key, "is_doubtful": one.is_doubtful, "meaning": one.meaning} for one in view.flags],
        "environment": dict(view.environment),
    }


def _chip(chip: ChipView) -> dict[str, Any]:
    return {
        "hardware": chip.hardware_key or None,
        "hardware_name": chip.hardware_name,
        "roofline": _roofline(chip.roofline),
        "cases": [_case(case) for case in chip.cases],
        "shapes": [_shape(one) for one in chip.shapes],
        "models": [model_json(one) for one in chip.models],
        "errors": [asdict(one) for one in chip.errors],
        "overall_error": None if chip.overall is None else asdict(chip.overall),
        "recommendations": [_recommendation(one) for one in chip.recommendations],
    }


def _roofline(view: RooflineView) -> dict[str, Any]:
    return {
        "memory_bandwidth_bytes_per_s": view.memory_bandwidth_bytes_per_s,
        "memory_provenance": view.memory_provenance or None,
        "roofs": [
            {**asdict(one), "critical_intensity_flop_per_byte": one.critical_intensity_flop_per_byte}
            for one in view.roofs
        ],
        "cache_roofs": [asdict(one) for one in view.cache_roofs],
        "points": [asdict(one) for one in view.points],
        "missing": list(view.missing),
    }


def _case(case: CaseSummary) -> dict[str, Any]:
    gap, energy = case_gap(case), case_energy(case)
    return {
        **summary_json(case),
        "title": case.lead.title,
        "precision": case.lead.precision,
        "is_doubtful": bool(case.doubts),
        "remarks": list(case.remarks),
        "energy": None if energy is None else asdict(energy),
        "time_parts": None if gap is None else [{"name": name, "time_s": time_s} for name, time_s in gap.parts],
        "processes": [case_json(row) for row in case.rows],
    }


def _shape(one: ShapeResult) -> dict[str, Any]:
    return {
        "op": one.op,
        "title": one.title,
        "cache": one.cache,
        "mode": one.mode,
        "verdict": one.verdict,
        "is_win": one.is_win,
        "best": _configuration(one.best),
        "baseline": _configuration(one.baseline),
        "level_with": _configuration(one.level_with),
        "measured_speedup_ratio": one.measured_speedup,
        "expected_speedup_ratio": one.expected_speedup,
        "ideal_speedup_ratio": one.predicted_speedup,
    }


def _configuration(one: Configuration | None) -> dict[str, Any] | None:
    if one is None:
        return None
    return {"label": one.label, "case_key": one.case_key, "measured_s": one.measured_s, "ideal_s": one.ideal_s}


def _recommendation(one: ShapeRecommendation) -> dict[str, Any]:
    return {
        "op": one.op,
        "shape": one.shape_label,
        "cache": one.cache,
        "mode": one.mode,
        "phase": one.phase or None,
        "baseline": one.baseline_label or None,
        "summary": one.summary,
        "ranked": [ranked_json(row) for row in one.rows],
        "excluded": [{"configuration": name, "reason": reason} for name, reason in one.excluded],
    }
