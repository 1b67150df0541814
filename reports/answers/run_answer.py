"""A stored run and its cases as answers: what `roofline runs`, `show` and `report --json` give, and the API."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from reports.present.cases import case_precision, remarks_of, shown_flags, title_of
from reports.present.display_text import shown
from reports.present.encoder import answer_json
from results.cases.case_result import CaseResult, is_timed
from results.cases.state import case_energy, power_w
from results.records.records import STATUSES, Measurement, Record, RunInfo, Status
from roofline_model.core.finding import Finding


@dataclass(frozen=True, slots=True)
class RunDetail:
    """One run with its counts, its machine and that machine's state."""

    run: RunInfo
    """The run itself."""
    counts: Mapping[str, int]
    """measured, predicted, skipped, failed → cases, count."""
    case_count: int
    """Cases, count."""
    environment: Mapping[str, Any]
    """Facts of machine and software."""
    canary_sentence: str
    """What the canary kernel says of the machine's state; may be empty."""


@dataclass(frozen=True, slots=True)
class CaseProcess:
    """What one process made of a case."""

    process: int
    """Ordinal of the process."""
    record_id: str
    """Of its record: evidence."""
    status: Status
    """What became of it."""
    reason: str | None
    """Why it was skipped or failed."""
    measured_s: float | None
    """Median, seconds."""
    interval_half_width_ratio: float | None
    """Half the 95 % interval of its own samples over the median."""
    sample_count: int | None
    """Samples, count."""
    power_w: float | None
    """Watts."""
    energy_j: float | None
    """Joules per call."""
    max_error_ratio: float | None
    """Largest error of its result, as a share."""
    tolerance_ratio: float | None
    """Largest error that is right, as a share."""
    flags: tuple[str, ...]
    """Warnings about its samples."""


@dataclass(frozen=True, slots=True)
class StoredCase:
    """One case of a run, its processes pooled. What was not measured is null, never 0."""

    case_key: str
    """Sixteen hex digits: the same case on every machine and night."""
    case_id: str
    """The case as the benchmarks name it, with sizes and formats."""
    record_id: str
    """Of the record that speaks for the case: evidence."""
    title: str
    """Operator and sizes in words."""
    op: str
    """Operator: gemv, gemm, attention, …"""
    shape: tuple[tuple[str, int], ...]
    """Dimension letter → size."""
    formats: tuple[tuple[str, str], ...]
    """Operand → format key; a: activation, b: weight, c: output."""
    precision: str
    """`BF16`, `INT4 (W4A16)`, …"""
    kernel: str
    """Kernel that was run, as recorded."""
    cache: str
    """cold: operands came from DRAM; warm: they were in the last-level cache."""
    mode: str
    """How calls were made: eager, …"""
    hardware: str | None
    """Key of the chip the predictions are for."""
    status: Status
    """What became of it."""
    reason: str | None
    """Why it was skipped or failed, and what is strange about its time."""
    measured_s: float | None
    """Geometric mean of the processes' medians, seconds."""
    interval_half_width_ratio: float | None
    """± to show: half the 95 % interval over the median."""
    is_interval_total: bool
    """Whether that interval knows how far fresh processes differ."""
    interval_within_half_width_ratio: float | None
    """Half the 95 % interval inside a process over its median, the widest of them."""
    interval_total_half_width_ratio: float | None
    """Half the 95 % interval that knows how fresh processes differ over its estimate; null where that is not known."""
    interval_total_low_s: float | None
    """Lower end of that interval, seconds."""
    interval_total_high_s: float | None
    """Upper end of that interval, seconds."""
    interval_total_basis: str | None
    """Where it comes from: processes, floor (the machine's own A/A spread), or one process, which does not tell."""
    ideal_s: float | None
    """Speed of light, seconds."""
    error_ideal_ratio: float | None
    """(ideal − measured) / measured; negative: predicted too fast."""
    expected_s: float | None
    """Expected time, seconds."""
    expected_low_s: float | None
    """Lower end of the 80 % interval, seconds."""
    expected_high_s: float | None
    """Upper end of the 80 % interval, seconds."""
    error_expected_ratio: float | None
    """(expected − measured) / measured."""
    bound: str | None
    """memory or compute, of the ideal time."""
    path: str | None
    """native, emulated or dequantize."""
    flops: float | None
    """Work, FLOP."""
    moved_bytes: float | None
    """Compulsory traffic, bytes."""
    intensity_flop_per_byte: float | None
    """FLOP per byte."""
    achieved_flops_per_s: float | None
    """flops over the measured time, FLOP per second."""
    achieved_bytes_per_s: float | None
    """moved_bytes over the measured time, bytes per second."""
    peak_flops_per_s: float | None
    """Dense peak of the roof, FLOP per second."""
    bandwidth_bytes_per_s: float | None
    """Bandwidth of the roof, bytes per second."""
    roof_share_ratio: float | None
    """Ideal over measured."""
    power_w: float | None
    """Watts."""
    energy_j: float | None
    """Joules per call."""
    max_error_ratio: float | None
    """Largest error of the result, as a share."""
    tolerance_ratio: float | None
    """Largest error that is right, as a share."""
    process_count: int
    """Processes that measured it, count."""
    processes: tuple[CaseProcess, ...]
    """What each process made of it, in the order stored."""
    flags: tuple[str, ...]
    """Warnings about the samples of any process."""
    doubts: tuple[str, ...]
    """Those flags that put the time in doubt."""
    findings: tuple[Finding, ...]
    """What to know about the ideal time, may be empty."""


def run_detail(run: RunInfo, cases: Iterable[CaseResult], canary_sentence: str) -> RunDetail:
    """Return a run as an answer; `canary_sentence`: of its `RunState`."""
    counts = Counter(case.status for case in cases)
    return RunDetail(
        run=run,
        counts={status: counts[status] for status in STATUSES},
        case_count=counts.total(),
        environment=run.environment.facts,
        canary_sentence=canary_sentence,
    )


def stored_case(result: CaseResult) -> StoredCase:
    """Return a case of a run as an answer."""
    case, ideal, expected, total = result.case, result.ideal, result.expected, result.total
    lead, energy = result.lead.measurement, case_energy(result)
    total_ratio = _finite(result.total_ratio)
    return StoredCase(
        case_key=result.case_key,
        case_id=shown(case.id, 160),
        record_id=result.lead.record_id,
        title=title_of(case),
        op=shown(case.op, 60),
        shape=case.shape,
        formats=case.formats,
        precision=case_precision(case),
        kernel=shown(case.kernel, 60),
        cache=case.cache,
        mode=shown(case.mode, 30),
        hardware=result.hardware_key or None,
        status=result.lead.status,
        reason="; ".join(remarks_of(result)) or shown(result.reason) or None,
        measured_s=result.measured_s,
        interval_half_width_ratio=_finite(result.plus_minus_ratio),
        is_interval_total=total_ratio is not None,
        interval_within_half_width_ratio=_finite(result.within_ratio),
        interval_total_half_width_ratio=total_ratio,
        interval_total_low_s=None if total is None else total.low_s,
        interval_total_high_s=None if total is None else total.high_s,
        interval_total_basis=None if total is None else total.basis,
        ideal_s=result.ideal_s,
        error_ideal_ratio=result.error_ideal_ratio,
        expected_s=result.expected_s,
        expected_low_s=None if expected is None else expected.low_s,
        expected_high_s=None if expected is None else expected.high_s,
        error_expected_ratio=result.error_expected_ratio,
        bound=None if ideal is None else shown(ideal.bound, 30) or None,
        path=None if ideal is None else shown(ideal.path, 30) or None,
        flops=None if ideal is None else ideal.flops,
        moved_bytes=None if ideal is None else ideal.total_bytes,
        intensity_flop_per_byte=result.intensity_flop_per_byte,
        achieved_flops_per_s=result.achieved_flops_per_s,
        achieved_bytes_per_s=result.achieved_bytes_per_s,
        peak_flops_per_s=None if ideal is None else ideal.peak_flops_per_s,
        bandwidth_bytes_per_s=None if ideal is None else ideal.bandwidth_bytes_per_s,
        roof_share_ratio=result.roof_share_ratio,
        power_w=power_w(result),
        energy_j=None if energy is None else energy.energy_j,
        max_error_ratio=None if lead is None else lead.max_error,
        tolerance_ratio=None if lead is None else lead.tolerance,
        process_count=result.process_count,
        processes=tuple(map(case_process, result.records)),
        flags=shown_flags(result),
        doubts=result.doubts,
        findings=result.findings,
    )


def case_process(record: Record) -> CaseProcess:
    """Return what one process made of a case as an answer."""
    measured = record.measurement if is_timed(record) else None
    return CaseProcess(
        process=record.process.ordinal,
        record_id=record.record_id,
        status=record.status,
        reason=shown(record.reason) or None,
        measured_s=None if measured is None else measured.median_s,
        interval_half_width_ratio=None if measured is None else _finite(measured.ci_half_width_ratio),
        sample_count=None if measured is None else measured.sample_count,
        power_w=None if measured is None else measured.power_w,
        energy_j=None if measured is None else measured.energy_j,
        max_error_ratio=None if measured is None else measured.max_error,
        tolerance_ratio=None if measured is None else measured.tolerance,
        flags=() if measured is None else tuple(shown(flag, 60) for flag in measured.flags),
    )


def case_detail_json(result: CaseResult) -> dict[str, Any]:
    """Return everything about one case as JSON: the pooled case, and each process with all its statistics."""
    return {
        **answer_json(stored_case(result)),
        "processes": [
            {
                **answer_json(case_process(record)),
                "process_role": record.process.role,
                "process_end_reason": record.process.end_reason or None,
                "created_at": record.created_at,
                "method": _method_json(record),
                "measurement": _measurement_json(record.measurement),
                "predictions": [asdict(prediction) for prediction in record.predictions],
            }
            for record in result.records
        ],
    }


def _method_json(record: Record) -> dict[str, Any] | None:
    method = record.method
    if method is None:
        return None
    return {**asdict(method), "settings": dict(method.settings), "method_hash": method.method_hash}


def _measurement_json(measurement: Measurement | None) -> dict[str, Any] | None:
    if measurement is None:
        return None
    energy, attribution = measurement.energy, measurement.attribution
    data = asdict(measurement)
    if energy is not None:
        data["energy"]["disagreement_ratio"] = energy.disagreement_ratio
    if attribution is not None:
        data["attribution"]["gap_s"] = attribution.gap_s
    return data


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
