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
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from roofline_model.chips.machine_constants import Calibration
from roofline_model.core.definition_text import parse_definition, read_definition_text, shown
from roofline_model.core.errors import DefinitionError, InvalidValueError, UnknownNameError, UnsupportedError
from roofline_model.core.finding import Finding, finding, subject_text, unsupported
from roofline_model.core.units import format_bandwidth, format_quantity
from roofline_model.formats.catalog import FORMATS, get_format

Status = Literal[
    "datasheet", "measured", "derived", "secondary", "unconfirmed", "placeholder", "declared", "measured-here"
]
STATUSES: tuple[str, ...] = (
    "datasheet",
    "measured",
    "derived",
    "secondary",
    "unconfirmed",
    "placeholder",
    "declared",
    "measured-here",
)
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
_TOP_FIELDS = {
    "schema",
    "key",
    "name",
    "kind",
    "vendor",
    "architecture",
    "aliases",
    "placeholder",
    "notes",
    "match",
    "memory",
    "level",
    "chip",
    "peak",
    "path",
    "calibration",
}
_EXAMPLES = {"key": "my-chip", "name": "My chip", "kind": "custom", "formats": "FP16"}
_PLACES = {
    **dict.fromkeys(("bandwidth", "bandwidth_achieved", "capacity"), "[memory]"),
    **dict.fromkeys(("formats", "dense"), "[[peak]]"),
}
"""Field → the table that it is most often meant for, where it stands in another."""
_QUANTITY_FIELDS = {"value", "unit", "status", "source", "clock_mhz", "note"}
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
    device = _Reader(where, data).device()
    errors = errors_of(check_device(device))
    if errors:
        raise DefinitionError(f"{where}: {subject_text(errors[0])}")
    return device


class _Reader:
    """Turns one parsed file into a `Device`; carries the file name for the error messages."""

    def __init__(self, where: str, data: dict[str, Any]) -> None:
        self.where = where
        self.data = data

    def fail(self, message: str) -> DefinitionError:
        return DefinitionError(f"{self.where}: {message}")

    def device(self) -> Device:
        self._only_known("the top level", self.data, _TOP_FIELDS)
        if missing := list(_missing(self.data)):
            raise self.fail(f"still {TO_FILL_IN}: {', '.join(missing)}; write what the data sheet says")
        if "schema" not in self.data:
            raise self.fail("schema is missing: write schema = 1")
        if self.data["schema"] != 1:
            raise self.fail(
                f"schema must be 1, got {shown(self.data['schema'])} (a newer file needs a newer roofline-bench)"
            )
        key = self._text("key")
        if not re.fullmatch(r"[a-z0-9][a-z0-9.-]*", key):
            raise self.fail(f"key must be lower-case letters, digits, dots and dashes, got {shown(key)}")
        kind = self._text("kind")
        if kind not in ("gpu", "cpu", "custom"):
            raise self.fail(f"kind must be gpu, cpu or custom, got {shown(kind)}")
        placeholder = self.data.get("placeholder", False)
        if not isinstance(placeholder, bool):
            raise self.fail(f"placeholder must be true or false, got {shown(placeholder)}")
        memory = self._table("memory", required=True)
        self._only_known("[memory]", memory, {"bandwidth", "bandwidth_achieved", "capacity", "system"})
        if "bandwidth" not in memory:
            raise self.fail("[memory] bandwidth is missing; give {value, unit, status, source}")
        paths = self._peaks()
        paths.update(self._paths(paths))
        chip = self._table("chip")
        measured = self.data.get("calibration")
        self._only_known("[chip]", chip, set(_CHIP_UNITS))
        device = Device(
            key=key,
            name=self._text("name"),
            kind=kind,  # type: ignore[arg-type]  # checked above
            vendor=self._optional_text("vendor", self.data.get("vendor", "")),
            architecture=self._optional_text("architecture", self.data.get("architecture", "")),
            aliases=tuple(alias.lower() for alias in self._strings("aliases", self.data)),
            is_placeholder=placeholder,
            notes=tuple(self._strings("notes", self.data)),
            bandwidth=self._quantity("[memory] bandwidth", memory["bandwidth"], "B/s"),
            bandwidth_achieved=self._optional("[memory] bandwidth_achieved", memory.get("bandwidth_achieved"), "B/s"),
            capacity=self._optional("[memory] capacity", memory.get("capacity"), "B"),
            system_memory=self._optional("[memory] system", memory.get("system"), "B"),
            levels=tuple(self._level(i, table) for i, table in enumerate(self._tables("level"))),
            chip={name: self._quantity(f"[chip] {name}", value, _CHIP_UNITS[name]) for name, value in chip.items()},
            paths=paths,
            match=self._match(),
            calibration=None if measured is None else Calibration.from_dict(measured, self.where),
        )
        for name, rated in (("clock_max", device.chip.get("clock")), ("bandwidth_max", device.bandwidth)):
            most = device.chip.get(name)
            if most is not None and rated is not None and most.value < rated.value:
                raise self.fail(
                    f"[chip] {name} is {format_quantity(most.value, most.unit)}, below the rated "
                    f"{format_quantity(rated.value, rated.unit)}: give the highest that the chip can be set to, or "
                    "leave it out"
                )
        return device

    def _peaks(self) -> dict[str, ComputePath]:
        paths: dict[str, ComputePath] = {}
        for i, table in enumerate(self._tables("peak")):
            where = f"[[peak]] {i + 1}"
            self._only_known(where, table, {"formats", "dense", "sparse", "achieved", "fp16_accumulate", "reason"})
            if "dense" not in table:
                raise self.fail(f"{where}: dense is missing; give {{value, unit, status, source}}")
            dense = self._quantity(f"{where} dense", table["dense"], "FLOP/s")
            sparse = self._optional(f"{where} sparse", table.get("sparse"), "FLOP/s")
            achieved = self._optional(f"{where} achieved", table.get("achieved"), "FLOP/s")
            narrow = self._optional(f"{where} fp16_accumulate", table.get("fp16_accumulate"), "FLOP/s")
            reason = self._optional_text(f"{where} reason", table.get("reason", ""))
            for key in self._formats(where, table):
                if key in paths:
                    raise self.fail(f"{where}: {key} is given twice")
                paths[key] = ComputePath(key, "native", key, dense, sparse, achieved, reason, narrow)
        if not paths:
            raise self.fail("no [[peak]]: give at least one native compute rate")
        return paths

    def _paths(self, native: Mapping[str, ComputePath]) -> dict[str, ComputePath]:
        paths: dict[str, ComputePath] = {}
        for i, table in enumerate(self._tables("path")):
            where = f"[[path]] {i + 1}"
            self._only_known(where, table, {"formats", "kind", "compute", "reason"})
            kind = table.get("kind")
            if kind not in ("emulated", "dequantize"):
                raise self.fail(
                    f"{where}: kind must be emulated or dequantize, got {shown(kind)} (native rates go into [[peak]])"
                )
            reason = self._optional_text(f"{where} reason", table.get("reason", ""))
            if "compute" not in table:
                raise self.fail(f"{where}: compute is missing; give the format that it computes in, e.g. FP16")
            compute = self._format(where, table["compute"])
            if compute not in native:
                raise self.fail(f"{where}: compute = {compute} has no [[peak]] in this file")
            for key in self._formats(where, table):
                if key in native or key in paths:
                    raise self.fail(f"{where}: {key} is given twice")
                paths[key] = ComputePath(key, kind, compute, native[compute].dense, reason=reason)
        return paths

    def _level(self, index: int, table: dict[str, Any]) -> MemoryLevel:
        where = f"[[level]] {index + 1}"
        self._only_known(where, table, {"name", "capacity", "bandwidth"})
        if "capacity" not in table or not isinstance(table.get("name"), str):
            raise self.fail(f"{where}: name and capacity are required")
        capacity = self._quantity(f"{where} capacity", table["capacity"], "B")
        return MemoryLevel(
            table["name"], capacity.value, self._optional(f"{where} bandwidth", table.get("bandwidth"), "B/s")
        )

    def _match(self) -> MatchRule:
        table = self._table("match")
        self._only_known("[match]", table, {"device_names", "compute_capability", "sm_count", "memory_gb"})
        names = self._strings("device_names", table)
        for pattern in names:
            try:
                re.compile(pattern)
            except re.error as error:
                raise self.fail(
                    f"[match] device_names: {shown(pattern)} is not a regular expression: {error}"
                ) from None
            if re.search(pattern, "") is not None:
                raise self.fail(f"[match] device_names: {shown(pattern)} matches every name, even an empty one")
        memory = table.get("memory_gb")
        numbers = isinstance(memory, list) and len(memory) == 2 and all(isinstance(n, int | float) for n in memory)
        if memory is not None and not (numbers and 0 <= memory[0] <= memory[1] < 1e6):
            raise self.fail(f"[match] memory_gb must be [smallest, largest] in GB, got {shown(memory)}")
        capability, sm_count = table.get("compute_capability"), table.get("sm_count")
        if capability is not None and not (
            isinstance(capability, str) and re.fullmatch(r"[0-9]{1,3}\.[0-9]{1,2}", capability)
        ):
            raise self.fail(f'[match] compute_capability must be text such as "9.0", got {shown(capability)}')
        if sm_count is not None and (isinstance(sm_count, bool) or not isinstance(sm_count, int)):
            raise self.fail(f"[match] sm_count must be a whole number, got {shown(sm_count)}")
        return MatchRule(
            tuple(names), capability, sm_count, None if memory is None else (float(memory[0]), float(memory[1]))
        )

    def _quantity(self, where: str, table: Any, unit: str) -> Quantity:
        if not isinstance(table, dict):
            raise self.fail(f"{where}: expected {{value, unit, status, source}}, got {shown(table)}")
        self._only_known(where, table, _QUANTITY_FIELDS)
        units = ", ".join(name or '""' for name, (_, si) in _UNITS.items() if si == unit)
        meant = {"value": "a number", "unit": f"one of {units}", "status": f"one of {', '.join(STATUSES)}"}
        for name in ("value", "unit", "status", "source"):
            if name not in table:
                raise self.fail(f"{where}: {name} is missing; give {meant.get(name, 'where the number comes from')}")
        value = table["value"]
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.fail(f"{where}: value must be a number, got {shown(value)}")
        if not 0 < value < 1e30:
            raise self.fail(f"{where}: value must be positive and finite, got {shown(value)}")
        scale, si_unit = _UNITS.get(table["unit"], (0.0, "?")) if isinstance(table["unit"], str) else (0.0, "?")
        if si_unit != unit:
            raise self.fail(f"{where}: unit {shown(table['unit'])} does not fit; use one of {units}")
        if table["status"] not in STATUSES:
            raise self.fail(f"{where}: status {shown(table['status'])} is unknown; use one of {', '.join(STATUSES)}")
        if not isinstance(table["source"], str) or not table["source"].strip():
            raise self.fail(f"{where}: source must say where the number comes from")
        clock = table.get("clock_mhz")
        if clock is not None and (isinstance(clock, bool) or not isinstance(clock, int | float) or not 0 < clock < 1e6):
            raise self.fail(f"{where}: clock_mhz must be a positive number of MHz, got {shown(clock)}")
        note = self._optional_text(f"{where} note", table.get("note", ""))
        return Quantity(
            value * scale, unit, table["status"], table["source"], None if clock is None else clock * 1e6, note
        )

    def _optional(self, where: str, table: Any, unit: str) -> Quantity | None:
        return None if table is None else self._quantity(where, table, unit)

    def _formats(self, where: str, table: dict[str, Any]) -> list[str]:
        names = self._strings("formats", table, where)
        if not names:
            raise self.fail(f'{where}: formats is missing; give a list such as ["BF16", "FP16"]')
        return [self._format(where, name) for name in names]

    def _format(self, where: str, name: Any) -> str:
        if not isinstance(name, str):
            raise self.fail(f"{where}: a format must be named by text, got {shown(name)}")
        try:
            return get_format(name).key
        except UnknownNameError as error:
            raise self.fail(f"{where}: {error}") from None

    def _text(self, name: str) -> str:
        value = self.data.get(name)
        if not isinstance(value, str) or not value.strip():
            example = f'{name} = "{_EXAMPLES[name]}"'
            if name not in self.data:
                raise self.fail(f"{name} is missing: write e.g. {example}")
            raise self.fail(f"{name} must be text such as {example}, got {shown(value)}")
        if len(value) > _LONGEST_NAME:
            raise self.fail(f"{name} must be {_LONGEST_NAME} characters at most, got {len(value):,}")
        return value

    def _optional_text(self, where: str, value: Any) -> str:
        if not isinstance(value, str):
            raise self.fail(f"{where} must be text, got {shown(value)}")
        return value

    def _strings(self, name: str, table: dict[str, Any], where: str = "") -> list[str]:
        value = table.get(name, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            which = f"{where}: {name}" if where else name
            raise self.fail(
                f'{which} must be a list of texts such as ["{_EXAMPLES.get(name, "…")}"], got {shown(value)}'
            )
        return value

    def _table(self, name: str, required: bool = False) -> dict[str, Any]:
        value = self.data.get(name)
        if value is None and not required:
            return {}
        if not isinstance(value, dict):
            raise self.fail(f"[{name}] is missing or not a table")
        return value

    def _tables(self, name: str) -> list[dict[str, Any]]:
        value = self.data.get(name, [])
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise self.fail(f"{name} must be written as [[{name}]] tables")
        return value

    def _only_known(self, where: str, table: Mapping[str, Any], allowed: set[str]) -> None:
        for name in table:
            if name not in allowed:
                place = f" (it stands in {_PLACES[name]})" if name in _PLACES else ""
                raise self.fail(f"{where}: unknown field {shown(name)}{place}. Known: {', '.join(sorted(allowed))}.")


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
