"""The border types of the project: what a run, a case, a measurement and a prediction are once they leave their maker.

All values are frozen and plain; missing is None, never 0. Field names end in their unit. `results/store` keeps
them, `results/exchange` carries them between machines, `reports` reads them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from html import escape
from typing import Annotated, Any, ClassVar, Literal

from results.records.limits import (
    TAGGED,
    Command,
    Count,
    Duration,
    ExitCode,
    Facts,
    Finite,
    Flag,
    Hash,
    Key,
    Line,
    Name,
    NonNegative,
    Number,
    OptionalPastDate,
    PastDate,
    Positive,
    Rate,
    Reason,
    SignedDuration,
    Whole,
)
from results.records.state_records import EnergyReading, KernelAttribution, MachineState
from results.records.stored_forms import StoredCase, StoredFindings
from roofline_model.chips.hardware import Device
from roofline_model.chips.stored_profile import device_from_profile
from roofline_model.core.answer import NOT_IN_JSON
from roofline_model.core.errors import DefinitionError
from roofline_model.core.units import format_time
from roofline_model.ideal.roofline import Prediction, error_ratio
from roofline_model.operators.case import history_key, short_hash

Status = Literal["measured", "predicted", "skipped", "failed"]
STATUSES: tuple[str, ...] = ("measured", "predicted", "skipped", "failed")
"""measured: timed and correct; predicted: only the model was asked (another chip, or --roofline-predict-only);
skipped: this machine cannot run it; failed: wrong result, error, or out of memory. The reason says why."""

RunStatus = Literal["running", "complete", "interrupted"]

FOREIGN_COMMAND = "roofline import "
"""How the command of a run begins that another program measured: it stands for the file that it was read from."""


@dataclass(frozen=True, slots=True)
class EnvironmentInfo:
    """The machine and software a run happened on."""

    facts: Facts
    """Everything captured: hostname, cpu, device, driver, cuda, torch, python, governor, git … (JSON values)."""
    class_facts: Facts
    """The subset that decides comparability over time (device, driver, torch, threads …)."""

    @property
    def environment_hash(self) -> str:
        """Sixteen hex digits over all facts."""
        return short_hash(dict(self.facts))

    @property
    def class_hash(self) -> str:
        """Sixteen hex digits over the facts that decide comparability."""
        return short_hash(dict(self.class_facts))


@dataclass(frozen=True, slots=True)
class HardwareProfile:
    """The chip description that the predictions of a run used, as it was at that time."""

    key: Key
    name: Line
    profile_hash: Hash
    """`Device.content_hash`."""
    profile: Facts
    """`Device.to_dict()`."""

    @property
    def device(self) -> Device | None:
        """The chip that is described; None where the description cannot be read."""
        try:
            return device_from_profile(self.profile)
        except DefinitionError:
            return None


@dataclass(frozen=True, slots=True)
class Method:
    """Sampling method. Results with different method hashes are never compared."""

    timer: Key
    """monotonic, cuda-event, simulated, replay, …"""
    version: Key
    """Version of the measuring method itself."""
    settings: Facts
    """When sampling stops (target interval, budget, counts of samples and looks), shortest sample, cache treatment,
    mode, timer, visits (JSON values).
    """

    @property
    def method_hash(self) -> str:
        """Sixteen hex digits over timer, version and settings."""
        return short_hash([self.timer, self.version, dict(self.settings)])


@dataclass(frozen=True, slots=True)
class RunInfo:
    """One invocation of pytest (or an import of one)."""

    DERIVED = ("machine",)
    """Beside the fields in JSON."""

    run_id: str
    """32 random hex digits; any unambiguous prefix names the run."""
    started_at: PastDate
    """UTC, ISO 8601 with microseconds."""
    label: Line = ""
    """The name it was given; empty without one."""
    finished_at: PastDate | None = None
    """UTC, ISO 8601 with microseconds; null while it is running."""
    status: RunStatus = "running"
    """How it ended; running: not yet."""
    exit_code: ExitCode | None = None
    """Exit code of pytest; null where it has none."""
    hardware_key: Key = ""
    """The chip asked for (--hw); the profile is stored with each prediction."""
    is_forced: Flag = False
    """Measured with --roofline-force-measure on a machine that is not that chip."""
    command: Command = ""
    """Command line it was started with."""
    git_commit: Key | None = None
    """Commit of the code that was measured; null where unknown."""
    git_branch: Line | None = None
    """Branch of that commit; null where unknown."""
    git_is_dirty: Flag | None = None
    """Whether files differed from that commit; null where unknown."""
    plugin_version: Key = ""
    """Version of roofline-bench that measured."""
    environment: EnvironmentInfo = field(default=EnvironmentInfo({}, {}), metadata=NOT_IN_JSON)
    """The machine and software it happened on."""

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} {self.short_name}: {self.status}, {self.hardware_key or 'no chip'}, "
            f"{self.started_at}>"
        )

    def _repr_html_(self) -> str:
        facts = {
            "Run": self.short_name,
            "Started (UTC)": self.started_at[:16].replace("T", " "),
            "Status": self.status,
            "Chip": self.hardware_key or "–",
            "Machine": self.machine or "–",
            "Commit": (self.git_commit or "–")[:9],
        }
        head = "".join(f"<th>{name}</th>" for name in facts)
        row = "".join(f"<td>{escape(text)}</td>" for text in facts.values())
        return f"<table><thead><tr>{head}</tr></thead><tbody><tr>{row}</tr></tbody></table>"

    @property
    def machine(self) -> str:
        """Host, device and CPU, as far as known."""
        facts = self.environment.facts
        return ", ".join(dict.fromkeys(str(facts[name]) for name in ("host", "device", "cpu") if facts.get(name)))

    @property
    def short_name(self) -> str:
        """Its short id and label: `3f2a91c0 nightly`."""
        return f"{self.run_id[:8]} {self.label[:60]}".rstrip()


@dataclass(frozen=True, slots=True)
class ProcessInfo:
    """One process of a run: replicated measurements differ by process, so the unit of comparison is kept."""

    ordinal: Count = 0
    """Ordinal of the process; 0 is the first of the run."""
    pid: Count | None = None
    """Process id on its host."""
    host: Line = ""
    started_at: OptionalPastDate = ""
    """UTC, ISO 8601; empty where unknown."""
    role: Name = "main"
    """main: pytest's own process; worker: a fresh process that measured for it."""
    end_reason: Reason = ""
    """How a worker ended when not by itself: `killed by SIGABRT`, `timeout after 60 s`, `device lost`; empty
    otherwise.
    """


@dataclass(frozen=True, slots=True)
class Measurement:
    """Statistics of the timed samples of one case in one process, and the samples themselves. Times are per call."""

    samples_s: tuple[Number, ...] = field(repr=False)
    """Seconds per call of every sample, in the order taken; empty after `prune`."""
    calls_per_sample: Count
    """Calls timed together as one sample."""
    median_s: Duration
    """Median, seconds."""
    min_s: Duration
    max_s: Duration
    mean_s: Duration
    std_s: Duration | None
    """Standard deviation; None for one sample."""
    q1_s: Duration
    """First quartile."""
    q3_s: Duration
    """Third quartile."""
    sample_count: Count
    """Samples taken, count; stays when `samples_s` is pruned."""
    ci_low_s: Duration | None
    """`interval_within`: lower end of the 95 % interval of the median inside this process."""
    ci_high_s: Duration | None
    """Upper end of it."""
    stop_reason: Key
    """converged, noise-stable, budget, max-samples, replay-end; agreed: several visits do"""
    first_call_s: Duration | None = None
    """The very first call: compilation, autotuning and lazy loading are in here, never in the samples."""
    warmup_calls: Count = 0
    """Calls before the first sample."""
    wall_s: Duration | None = None
    """Wall-clock seconds the case took in all."""
    rotation_count: Count = 1
    """Distinct operand sets that were rotated through."""
    working_set_bytes: NonNegative | None = None
    """Bytes of all rotated operand sets."""
    max_error: NonNegative | None = None
    """Error against the reference where it used most of its tolerance, before or after timing: of one number or of all,
    as a ratio of their magnitude.
    """
    tolerance: NonNegative | None = None
    """Relative error allowed there (ratio): what rounding explains, or what the caller gave."""
    power_w: NonNegative | None = None
    """Mean power while sampling, watts."""
    energy_j: NonNegative | None = None
    """Joules per call; None when no window was long enough to mean something."""
    power_source: Line | None = None
    """Where the power came from."""
    sm_clock_hz: Positive | None = None
    """Median SM clock seen while sampling."""
    temperature_c: Finite | None = None
    """Of the device."""
    flags: tuple[Key, ...] = ()
    """Warnings about the samples: keys of `flags.FLAGS`."""
    clocks_hz: tuple[Number, ...] = field(default=(), repr=False)
    """SM clock of each sample, as many as `samples_s`; empty where no clock is known per sample."""
    effective_sample_count: NonNegative | None = None
    """How many independent samples the series is worth; fewer than `sample_count` when successive ones resemble each
    other.
    """
    outlier_count: Whole | None = None
    """Samples far from the rest; they are kept in every statistic."""
    energy: EnergyReading | None = None
    state: MachineState | None = None
    attribution: KernelAttribution | None = None

    @property
    def ci_half_width_ratio(self) -> float | None:
        """Half the 95 % interval of its own samples over the median: the ± of the table."""
        if self.ci_low_s is None or self.ci_high_s is None or self.median_s <= 0:
            return None
        return (self.ci_high_s - self.ci_low_s) / 2 / self.median_s


@dataclass(frozen=True, slots=True)
class PredictionRecord:
    """One prediction of a case, as stored: its terms, its profile and its error."""

    kind: Literal["ideal", "expected"]
    model_version: Key
    """Changes whenever the same case would get another time."""
    hardware_key: Key
    """The chip that it is predicted for."""
    profile_hash: Key
    """`HardwareProfile.profile_hash` of the numbers used."""
    time_s: Positive
    """Of one call."""
    memory_time_s: NonNegative | None
    compute_time_s: NonNegative | None
    bound: Key
    """memory or compute."""
    flops: NonNegative
    """Work of one call, FLOP; one MAC is 2."""
    read_bytes: NonNegative
    """Compulsory reads of one call."""
    write_bytes: NonNegative
    """Writes of one call."""
    bandwidth_bytes_per_s: Rate | None
    """Bandwidth of the roof, bytes per second."""
    peak_flops_per_s: Rate | None
    """Dense peak of the roof, FLOP per second."""
    compute_format: Key
    """The format whose unit computes."""
    path: Line
    """native, emulated or dequantize."""
    memory_level: Line
    """DRAM, or the cache whose bandwidth was used."""
    provenance: Line
    """Status of the weakest number used."""
    low_s: Positive | None = None
    """Lower end of the 80 % interval, seconds."""
    high_s: Positive | None = None
    """Upper end of the 80 % interval, seconds."""
    findings: StoredFindings = ()
    """What to know about it."""
    terms_s: Annotated[Mapping[Name, SignedDuration], TAGGED] | None = None
    """Terms of an expected time by name, each as if alone (`roofline_model.expected.gap` explains a gap with them)."""
    error_ratio: Finite | None = None
    """(predicted − measured) / measured; None when nothing was measured. Negative: the prediction was too fast."""

    @classmethod
    def from_prediction(cls, prediction: Prediction, profile_hash: str, measured_s: float | None) -> PredictionRecord:
        """Store an ideal prediction beside a measured median (or None)."""
        return cls(
            kind="ideal",
            model_version=prediction.model_version,
            hardware_key=prediction.hardware,
            profile_hash=profile_hash,
            time_s=prediction.time_s,
            memory_time_s=prediction.memory_time_s,
            compute_time_s=prediction.compute_time_s,
            bound=prediction.bound,
            flops=prediction.flops,
            read_bytes=prediction.read_bytes,
            write_bytes=prediction.write_bytes,
            bandwidth_bytes_per_s=prediction.bandwidth_bytes_per_s,
            peak_flops_per_s=prediction.peak_flops_per_s,
            compute_format=prediction.compute_format,
            path=prediction.path,
            memory_level=prediction.memory_level,
            provenance=prediction.provenance,
            findings=prediction.findings,
            error_ratio=error_ratio(prediction.time_s, measured_s),
        )

    def expected(self, time_s: float, measured_s: float | None, **fields: Any) -> PredictionRecord:
        """Return an expected time of the same call, with the counts of this ideal one; `fields`: its other fields."""
        sides = dict.fromkeys(("memory_time_s", "compute_time_s", "bandwidth_bytes_per_s", "peak_flops_per_s"))
        error = error_ratio(time_s, measured_s)
        return replace(self, **{**sides, **fields, "kind": "expected", "time_s": time_s, "error_ratio": error})

    @property
    def total_bytes(self) -> float:
        """Compulsory traffic of the case, bytes."""
        return self.read_bytes + self.write_bytes

    @property
    def intensity_flop_per_byte(self) -> float | None:
        """Arithmetic intensity, or None when nothing is moved."""
        return self.flops / self.total_bytes if self.total_bytes else None

    @property
    def critical_intensity_flop_per_byte(self) -> float | None:
        """Ridge point of the roof this prediction used."""
        if not self.peak_flops_per_s or not self.bandwidth_bytes_per_s:
            return None
        return self.peak_flops_per_s / self.bandwidth_bytes_per_s


@dataclass(frozen=True, slots=True)
class TelemetrySample:
    """One reading of the device's sensors while a case ran; what a chip refuses is None."""

    time_s: SignedDuration
    """Seconds since the case began."""
    power_w: NonNegative | None = None
    sm_clock_hz: NonNegative | None = None
    memory_clock_hz: NonNegative | None = None
    temperature_c: Finite | None = None
    utilization_ratio: NonNegative | None = None
    """Share of the time in which a kernel ran, 0 to 1."""
    memory_used_bytes: NonNegative | None = None
    """Device memory in use."""


SIMULATED_TIMERS = ("simulated", "replay")
"""Timers that run no kernel."""


@dataclass(frozen=True, slots=True)
class Record:
    """Case + measurement + prediction + how: one test item's result. The unit the store commits."""

    record_id: str
    """32 hex digits, unique for ever: importing the same record twice is recognised."""
    run_id: str
    case: StoredCase
    status: Status
    """What became of the case."""
    reason: Reason = ""
    """Why it was skipped or failed; empty otherwise."""
    test_id: Line = ""
    """The pytest node id it came from."""
    created_at: OptionalPastDate = ""
    process: ProcessInfo = ProcessInfo()
    method: Method | None = None
    measurement: Measurement | None = None
    predictions: tuple[PredictionRecord, ...] = ()
    telemetry: tuple[TelemetrySample, ...] = ()
    extra: Facts = field(default_factory=dict)
    """Whatever else a maker wants to keep (JSON values)."""

    JSON_KEYS: ClassVar = {
        "process": "process.ordinal",
        "record_id": "record_id",
        "status": "status",
        "reason": "why",
        "measured_s": "timing.median_s",
        "interval_half_width_ratio": "timing.ci_half_width_ratio",
        "sample_count": "timing.sample_count",
        "power_w": "timing.power_w",
        "energy_j": "timing.energy_j",
        "max_error_ratio": "timing.max_error",
        "tolerance_ratio": "timing.tolerance",
        "flags": "flags",
    }
    """Key of answers in JSON, where it stands for its process → where its value is."""

    def __repr__(self) -> str:
        time = "" if self.measurement is None else f" {format_time(self.measurement.median_s)}"
        return (
            f"<{type(self).__name__} {self.case.case_key[:8]} {self.case.op} {self.case.configuration_label}: "
            f"{self.status}{time}>"
        )

    @property
    def ideal(self) -> PredictionRecord | None:
        """The ideal prediction, if there is one."""
        return next((p for p in self.predictions if p.kind == "ideal"), None)

    @property
    def expected(self) -> PredictionRecord | None:
        """The expected prediction, if there is one."""
        return next((p for p in self.predictions if p.kind == "expected"), None)

    @property
    def timing(self) -> Measurement | None:
        """Its measurement; None where that holds no time that was measured, as a median of zero."""
        measured = self.measurement
        is_timed = self.status == "measured" and measured is not None and 0 < measured.median_s < math.inf
        return measured if is_timed else None

    @property
    def why(self) -> str | None:
        """Why it was skipped or failed."""
        return self.reason or None

    @property
    def flags(self) -> tuple[str, ...]:
        """Warnings about its samples."""
        return () if self.timing is None else self.timing.flags

    @property
    def is_simulated(self) -> bool:
        """Whether its times are of no kernel that ran: a simulated or replayed timer gave them."""
        timer = self.method.timer if self.method is not None else ""
        return self.measurement is not None and (timer in SIMULATED_TIMERS or "simulated" in self.measurement.flags)

    def history_key(self, environment_class: str) -> str:
        """Key of the time series this record belongs to."""
        hardware = self.ideal.hardware_key if self.ideal else ""
        version = self.method.version if self.method else ""
        return history_key(self.case.case_key, hardware, version, environment_class)
