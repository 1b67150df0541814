"""The chip registry: one TOML file per chip, every number with unit, source, status and clock.

A `Device` answers three questions: how fast memory is, how fast each number format computes and by which *path*
(native unit, emulated on another unit, or dequantised to 16 bit first), and whether a machine at hand is this chip.
`device_file.py` reads and checks the files; `devices/*.toml` hold the numbers.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from roofline_model.chips.machine_constants import Calibration
from roofline_model.core.errors import InvalidValueError, UnknownNameError, UnsupportedError
from roofline_model.core.finding import subject_text
from roofline_model.formats.catalog import get_format

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
    unit: str
    """SI unit of `value`: B/s, FLOP/s, B, Hz, W or "" for a count."""
    status: str
    source: str
    clock_hz: float | None = None
    """The clock a compute rate belongs to; a peak without a clock means nothing."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class ComputePath:
    """How a chip computes with operands of one format."""

    format: str
    kind: PathKind
    compute_format: str
    """The format whose unit does the arithmetic; equals `format` when native."""
    dense: Quantity
    """Dense peak of that unit. 2:4-sparse is apart and never the default."""
    sparse: Quantity | None = None
    achieved: Quantity | None = None
    """Best matrix product measured by someone, where published."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class MemoryLevel:
    """A cache (or other memory) between the compute units and DRAM."""

    name: str
    capacity_bytes: float
    bandwidth: Quantity | None = None


@dataclass(frozen=True, slots=True)
class MatchRule:
    """How to recognise the chip on a machine."""

    device_names: tuple[str, ...] = ()
    """Regular expressions searched, ignoring case, in the name that the driver reports."""
    compute_capability: str | None = None
    sm_count: int | None = None
    memory_gb: tuple[float, float] | None = None
    """Smallest and largest total memory in decimal GB; tells the variants of one name apart."""

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
    name: str
    kind: Literal["gpu", "cpu", "custom"]
    bandwidth: Quantity
    paths: Mapping[str, ComputePath]
    vendor: str = ""
    architecture: str = ""
    aliases: tuple[str, ...] = ()
    is_placeholder: bool = False
    bandwidth_achieved: Quantity | None = None
    capacity: Quantity | None = None
    levels: tuple[MemoryLevel, ...] = ()
    """Caches, innermost first; the last one is the level that "cold" has to defeat."""
    chip: Mapping[str, Quantity] = field(default_factory=dict)
    """Everything else that is a number: sm_count, clock, tdp, shared memory, registers, exp rate, …"""
    match: MatchRule = MatchRule()
    notes: tuple[str, ...] = ()
    calibration: Calibration | None = None
    """What a machine with this chip measured about itself (`roofline calibrate`); None for a chip of the registry."""

    def path(self, format_name: str) -> ComputePath:
        """Return how this chip computes with `format_name`; raises `UnsupportedError` when it cannot.

        A format narrower than 16 bits that a custom chip does not declare is dequantised to its declared 16-bit format.
        """
        fmt = get_format(format_name)
        found = self.paths.get(fmt.key)
        if found is not None:
            return found
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

    def count(self, name: str) -> int | None:
        """Return a counted property of the chip such as `sm_count`, or None where unknown."""
        quantity = self.chip.get(name)
        return None if quantity is None else int(quantity.value)

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as plain JSON-able values (what the store keeps beside a run)."""
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__}
        plain["paths"] = {key: asdict(path) for key, path in sorted(self.paths.items())}
        plain["chip"] = {key: asdict(quantity) for key, quantity in sorted(self.chip.items())}
        plain["levels"] = [asdict(level) for level in self.levels]
        for name in ("bandwidth", "bandwidth_achieved", "capacity", "match"):
            value = plain[name]
            plain[name] = None if value is None else asdict(value)
        del plain["calibration"]
        if self.calibration is not None:
            plain["calibration"] = self.calibration.to_dict()
        return json.loads(json.dumps(plain))  # type: ignore[no-any-return]

    @property
    def content_hash(self) -> str:
        """Sixteen hex digits over every number: two profiles with the same hash predict the same."""
        canonical = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))
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
    from roofline_model.chips.device_file import read_device_text

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

    Capitals, dashes, underscores and blanks in a name do not count: `RTX 4090`, `rtx4090`, `rtx-4090`.
    A `Device` is returned unchanged. Raises `UnknownNameError` with the nearest names, or `DefinitionError` for a bad file.
    """
    if isinstance(name, Device):
        return name
    text = str(name).strip()
    if isinstance(name, Path) or text.endswith(".toml") or "/" in text:
        from roofline_model.chips.device_file import read_device_file

        return read_device_file(Path(text))
    if (found := _built_in(text.lower().replace("_", "-"))) is not None:
        return found
    wanted = _squeezed(text)
    for device in _registry().values():
        if wanted in map(_squeezed, (device.key, *device.aliases)):
            return device
    known = [*_registry(), *(alias for device in _registry().values() for alias in device.aliases)]
    raise UnknownNameError(
        "hardware",
        text,
        known,
        fix="`roofline hardware list` shows them; a path to a TOML file describes your own chip; auto = this machine.",
    )


def _squeezed(name: str) -> str:
    """Return a chip's name without dashes, underscores, blanks and capitals: `RTX 4090` and `rtx4090` are `rtx-4090`."""
    return re.sub(r"[-_\s]", "", name.lower())


def match_device(facts: DeviceFacts, candidates: Iterable[Device] | None = None) -> tuple[Device | None, str]:
    """Return the registry chip that a machine's device is, and why (or why none).

    Among chips that match, the one with the most agreeing facts wins; a tie is no match, and the reason names both.
    """
    scored: list[tuple[int, Device]] = []
    for device in candidates if candidates is not None else _registry().values():
        score = _match_score(device.match, facts)
        if score:
            scored.append((score, device))
    if not scored:
        return (
            None,
            f"no chip of the registry matches {facts.name!r} (compute capability {facts.compute_capability or 'unknown'})",
        )
    best = max(score for score, _ in scored)
    winners = [device for score, device in scored if score == best]
    if len(winners) > 1:
        return None, f"{facts.name!r} matches {' and '.join(d.key for d in winners)}; name one with --hw"
    return winners[0], f"device name {facts.name!r} matches {winners[0].key}" + (
        f", compute capability {facts.compute_capability}" if facts.compute_capability else ""
    )


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
    from roofline_model.chips.device_file import check_device, errors_of

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
