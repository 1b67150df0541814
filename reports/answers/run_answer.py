"""A stored run and its cases as answers: what `roofline runs`, `show` and `report --json` give, and the API."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from reports.cases.rows import CaseRow
from reports.cases.state import case_energy
from reports.cases.summary import CaseSummary
from results.records.records import STATUSES, RunInfo, Status
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


def run_detail(run: RunInfo, cases: Iterable[CaseSummary], canary_sentence: str) -> RunDetail:
    """Return a run as an answer; `canary_sentence`: of its `RunState`."""
    counts = Counter(case.status for case in cases)
    return RunDetail(
        run=run,
        counts={status: counts[status] for status in STATUSES},
        case_count=counts.total(),
        environment=run.environment.facts,
        canary_sentence=canary_sentence,
    )


def stored_case(case: CaseSummary) -> StoredCase:
    """Return a case of a run as an answer."""
    lead, total, energy = case.lead, case.total, case_energy(case)
    record, ideal, expected = lead.record, lead.record.ideal, lead.record.expected
    total_ratio = _finite(case.total_ratio)
    return StoredCase(
        case_key=lead.case_key,
        case_id=lead.case_id,
        record_id=lead.record_id,
        title=lead.title,
        op=lead.op,
        shape=record.case.shape,
        formats=record.case.formats,
        precision=lead.precision,
        kernel=lead.kernel,
        cache=lead.cache,
        mode=lead.mode,
        hardware=lead.hardware_key or None,
        status=record.status,
        reason="; ".join(case.remarks) or lead.reason or None,
        measured_s=case.measured_s,
        interval_half_width_ratio=_finite(case.plus_minus_ratio),
        is_interval_total=total_ratio is not None,
        interval_within_half_width_ratio=_finite(case.within_ratio),
        interval_total_half_width_ratio=total_ratio,
        interval_total_low_s=None if total is None else total.low_s,
        interval_total_high_s=None if total is None else total.high_s,
        interval_total_basis=None if total is None else total.basis,
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
        achieved_flops_per_s=case.pooled.achieved_flops_per_s,
        achieved_bytes_per_s=case.pooled.achieved_bytes_per_s,
        peak_flops_per_s=lead.peak_flops_per_s,
        bandwidth_bytes_per_s=lead.bandwidth_bytes_per_s,
        roof_share_ratio=case.roof_share_ratio,
        power_w=lead.power_w if energy is None else energy.power_w,
        energy_j=lead.energy_j if energy is None else energy.energy_j,
        max_error_ratio=lead.max_error,
        tolerance_ratio=lead.tolerance,
        process_count=case.process_count,
        processes=tuple(map(case_process, case.rows)),
        flags=case.flags,
        doubts=case.doubts,
        findings=tuple(dict.fromkeys(lead.findings)),
    )


def case_process(row: CaseRow) -> CaseProcess:
    """Return what one process made of a case as an answer."""
    measurement = row.record.measurement
    return CaseProcess(
        process=row.process,
        record_id=row.record_id,
        status=row.record.status,
        reason=row.reason or None,
        measured_s=row.measured_s,
        interval_half_width_ratio=_finite(row.interval_ratio),
        sample_count=None if measurement is None else measurement.sample_count,
        power_w=row.power_w,
        energy_j=row.energy_j,
        max_error_ratio=row.max_error,
        tolerance_ratio=row.tolerance,
        flags=row.flags,
    )


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
