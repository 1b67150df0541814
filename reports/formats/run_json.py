"""Runs and cases as JSON: every key ends in its unit, missing is null. What `roofline show --json` and the report's JSON share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofline_model.core.finding import findings_json

if TYPE_CHECKING:
    from reports.cases.rows import CaseRow
    from reports.cases.summary import CaseSummary
    from results.records.records import RunInfo


def run_json(run: RunInfo) -> dict[str, Any]:
    """Return a run's own fields as JSON."""
    return {
        "run_id": run.run_id,
        "label": run.label,
        "started_at": run.started_at,
        "finished_at": run.finished_at,
        "status": run.status,
        "exit_code": run.exit_code,
        "hardware": run.hardware_key,
        "is_forced": run.is_forced,
        "command": run.command,
        "git_commit": run.git_commit,
        "git_branch": run.git_branch,
        "git_is_dirty": run.git_is_dirty,
        "plugin_version": run.plugin_version,
        "environment": dict(run.environment.facts),
    }


def summary_json(case: CaseSummary) -> dict[str, Any]:
    """Return one case, its processes pooled, as JSON: the keys of `case_json`, and both intervals."""
    total = case.total
    return {
        **case_json(case.pooled),
        "cache_and_mode": case.regime,
        "process_count": case.process_count,
        "interval_within_half_width_ratio": case.within_ratio,
        "interval_total_half_width_ratio": case.total_ratio,
        "interval_total_low_s": total.low_s if total is not None else None,
        "interval_total_high_s": total.high_s if total is not None else None,
        "interval_total_basis": total.basis if total is not None else None,
    }


def case_json(row: CaseRow) -> dict[str, Any]:
    """Return one case of a run as JSON; every key ends in its unit."""
    return {
        "record_id": row.record_id,
        "case_key": row.case_key,
        "case_id": row.case_id,
        "op": row.op,
        "shape": row.shape_label,
        "weight_format": row.weight_format,
        "activation_format": row.activation_format,
        "kernel": row.kernel,
        "cache": row.cache,
        "mode": row.mode,
        "process": row.process,
        "status": row.status,
        "reason": row.reason or None,
        "hardware": row.hardware_key or None,
        "measured_s": row.measured_s,
        "measured_ci_half_width_ratio": row.interval_ratio,
        "ideal_s": row.ideal_s,
        "error_ideal_ratio": row.error_ratio,
        "expected_s": row.expected_s,
        "error_expected_ratio": row.expected_error_ratio,
        "bound": row.bound or None,
        "path": row.path or None,
        "achieved_bytes_per_s": row.achieved_bytes_per_s,
        "achieved_flops_per_s": row.achieved_flops_per_s,
        "roof_share_ratio": row.roof_share_ratio,
        "intensity_flop_per_byte": row.intensity_flop_per_byte,
        "power_w": row.power_w,
        "energy_j": row.energy_j,
        "max_error_ratio": row.max_error,
        "tolerance_ratio": row.tolerance,
        "flags": list(row.flags),
        "findings": findings_json(row.findings),
    }
