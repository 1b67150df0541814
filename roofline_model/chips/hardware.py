"""The chip registry: one TOML file per chip, every number with unit, source, status and clock.

A `Device` answers three questions: how fast memory is, how fast each number format computes and by which *path* (native
unit, emulated on another unit, or dequantised to 16 bit first), and whether a machine at hand is this chip.
`devices/*.toml` hold the numbers. What a calibration on a busy machine leaves open of its times are findings
(`doubts_of`).

A file that was read and checked here (`check_device`: slips of unit, order and sense that a parser cannot see) can be
trusted by everything else. Its layout (schema 1)::

    schema = 1
    key = "gb10"                       # lower case, letters digits dots dashes
    name = "NVIDIA GB10 (DGX Spark)"
    kind = "gpu"                       # gpu | cpu | custom
    vendor = "nvidia"
    architecture = "Blackwell sm_121"
    aliases = ["dgx-spark"]
    placeholder = false                # true: invented numbers, for examples
    notes = ["…"]

    [match]                            # how `auto` recognises it
    device_names = ["NVIDIA GB10"]     # regular expressions
    compute_capability = "12.1"
    sm_count = 48
    memory_gb = [100, 140]

    [memory]                           # a quantity = {value, unit, status, source, clock_mhz?, note?}
    bandwidth = {value = 273.06, unit = "GB/s", status = "measured", source = "…"}
    bandwidth_achieved = {…}
    capacity = {…}
    system = {…}                       # of a memory shared with the CPU: what the system takes

    [[level]]                          # caches, innermost first
    name = "L2"
    capacity = {value = 24, unit = "MiB", …}
    bandwidth = {…}                    # optional

    [chip]                             # counts and limits: sm_count, clock, tdp, shared_memory_per_sm, …
    sm_count = {value = 48, unit = "", …}
    clock_max = {…}                    # the highest clock of the chip, and bandwidth_max of a memory whose clock its
    bandwidth_max = {…}                # owner can raise: they decide which times are impossible, and predict nothing
    link = {…}                         # one direction of one device's link to others of its kind: NVLink, …
    headline = {…}                     # the rate the vendor advertises, with its meaning in `note`; predicts nothing

    [[peak]]                           # native compute rates
    formats = ["BF16", "FP16"]
    dense = {value = 118.8, unit = "TFLOP/s", clock_mhz = 2418, …}
    sparse = {…}                       # optional
    achieved = {…}                     # optional
    fp16_accumulate = {…}              # optional: where sums in FP16 are faster than those in FP32

    [[path]]                           # formats without a unit of their own
    formats = ["NF4"]
    kind = "dequantize"                # or "emulated"
    compute = "BF16"
    reason = "no unit: codes are looked up and multiplied in 16 bit"

    [calibration]                      # what one machine measured: written by `roofline calibrate -o FILE`
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, get_args

from roofline_model.chips.machine_constants import Calibration
from roofline_model.core.definition_text import parse_definition, read_definition_text, shown
from roofline_model.core.errors import (
    DefinitionError,
    InvalidValueError,
    OtherVersionError,
    UnknownNameError,
    UnsupportedError,
)
from roofline_model.core.finding import Finding, finding, subject_text, unsupported
from roofline_model.core.typed_fields import read_as
from roofline_model.core.units import format_bandwidth, format_quantity
from roofline_model.formats.catalog import FORMATS, get_format

Status = Literal[
    "datasheet", "measured", "derived", "secondary", "unconfirmed", "placeholder", "declared", "measured-here"
]
STATUSES: tuple[str, ...] = get_args(Status)
"""datasheet: vendor document or source; measured: by someone on the device; derived: arithmetic from such numbers;
secondary: a page that repeats it; unconfirmed: do not rely on it; placeholder: invented for examples;
declared: a user's own description; measured-here: this machine, by our own micro-kernels."""

PathKind = Literal["native", "emulated", "dequantize"]


@dataclass(frozen=True, slots=True)
class Quantity:
    """One number of a chip in SI base units, and where it comes from."""

    value: float
    """In `unit`."""
    unit: str
    """SI unit of `value`: B/s, FLOP/s, B, Hz, W or "" for a count."""
    status: Status
    """One of `STATUSES`."""
    source: str
    """Document or measurement."""
    clock_hz: float | None = None
    """The clock in Hz that a compute rate belongs to; a peak without a clock means nothing."""
    note: str = ""
    """Remark, may be empty."""


@dataclass(frozen=True, slots=True)
class ComputePath:
    """How a chip computes with operands of one format."""

    format: str
    """Format key."""
    kind: PathKind
    """native, emulated or dequantize."""
    compute_format: str
    """The format whose unit does the arithmetic; equals `format` when native."""
    dense: Quantity
    """Dense peak of that unit. 2:4-sparse is apart and never the default."""
    sparse: Quantity | None = None
    """2:4-sparse peak where published; never used."""
    achieved: Quantity | None = None
    """Best matrix product measured by someone, where published."""
    reason: str = ""
    """Why it is not native; empty where it is."""
    fp16_accumulate: Quantity | None = None
    """Dense peak of products summed in FP16, where it differs from `dense`, whose sums are FP32 (integers: INT32)."""

    @property
    def accumulate_factor(self) -> float:
        """How many times as long the unit takes to sum in FP32 as in FP16: 1 at full rate, 2 on GeForce parts."""
        return 1.0 if self.fp16_accumulate is None else self.fp16_accumulate.value / self.dense.value


@dataclass(frozen=True, slots=True)
class MemoryLevel:
    """A cache (or other memory) between the compute units and DRAM."""

    name: str
    """Name of the level: L2, LLC, …"""
    capacity_bytes: float
    """Size, bytes."""
    bandwidth: Quantity | None = None
    """Of reading it; None where not known."""


@dataclass(frozen=True, slots=True)
class MatchRule:
    """How to recognise the chip on a machine."""

    device_names: tuple[str, ...] = ()
    """Regular expressions searched, ignoring case, in the name that the driver reports."""
    compute_capability: str | None = None
    """`9.0`; None where any matches."""
    sm_count: int | None = None
    """Streaming multiprocessors, a count; None where any number matches."""
    memory_gb: tuple[float, float] | None = None
    """Smallest and largest size of the whole memory in decimal GB; tells the variants of one name apart."""

    @property
    def capability(self) -> tuple[int, int] | None:
        """The CUDA compute capability as (major, minor); None where none is stated or it is not two whole numbers."""
        major, _, minor = (self.compute_capability or "").partition(".")
        return (int(major), int(minor or 0)) if major.isdecimal() and (minor or "0").isdecimal() else None


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """What a machine reports about its device; the input of `match_device`."""

    name: str
    compute_capability: str | None = None
    sm_count: int | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Device:
    """A chip as the model sees it. Immutable; all numbers SI."""

    key: str
    """Key of the chip."""
    name: str
    """Product name of the chip."""
    kind: Literal["gpu", "cpu", "custom"]
    bandwidth: Quantity
    paths: Mapping[str, ComputePath]
    vendor: str = ""
    architecture: str = ""
    aliases: tuple[str, ...] = ()
    is_placeholder: bool = False
    """Whether its numbers are invented, for examples only."""
    bandwidth_achieved: Quantity | None = None
    capacity: Quantity | None = None
    system_memory: Quantity | None = None
    """Part of the capacity that the system takes where CPU and GPU share it; None: the GPU's own memory."""
    levels: tuple[MemoryLevel, ...] = ()
    """Caches, innermost first; the last one is the level that "cold" has to defeat."""
    chip: Mapping[str, Quantity] = field(default_factory=dict)
    """Everything else that is a number: sm_count, clock, tdp, shared memory, registers, exp rate, …"""
    match: MatchRule = MatchRule()
    notes: tuple[str, ...] = ()
    calibration: Calibration | None = None
    """What a machine with this chip measured about itself (`roofline calibrate`); None for a chip of the registry."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.key}: {self.name}, {format_bandwidth(self.bandwidth.value)}>"

    def path(self, format_name: str) -> ComputePath:
        """Return how this chip computes with `format_name`; raises `UnsupportedError` when it cannot.

        A format narrower than 16 bits that a custom chip does not declare is dequantised to its declared 16-bit format.
        """
        fmt = get_format(format_name)
        path = self.paths.get(fmt.key)
        if path is not None:
            return path
        for wide in ("BF16", "FP16"):
            if fmt.nominal_bits < 16 and wide in self.paths and self.paths[wide].kind == "native":
                return ComputePath(fmt.key, "dequantize", wide, self.paths[wide].dense)
        raise UnsupportedError(
            f"{self.key} has no rate for {fmt.key}. Declared: {', '.join(sorted(self.paths)) or 'none'}. "
            f'Add a [[peak]] with formats = ["{fmt.key}"] to its file, or choose a declared format.'
        )

    def peak_flops_per_s(self, format_name: str) -> float:
        """Return the dense peak of the path that `format_name` takes on this chip."""
        return self.path(format_name).dense.value

    def critical_intensity(self, format_name: str) -> float:
        """Return the ridge point in FLOP/byte: dense peak over DRAM bandwidth."""
        return self.peak_flops_per_s(format_name) / self.bandwidth.value

    def declares(self, format_name: str) -> bool:
        """Return whether the chip's own description names the format (natively or by a stated path)."""
        return get_format(format_name).key in self.paths

    @property
    def last_level_cache(self) -> MemoryLevel | None:
        """The cache in front of DRAM, where known."""
        return self.levels[-1] if self.levels else None

    @property
    def link_bytes_per_s(self) -> float | None:
        """One direction of a device's link to others of its kind, over the chip's own fabric; None without one."""
        quantity = self.chip.get("link")
        return None if quantity is None else quantity.value

    @property
    def sustained_clock_hz(self) -> float | None:
        """The SM clock that the chip holds under load and its peaks belong to; None where not known."""
        quantity = self.chip.get("clock")
        return None if quantity is None else quantity.value

    def count(self, name: str) -> int | None:
        """Return a counted property of the chip such as `sm_count`, or None where unknown."""
        quantity = self.chip.get(name)
        return None if quantity is None else int(quantity.value)

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as plain JSON-able values (what the store keeps beside a run)."""
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__}
        plain["paths"] = {key: _plain_path(path) for key, path in sorted(self.paths.items())}
        plain["chip"] = {key: asdict(quantity) for key, quantity in sorted(self.chip.items())}
        plain["levels"] = [asdict(level) for level in self.levels]
        for name in ("bandwidth", "bandwidth_achieved", "capacity", "match", "system_memory"):
            value = plain[name]
            plain[name] = None if value is None else asdict(value)
        if self.system_memory is None:
            del plain["system_memory"]
        del plain["calibration"]
        if self.calibration is not None:
            plain["calibration"] = self.calibration.to_dict()
        return json.loads(json.dumps(plain))  # type: ignore[no-any-return]

    @property
    def content_hash(self) -> str:
        """Sixteen hex digits over every number of a kernel's time: two profiles with the same hash predict the same."""
        of_times = {name: value for name, value in self.to_dict().items() if name != "system_memory"}
        of_times["chip"].pop("link", None)
        canonical = json.dumps(of_times, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]

    # The names of the original documents, read-only.
    @property
    def peak_bandwidth_gb_s(self) -> float:
        """DRAM bandwidth in GB/s (seeds' name)."""
        return self.bandwidth.value / 1e9

    @property
    def flops_by_precision(self) -> dict[str, float]:
        """Dense TFLOPS by format for native paths (seeds' name)."""
        return {key: path.dense.value / 1e12 for key, path in self.paths.items() if path.kind == "native"}


@cache
def _built_in(key: str) -> Device | None:
    """Read one chip of the registry; None when there is no such file. One file costs milliseconds, all of them more."""

    # The name may come from a command line: only what can be a key reaches the file system.
    if not re.fullmatch(r"[a-z0-9][a-z0-9.-]{0,60}", key):
        return None
    entry = resources.files("roofline_model.chips").joinpath("devices", f"{key}.toml")
    if not entry.is_file():
        return None
    return read_device_text(entry.read_text(encoding="utf-8"), f"devices/{key}.toml")


@cache
def _registry() -> Mapping[str, Device]:
    """Read every chip. The name of a file is the key of its chip (tested)."""
    folder = resources.files("roofline_model.chips").joinpath("devices")
    keys = sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))
    return MappingProxyType({key: device for key in keys if (device := _built_in(key)) is not None})


def list_hardware() -> list[Device]:
    """Return every chip of the registry, sorted by key."""
    return list(_registry().values())


def get_hardware(name: str | Device | Path) -> Device:
    """Return the chip called `name`: a key, an alias, or the path of a TOML file (custom chip).

    Capitals, dashes, underscores and blanks in a name do not count: `RTX 4090`, `rtx4090`, `rtx-4090`. A `Device` is
    returned unchanged. Raises `UnknownNameError` with the nearest names, or `DefinitionError` for a bad file.

    >>> get_hardware("RTX 4090").bandwidth.value  # bytes/s
    1008000000000.0
    """
    if isinstance(name, Device):
        return name
    text = str(name).strip()
    if isinstance(name, Path) or text.endswith(".toml") or "/" in text:
        return read_device_file(Path(text))
    if (built_in := _built_in(text.lower().replace("_", "-"))) is not None:
        return built_in
    wanted = _squeezed(text)
    for device in _registry().values():
        if wanted in map(_squeezed, (device.key, *device.aliases)):
            return device
    raise UnknownNameError(
        "hardware",
        text,
        _registry(),
        aliases=(alias for device in _registry().values() for alias in device.aliases),
        fix="`roofline hardware list` shows them; a path to a TOML file describes your own chip; auto = this machine.",
    )


def _squeezed(name: str) -> str:
    """Return a chip's name without dashes, underscores, blanks and capitals: `RTX 4090` and `rtx4090` are
    `rtx-4090`.
    """
    return re.sub(r"[-_\s]", "", name.lower())


def match_device(facts: DeviceFacts, candidates: Iterable[Device] | None = None) -> tuple[Device | None, Finding]:
    """Return the registry chip that a machine's device is, and why (or why none).

    Among chips that match, the one with the most agreeing facts wins; a tie is no match, and the reason names both.
    """
    scored: list[tuple[int, Device]] = []
    for device in candidates if candidates is not None else _registry().values():
        score = _match_score(device.match, facts)
        if score:
            scored.append((score, device))
    if not scored:
        return None, finding(
            "chip-not-found",
            kind="none",
            device_name=facts.name,
            capability=facts.compute_capability or "unknown",
            **_relative(facts.name),
        )
    best = max(score for score, _ in scored)
    winners = [device for score, device in scored if score == best]
    if len(winners) > 1:
        return None, finding(
            "chip-not-found", kind="several", device_name=facts.name, chips=tuple(device.key for device in winners)
        )
    return winners[0], finding(
        "chip-matched", device_name=facts.name, hardware=winners[0].key, capability=facts.compute_capability
    )


def _relative(name: str) -> dict[str, str]:
    """Return why a relative of a chip is not that chip (`relatives.toml`), as values of a finding; empty for others."""
    text = resources.files("roofline_model.chips").joinpath("relatives.toml").read_text(encoding="utf-8")
    for relative in tomllib.loads(text)["relative"]:
        if re.search(relative["name"], name, re.IGNORECASE):
            chip = relative.get("chip")
            return {"hardware": chip, "difference": relative["why"]} if chip else {"relative": relative["why"]}
    return {}


def _match_score(rule: MatchRule, facts: DeviceFacts) -> int:
    """Count agreeing facts; 0 when the name does not match or any known fact disagrees."""
    if not any(re.search(pattern, facts.name, re.IGNORECASE) for pattern in rule.device_names):
        return 0
    score = 1
    for wanted, reported in ((rule.compute_capability, facts.compute_capability), (rule.sm_count, facts.sm_count)):
        if wanted is not None and reported is not None:
            if wanted != reported:
                return 0
            score += 1
    if rule.memory_gb is not None and facts.memory_bytes is not None:
        if not rule.memory_gb[0] <= facts.memory_bytes / 1e9 <= rule.memory_gb[1]:
            return 0
        score += 1
    return score


def create_custom_asic(
    name: str, bandwidth_gb_s: float, flops_by_precision: Mapping[str, float], *, memory_gb: float | None = None
) -> Device:
    """Describe an arbitrary chip by its DRAM bandwidth (GB/s) and dense rates (TFLOPS by format key).

    Raises `InvalidValueError` for a rate or bandwidth that is not a positive number, `UnknownNameError` for a format.
    """

    source = "create_custom_asic"
    if not flops_by_precision:
        raise InvalidValueError(f"{name}: flops_by_precision is empty; give at least one rate, e.g. {{'FP16': 50.0}}")
    paths: dict[str, ComputePath] = {}
    for format_name, tflops in flops_by_precision.items():
        key = get_format(format_name).key
        if key in paths:
            raise InvalidValueError(f"{name}: {key} is given twice ({format_name} is a name for it); keep one rate")
        dense = Quantity(_positive(f"{name}: rate of {format_name}", tflops) * 1e12, "FLOP/s", "declared", source)
        paths[key] = ComputePath(key, "native", key, dense)
    slug = re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-") or "custom"
    device = Device(
        key=slug,
        name=name,
        kind="custom",
        bandwidth=Quantity(_positive(f"{name}: bandwidth_gb_s", bandwidth_gb_s) * 1e9, "B/s", "declared", source),
        paths=paths,
        capacity=None
        if memory_gb is None
        else Quantity(_positive(f"{name}: memory_gb", memory_gb) * 1e9, "B", "declared", source),
    )
    problems = errors_of(check_device(device))
    if problems:
        raise InvalidValueError(f"{name}: {subject_text(problems[0])}")
    return device


def _positive(what: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e30:
        raise InvalidValueError(
            f"{what} must be a positive number, got {value if isinstance(value, float) else repr(value)[:40]}"
        )
    return float(value)


def __getattr__(name: str) -> Device:
    """Give the seeds' constant `BLACKWELL_B10` without reading the registry at import."""
    if name == "BLACKWELL_B10":
        return get_hardware("b10")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


_UNITS: dict[str, tuple[float, str]] = {
    "B/s": (1, "B/s"),
    "MB/s": (1e6, "B/s"),
    "GB/s": (1e9, "B/s"),
    "TB/s": (1e12, "B/s"),
    "FLOP/s": (1, "FLOP/s"),
    "GFLOP/s": (1e9, "FLOP/s"),
    "TFLOP/s": (1e12, "FLOP/s"),
    "PFLOP/s": (1e15, "FLOP/s"),
    "OP/s": (1, "FLOP/s"),
    "GOP/s": (1e9, "FLOP/s"),
    "TOP/s": (1e12, "FLOP/s"),
    "POP/s": (1e15, "FLOP/s"),
    # as vendors write them
    "GFLOPS": (1e9, "FLOP/s"),
    "TFLOPS": (1e12, "FLOP/s"),
    "PFLOPS": (1e15, "FLOP/s"),
    "GOPS": (1e9, "FLOP/s"),
    "TOPS": (1e12, "FLOP/s"),
    "POPS": (1e15, "FLOP/s"),
    "B": (1, "B"),
    "kB": (1e3, "B"),
    "MB": (1e6, "B"),
    "GB": (1e9, "B"),
    "TB": (1e12, "B"),
    "KiB": (1024, "B"),
    "MiB": (1024**2, "B"),
    "GiB": (1024**3, "B"),
    "Hz": (1, "Hz"),
    "MHz": (1e6, "Hz"),
    "GHz": (1e9, "Hz"),
    "W": (1, "W"),
    "": (1, ""),
}

TO_FILL_IN = "MISSING"
"""Stands in a new chip file where its writer has to put something."""
_LONGEST_NAME = 200
"""Longer ones are a slip, and every table would have to show them."""
_PLACES = {
    **dict.fromkeys(("bandwidth", "bandwidth_achieved", "capacity"), "[memory]"),
    **dict.fromkeys(("formats", "dense"), "[[peak]]"),
}
"""Field → the table that it is most often meant for, where it stands in another."""
_CHIP_UNITS: dict[str, str] = {
    "sm_count": "", "core_count": "", "tensor_cores": "", "registers_per_sm": "", "warps_per_sm": "", "blocks_per_sm": "",
    "exp_per_clock_per_sm": "", "clock": "Hz", "clock_max": "Hz", "memory_clock": "Hz", "bandwidth_max": "B/s", "tdp": "W",
    "shared_memory_per_sm": "B", "shared_memory_per_block": "B", "shared_memory_reserved_per_block": "B",
    "registers_per_thread": "", "interconnect": "B/s", "link": "B/s", "headline": "FLOP/s",
}  # fmt: skip


def read_device_file(path: Path) -> Device:
    """Read a custom chip from a TOML file; raises `DefinitionError` naming file, field and fix."""
    text = read_definition_text(path, "chip file", fix="`roofline hardware new NAME` writes one to fill in")
    return read_device_text(text, str(path))


def read_device_text(text: str, where: str) -> Device:
    """Parse and check the text of a chip file; `where` names it in errors."""
    try:
        data = parse_definition(text)
    except ValueError as error:  # TOMLDecodeError, too deep, or the digit limit of int()
        raise DefinitionError(f"{where}: not valid TOML: {error}") from None
    device = _device(where, data)
    errors = errors_of(check_device(device))
    if errors:
        raise DefinitionError(f"{where}: {subject_text(errors[0])}")
    return device


@dataclass(frozen=True, slots=True)
class _Number:
    """A quantity as a file has it, in its writer's unit."""

    value: float
    unit: str
    status: Status
    source: str
    clock_mhz: float | None = None
    note: str = ""

    def __post_init__(self) -> None:
        if not 0 < self.value < 1e30:
            raise InvalidValueError(f"value must be positive and finite, got {shown(self.value)}")
        if not self.source.strip():
            raise InvalidValueError("source must say where the number comes from")
        if self.clock_mhz is not None and not 0 < self.clock_mhz < 1e6:
            raise InvalidValueError(f"clock_mhz must be a positive number of MHz, got {shown(self.clock_mhz)}")


@dataclass(frozen=True, slots=True)
class _Memory:
    bandwidth: _Number
    bandwidth_achieved: _Number | None = None
    capacity: _Number | None = None
    system: _Number | None = None


@dataclass(frozen=True, slots=True)
class _Level:
    name: str
    capacity: _Number
    bandwidth: _Number | None = None


@dataclass(frozen=True, slots=True)
class _Peak:
    formats: tuple[str, ...]
    dense: _Number
    sparse: _Number | None = None
    achieved: _Number | None = None
    fp16_accumulate: _Number | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class _Path:
    formats: tuple[str, ...]
    kind: Literal["emulated", "dequantize"]
    compute: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class _ChipFile:
    """A chip file's fields."""

    schema: int
    key: str
    name: str
    kind: Literal["gpu", "cpu", "custom"]
    memory: _Memory
    peak: tuple[_Peak, ...]
    vendor: str = ""
    architecture: str = ""
    aliases: tuple[str, ...] = ()
    placeholder: bool = False
    notes: tuple[str, ...] = ()
    match: MatchRule = MatchRule()
    level: tuple[_Level, ...] = ()
    chip: Mapping[str, _Number] = field(default_factory=dict)
    path: tuple[_Path, ...] = ()
    calibration: Any = None

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z0-9][a-z0-9.-]*", self.key):
            raise InvalidValueError(f"key must be lower-case letters, digits, dots and dashes, got {shown(self.key)}")
        if not self.name.strip() or len(self.name) > _LONGEST_NAME:
            raise InvalidValueError(f"name must be text of {_LONGEST_NAME} characters at most, got {len(self.name):,}")
        if not self.peak:
            raise InvalidValueError("no [[peak]]: give at least one native compute rate")
        for name in self.chip:
            if name not in _CHIP_UNITS:
                names = ", ".join(sorted(_CHIP_UNITS))
                raise InvalidValueError(f"[chip] has an unknown field {shown(name)}{_place_of(name)}. Known: {names}.")


def _place_of(name: str) -> str:
    return f" (it stands in {_PLACES[name]})" if name in _PLACES else ""


def _device(where: str, data: dict[str, Any]) -> Device:
    if missing := list(_missing(data)):
        raise DefinitionError(f"{where}: still {TO_FILL_IN}: {', '.join(missing)}; write what the data sheet says")
    if data.get("schema") != 1:
        raise DefinitionError(
            f"{where}: schema must be 1, got {shown(data.get('schema'))} (a newer file needs a newer roofline-bench)"
        )
    try:
        file = read_as(_ChipFile, data, f"{where}: ")
    except OtherVersionError as error:
        odd = next((name for name in data if name in _PLACES), "")
        raise DefinitionError(f"{error}{_place_of(odd)}") from None
    memory, paths = file.memory, _native_paths(file.peak, where)
    paths |= _other_paths(file.path, paths, where)
    chip = {name: _quantity(each, _CHIP_UNITS[name], f"{where}: [chip] {name}") for name, each in file.chip.items()}
    levels = [
        MemoryLevel(
            level.name,
            _quantity(level.capacity, "B", f"{where}: [[level]] {level.name} capacity").value,
            _optional(level.bandwidth, "B/s", f"{where}: [[level]] {level.name} bandwidth"),
        )
        for level in file.level
    ]
    device = Device(
        key=file.key,
        name=file.name,
        kind=file.kind,
        vendor=file.vendor,
        architecture=file.architecture,
        aliases=tuple(alias.lower() for alias in file.aliases),
        is_placeholder=file.placeholder,
        notes=file.notes,
        bandwidth=_quantity(memory.bandwidth, "B/s", f"{where}: [memory] bandwidth"),
        bandwidth_achieved=_optional(memory.bandwidth_achieved, "B/s", f"{where}: [memory] bandwidth_achieved"),
        capacity=_optional(memory.capacity, "B", f"{where}: [memory] capacity"),
        system_memory=_optional(memory.system, "B", f"{where}: [memory] system"),
        levels=tuple(levels),
        chip=chip,
        paths=paths,
        match=_checked_match(file.match, where),
        calibration=None if file.calibration is None else Calibration.from_dict(file.calibration, where),
    )
    for name, rated in (("clock_max", chip.get("clock")), ("bandwidth_max", device.bandwidth)):
        most = chip.get(name)
        if most is not None and rated is not None and most.value < rated.value:
            raise DefinitionError(
                f"{where}: [chip] {name} is {format_quantity(most.value, most.unit)}, below the rated "
                f"{format_quantity(rated.value, rated.unit)}: give the highest that the chip can be set to, or "
                "leave it out"
            )
    return device


def _quantity(number: _Number, unit: str, where: str) -> Quantity:
    scale, si_unit = _UNITS.get(number.unit, (0.0, "?"))
    if si_unit != unit:
        units = ", ".join(name or '""' for name, (_, si) in _UNITS.items() if si == unit)
        raise DefinitionError(f"{where}: unit {shown(number.unit)} does not fit; use one of {units}")
    clock_hz = None if number.clock_mhz is None else number.clock_mhz * 1e6
    return Quantity(number.value * scale, unit, number.status, number.source, clock_hz, number.note)


def _optional(number: _Number | None, unit: str, where: str) -> Quantity | None:
    return None if number is None else _quantity(number, unit, where)


def _native_paths(peaks: Sequence[_Peak], where: str) -> dict[str, ComputePath]:
    paths: dict[str, ComputePath] = {}
    for number, peak in enumerate(peaks, 1):
        place = f"{where}: [[peak]] {number}"
        dense, sparse, achieved, narrow = (
            _optional(getattr(peak, name), "FLOP/s", f"{place} {name}")
            for name in ("dense", "sparse", "achieved", "fp16_accumulate")
        )
        assert dense is not None
        for key in _format_keys(peak.formats, paths, place):
            paths[key] = ComputePath(key, "native", key, dense, sparse, achieved, peak.reason, narrow)
    return paths


def _other_paths(tables: Sequence[_Path], native: Mapping[str, ComputePath], where: str) -> dict[str, ComputePath]:
    paths: dict[str, ComputePath] = {}
    for number, path in enumerate(tables, 1):
        place = f"{where}: [[path]] {number}"
        (compute,) = _format_keys((path.compute,), (), place)
        if compute not in native:
            raise DefinitionError(f"{place}: compute = {compute} has no [[peak]] in this file")
        for key in _format_keys(path.formats, {**native, **paths}, place):
            paths[key] = ComputePath(key, path.kind, compute, native[compute].dense, reason=path.reason)
    return paths


def _format_keys(names: Sequence[str], taken: Collection[str], where: str) -> list[str]:
    """Return the keys of formats, each of which may be given once in a file."""
    keys: list[str] = []
    if not names:
        raise DefinitionError(f'{where}: formats is empty; give a list such as ["BF16", "FP16"]')
    for name in names:
        try:
            key = get_format(name).key
        except UnknownNameError as error:
            raise DefinitionError(f"{where}: {error}") from None
        if key in taken or key in keys:
            raise DefinitionError(f"{where}: {key} is given twice")
        keys.append(key)
    return keys


def _checked_match(rule: MatchRule, where: str) -> MatchRule:
    for pattern in rule.device_names:
        try:
            matches_all = re.search(pattern, "") is not None
        except re.error as error:
            raise DefinitionError(
                f"{where}: [match] device_names: {shown(pattern)} is not a regular expression: {error}"
            ) from None
        if matches_all:
            raise DefinitionError(
                f"{where}: [match] device_names: {shown(pattern)} matches every name, even an empty one"
            )
    memory, capability = rule.memory_gb, rule.compute_capability
    if memory is not None and not 0 <= memory[0] <= memory[1] < 1e6:
        raise DefinitionError(f"{where}: [match] memory_gb must be [smallest, largest] in GB, got {shown(memory)}")
    if capability is not None and not re.fullmatch(r"[0-9]{1,3}\.[0-9]{1,2}", capability):
        raise DefinitionError(
            f'{where}: [match] compute_capability must be text such as "9.0", got {shown(capability)}'
        )
    return replace(rule, memory_gb=None if memory is None else (float(memory[0]), float(memory[1])))


def _missing(value: Any, where: str = "") -> Iterator[str]:
    """Yield the places of a parsed file that `new_chip_text` left to be written: `memory.bandwidth.value`."""
    if value == TO_FILL_IN:
        yield where
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _missing(item, f"{where}.{name}" if where else name)
    elif isinstance(value, list):
        for number, item in enumerate(value, 1):
            yield from _missing(item, f"{where} {number}")


def new_chip_text(name: str) -> str:
    """Return the text of a chip file with nothing known but the name: the least that predicts, what is missing marked.

    Raises `InvalidValueError` for a name without a letter or digit.
    """
    key = re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-.")
    if not key or len(name) > _LONGEST_NAME or not name.isprintable():
        raise InvalidValueError(f"a chip's name needs a letter or a digit and {_LONGEST_NAME} characters at most")
    title = json.dumps(name, ensure_ascii=False)
    text = resources.files("roofline_model.chips").joinpath("new_chip.toml").read_text(encoding="utf-8")
    return text.replace("{key}", key).replace("{title}", title)


def _plain_path(path: ComputePath) -> dict[str, Any]:
    """Return the fields of a path; without a second rate as profiles had them before there was one."""
    plain = asdict(path)
    if path.fp16_accumulate is None:
        del plain["fp16_accumulate"]
    return plain


# Sane ranges over every chip there is, from a single CPU core to a rack accelerator, with room on both sides.
_RANGES: dict[str, tuple[float, float]] = {"B/s": (1e9, 1e15), "FLOP/s": (1e9, 1e18), "B": (1e3, 1e14), "Hz": (1e7, 1e11), "W": (0.5, 1e5)}  # fmt: skip
_SMALLEST_MEMORY_BYTES = 1e9
# What chips have, well inside of the ranges: a slip of a thousand leaves it. Beyond it is a doubt, no error.
_USUAL: dict[str, tuple[float, float]] = {"B/s": (1e9, 2e13), "Hz": (1e8, 1e10)}
_RATES_APART_FACTOR = 64
"""Most that rates of a chip differ from its 16-bit one, either way; FP64, which chips have for show, aside."""
_RIDGE_RANGE = (0.05, 50_000.0)
# Rates that may not fall when a format narrows, within one family.
_MONOTONE = (("FP64", "FP32"), ("FP32", "TF32"), ("TF32", "BF16"), ("BF16", "FP8_E4M3"), ("BF16", "INT8"), ("FP8_E4M3", "NVFP4"),
             ("FP8_E4M3", "MXFP4"), ("INT8", "INT4"))  # fmt: skip


def check_device(device: Device) -> list[Finding]:
    """Check one chip for slips of unit, order and sense: ranges, monotone rates, ridge points, sparse = 2 × dense.

    Warnings make a file unusable (`errors_of`); cautions are shown by `roofline hardware check`.
    """
    findings = [*_check_ranges(device), *_check_paths(device), *_check_memory(device), *_check_usual(device)]
    if device.capacity is not None and device.capacity.value <= _SMALLEST_MEMORY_BYTES:
        findings.append(finding("chip-file-doubtful", kind="memory", value_bytes=device.capacity.value))
    if device.kind != "gpu":
        return findings
    bare = tuple(key for key, path in device.paths.items() if path.kind != "native" and not path.reason)
    if bare:
        findings.append(finding("chip-file-doubtful", kind="path-reason", formats=bare))
    missing = tuple(key for key in FORMATS if key not in device.paths)
    if missing:
        findings.append(finding("chip-file-doubtful", kind="undeclared", formats=missing))
    if not device.match.device_names and not device.is_placeholder:
        findings.append(finding("chip-file-doubtful", kind="unmatched"))
    return findings


def errors_of(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings that make a chip's description unusable."""
    return [item for item in findings if item.severity == "warning"]


def _check_ranges(device: Device) -> Iterator[Finding]:
    quantities: dict[str, Quantity] = {"memory bandwidth": device.bandwidth}
    optional = (("achieved bandwidth", device.bandwidth_achieved), ("memory capacity", device.capacity))
    quantities.update({name: quantity for name, quantity in optional if quantity is not None})
    quantities.update({f"peak of {key}": path.dense for key, path in device.paths.items() if path.kind == "native"})
    quantities.update(device.chip)
    for name, quantity in quantities.items():
        low, high = _RANGES.get(quantity.unit, (1, 1e9))
        if not low <= quantity.value <= high:
            value, least, most = (format_quantity(number, quantity.unit) for number in (quantity.value, low, high))
            yield finding("chip-file-wrong", name, kind="out-of-range", value=value, low=least, high=most)


def _check_usual(device: Device) -> Iterator[Finding]:
    """Yield what a file may say and no chip has: bandwidths, clocks and rates off by a thousand."""
    native = {key: path.dense for key, path in device.paths.items() if path.kind == "native"}
    numbers = {"memory bandwidth": (device.bandwidth.value, "B/s")}
    numbers.update({name: (each.value, each.unit) for name, each in device.chip.items() if each.unit == "Hz"})
    numbers.update({f"clock of {key}": (each.clock_hz, "Hz") for key, each in native.items() if each.clock_hz})
    for name, (value, unit) in numbers.items():
        low, high = _USUAL[unit]
        if not low <= value <= high:
            shown_value, least, most = (format_quantity(number, unit) for number in (value, low, high))
            yield finding("chip-file-doubtful", name, kind="unusual", value=shown_value, low=least, high=most)
    wide = next((key for key in ("BF16", "FP16") if key in native), None)
    if wide is None:
        return
    for key, rate in native.items():
        factor = rate.value / native[wide].value
        if key != "FP64" and not 1 / _RATES_APART_FACTOR <= factor <= _RATES_APART_FACTOR:
            yield finding("chip-file-doubtful", key, kind="rates-apart", wide=wide, rate_factor=factor)


def _check_paths(device: Device) -> Iterator[Finding]:
    native = {key: path for key, path in device.paths.items() if path.kind == "native"}
    for key, path in native.items():
        ridge = path.dense.value / device.bandwidth.value
        if not _RIDGE_RANGE[0] <= ridge <= _RIDGE_RANGE[1]:
            yield finding("chip-file-wrong", key, kind="ridge", ridge_flop_per_byte=ridge)
        if path.sparse is not None and not math.isclose(path.sparse.value, 2 * path.dense.value, rel_tol=0.02):
            yield finding("chip-file-wrong", key, kind="sparse", sparse_factor=path.sparse.value / path.dense.value)
        if path.achieved is not None and path.achieved.value > 1.25 * path.dense.value:
            yield finding("chip-file-doubtful", key, kind="achieved", achieved_flops_per_s=path.achieved.value)
        if device.kind == "gpu" and path.dense.clock_hz is None and not device.is_placeholder:
            yield finding("chip-file-doubtful", key, kind="clock")
    for wide, narrow in _MONOTONE:
        if wide not in native or narrow not in native:
            continue
        is_lower = native[narrow].dense.value < 0.99 * native[wide].dense.value
        # A CPU's narrow formats really are slower where it lacks the instructions; a GPU's are not.
        if is_lower and not native[narrow].reason and device.kind == "gpu":
            yield finding("chip-file-wrong", narrow, kind="narrow-rate", wide=wide)


def _check_memory(device: Device) -> Iterator[Finding]:
    reached = [] if device.bandwidth_achieved is None else [device.bandwidth_achieved.value]
    if device.calibration is not None and device.calibration.kind == "cuda":  # a CPU's peak is one of these itself
        reached += [constant.best_value for constant in device.calibration.dram.values()]
    odd = [rate for rate in reached if not 0.3 <= rate / device.bandwidth.value <= 1.02]
    if odd:
        yield finding("chip-file-wrong", kind="achieved-bandwidth", share_ratio=odd[0] / device.bandwidth.value)
    cached_bytes = sum(level.capacity_bytes for level in device.levels)
    if device.capacity is not None and cached_bytes >= device.capacity.value:
        yield finding("chip-file-wrong", kind="caches", caches=" + ".join(level.name for level in device.levels))
    for level in device.levels:
        if level.bandwidth and level.bandwidth.value < device.bandwidth.value:
            yield finding("chip-file-wrong", level.name, kind="cache-bandwidth")


def doubt_of_ideals(device: Device) -> Finding | None:
    """Return why a CPU has no ideal times, and so no expected ones: its ceilings were measured while it was busy; None
    where it has.

    Such a ceiling is no bound: a call took 28 ms on a machine whose contended ceilings allowed 4.7 s (2026-11-27). A
    GPU's ideals are of its data sheet.
    """
    calibration = device.calibration
    if calibration is None or calibration.kind != "cpu" or not calibration.disturbed_by:
        return None
    return ceilings_doubt(device.key, calibration)


def ceilings_doubt(hardware: str, calibration: Calibration) -> Finding:
    """Return that other work ran while the ceilings of a machine were measured."""
    return finding("ceilings-contended", hardware=hardware, disturbed_by=calibration.disturbed_by)


def check_ceilings(device: Device) -> None:
    """Raise `UnsupportedError` where the ceilings of a CPU were measured while it was busy."""
    if (doubt := doubt_of_ideals(device)) is not None:
        raise unsupported(doubt)


def doubt_of_times(device: Device) -> Finding | None:
    """Return why a machine whose kernels were timed while it was busy has no expected times; None where it may have."""
    calibration = device.calibration
    if calibration is None or not calibration.kernels_disturbed_by:
        return None
    return finding("kernels-contended", hardware=device.key, disturbed_by=calibration.kernels_disturbed_by)


def doubts_of(device: Device) -> list[Finding]:
    """Return both, those that there are: for beside whatever a machine's predictions are printed in.

    That of the expected times goes first: they rank wherever there are any.
    """
    return [doubt for doubt in (doubt_of_times(device), doubt_of_ideals(device)) if doubt is not None]
