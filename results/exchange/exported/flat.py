"""A record as one flat row: the columns of the CSV file and of the data frame, always the same and in this order."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Any

from results.records.model_figures import Interval, ModelFigures, model_figures
from results.records.records import Measurement, PredictionRecord, Record, RunInfo
from results.records.state_records import EnergyReading, KernelAttribution, MachineState
from roofline_model.core.finding import findings_text

Row = dict[str, Any]

_RUN: dict[str, Callable[[RunInfo], Any]] = {
    "run_id": lambda run: run.run_id,
    "run_label": lambda run: run.label,
    "run_started_at": lambda run: run.started_at,
    "run_status": lambda run: run.status,
    "run_is_forced": lambda run: run.is_forced,
    "git_commit": lambda run: run.git_commit,
    "environment_class": lambda run: run.environment.class_hash,
}

_RECORD: dict[str, Callable[[Record], Any]] = {
    "record_id": lambda record: record.record_id,
    "created_at": lambda record: record.created_at,
    "test_id": lambda record: record.test_id,
    "case_id": lambda record: record.case.id,
    "case_key": lambda record: record.case.case_key,
    "op": lambda record: record.case.op,
    "shape": lambda record: record.case.shape_label,
    "dimensions": lambda record: ",".join(f"{name}={size}" for name, size in record.case.shape),
    "formats": lambda record: ",".join(f"{operand}={key}" for operand, key in record.case.formats),
    "kernel": lambda record: record.case.kernel,
    "cache": lambda record: record.case.cache,
    "mode": lambda record: record.case.mode,
    "status": lambda record: record.status,
    "reason": lambda record: record.reason,
    "process_ordinal": lambda record: record.process.ordinal,
    "process_pid": lambda record: record.process.pid,
    "host": lambda record: record.process.host,
    "timer": lambda record: record.method.timer if record.method else None,
    "method_version": lambda record: record.method.version if record.method else None,
    "method_hash": lambda record: record.method.method_hash if record.method else None,
}

# Column → field; a dimensionless error gets the _ratio that its field's name leaves out.
_MEASUREMENT: dict[str, Callable[[Measurement], Any]] = {
    "measured_s": attrgetter("median_s"),
    "ci_low_s": attrgetter("ci_low_s"),
    "ci_high_s": attrgetter("ci_high_s"),
    "min_s": attrgetter("min_s"),
    "q1_s": attrgetter("q1_s"),
    "mean_s": attrgetter("mean_s"),
    "q3_s": attrgetter("q3_s"),
    "max_s": attrgetter("max_s"),
    "std_s": attrgetter("std_s"),
    "sample_count": attrgetter("sample_count"),
    "calls_per_sample_count": attrgetter("calls_per_sample"),
    "stop_reason": attrgetter("stop_reason"),
    "first_call_s": attrgetter("first_call_s"),
    "warmup_call_count": attrgetter("warmup_calls"),
    "wall_s": attrgetter("wall_s"),
    "rotation_count": attrgetter("rotation_count"),
    "working_set_bytes": attrgetter("working_set_bytes"),
    "max_error_ratio": attrgetter("max_error"),
    "tolerance_ratio": attrgetter("tolerance"),
    "power_w": attrgetter("power_w"),
    "energy_j": attrgetter("energy_j"),
    "power_source": attrgetter("power_source"),
    "sm_clock_hz": attrgetter("sm_clock_hz"),
    "temperature_c": attrgetter("temperature_c"),
    "flags": lambda reading: ";".join(reading.flags),
}

_PREDICTION = (
    "time_s",
    "low_s",
    "high_s",
    "error_ratio",
    "bound",
    "memory_time_s",
    "compute_time_s",
    "hardware_key",
    "compute_format",
    "path",
    "memory_level",
    "bandwidth_bytes_per_s",
    "peak_flops_per_s",
    "provenance",
    "model_version",
    "profile_hash",
)
_WORK: dict[str, Callable[[PredictionRecord], Any]] = {
    name: attrgetter(name) for name in ("flops", "read_bytes", "write_bytes", "intensity_flop_per_byte")
}

# What a reader would otherwise compute or take apart; the sizes are counts, empty where a case has no such dimension.
_DERIVED: dict[str, Callable[[Record], Any]] = {
    "M": lambda record: dict(record.case.shape).get("M"),
    "N": lambda record: dict(record.case.shape).get("N"),
    "K": lambda record: dict(record.case.shape).get("K"),
    "weight_format": lambda record: dict(record.case.formats).get("b"),
    "activation_format": lambda record: dict(record.case.formats).get("a"),
    "output_format": lambda record: dict(record.case.formats).get("c"),
    "achieved_bytes_per_s": lambda record: _per_measured_second(record, "total_bytes"),
    "achieved_flops_per_s": lambda record: _per_measured_second(record, "flops"),
    "roof_ratio": lambda record: _per_measured_second(record, "time_s"),
}
"""achieved: the work the prediction counts over the measured median; roof_ratio: ideal over measured, 1 is the roof."""

_PROCESS: dict[str, Callable[[Record], Any]] = {
    "process_role": lambda record: record.process.role,
    "process_end_reason": lambda record: record.process.end_reason,
}

_COUNTS: dict[str, Callable[[Measurement], Any]] = {
    "effective_sample_count": lambda reading: reading.effective_sample_count,
    "outlier_count": lambda reading: reading.outlier_count,
}

_STATE: dict[str, Callable[[MachineState], Any]] = {
    "throttled_s": lambda state: None if state.throttled_s is None else math.fsum(state.throttled_s.values()),
    "throttle_reasons": lambda state: _reasons(state.throttled_s),
    "retry_count": lambda state: state.retry_count,
    "rated_clock_hz": lambda state: state.rated_clock_hz,
    "cpu_clock_hz": lambda state: state.cpu_clock_hz,
    "others_ratio": lambda state: state.others_ratio,
    "stolen_ratio": lambda state: state.stolen_ratio,
    "device_process_count": lambda state: state.device_process_count,
}
"""throttled_s adds up the reasons; they may hold at the same time, so it can exceed the time the case took."""

# `energy_j` and `power_w` of `_MEASUREMENT` are the gross figures that these explain.
_ENERGY: dict[str, Callable[[EnergyReading], Any]] = {
    "net_energy_j": lambda energy: energy.net_energy_j,
    "energy_std_j": lambda energy: energy.std_j,
    "idle_power_w": lambda energy: energy.idle_power_w,
    "energy_scope": lambda energy: energy.scope,
    "energy_window_count": lambda energy: energy.window_count,
    "energy_window_s": lambda energy: energy.window_s,
    "energy_call_count": lambda energy: energy.call_count,
    "energy_cross_check_j": lambda energy: energy.cross_check_j,
    "energy_disagreement_ratio": lambda energy: energy.disagreement_ratio,
    "power_sensor_period_s": lambda energy: energy.sensor_period_s,
}

_ATTRIBUTION: dict[str, Callable[[KernelAttribution], Any]] = {
    "kernel_count": lambda traced: traced.kernel_count,
    "busy_s": lambda traced: traced.busy_s,
    "gap_s": lambda traced: traced.gap_s,
}

# Whole models. The cache state has the column `cache`, so that the format of a model's own cache is `kv_format`.
_MODEL: dict[str, Callable[[ModelFigures], Any]] = {
    "model": lambda model: model.model_name,
    "phase": lambda model: model.phase,
    "model_precision": lambda model: model.precision,
    "quantization_method": lambda model: model.method or None,
    "kv_format": lambda model: model.kv_format or None,
    "batch_count": lambda model: model.batch_count,
    "context_count": lambda model: model.context_count,
    "tokens_per_call_count": lambda model: model.tokens_per_call,
    "tokens_per_s": lambda model: model.tokens_per_s,
    "energy_j_per_token": lambda model: model.energy_j_per_token,
    "is_emulated": lambda model: model.is_emulated,
    "original_bytes": lambda model: model.original_bytes,
    "held_bytes": lambda model: model.held_bytes,
    "stated_bytes": lambda model: model.stated_bytes,
    "cache_bytes": lambda model: model.cache_bytes,
    "peak_bytes": lambda model: model.peak_bytes,
    "process_bytes": lambda model: model.process_bytes,
    "quality_source": lambda model: model.quality_source or None,
    "quality_reason": lambda model: model.quality_reason or None,
    "quality_text": lambda model: model.quality_text or None,
    "quality_is_language": lambda model: model.is_language if model.quality_source == "measured" else None,
    "quality_tokens_count": lambda model: model.quality_tokens_count,
}
_MODEL_INTERVALS: dict[str, Callable[[ModelFigures], Interval | None]] = {
    "kl_nats_per_token": lambda model: model.kl_nats_per_token,
    "embedding_cosine_ratio": lambda model: model.embedding_cosine_ratio,
    "rank_agreement_ratio": lambda model: model.rank_agreement_ratio,
    "nearest_kept_ratio": lambda model: model.nearest_kept_ratio,
    "top1_agreement_ratio": lambda model: model.top1_agreement_ratio,
    "perplexity_ratio": lambda model: model.perplexity_ratio,
    "reference_perplexity": lambda model: model.reference_perplexity,
}
"""Each is three columns: the figure, and the ends of its 95 % interval with `_low` and `_high`."""


def _prediction(kind: str) -> dict[str, Callable[[PredictionRecord], Any]]:
    """Return the columns of a prediction under the names that `--json` gives them: ideal_s, error_ideal_ratio; else
    ideal_bound, ….
    """
    names = {"time_s": f"{kind}_s", "error_ratio": f"error_{kind}_ratio"}
    columns: dict[str, Callable[[PredictionRecord], Any]] = {
        names.get(name, f"{kind}_{name}"): attrgetter(name) for name in _PREDICTION
    }
    return {**columns, f"{kind}_notes": lambda prediction: findings_text(prediction.findings)}


def _of_interval(get: Callable[[ModelFigures], Interval | None], end: str) -> Callable[[ModelFigures], Any]:
    return lambda model: None if (interval := get(model)) is None else getattr(interval, end)


_ENDS = {"": "value", "_low": "low_value", "_high": "high_value"}
_PARTS: tuple[tuple[Mapping[str, Callable[[Any], Any]], Callable[[Record], Any]], ...] = (
    (_MEASUREMENT, lambda record: record.measurement),
    (_WORK, lambda record: record.ideal or record.expected),
    (_prediction("ideal"), lambda record: record.ideal),
    (_prediction("expected"), lambda record: record.expected),
    (_DERIVED, lambda record: record),
    (_PROCESS, lambda record: record),
    (_COUNTS, lambda record: record.measurement),
    (_STATE, lambda record: record.measurement and record.measurement.state),
    (_ENERGY, lambda record: record.measurement and record.measurement.energy),
    (_ATTRIBUTION, lambda record: record.measurement and record.measurement.attribution),
    (_MODEL, model_figures),
    (
        {
            f"{name}{end}": _of_interval(get, field)
            for name, get in _MODEL_INTERVALS.items()
            for end, field in _ENDS.items()
        },
        model_figures,
    ),
)
"""Columns, and the part of a record that they are of: they are empty where it has no such part."""

COLUMNS: tuple[str, ...] = (
    *_RUN,
    *_RECORD,
    "history_key",
    *(name for columns, _ in _PARTS for name in columns),
    "hardware",
    "is_simulated",
)
"""Columns are only ever added at the end; what reads our CSV by position keeps working."""


def flat_rows(run: RunInfo, records: Iterable[Record]) -> Iterator[Row]:
    """Yield one row per record, keys in the order of COLUMNS; None where nothing is known."""
    of_run = _values(_RUN, run)
    for record in records:
        row = {
            **of_run,
            **_values(_RECORD, record),
            "history_key": record.history_key(of_run["environment_class"]),
        }
        for columns, part_of in _PARTS:
            row |= _values(columns, part_of(record))
        row["hardware"] = next((p.hardware_key for p in record.predictions), run.hardware_key) or None
        row["is_simulated"] = record.is_simulated
        yield row


def _values(columns: Mapping[str, Callable[[Any], Any]], value: object) -> Row:
    """Return the columns of a value; all None where there is none."""
    return {name: None if value is None else get(value) for name, get in columns.items()}


def _reasons(throttled_s: Mapping[str, float] | None) -> str | None:
    """Return the reasons that gained any time, by name; empty where none did, None where nobody could tell."""
    if throttled_s is None:
        return None
    return ";".join(sorted(reason for reason, seconds in throttled_s.items() if seconds > 0))


def _per_measured_second(record: Record, name: str) -> float | None:
    """Return a quantity of the ideal prediction over the measured median; None when either is unknown or 0 s long."""
    if record.ideal is None or record.measurement is None or not record.measurement.median_s > 0:
        return None
    return float(getattr(record.ideal, name)) / record.measurement.median_s
