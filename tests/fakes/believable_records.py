"""Records of any values made believable: what an import insists on holds, every other field stays as it was."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from results.records.limits import CONTROLS, outside_limits
from results.records.records import PredictionRecord, ProcessInfo, Record, RunInfo
from results.records.state_records import CanaryReading, EnergyReading, KernelAttribution, MachineState, NoiseFloor
from roofline_model.core.finding import Finding
from roofline_model.operators.case import Case

_OF_MANY = ("throttled_s", "terms_s", "run_ids", "kernel_names", "flags")
"""Fields whose items have limits of their own."""


def declared(value: Any) -> Any:
    """The same record with every field within the limits that its type declares; free facts stay what they were."""
    if isinstance(value, Case):
        return replace(
            value,
            op=_line(value.op),
            kernel=_line(value.kernel),
            mode=_line(value.mode),
            shape=tuple({_line(name): believable_count(size) or 1 for name, size in value.shape}.items()),
            formats=tuple({_line(name): _line(key) for name, key in value.formats}.items()),
        )
    if isinstance(value, Finding):
        values = {_line(name): _declared_value(item) for name, item in value.values}
        return replace(value, code=_line(value.code), subject=_line(value.subject), values=tuple(values.items()))
    if isinstance(value, tuple):
        return tuple(map(declared, value))
    if not is_dataclass(value):
        return value
    value = replace(value, **{field.name: declared(getattr(value, field.name)) for field in fields(value)})
    names = [
        *outside_limits(value),
        *(each.name for each in fields(value) if each.name in _OF_MANY and getattr(value, each.name) is not None),
    ]
    return replace(value, **{name: _declared_value(getattr(value, name)) for name in names})


def _declared_value(value: Any) -> Any:
    if isinstance(value, str):
        return _line(value)
    if isinstance(value, tuple | list):
        return tuple(map(_declared_value, value))
    if isinstance(value, Mapping):
        return {_line(name): 0.5 for name in value}
    return value if isinstance(value, bool | int) else 0.5


def _line(text: str) -> str:
    return re.sub("[^!-~]", "x", text) or "x"


def named_run(run: RunInfo) -> RunInfo:
    """The same run with an id of its own and a label that a run may have."""
    label = CONTROLS.sub("?", run.label.replace(",", ";"))
    return replace(run, run_id=uuid.uuid4().hex, label=label if label.strip() else "")


def believable_run(run: RunInfo) -> RunInfo:
    """The same run with dates and an exit code, which an import insists on."""
    finished_at = None if run.finished_at is None else "2026-03-01T11:00:00.000000+00:00"
    exit_code = None if run.exit_code is None else run.exit_code % 256
    return replace(
        named_run(run), started_at="2026-03-01T10:00:00.000000+00:00", finished_at=finished_at, exit_code=exit_code
    )


def own_process(record: Record) -> ProcessInfo:
    """The record's process, told from every other: one row cannot hold two roles."""
    return replace(record.process, ordinal=uuid.uuid4().int >> 89)


def believable_record(record: Record, run_id: str) -> Record:
    """The same record in a run, with numbers that a clock can give; all other fields may be anything."""
    pid = record.process.pid and believable_count(record.process.pid)
    process = replace(own_process(record), started_at="", role=record.process.role or "main", pid=pid)
    predictions = tuple(map(believable_prediction, record.predictions))
    record = replace(
        record, run_id=run_id, record_id=uuid.uuid4().hex, created_at="", process=process, predictions=predictions
    )
    if record.measurement is None:
        return record
    taken = record.measurement
    samples = tuple(map(believable_time, taken.samples_s))
    low, middle, high = sorted(map(believable_time, (taken.min_s, taken.median_s, taken.max_s)))
    if samples:
        low, middle, high = min(samples), sorted(samples)[len(samples) // 2], max(samples)
    inside = lambda value: min(max(believable_time(value), low), high)  # noqa: E731
    first, third = sorted(map(inside, (taken.q1_s, taken.q3_s)))
    ends = [None if value is None else inside(value) for value in (taken.ci_low_s, taken.ci_high_s)]
    values = sorted(value for value in ends if value is not None)
    ci_low_s, ci_high_s = values if len(values) == 2 else ends
    counts = ("calls_per_sample", "warmup_calls", "rotation_count", "sample_count")
    amounts = ("working_set_bytes", "max_error", "tolerance", "power_w", "energy_j", "sm_clock_hz", "temperature_c")
    measurement = replace(
        taken,
        **{name: believable_count(getattr(taken, name)) for name in counts},
        **{name: believable_number(getattr(taken, name)) for name in amounts},  # type: ignore[arg-type]
        samples_s=samples,
        min_s=low,
        median_s=middle,
        max_s=high,
        mean_s=inside(taken.mean_s),
        std_s=None if taken.std_s is None else min(believable_time(taken.std_s), high - low),
        q1_s=first,
        q3_s=third,
        ci_low_s=ci_low_s,
        ci_high_s=ci_high_s,
        first_call_s=None if taken.first_call_s is None else believable_time(taken.first_call_s),
        wall_s=None if taken.wall_s is None else believable_time(taken.wall_s),
        clocks_hz=tuple(2e9 + number / 3 for number in range(len(samples))) if taken.clocks_hz else (),
        effective_sample_count=believable_number(taken.effective_sample_count),
        outlier_count=None if taken.outlier_count is None else 0,
        energy=taken.energy and believable_energy(taken.energy),
        state=taken.state and believable_state(taken.state),
        attribution=taken.attribution and believable_attribution(taken.attribution),
    )
    if samples:
        measurement = replace(measurement, sample_count=len(samples))
    return replace(record, measurement=measurement)


def believable_prediction(prediction: PredictionRecord) -> PredictionRecord:
    """The same prediction with numbers that a model can give."""
    names = ("memory_time_s", "compute_time_s", "flops", "read_bytes", "write_bytes", "time_s")
    names += ("bandwidth_bytes_per_s", "peak_flops_per_s")
    low_s, high_s = believable_number(prediction.low_s), believable_number(prediction.high_s)
    if low_s is not None and high_s is not None:
        low_s, high_s = sorted((low_s, high_s))
    terms_s = prediction.terms_s
    return replace(
        prediction,
        **{name: believable_number(getattr(prediction, name)) for name in names},  # type: ignore[arg-type]
        low_s=low_s,
        high_s=high_s,
        terms_s=None if terms_s is None else {name: believable_number(term) or 0.0 for name, term in terms_s.items()},
        error_ratio=believable_number(prediction.error_ratio),
    )


def believable_time(value: float) -> float:
    """The same number where a clock could give it."""
    return abs(value) if 1e-18 <= abs(value) < 1e9 else 1.0


def believable_count(value: int) -> int:
    """A number of things that somebody could have counted."""
    return abs(value) % 2**40


def believable_number(value: float | None) -> float | None:
    """The same number where a sensor could give it."""
    return value if value is None or 1e-6 <= value < 1e50 else 0.1


def believable_energy(energy: EnergyReading) -> EnergyReading:
    optional = ("std_j", "idle_power_w", "net_energy_j", "cross_check_j", "sensor_period_s")
    numbers = {
        name: believable_number(getattr(energy, name)) for name in (*optional, "energy_j", "power_w", "window_s")
    }
    counts = {name: max(believable_count(getattr(energy, name)), 1) for name in ("window_count", "call_count")}
    return replace(energy, **numbers, **counts, source=energy.source or "rapl", scope=energy.scope or "gpu")  # type: ignore[arg-type]


def believable_state(state: MachineState) -> MachineState:
    names = ("rated_clock_hz", "cpu_clock_hz", "others_ratio", "stolen_ratio")
    numbers = {name: believable_number(getattr(state, name)) for name in names}
    given = state.throttled_s
    throttled_s = (
        None if given is None else {reason or "x": believable_number(value) or 0.0 for reason, value in given.items()}
    )
    count = None if state.device_process_count is None else believable_count(state.device_process_count)
    retries = believable_count(state.retry_count)
    return replace(state, **numbers, throttled_s=throttled_s, retry_count=retries, device_process_count=count)  # type: ignore[arg-type]


def believable_attribution(traced: KernelAttribution) -> KernelAttribution:
    busy_s, latency_s = sorted(map(believable_time, (traced.busy_s, traced.latency_s)))
    names = tuple(name or "kernel" for name in traced.kernel_names)
    return KernelAttribution(
        traced.source or "cupti", believable_number(traced.kernel_count) or 0.0, busy_s, latency_s, names
    )


def believable_canary(reading: CanaryReading) -> CanaryReading:
    names = ("time_s", "reference_s", "power_w", "sm_clock_hz")
    return replace(
        reading,
        **{name: believable_number(getattr(reading, name)) for name in names},  # type: ignore[arg-type]
        ordinal=believable_count(reading.ordinal),
        process_ordinal=believable_count(reading.process_ordinal),
        created_at="2026-03-01T10:00:00.000000+00:00",
        kernel=reading.kernel or "gemv",
    )


def believable_floor(floor: NoiseFloor, class_hash: str) -> NoiseFloor:
    return NoiseFloor(
        class_hash,
        uuid.uuid4().hex,
        floor.method_hash or "m",
        believable_number(floor.between_sd_ratio) or 0.0,
        believable_number(floor.within_sd_ratio),
        max(believable_count(floor.process_count), 2),
        "2026-03-01T10:00:00.000000+00:00",
        tuple(run_id or "r" for run_id in floor.run_ids),
    )
