"""Output of the readers of foreign files: rows of measurements and their file. Plain frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from results.exchange.exported.export import ExportedRun
from results.records.records import Measurement, PredictionRecord, Record
from roofline_model.chips.hardware import Device
from roofline_model.core.finding import Finding
from roofline_model.models.model_shapes import ModelShape
from roofline_model.operators.case import Case


@dataclass(frozen=True, slots=True)
class Stated:
    """Facts that the user states about a file; None: not stated."""

    hardware: Device | None = None
    """The chip it was measured on. It changes predictions, never a case."""
    model: str | None = None
    formats: str | None = None
    kv_format: str | None = None
    batch_count: int | None = None
    """Sequences in flight."""
    input_count: int | None = None
    """Prompt tokens of each sequence."""
    output_count: int | None = None
    """Generated tokens of each sequence."""
    device_count: int = 1
    """Devices that shared every layer (tensor parallel)."""
    link_bytes_per_s: float | None = None
    """One direction of one device's link; None: the chip's own."""

    @property
    def parallel_word(self) -> str:
        """How many devices shared a layer, as a word of a kernel's name: `tp2`; empty for one."""
        return f"tp{self.device_count}" if self.device_count > 1 else ""

    def identity(self) -> dict[str, Any]:
        """Return the stated facts that identify a record: other facts make another record of the same numbers."""
        facts = {
            "model": self.model,
            "formats": self.formats,
            "kv_format": self.kv_format,
            "batch": self.batch_count,
            "input": self.input_count,
            "output": self.output_count,
            "devices": self.device_count if self.device_count > 1 else None,
        }
        return {name: value for name, value in facts.items() if value is not None}


@dataclass(frozen=True, slots=True)
class PassRun:
    """One kind of pass that a measured call runs, and how often."""

    phase: str
    """decode or prefill."""
    batch_count: int
    context_count: int
    """Tokens of each sequence after the pass; of several decode steps, their middle."""
    new_count: int
    """New tokens of each sequence."""
    times_count: float
    """Passes of this kind in one call."""


@dataclass(frozen=True, slots=True)
class ModelAsk:
    """The question to `predict model` that a measured call answers."""

    shape: ModelShape
    formats: str
    """As `--formats` takes it: WEIGHT or WEIGHT.ACTIVATION."""
    kv_format: str | None
    passes: tuple[PassRun, ...]
    weight_bytes: float | None = None
    """As stored, where the file says: a mixed file's size says more than a format's name."""
    device_count: int = 1
    link_bytes_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class ForeignRow:
    """One measurement of a foreign file."""

    where: str
    """For messages: `benchmarks[3]`, `line 7`."""
    content: Mapping[str, Any]
    """What makes it this measurement and no other: its record id is a hash of it."""
    case: Case
    measurement: Measurement
    settings: Mapping[str, Any] = field(default_factory=dict)
    """How the other program ran it; part of the method."""
    created_at: str = ""
    """ISO 8601; empty where the file has no date."""
    test_id: str = ""
    """What the other program calls it: `llama 8B Q4_K - Medium tg128`."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Whatever else the file says of it; kept with the record."""
    tokens_per_call: int | None = None
    ask: ModelAsk | None = None
    """None: it is no pass of a known model."""
    predictions: tuple[PredictionRecord, ...] = ()
    """Those of a row that names its chip itself."""
    reason: Finding | None = None
    """Why there is no prediction, or no expected one; None where there are both."""


@dataclass(frozen=True, slots=True)
class ForeignFile:
    """One foreign file, read and checked."""

    kind: str
    """pytest-benchmark, llama-bench, vllm-serve, vllm-latency, vllm-throughput, kernel-table."""
    name: str
    rows: tuple[ForeignRow, ...]
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Of machine and software."""
    class_facts: Mapping[str, Any] = field(default_factory=dict)
    """Those that decide whether two files may be compared over time."""
    device_name: str = ""
    """What the program reports of its GPU; empty where it does not."""
    devices: tuple[Device, ...] = ()
    """Chips that its rows were predicted on already."""
    git_commit: str | None = None
    git_branch: str | None = None
    git_is_dirty: bool | None = None


@dataclass(frozen=True, slots=True)
class ReadFile:
    """A file that was read and checked, ready to be stored."""

    runs: tuple[ExportedRun, ...]
    """Of a foreign file one, each measurement once."""
    kind: str = ""
    """Kind of a foreign file; empty for an export of ours."""
    repeated_count: int = 0
    """Rows that stand in a foreign file twice."""
    chip: Device | None = None
    """The chip that its predictions were asked of; None: not known, or each row its own."""

    @property
    def records(self) -> tuple[Record, ...]:
        """The records of all of its runs."""
        return tuple(record for exported in self.runs for record in exported.records)


def printable(text: str) -> str:
    """Return text of another program as a name: what cannot be printed becomes a question mark."""
    return "".join(ch if ch.isprintable() else "?" for ch in text)
