"""Records as rows and back: the only file that knows both shapes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from results.records.plain_form import read_findings
from results.records.records import EnvironmentInfo, Measurement, Method, ProcessInfo
from results.store.schema import StoredField, pack_samples, stored_fields, unpack_samples
from roofline_model.core.finding import Finding, stored_form
from roofline_model.operators.case import Case, short_hash

T = TypeVar("T")
Row = Mapping[Any, Any]
"""A row by column name; SQLAlchemy types its keys more loosely than we use them."""
Values = dict[str, Any]


def row_of(value: object, **others: Any) -> Values:
    """Return a record type as a row, with what else stands in it; parts with tables of their own are left out."""
    columns = stored_fields(type(value)).items()  # type: ignore[arg-type]
    return {**{name: _column_value(field, getattr(value, name)) for name, field in columns}, **others}


def environment_row(environment: EnvironmentInfo) -> Values:
    """Return the row of an environment."""
    hashes = {"environment_hash": environment.environment_hash, "class_hash": environment.class_hash}
    return row_of(environment, **hashes)


def process_row(process: ProcessInfo, run_id: str) -> Values:
    """Return the row of a process of a run. How it ended does not tell it from others: stored hashes depend on it."""
    identity = [process.ordinal, process.pid, process.host, process.started_at]
    return row_of(process, run_id=run_id, process_hash=short_hash(identity))


def case_row(case: Case) -> Values:
    """Return the row of a case. Its content hash keeps the order of dimensions, which the case key leaves out."""
    identity = [case.op, case.shape, case.formats, case.kernel, case.mode, case.cache]
    return {"content_hash": short_hash(identity), "case_key": case.case_key, **case.to_dict()}


def method_row(method: Method) -> Values:
    """Return the row of a method."""
    return row_of(method, method_hash=method.method_hash)


def measurement_row(measurement: Measurement, record_pk: int) -> Values:
    """Return the row of a measurement, its samples packed."""
    clocks = pack_samples(measurement.clocks_hz) if measurement.clocks_hz else None
    return row_of(measurement, record_pk=record_pk, samples=pack_samples(measurement.samples_s), clocks=clocks)


def value_of(kind: type[T], row: Row, **parts: Any) -> T:
    """Return the record type that a row holds, with its parts. Raises `ValueError` naming a column of another type.

    A float field may hold None only where it may be unknown, an object must be an object; ranges are not looked at.
    """
    columns = stored_fields(kind).items()  # type: ignore[arg-type]
    return kind(**{name: _field_value(name, field, row[name]) for name, field in columns}, **parts)


def measurement_of(row: Row, **parts: Any) -> Measurement:
    """Return a measurement with its parts; samples and clocks are empty where the row was read without them."""
    samples, clocks = (unpack_samples(row.get(name) or b"") for name in ("samples", "clocks"))
    return value_of(Measurement, row, samples_s=samples, clocks_hz=clocks, **parts)


def case_of(row: Row) -> Case:
    """Return a case. Raises `ValueError` for what is none."""
    for name in ("shape", "formats"):
        if type(row[name]) is not dict:
            raise ValueError(f"the {name} of a case is not an object")
    return Case.from_dict(row)


def texts(name: str, value: Any) -> tuple[str, ...]:
    """Return a stored list of texts as a tuple. Raises `ValueError` for anything else."""
    if type(value) is not list or not all(type(item) is str for item in value):
        raise ValueError(f"{name} is {_named(value)}, not a list of texts")
    return tuple(value)


def _column_value(field: StoredField, value: Any) -> Any:
    if field.item is Finding:
        return list(map(stored_form, value))
    if field.item is not None:
        return list(value)
    return dict(value) if dict in field.types and value is not None else value


def _field_value(name: str, field: StoredField, value: Any) -> Any:
    if field.item is Finding:
        try:
            return read_findings(value)
        except ValueError as error:
            raise ValueError(f"{name} is {error}") from None
    if field.item is not None:
        return texts(name, value)
    if type(value) not in field.types:
        raise ValueError(f"{name} is {_named(value)}")
    if field.choices and value not in field.choices:
        raise ValueError(f"{name} is {str(value)[:40]!r}, not one of {', '.join(field.choices)}")
    return value


def _named(value: Any) -> str:
    names = {"NoneType": "missing", "str": "text", "dict": "an object", "list": "a list", "bytes": "bytes"}
    return names.get(type(value).__name__, f"the {type(value).__name__} {str(value)[:40]}")
