"""From stored records to the API's answers. Text from outside is cut and cleaned; numbers are the database's own."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from reports.api.stored.stored_models import (
    CaseBody,
    CaseChange,
    ChangeBody,
    DiffAnswer,
    DifferenceBody,
    HistoryAnswer,
    LevelBody,
    NightBody,
    Page,
    ProcessTime,
    RunBody,
    SegmentBody,
)
from reports.cases.state import case_energy
from reports.cases.summary import CaseSummary
from reports.text.display_text import shown
from results.diff.case_diff import CaseDiff, SuiteDiff
from results.diff.gate import GateResult
from results.diff.rules import VERDICTS
from results.history.alerts import Change
from results.history.case_history import CaseHistory
from results.history.segments import Segment
from results.records.records import RunInfo
from results.text.diff_text import headline
from results.text.verdict_text import doubts_text

MOST_FACT_CHARACTERS = 400
MOST_FACTS = 500
MOST_DEPTH = 6


def run_body(run: RunInfo) -> RunBody:
    """Return a run's own fields."""
    facts = run.environment.facts
    machine = dict.fromkeys(str(facts[name]) for name in ("host", "device", "cpu") if facts.get(name))
    return RunBody(
        run_id=run.run_id,
        label=shown(run.label),
        started_at=run.started_at,
        finished_at=run.finished_at,
        status=run.status,
        exit_code=run.exit_code,
        hardware=shown(run.hardware_key, 60),
        is_forced=run.is_forced,
        git_commit=_short(run.git_commit, 64),
        git_branch=_short(run.git_branch, 200),
        git_is_dirty=run.git_is_dirty,
        plugin_version=shown(run.plugin_version, 60),
        machine=shown(", ".join(machine)),
    )


def page_of(total_count: int, offset: int, limit: int) -> Page:
    """Return where a page lies."""
    after = offset + limit
    return Page(offset=offset, limit=limit, total_count=total_count, next_offset=after if after < total_count else None)


def case_body(case: CaseSummary) -> CaseBody:
    """Return one case of a run."""
    lead = case.lead
    record, ideal, expected = lead.record, lead.record.ideal, lead.record.expected
    energy = case_energy(case)
    return CaseBody(
        case_key=lead.case_key,
        case_id=lead.case_id,
        record_id=lead.record_id,
        title=lead.title,
        op=lead.op,
        shape={shown(name, 20): size for name, size in record.case.shape},
        formats={shown(name, 20): shown(key, 40) for name, key in record.case.formats},
        precision=lead.precision,
        kernel=lead.kernel,
        cache=lead.cache,
        mode=lead.mode,
        hardware=_short(lead.hardware_key, 60),
        status=record.status,
        reason=_short("; ".join(case.remarks) or lead.reason),
        measured_s=case.measured_s,
        interval_half_width_ratio=_finite(case.plus_minus_ratio),
        is_interval_total=case.total_ratio is not None,
        ideal_s=lead.ideal_s,
        error_ideal_ratio=case.error_ratio,
        expected_s=lead.expected_s,
        expected_low_s=None if expected is None else expected.low_s,
        expected_high_s=None if expected is None else expected.high_s,
        error_expected_ratio=case.expected_error_ratio,
        bound=lead.bound or None,
        path=lead.path or None,
        flops=None if ideal is None else ideal.flops,
        moved_bytes=None if ideal is None else ideal.total_bytes,
        intensity_flop_per_byte=lead.intensity_flop_per_byte,
        achieved_flops_per_s=case.achieved_flops_per_s,
        achieved_bytes_per_s=case.achieved_bytes_per_s,
        peak_flops_per_s=lead.peak_flops_per_s,
        bandwidth_bytes_per_s=lead.bandwidth_bytes_per_s,
        roof_share_ratio=case.roof_share_ratio,
        power_w=energy.power_w if energy is not None else lead.power_w,
        energy_j=energy.energy_j if energy is not None else lead.energy_j,
        process_count=case.process_count,
        processes=[
            ProcessTime(
                process=row.process, measured_s=row.measured_s, sample_count=row.record.measurement.sample_count
            )
            for row in case.measured_rows
            if row.measured_s is not None and row.record.measurement is not None
        ],
        flags=list(case.flags),
        doubts=list(case.doubts),
    )


def history_answer(history: CaseHistory) -> HistoryAnswer:
    """Return one case over its nights."""
    return HistoryAnswer(
        case_key=history.case.case_key,
        name=shown(history.name),
        metric=history.metric.key,
        unit=history.metric.unit,
        branch=_short(history.branch, 200),
        night_count=len(history.points),
        alert_count=len(history.alerts),
        segments=[_segment(segment) for segment in history.segments],
        changes=[_change(change) for change in history.changes],
    )


def diff_answer(diff: SuiteDiff, result: GateResult) -> DiffAnswer:
    """Return what changed between two runs."""
    return DiffAnswer(
        before=run_body(diff.before[0]),
        after=run_body(diff.after[0]),
        verdict=shown(headline(diff, result), 1_000),
        exit_code=result.exit_code,
        is_comparable=diff.is_comparable,
        environment_differences=[
            DifferenceBody(
                name=shown(one.name, 80), before=shown(one.before), after=shown(one.after), is_blocking=one.is_blocking
            )
            for one in diff.environment
        ],
        counts={verdict: sum(case.verdict == verdict for case in diff.cases) for verdict in VERDICTS},
        unmeasured_count=diff.unmeasured_count,
        unselected_count=diff.unselected_count,
        common_change_ratio=_finite(diff.common_change_ratio),
        smallest_step_ratio=_finite(diff.smallest_step_ratio),
        cases=[_case_change(case) for case in diff.cases],
    )


def clean_facts(value: Any, depth: int = 0) -> Any:
    """Return free-form facts as JSON values that are safe to show: text cut and cleaned, no NaN, no endless nesting."""
    if isinstance(value, Mapping) and depth < MOST_DEPTH:
        return {shown(name, 80): clean_facts(value[name], depth + 1) for name in list(value)[:MOST_FACTS]}
    if isinstance(value, list | tuple) and depth < MOST_DEPTH:
        return [clean_facts(one, depth + 1) for one in value[:MOST_FACTS]]
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return _finite(value)
    return shown(value, MOST_FACT_CHARACTERS)


def _segment(one: Segment) -> SegmentBody:
    used = one.used
    return SegmentBody(
        history_key=one.history_key,
        hardware=shown(one.hardware_key, 60),
        method_version=shown(one.method_version, 60),
        split=[shown(text) for text in one.split],
        nights=[
            NightBody(
                run_id=night.run_id,
                started_at=night.started_at,
                label=shown(night.label),
                git_commit=_short(night.git_commit, 64),
                value=night.value,
                process_count=night.process_count,
                flags=[shown(flag, 60) for flag in night.flags],
                is_used=night.is_used,
                doubt=shown(doubts_text(night.doubts)),
            )
            for night in one.nights
        ],
        levels=[
            LevelBody(
                run_id=used[level.first_index].run_id,
                started_at=used[level.first_index].started_at,
                night_count=level.night_count,
                value=level.value,
            )
            for level in one.levels
        ],
    )


def _change(one: Change) -> ChangeBody:
    return ChangeBody(
        kind=one.kind,
        alert_id=one.alert_id,
        status=one.status,
        is_open=one.is_open,
        before_value=one.before_value,
        after_value=one.after_value,
        change_value=one.change_value,
        run_id=one.run_id,
        started_at=one.started_at,
        changed=[shown(text) for text in one.changed],
        clock_ratio=one.clock_ratio,
        reason=shown(one.reason),
    )


def _case_change(one: CaseDiff) -> CaseChange:
    return CaseChange(
        case_key=one.case_key,
        case_id=shown(one.case.id, 160),
        name=shown(one.name),
        verdict=one.verdict,
        reason=one.reason,
        detail=shown(one.detail),
        before_s=one.before_s,
        after_s=one.after_s,
        change_ratio=_finite(one.change_ratio),
        low_ratio=_finite(one.low_ratio),
        high_ratio=_finite(one.high_ratio),
        adjusted_p_value=_finite(one.adjusted_p_value),
        before_process_count=one.before_process_count,
        after_process_count=one.after_process_count,
    )


def _short(text: str | None, limit: int = 240) -> str | None:
    """Return cleaned text; None for none."""
    return shown(text, limit) if text else None


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
