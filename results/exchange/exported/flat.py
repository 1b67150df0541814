"""A record as one flat row: the columns of the CSV file and of the data frame, always the same and in this order."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from results.records.model_figures import Interval, ModelFigures, model_figures
from results.records.records import Measurement, PredictionRecord, Record, RunInfo
from results.records.state_records import EnergyReading, KernelAttribution, MachineState
from roofline_model.core.finding import findings_text

T = TypeVar("T")
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
_MEASUREMENT = {
    "measured_s": "median_s",
    "ci_low_s": "ci_low_s",
    "ci_high_s": "ci_high_s",
    "min_s": "min_s",
    "q1_s": "q1_s",
    "mean_s": "mean_s",
    "q3_s": "q3_s",
    "max_s": "max_s",
    "std_s": "std_s",
    "sample_count": "sample_count",
    "calls_per_sample_count": "calls_per_sample",
    "stop_reason": "stop_reason",
    "first_call_s": "first_call_s",
    "warmup_call_count": "warmup_calls",
    "wall_s": "wall_s",
    "rotation_count": "rotation_count",
    "working_set_bytes": "working_set_bytes",
    "max_error_ratio": "max_error",
    "tolerance_ratio": "tolerance",
    "power_w": "power_w",
    "energy_j": "energy_j",
    "power_source": "power_source",
    "sm_clock_hz": "sm_clock_hz",
    "temperature_c": "temperature_c",
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
_WORK = ("flops", "read_bytes", "write_bytes", "intensity_flop_per_byte")

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


def _prediction_column(kind: str, name: str) -> str:
    """Return the name that `--json` gives a field of a prediction: ideal_s, error_ideal_ratio; else ideal_bound, …."""
    return {"time_s": f"{kind}_s", "error_ratio": f"error_{kind}_ratio"}.get(name, f"{kind}_{name}")


COLUMNS: tuple[str, ...] = (
    *_RUN,
    *_RECORD,
    "history_key",
    *_MEASUREMENT,
    "flags",
    *_WORK,
    *(_prediction_column("ideal", name) for name in _PREDICTION),
    "ideal_notes",
    *(_prediction_column("expected", name) for name in _PREDICTION),
    "expected_notes",
    *_DERIVED,
    *_PROCESS,
    *_COUNTS,
    *_STATE,
    *_ENERGY,
    *_ATTRIBUTION,
    *_MODEL,
    *(f"{name}{end}" for name in _MODEL_INTERVALS for end in ("", "_low", "_high")),
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
            **_measured(record.measurement),
            **_worked(record.ideal or record.expected),
            **_predicted("ideal", record.ideal),
            **_predicted("expected", record.expected),
            **_values(_DERIVED, record),
            **_values(_PROCESS, record),
            **_parts(record.measurement),
            **_of_model(model_figures(record)),
            "hardware": next((p.hardware_key for p in record.predictions), run.hardware_key) or None,
            "is_simulated": record.is_simulated,
        }
        yield {name: row[name] for name in COLUMNS}


def _values(columns: dict[str, Callable[[T], Any]], value: T | None) -> Row:
    """Return the columns of a value; all None where there is none."""
    return {name: None if value is None else get(value) for name, get in columns.items()}


def _parts(measurement: Measurement | None) -> Row:
    return {
        **_values(_COUNTS, measurement),
        **_values(_STATE, None if measurement is None else measurement.state),
        **_values(_ENERGY, None if measurement is None else measurement.energy),
        **_values(_ATTRIBUTION, None if measurement is None else measurement.attribution),
    }


def _of_model(figures: ModelFigures | None) -> Row:
    row = _values(_MODEL, figures)
    for name, get in _MODEL_INTERVALS.items():
        interval = None if figures is None else get(figures)
        row |= dict.fromkeys((name, f"{name}_low", f"{name}_high"))
        if interval is not None:
            row |= {name: interval.value, f"{name}_low": interval.low_value, f"{name}_high": interval.high_value}
    return row


def _reasons(throttled_s: Mapping[str, float] | None) -> str | None:
    """Return the reasons that gained any time, by name; empty where none did, None where nobody could tell."""
    if throttled_s is None:
        return None
    return ";".join(sorted(reason for reason, seconds in throttled_s.items() if seconds > 0))


def _measured(measurement: Measurement | None) -> Row:
    if measurement is None:
        return dict.fromkeys((*_MEASUREMENT, "flags"))
    row = {column: getattr(measurement, name) for column, name in _MEASUREMENT.items()}
    return {**row, "flags": ";".join(measurement.flags)}


def _worked(prediction: PredictionRecord | None) -> Row:
    return {name: None if prediction is None else getattr(prediction, name) for name in _WORK}


def _per_measured_second(record: Record, name: str) -> float | None:
    """Return a quantity of the ideal prediction over the measured median; None when either is unknown or 0 s long."""
    if record.ideal is None or record.measurement is None or not record.measurement.median_s > 0:
        return None
    return float(getattr(record.ideal, name)) / record.measurement.median_s


def _predicted(kind: str, prediction: PredictionRecord | None) -> Row:
    row = {_prediction_column(kind, n): None if prediction is None else getattr(prediction, n) for n in _PREDICTION}
    return {**row, f"{kind}_notes": None if prediction is None else findings_text(prediction.findings)}
