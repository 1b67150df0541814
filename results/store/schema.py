"""The tables. Portable types only (JSON, LargeBinary), so that SQLite and PostgreSQL share one model.

Column types give back exactly what was stored, past four traps: SQLite turns NaN into NULL; PostgreSQL refuses text
with a NUL character; both refuse lone surrogates (they come from file names in `sys.argv`); sqlite3 stores a numpy
integer as raw bytes.

Missing is NULL, never 0. Names end in their unit. `doc` on each column says what it holds.
Change a table: before the first release in `migrations/versions/0001_baseline.py`; from release 0.1.0 on raise
SCHEMA_VERSION and write `migrations/versions/NNNN_….py` (the revision id is the version as four digits).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from sqlalchemy import (
    JSON,
    BigInteger,
    Dialect,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Text,
    UniqueConstraint,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.types import TypeDecorator

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
_NEVER_REUSED = {"sqlite_autoincrement": True}

# Many small rows per record: kept in the order of their key, without a second tree for row ids.
_CLUSTERED = {"sqlite_with_rowid": False}


class Base(DeclarativeBase):
    """Root of the tables; constraints are named so that batch migrations can find them."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map: ClassVar[dict[Any, Any]] = {
        str: ExactText,
        float: ExactFloat,
        int: ExactInt,
        bytes: LargeBinary,
    }


class EnvironmentRow(Base):
    """Machine and software of one or more runs; equal ones are stored once."""

    __tablename__ = "environment"
    __table_args__ = (UniqueConstraint("environment_hash", "class_hash"), _NEVER_REUSED)

    id: Mapped[int] = mapped_column(RowId, primary_key=True, doc="row id")
    environment_hash: Mapped[str] = mapped_column(doc="hash over all facts")
    class_hash: Mapped[str] = mapped_column(doc="hash over the facts that decide comparability over time")
    facts: Mapped[dict[str, Any]] = mapped_column(JSON, doc="everything captured: cpu, device, driver, torch, git, …")
    class_facts: Mapped[dict[str, Any]] = mapped_column(JSON, doc="the subset behind class_hash")


class HardwareProfileRow(Base):
    """A chip description as predictions used it at that time."""

    __tablename__ = "hardware_profile"

    profile_hash: Mapped[str] = mapped_column(primary_key=True, doc="hash over every number of the chip")
    key: Mapped[str] = mapped_column(doc="registry key, e.g. gb10")
    name: Mapped[str] = mapped_column(doc="name for people")
    profile: Mapped[dict[str, Any]] = mapped_column(
        JSON, doc="Device.to_dict(): every number with unit, source and status"
    )


class RunRow(Base):
    """One invocation of pytest, by one or more processes."""

    __tablename__ = "run"
    __table_args__ = (Index(None, "started_at"), Index(None, "label", "started_at"))

    run_id: Mapped[str] = mapped_column(primary_key=True, doc="32 hex digits, unique for ever")
    started_at: Mapped[str] = mapped_column(doc="UTC, ISO 8601 with microseconds")
    label: Mapped[str] = mapped_column(doc="name given by --roofline-run; may be empty or repeated")
    finished_at: Mapped[str | None] = mapped_column(doc="UTC; NULL while running, and for ever after a kill -9")
    status: Mapped[str] = mapped_column(doc="running, complete or interrupted")
    exit_code: Mapped[int | None] = mapped_column(doc="exit code of pytest")
    hardware_key: Mapped[str] = mapped_column(doc="chip asked for with --roofline-hw")
    is_forced: Mapped[bool] = mapped_column(doc="measured on a machine that is not that chip")
    command: Mapped[str] = mapped_column(doc="command line")
    git_commit: Mapped[str | None] = mapped_column(doc="commit of the tree the kernels came from")
    git_branch: Mapped[str | None] = mapped_column(doc="its branch")
    git_is_dirty: Mapped[bool | None] = mapped_column(doc="whether that tree had uncommitted changes")
    plugin_version: Mapped[str] = mapped_column(doc="version of roofline-bench that measured")
    environment_id: Mapped[int] = mapped_column(RowId, ForeignKey("environment.id"), doc="machine and software")


class ProcessRow(Base):
    """One process of a run: the unit of replication."""

    __tablename__ = "process"
    __table_args__ = (UniqueConstraint("run_id", "process_hash"), _NEVER_REUSED)

    id: Mapped[int] = mapped_column(RowId, primary_key=True, doc="row id")
    run_id: Mapped[str] = mapped_column(ForeignKey("run.run_id", ondelete="CASCADE"), doc="its run")
    process_hash: Mapped[str] = mapped_column(doc="hash over ordinal, pid, host and started_at, no more")
    ordinal: Mapped[int] = mapped_column(doc="0 for the first process of the run")
    pid: Mapped[int | None] = mapped_column(doc="process id on its host")
    host: Mapped[str] = mapped_column(doc="host name")
    started_at: Mapped[str] = mapped_column(doc="UTC, ISO 8601")
    role: Mapped[str] = mapped_column(doc="main: pytest's own; worker: measured for it")
    end_reason: Mapped[str] = mapped_column(doc="how a worker ended when not by itself; else empty")


class CaseRow(Base):
    """What is run; the same case of a thousand runs is stored once."""

    __tablename__ = "case"
    __table_args__ = (Index(None, "case_key"), _NEVER_REUSED)

    id: Mapped[int] = mapped_column(RowId, primary_key=True, doc="row id")
    content_hash: Mapped[str] = mapped_column(unique=True, doc="hash over all fields, order of dimensions included")
    case_key: Mapped[str] = mapped_column(doc="identity of the case on every machine (order does not count)")
    op: Mapped[str] = mapped_column(doc="operator: gemv, gemm, …")
    shape: Mapped[dict[str, Any]] = mapped_column(JSON, doc="dimension letter to size, in canonical order")
    formats: Mapped[dict[str, Any]] = mapped_column(JSON, doc="operand to format key, in canonical order")
    kernel: Mapped[str] = mapped_column(doc="implementation, e.g. tinygemm")
    mode: Mapped[str] = mapped_column(doc="how calls are issued: eager, graph, …")
    cache: Mapped[str] = mapped_column(doc="cold, warm or none")


class MethodRow(Base):
    """How samples were taken; results of different methods are never compared."""

    __tablename__ = "method"
    __table_args__ = _NEVER_REUSED

    id: Mapped[int] = mapped_column(RowId, primary_key=True, doc="row id")
    method_hash: Mapped[str] = mapped_column(unique=True, doc="hash over timer, version and settings")
    timer: Mapped[str] = mapped_column(doc="monotonic, cuda-event, simulated, replay, …")
    version: Mapped[str] = mapped_column(doc="version of the measuring method")
    settings: Mapped[dict[str, Any]] = mapped_column(JSON, doc="target interval, budgets, warm-up, rotation, …")


class RecordRow(Base):
    """One test item's result: the unit of commit."""

    __tablename__ = "record"
    __table_args__ = (Index(None, "run_id", "id"), Index(None, "history_key", "created_at"), _NEVER_REUSED)

    id: Mapped[int] = mapped_column(RowId, primary_key=True, doc="row id; ascending in the order of commits")
    record_id: Mapped[str] = mapped_column(unique=True, doc="32 hex digits; importing a record twice is recognised")
    run_id: Mapped[str] = mapped_column(ForeignKey("run.run_id", ondelete="CASCADE"), doc="its run")
    process_id: Mapped[int] = mapped_column(
        RowId, ForeignKey("process.id", ondelete="CASCADE"), index=True, doc="its process"
    )
    case_id: Mapped[int] = mapped_column(RowId, ForeignKey("case.id"), index=True, doc="what was run")
    method_id: Mapped[int | None] = mapped_column(
        RowId, ForeignKey("method.id"), index=True, doc="how; NULL when nothing was timed"
    )
    history_key: Mapped[str] = mapped_column(doc="time series: case, hardware, method version, environment class")
    status: Mapped[str] = mapped_column(doc="measured, predicted, skipped or failed")
    reason: Mapped[str] = mapped_column(doc="why skipped or failed; empty otherwise")
    test_id: Mapped[str] = mapped_column(doc="pytest node id")
    created_at: Mapped[str] = mapped_column(doc="UTC, ISO 8601")
    extra: Mapped[dict[str, Any]] = mapped_column(JSON, doc="whatever else the maker keeps")


class MeasurementRow(Base):
    """Statistics of the samples of one record, and the samples. Times are seconds per call."""

    __tablename__ = "measurement"

    record_pk: Mapped[int] = mapped_column(
        RowId, ForeignKey("record.id", ondelete="CASCADE"), primary_key=True, autoincrement=False, doc="its record"
    )
    samples: Mapped[bytes] = mapped_column(doc="seconds per call, little-endian float64, in the order taken")
    calls_per_sample: Mapped[int] = mapped_column(doc="calls timed together as one sample")
    median_s: Mapped[float] = mapped_column(doc="median")
    min_s: Mapped[float] = mapped_column(doc="smallest")
    max_s: Mapped[float] = mapped_column(doc="largest")
    mean_s: Mapped[float] = mapped_column(doc="mean")
    std_s: Mapped[float | None] = mapped_column(doc="standard deviation; NULL for one sample")
    q1_s: Mapped[float] = mapped_column(doc="first quartile")
    q3_s: Mapped[float] = mapped_column(doc="third quartile")
    sample_count: Mapped[int] = mapped_column(doc="samples taken; stays when `samples` is pruned")
    ci_low_s: Mapped[float | None] = mapped_column(doc="lower end of the 95 % interval of the median in this process")
    ci_high_s: Mapped[float | None] = mapped_column(doc="upper end")
    stop_reason: Mapped[str] = mapped_column(doc="converged, noise-stable, budget, max-samples, …")
    first_call_s: Mapped[float | None] = mapped_column(doc="the very first call: compilation and autotuning")
    warmup_calls: Mapped[int] = mapped_column(doc="calls before the first sample")
    wall_s: Mapped[float | None] = mapped_column(doc="wall-clock time of the case in all")
    rotation_count: Mapped[int] = mapped_column(doc="distinct operand sets rotated through")
    working_set_bytes: Mapped[float | None] = mapped_column(doc="bytes of all rotated operand sets")
    max_error: Mapped[float | None] = mapped_column(doc="error where it used most of its tolerance (ratio)")
    tolerance: Mapped[float | None] = mapped_column(doc="what was allowed there (ratio)")
    power_w: Mapped[float | None] = mapped_column(doc="mean power while sampling")
    energy_j: Mapped[float | None] = mapped_column(doc="energy per call; NULL when no window was long enough")
    power_source: Mapped[str | None] = mapped_column(doc="where power came from")
    sm_clock_hz: Mapped[float | None] = mapped_column(doc="median SM clock while sampling")
    temperature_c: Mapped[float | None] = mapped_column(doc="device temperature")
    flags: Mapped[list[str]] = mapped_column(JSON, doc="warnings: noisy, drift, bimodal, forced, …")
    clocks: Mapped[bytes | None] = mapped_column(
        doc="SM clock of each sample in Hz, packed like `samples`; NULL: unknown"
    )
    effective_sample_count: Mapped[float | None] = mapped_column(doc="independent samples the series is worth")
    outlier_count: Mapped[int | None] = mapped_column(doc="samples far from the rest; kept in every statistic")


class EnergyRow(Base):
    """Energy of one record's case, from windows that held its kernel alone; no row where none was read."""

    __tablename__ = "energy"

    record_pk: Mapped[int] = mapped_column(
        RowId, ForeignKey("record.id", ondelete="CASCADE"), primary_key=True, autoincrement=False, doc="its record"
    )
    energy_j: Mapped[float] = mapped_column(doc="per call, gross; mean over the windows")
    power_w: Mapped[float] = mapped_column(doc="mean gross power over the windows")
    window_s: Mapped[float] = mapped_column(doc="mean length of one window")
    window_count: Mapped[int] = mapped_column(doc="windows")
    call_count: Mapped[int] = mapped_column(doc="kernel calls in all windows together")
    source: Mapped[str] = mapped_column(doc="nvml-energy-counter, nvml-power-samples, rapl or simulated")
    scope: Mapped[str] = mapped_column(doc="what the sensor covers: gpu, module, cpu-package")
    std_j: Mapped[float | None] = mapped_column(doc="standard deviation of energy_j between windows; NULL with one")
    idle_power_w: Mapped[float | None] = mapped_column(doc="power of the same scope while nothing ran, in this run")
    net_energy_j: Mapped[float | None] = mapped_column(doc="per call, idle power × window time subtracted")
    cross_check_j: Mapped[float | None] = mapped_column(doc="per call by the second source")
    sensor_period_s: Mapped[float | None] = mapped_column(doc="how often the power reading changes")


class MachineStateRow(Base):
    """State of the machine over one record's case; NULL: this machine does not tell. No row where nobody looked."""

    __tablename__ = "machine_state"

    record_pk: Mapped[int] = mapped_column(
        RowId, ForeignKey("record.id", ondelete="CASCADE"), primary_key=True, autoincrement=False, doc="its record"
    )
    throttled_s: Mapped[dict[str, Any] | None] = mapped_column(
        JSON(none_as_null=True), doc="seconds gained per throttle reason; {}: none gained, NULL: unreadable"
    )
    rated_clock_hz: Mapped[float | None] = mapped_column(doc="SM clock the chip should hold")
    retry_count: Mapped[int] = mapped_column(doc="times measured anew because the clock was held down")
    others_ratio: Mapped[float | None] = mapped_column(doc="share of our CPUs' time that other processes used")
    stolen_ratio: Mapped[float | None] = mapped_column(doc="share that the hypervisor gave away")
    device_process_count: Mapped[int | None] = mapped_column(doc="other processes that had work on the GPU")
    cpu_clock_hz: Mapped[float | None] = mapped_column(doc="mean frequency of the CPUs in use, after the case")


class AttributionRow(Base):
    """What ran on the device per call of one record's case, by the tracing interface; no row where nothing traced."""

    __tablename__ = "attribution"

    record_pk: Mapped[int] = mapped_column(
        RowId, ForeignKey("record.id", ondelete="CASCADE"), primary_key=True, autoincrement=False, doc="its record"
    )
    source: Mapped[str] = mapped_column(doc="cupti")
    kernel_count: Mapped[float] = mapped_column(doc="kernels per call")
    busy_s: Mapped[float] = mapped_column(doc="time in which at least one kernel ran")
    latency_s: Mapped[float] = mapped_column(doc="first start to last end")
    kernel_names: Mapped[list[str]] = mapped_column(JSON, doc="names of the kernels")


class PredictionRow(Base):
    """What the model said of one record's case: its terms, its version, its error."""

    __tablename__ = "prediction"
    __table_args__ = _CLUSTERED

    record_pk: Mapped[int] = mapped_column(
        RowId, ForeignKey("record.id", ondelete="CASCADE"), primary_key=True, autoincrement=False, doc="its record"
    )
    ordinal: Mapped[int] = mapped_column(primary_key=True, autoincrement=False, doc="order within the record")
    kind: Mapped[str] = mapped_column(doc="ideal or expected")
    model_version: Mapped[str] = mapped_column(doc="changes whenever the same case would get another time")
    hardware_key: Mapped[str] = mapped_column(doc="chip predicted for")
    # No foreign key: a record is never refused because its maker forgot to store the profile.
    profile_hash: Mapped[str] = mapped_column(doc="hardware_profile.profile_hash of the numbers used")
    time_s: Mapped[float] = mapped_column(doc="predicted time of one call")
    memory_time_s: Mapped[float | None] = mapped_column(doc="memory term")
    compute_time_s: Mapped[float | None] = mapped_column(doc="compute term")
    bound: Mapped[str] = mapped_column(doc="memory or compute")
    flops: Mapped[float] = mapped_column(doc="FLOPs of one call; one MAC is 2")
    read_bytes: Mapped[float] = mapped_column(doc="compulsory reads of one call")
    write_bytes: Mapped[float] = mapped_column(doc="writes of one call")
    bandwidth_bytes_per_s: Mapped[float | None] = mapped_column(doc="bandwidth used")
    peak_flops_per_s: Mapped[float | None] = mapped_column(doc="dense peak used")
    compute_format: Mapped[str] = mapped_column(doc="format whose unit computes")
    path: Mapped[str] = mapped_column(doc="native, emulated or dequantize")
    memory_level: Mapped[str] = mapped_column(doc="DRAM or the cache whose bandwidth was used")
    provenance: Mapped[str] = mapped_column(doc="status of the weakest number used")
    low_s: Mapped[float | None] = mapped_column(doc="lower end of the predicted interval")
    high_s: Mapped[float | None] = mapped_column(doc="upper end")
    findings: Mapped[list[Any]] = mapped_column(JSON, doc="code, subject, values of each")
    terms_s: Mapped[dict[str, float] | None] = mapped_column(
        JSON(none_as_null=True), doc="terms of an expected time by name, each as if alone; null for an ideal one"
    )
    error_ratio: Mapped[float | None] = mapped_column(doc="(predicted − measured) / measured; NULL when not measured")


class TelemetryRow(Base):
    """One reading of the device's sensors while a case ran; what a chip refuses is NULL."""

    __tablename__ = "telemetry"
    __table_args__ = _CLUSTERED

    record_pk: Mapped[int] = mapped_column(
        RowId, ForeignKey("record.id", ondelete="CASCADE"), primary_key=True, autoincrement=False, doc="its record"
    )
    ordinal: Mapped[int] = mapped_column(primary_key=True, autoincrement=False, doc="order of the readings")
    time_s: Mapped[float] = mapped_column(doc="since the case began")
    power_w: Mapped[float | None] = mapped_column(doc="power")
    sm_clock_hz: Mapped[float | None] = mapped_column(doc="SM clock")
    memory_clock_hz: Mapped[float | None] = mapped_column(doc="memory clock")
    temperature_c: Mapped[float | None] = mapped_column(doc="temperature")
    utilization_ratio: Mapped[float | None] = mapped_column(doc="share of time a kernel ran, 0…1")
    memory_used_bytes: Mapped[float | None] = mapped_column(doc="device memory in use")


class CanaryRow(Base):
    """One run of the fixed canary kernel between groups of cases."""

    __tablename__ = "canary"
    __table_args__ = (
        UniqueConstraint("run_id", "process_ordinal", "ordinal", "created_at", "kernel", name="uq_canary_reading"),
        Index(None, "class_hash", "kernel", "is_slow", "created_at"),
        _NEVER_REUSED,
    )

    id: Mapped[int] = mapped_column(RowId, primary_key=True, doc="row id; ascending in the order of commits")
    run_id: Mapped[str] = mapped_column(ForeignKey("run.run_id", ondelete="CASCADE"), doc="its run")
    class_hash: Mapped[str] = mapped_column(doc="environment.class_hash of its run, repeated for the index")
    process_ordinal: Mapped[int] = mapped_column(doc="process.ordinal of the process it ran in")
    ordinal: Mapped[int] = mapped_column(doc="0 for the first of its process")
    created_at: Mapped[str] = mapped_column(doc="UTC, ISO 8601")
    kernel: Mapped[str] = mapped_column(doc="kernel and size; readings of different kernels are never compared")
    time_s: Mapped[float] = mapped_column(doc="fastest of its calls")
    reference_s: Mapped[float | None] = mapped_column(doc="median of earlier healthy readings; NULL: there were none")
    is_slow: Mapped[bool] = mapped_column(doc="slower than its reference allows: the machine is in a slow state")
    power_w: Mapped[float | None] = mapped_column(doc="power while it ran")
    sm_clock_hz: Mapped[float | None] = mapped_column(doc="SM clock while it ran")


class NoiseFloorRow(Base):
    """A machine's own A/A spread of one case; it outlives the runs it was taken from."""

    __tablename__ = "noise_floor"
    __table_args__ = (UniqueConstraint("class_hash", "case_key", "method_hash", "created_at"), _NEVER_REUSED)

    id: Mapped[int] = mapped_column(RowId, primary_key=True, doc="row id; ascending in the order of commits")
    class_hash: Mapped[str] = mapped_column(doc="environment.class_hash of the machine and software")
    case_key: Mapped[str] = mapped_column(doc="case.case_key")
    method_hash: Mapped[str] = mapped_column(doc="method.method_hash")
    between_sd_ratio: Mapped[float] = mapped_column(doc="standard deviation of the log of the process medians")
    within_sd_ratio: Mapped[float | None] = mapped_column(doc="median relative standard deviation inside a process")
    process_count: Mapped[int] = mapped_column(doc="processes it was measured in")
    created_at: Mapped[str] = mapped_column(doc="UTC, ISO 8601; the newest of a case and method counts")
    run_ids: Mapped[list[str]] = mapped_column(JSON, doc="runs it comes from")
