"""The tables. Portable types only (JSON, LargeBinary), so that SQLite and PostgreSQL share one model.

A record type is a table: a column for each of its fields, named like the field, whose meaning stands with the type.
What belongs to it in a number of its own (predictions, telemetry) or not always (energy) is a table of its own.

Column types give back exactly what was stored, past four traps: SQLite turns NaN into NULL; PostgreSQL refuses text
with a NUL character; both refuse lone surrogates (they come from file names in `sys.argv`); sqlite3 stores a numpy
integer as raw bytes.

Missing is NULL, never 0. Names end in their unit.
Change a table: before the first release here alone; from release 0.1.0 on raise SCHEMA_VERSION, too, and write
`migrations/versions/NNNN_….py` (the revision id is the version as four digits), which brings older databases here.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import cache
from types import UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Dialect,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.types import TypeDecorator, TypeEngine

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

ESCAPED_TEXT = "\x1bjson:"
"""Prefix of a text that no database would keep as it is; the rest is its JSON form, which is plain ASCII."""


class ExactText(TypeDecorator[str]):
    """Any Python string. Ordinary text is stored as it is; only what a database would refuse is escaped."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Return the text to store."""
        if value is None or value.isprintable():
            return value
        return ESCAPED_TEXT + json.dumps(value) if _needs_escape(value) else value

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        """Return the text that was given."""
        if value is None or not value.startswith(ESCAPED_TEXT):
            return value
        return str(json.loads(value.removeprefix(ESCAPED_TEXT)))


class ExactFloat(TypeDecorator[float]):
    """A 64-bit float, NaN and the infinities included; NULL means unknown and nothing else."""

    impl = Double
    cache_ok = True

    def bind_processor(self, dialect: Dialect) -> Callable[[float | None], Any]:
        """Return the converter of bound values; SQLite stores NaN as the text 'NaN', since it reads a bound NaN as
        NULL.

        Not `process_bind_param`: Double's own processor would follow it and make a NaN of the text again.
        """
        if dialect.name == "sqlite":
            return _number_or_nan_text
        return lambda value: None if value is None else float(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> float | None:
        """Return the number that was given."""
        return None if value is None else float(value)


class ExactInt(TypeDecorator[int]):
    """A 64-bit integer; numpy's integers become Python's before a driver sees them."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: int | None, dialect: Dialect) -> int | None:
        """Return the number to store."""
        return None if value is None else int(value)


def pack_samples(samples_s: Sequence[float]) -> bytes:
    """Return the samples as little-endian 64-bit floats, eight bytes each: nothing is rounded."""
    return struct.pack(f"<{len(samples_s)}d", *samples_s)


def unpack_samples(blob: bytes) -> tuple[float, ...]:
    """Return the samples that `pack_samples` wrote."""
    return struct.unpack(f"<{len(blob) // 8}d", blob)


def _number_or_nan_text(value: float | None) -> float | str | None:
    if value is None:
        return None
    number = float(value)
    return number if number == number else "NaN"


def _needs_escape(value: str) -> bool:
    if "\x00" in value or value.startswith(ESCAPED_TEXT):
        return True
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


SCHEMA_VERSION = 1

VERSION_TABLE = "alembic_version"

RowId = BigInteger().with_variant(Integer(), "sqlite")
"""SQLite gives out row ids only for a column declared exactly INTEGER."""

# Ids are cached by writers; without AUTOINCREMENT SQLite would hand the id of a deleted row to another one.
_NEVER_REUSED: Any = {"sqlite_autoincrement": True}

# Many small rows per record: kept in the order of their key, without a second tree for row ids.
_CLUSTERED: Any = {"sqlite_with_rowid": False}

METADATA = MetaData(
    # Constraints are named so that batch migrations can find them.
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)

VERSION = Table(
    VERSION_TABLE,
    MetaData(),
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)
"""Alembic's own table; its row is the schema version as four digits."""

_OTHER_ROWS: Mapping[type[Any], frozenset[str]] = {
    RunInfo: frozenset({"environment"}),
    Record: frozenset({"case", "process", "method", "measurement", "predictions", "telemetry"}),
    Measurement: frozenset({"energy", "state", "attribution", "samples_s", "clocks_hz"}),
}
"""Fields of a record type that are rows of other tables, or packed into bytes."""


class StoredField(NamedTuple):
    """How a field of a record type stands in its row."""

    types: frozenset[type[Any]]
    """Of its value, NoneType among them where it may be unknown."""
    choices: tuple[str, ...] = ()
    """Texts that it may be; empty: any."""
    item: type[Any] | None = None
    """Of a list: what it holds."""


@cache
def stored_fields(kind: type[Any]) -> dict[str, StoredField]:
    """Return the fields of a record type that are columns of its table, by name."""
    hints, apart = get_type_hints(kind), _OTHER_ROWS.get(kind, frozenset())
    return {field.name: _stored_field(hints[field.name]) for field in fields(kind) if field.name not in apart}


def _stored_field(hint: Any) -> StoredField:
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return StoredField(frozenset[type[Any]]().union(*(_stored_field(each).types for each in inner)))
    if origin is Literal:
        return StoredField(frozenset({str}), inner)
    if origin is tuple:
        return StoredField(frozenset({list}), item=inner[0])
    return StoredField(frozenset({dict if origin is not None else hint}))


_SQL_TYPES: Mapping[type[Any], type[TypeEngine[Any]]] = {
    str: ExactText,
    float: ExactFloat,
    int: ExactInt,
    bool: Boolean,
    dict: JSON,
    list: JSON,
}


def _columns(kind: type[Any], *apart: str) -> list[Column[Any]]:
    """Return the columns of a record type but those that are given `apart`."""
    columns = []
    for name, field in stored_fields(kind).items():  # type: ignore[arg-type]
        is_optional = type(None) in field.types
        (held,) = field.types - {type(None)}
        sql_type = JSON(none_as_null=True) if held is dict and is_optional else _SQL_TYPES[held]
        columns += [] if name in apart else [Column(name, sql_type, nullable=is_optional)]
    return columns


def _text(name: str, *others: Any, **options: Any) -> Column[str]:
    return Column(name, ExactText, *others, nullable=False, **options)


def _row_id() -> Column[int]:
    """Return the key of a table whose rows ascend in the order of commits."""
    return Column("id", RowId, primary_key=True)


def _of_run() -> Column[str]:
    return _text("run_id", ForeignKey("run.run_id", ondelete="CASCADE"))


def _of_record() -> Column[int]:
    owner = ForeignKey("record.id", ondelete="CASCADE")
    return Column("record_pk", RowId, owner, primary_key=True, autoincrement=False)


def _place() -> Column[int]:
    """Return the column of the order within a record."""
    return Column("ordinal", ExactInt, primary_key=True, autoincrement=False)


ENVIRONMENT = Table(
    "environment",  # equal ones of many runs are stored once
    METADATA,
    _row_id(),
    _text("environment_hash"),
    _text("class_hash"),
    *_columns(EnvironmentInfo),
    UniqueConstraint("environment_hash", "class_hash"),
    **_NEVER_REUSED,
)
PROFILE = Table(
    "hardware_profile",
    METADATA,
    _text("profile_hash", primary_key=True),
    *_columns(HardwareProfile, "profile_hash"),
)
RUN = Table(
    "run",
    METADATA,
    _text("run_id", primary_key=True),
    *_columns(RunInfo, "run_id"),
    Column("environment_id", RowId, ForeignKey("environment.id"), nullable=False),
    Index(None, "started_at"),
    Index(None, "label", "started_at"),
)
PROCESS = Table(
    "process",
    METADATA,
    _row_id(),
    _of_run(),
    _text("process_hash"),  # over ordinal, pid, host and started_at, no more
    *_columns(ProcessInfo),
    UniqueConstraint("run_id", "process_hash"),
    **_NEVER_REUSED,
)
CASE = Table(
    "case",  # the same case of a thousand runs is stored once
    METADATA,
    _row_id(),
    _text("content_hash", unique=True),  # over all fields, the order of dimensions included
    _text("case_key"),  # order does not count
    _text("op"),
    Column("shape", JSON, nullable=False),  # dimension letter to size, in canonical order
    Column("formats", JSON, nullable=False),  # operand to format key, in canonical order
    _text("kernel"),
    _text("mode"),
    _text("cache"),
    Index(None, "case_key"),
    **_NEVER_REUSED,
)
METHOD = Table(
    "method",
    METADATA,
    _row_id(),
    _text("method_hash", unique=True),
    *_columns(Method),
    **_NEVER_REUSED,
)
RECORD = Table(
    "record",  # the unit of commit
    METADATA,
    _row_id(),
    _text("record_id", unique=True),
    _of_run(),
    Column("process_id", RowId, ForeignKey("process.id", ondelete="CASCADE"), index=True, nullable=False),
    Column("case_id", RowId, ForeignKey("case.id"), index=True, nullable=False),
    Column("method_id", RowId, ForeignKey("method.id"), index=True),  # NULL when nothing was timed
    _text("history_key"),
    *_columns(Record, "record_id", "run_id"),
    Index(None, "run_id", "id"),
    Index(None, "history_key", "created_at"),
    **_NEVER_REUSED,
)
MEASUREMENT = Table(
    "measurement",
    METADATA,
    _of_record(),
    Column("samples", LargeBinary, nullable=False),  # seconds per call, little-endian float64, in the order taken
    Column("clocks", LargeBinary),  # SM clock of each sample in Hz, packed alike; NULL: unknown
    *_columns(Measurement),
)
# No foreign key to the profile: a record is never refused because its maker forgot to store it.
PREDICTION = Table("prediction", METADATA, _of_record(), _place(), *_columns(PredictionRecord), **_CLUSTERED)
TELEMETRY = Table("telemetry", METADATA, _of_record(), _place(), *_columns(TelemetrySample), **_CLUSTERED)
# No row where nothing was read.
ENERGY = Table("energy", METADATA, _of_record(), *_columns(EnergyReading))
STATE = Table("machine_state", METADATA, _of_record(), *_columns(MachineState))
ATTRIBUTION = Table("attribution", METADATA, _of_record(), *_columns(KernelAttribution))
CANARY = Table(
    "canary",
    METADATA,
    _row_id(),
    _of_run(),
    _text("class_hash"),  # of its run, repeated for the index
    *_columns(CanaryReading),
    UniqueConstraint("run_id", "process_ordinal", "ordinal", "created_at", "kernel", name="uq_canary_reading"),
    Index(None, "class_hash", "kernel", "is_slow", "created_at"),
    **_NEVER_REUSED,
)
NOISE_FLOOR = Table(
    "noise_floor",  # it outlives the runs it was taken from
    METADATA,
    _row_id(),
    *_columns(NoiseFloor),
    UniqueConstraint("class_hash", "case_key", "method_hash", "created_at"),
    **_NEVER_REUSED,
)
