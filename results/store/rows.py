"""Records as rows and back: the only file that knows both shapes."""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping
from dataclasses import fields
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from results.records.plain_form import read_findings
from results.records.records import (
    EnvironmentInfo,
    HardwareProfile,
    Measurement,
    Method,
    PredictionRecord,
    ProcessInfo,
    Record,
    RunInfo,
    TelemetrySample,
)
from results.records.state_records import CanaryReading, EnergyReading, KernelAttribution, MachineState, NoiseFloor
from results.store.schema import pack_samples, unpack_samples
from roofline_model.core.finding import stored_form
from roofline_model.operators.case import Case, short_hash

Row = Mapping[Any, Any]
"""A row by column name; SQLAlchemy types its keys more loosely than we use them."""
Values = dict[str, Any]


def _names(kind: type[Any], *apart: str) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind) if field.name not in apart)


# Columns are named like the fields; those that change shape on their way are listed apart.
_RUN = _names(RunInfo, "environment")
_PROCESS = _names(ProcessInfo)
_METHOD = _names(Method, "settings")
_MEASUREMENT = _names(Measurement, "samples_s", "clocks_hz", "flags", "energy", "state", "attribution")
_ENERGY = _names(EnergyReading)
_STATE = _names(MachineState, "throttled_s")
_ATTRIBUTION = _names(KernelAttribution, "kernel_names")
_PREDICTION = _names(PredictionRecord, "findings", "terms_s")
_TELEMETRY = _names(TelemetrySample)
_CANARY = _names(CanaryReading)
_FLOOR = _names(NoiseFloor, "run_ids")
_RECORD = _names(Record, "case", "process", "method", "measurement", "predictions", "telemetry")

_PROCESS_IDENTITY = ("ordinal", "pid", "host", "started_at")
"""What tells processes apart; stored hashes depend on it, and how a process ended is not among it."""


def _picked(value: object, names: tuple[str, ...]) -> Values:
    return {name: getattr(value, name) for name in names}


def run_values(run: RunInfo, environment_id: int) -> Values:
    """Return the row of a run."""
    return {**_picked(run, _RUN), "environment_id": environment_id}


def environment_values(environment: EnvironmentInfo) -> Values:
    """Return the row of an environment."""
    return {
        "environment_hash": environment.environment_hash,
        "class_hash": environment.class_hash,
        "facts": dict(environment.facts),
        "class_facts": dict(environment.class_facts),
    }


def profile_values(profile: HardwareProfile) -> Values:
    """Return the row of a hardware profile."""
    return {
        "profile_hash": profile.profile_hash,
        "key": profile.key,
        "name": profile.name,
        "profile": dict(profile.profile),
    }


def process_values(process: ProcessInfo, run_id: str) -> Values:
    """Return the row of a process of a run."""
    identity = [getattr(process, name) for name in _PROCESS_IDENTITY]
    return {**_picked(process, _PROCESS), "run_id": run_id, "process_hash": short_hash(identity)}


def case_values(case: Case) -> Values:
    """Return the row of a case. Its content hash keeps the order of dimensions, which the case key leaves out."""
    identity = [case.op, case.shape, case.formats, case.kernel, case.mode, case.cache]
    return {"content_hash": short_hash(identity), "case_key": case.case_key, **case.to_dict()}


def method_values(method: Method) -> Values:
    """Return the row of a method."""
    return {**_picked(method, _METHOD), "settings": dict(method.settings), "method_hash": method.method_hash}


def record_values(record: Record, class_hash: str) -> Values:
    """Return the row of a record without the ids of its process, case and method."""
    return {
        "record_id": record.record_id,
        "run_id": record.run_id,
        "history_key": record.history_key(class_hash),
        "status": record.status,
        "reason": record.reason,
        "test_id": record.test_id,
        "created_at": record.created_at,
        "extra": dict(record.extra),
    }


def measurement_values(measurement: Measurement, record_pk: int) -> Values:
    """Return the row of a measurement, without its parts that have tables of their own."""
    return {
        **_picked(measurement, _MEASUREMENT),
        "record_pk": record_pk,
        "samples": pack_samples(measurement.samples_s),
        "clocks": pack_samples(measurement.clocks_hz) if measurement.clocks_hz else None,
        "flags": list(measurement.flags),
    }


def energy_values(energy: EnergyReading, record_pk: int) -> Values:
    """Return the row of a record's energy."""
    return {**_picked(energy, _ENERGY), "record_pk": record_pk}


def state_values(state: MachineState, record_pk: int) -> Values:
    """Return the row of the machine's state over a record's case."""
    throttled_s = None if state.throttled_s is None else dict(state.throttled_s)
    return {**_picked(state, _STATE), "record_pk": record_pk, "throttled_s": throttled_s}


def attribution_values(attribution: KernelAttribution, record_pk: int) -> Values:
    """Return the row of what ran on the device."""
    names = list(attribution.kernel_names)
    return {**_picked(attribution, _ATTRIBUTION), "record_pk": record_pk, "kernel_names": names}


def canary_values(reading: CanaryReading, run_id: str, class_hash: str) -> Values:
    """Return the row of a canary reading of a run."""
    return {**_picked(reading, _CANARY), "run_id": run_id, "class_hash": class_hash}


def floor_values(floor: NoiseFloor) -> Values:
    """Return the row of a noise floor."""
    return {**_picked(floor, _FLOOR), "run_ids": list(floor.run_ids)}


def prediction_values(predictions: Iterable[PredictionRecord], record_pk: int) -> list[Values]:
    """Return the rows of a record's predictions."""
    return [
        {
            **_picked(prediction, _PREDICTION),
            "record_pk": record_pk,
            "ordinal": number,
            "findings": [stored_form(item) for item in prediction.findings],
            "terms_s": None if prediction.terms_s is None else dict(prediction.terms_s),
        }
        for number, prediction in enumerate(predictions)
    ]


def telemetry_values(samples: Iterable[TelemetrySample], record_pk: int) -> list[Values]:
    """Return the rows of a record's telemetry."""
    return [
        {**_picked(sample, _TELEMETRY), "record_pk": record_pk, "ordinal": number}
        for number, sample in enumerate(samples)
    ]


def _from(kind: type[Any], row: Row, names: tuple[str, ...]) -> Values:
    """Return columns as fields of `kind`. Raises `ValueError` for a value of another type: the row is damaged."""
    return checked(kind, {name: row[name] for name in names})


def environment_from(row: Row) -> EnvironmentInfo:
    """Return an environment."""
    return EnvironmentInfo(**_from(EnvironmentInfo, row, ("facts", "class_facts")))


def run_from(row: Row, environment: EnvironmentInfo) -> RunInfo:
    """Return a run."""
    return RunInfo(**_from(RunInfo, row, _RUN), environment=environment)


def profile_from(row: Row) -> HardwareProfile:
    """Return a hardware profile."""
    return HardwareProfile(**_from(HardwareProfile, row, ("key", "name", "profile_hash", "profile")))


def process_from(row: Row) -> ProcessInfo:
    """Return a process."""
    return ProcessInfo(**_from(ProcessInfo, row, _PROCESS))


def case_from(row: Row) -> Case:
    """Return a case. Raises `ValueError` for what is none."""
    for name in ("shape", "formats"):
        if type(row[name]) is not dict:
            raise ValueError(f"the {name} of a case is not an object")
    return Case.from_dict(row)


def method_from(row: Row) -> Method:
    """Return a method."""
    return Method(**_from(Method, row, (*_METHOD, "settings")))


def measurement_from(
    row: Row, energy: EnergyReading | None, state: MachineState | None, attribution: KernelAttribution | None
) -> Measurement:
    """Return a measurement with its parts; samples and clocks are empty where the row was read without them."""
    return Measurement(
        **_from(Measurement, row, _MEASUREMENT),
        samples_s=unpack_samples(row.get("samples") or b""),
        clocks_hz=unpack_samples(row.get("clocks") or b""),
        flags=texts("flags", row["flags"]),
        energy=energy,
        state=state,
        attribution=attribution,
    )


def energy_from(row: Row) -> EnergyReading:
    """Return the energy of a record."""
    return EnergyReading(**_from(EnergyReading, row, _ENERGY))


def state_from(row: Row) -> MachineState:
    """Return the state of the machine over a record's case."""
    return MachineState(**_from(MachineState, row, (*_STATE, "throttled_s")))


def attribution_from(row: Row) -> KernelAttribution:
    """Return the kernel attribution of a row."""
    return KernelAttribution(
        **_from(KernelAttribution, row, _ATTRIBUTION), kernel_names=texts("kernel_names", row["kernel_names"])
    )


def canary_from(row: Row) -> CanaryReading:
    """Return a canary reading."""
    return CanaryReading(**_from(CanaryReading, row, _CANARY))


def floor_from(row: Row) -> NoiseFloor:
    """Return a noise floor."""
    return NoiseFloor(**_from(NoiseFloor, row, _FLOOR), run_ids=texts("run_ids", row["run_ids"]))


def prediction_from(row: Row) -> PredictionRecord:
    """Return a prediction."""
    try:
        findings = read_findings(row["findings"])
    except ValueError as error:
        raise ValueError(f"findings is {error}") from None
    return PredictionRecord(**_from(PredictionRecord, row, (*_PREDICTION, "terms_s")), findings=findings)


def record_from(row: Row, **parts: Any) -> Record:
    """Return a record from its row and its parts."""
    return Record(**_from(Record, row, _RECORD), **parts)


def telemetry_from(row: Row) -> TelemetrySample:
    """Return a reading."""
    return TelemetrySample(**_from(TelemetrySample, row, _TELEMETRY))


def checked(kind: type[Any], values: Values) -> Values:
    """Return the values of fields of `kind` as they are. Raises `ValueError` naming the first of another type.

    A float field may hold None only where it may be unknown, an object must be an object; ranges are not looked at.
    """
    allowed = _allowed(kind)  # type: ignore[arg-type]
    for name, value in values.items():
        expected, choices = allowed[name]
        if type(value) not in expected:
            raise ValueError(f"{name} is {_named(value)}")
        if choices and value not in choices:
            raise ValueError(f"{name} is {str(value)[:40]!r}, not one of {', '.join(choices)}")
    return values


def texts(name: str, value: Any) -> tuple[str, ...]:
    """Return a stored list of texts as a tuple. Raises `ValueError` for anything else."""
    if type(value) is not list or not all(type(item) is str for item in value):
        raise ValueError(f"{name} is {_named(value)}, not a list of texts")
    return tuple(value)


@cache
def _allowed(kind: type[Any]) -> dict[str, tuple[frozenset[type], tuple[str, ...]]]:
    return {name: _of_hint(hint) for name, hint in get_type_hints(kind).items()}


def _of_hint(hint: Any) -> tuple[frozenset[type], tuple[str, ...]]:
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        hints = [_of_hint(argument) for argument in get_args(hint)]
        return frozenset().union(*(members for members, _ in hints)), ()
    if origin is Literal:
        return frozenset({str}), tuple(get_args(hint))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return frozenset({dict}), ()
    return frozenset({origin or hint}), ()


def _named(value: Any) -> str:
    names = {"NoneType": "missing", "str": "text", "dict": "an object", "list": "a list", "bytes": "bytes"}
    return names.get(type(value).__name__, f"the {type(value).__name__} {str(value)[:40]}")
