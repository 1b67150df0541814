"""What a machine measured about itself: ceilings and constants with their spread, and under which conditions.

`plugin.calibrate.cpu_calibration` measures them, a chip file carries them in its [calibration] table, `calibrated.py`
predicts with them. Times are in seconds, rates in B/s or FLOP/s; every number is the outcome of repeated measuring,
never a guess.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime
from typing import Any, Literal

from roofline_model.chips.curve import KernelCurve, curves_from_dict, curves_to_dict
from roofline_model.core.definition_text import shown
from roofline_model.core.errors import DefinitionError, OtherVersionError, UnknownNameError
from roofline_model.core.typed_fields import read_as, refused, value_as
from roofline_model.formats.catalog import get_format

CALIBRATION_VERSION = 1
"""Layout of the [calibration] table."""

ACCESS_MIXES = ("read", "copy", "triad", "write")
"""read: nothing written; triad: two arrays read, one written; copy: as much written as read; write: nothing read."""

FLOORS = ("call", "fork-join", "launch", "host-launch")
"""call: the smallest operation called from Python, on one thread; fork-join: waking all threads and waiting for them;
launch: the shortest kernel on a GPU, queued; host-launch: the host's time to launch it."""

_UNITS = {"dram": "B/s", "cache": "B/s", "peaks": "FLOP/s", "floors": "s", "casts": "s", "scaling": "B/s"}
_RANGES = {"B/s": (1e3, 1e18), "FLOP/s": (1e3, 1e18), "s": (1e-18, 1e4), "B": (1.0, 1e15)}
"""Smallest and largest number of each unit that is not taken for a slip."""


@dataclass(frozen=True, slots=True)
class Constant:
    """One measured number with its spread over repetitions. Rates: higher is better; seconds: lower is better."""

    unit: str
    """B/s, FLOP/s or s."""
    best_value: float
    """The best repetition ever seen, in `unit`: what the machine can do when nothing disturbs it."""
    median_value: float
    """The median repetition of the newest quiet measuring, in `unit`."""
    slow_value: float
    """The repetition that 95 % were faster than."""
    sd_ratio: float | None
    """Standard deviation of the repetitions over their mean; None with a single one."""
    repetition_count: int
    """Repetitions behind the numbers, a count."""
    kernel: str = ""
    """The micro-kernel, where several competed."""

    @property
    def is_time(self) -> bool:
        """Whether smaller is better."""
        return self.unit == "s"

    def merged(self, older: Constant) -> Constant:
        """Return this measuring with the better best of both.

        A ceiling is an envelope, but what is typical is what was seen last: an old lucky median is not kept.
        """
        better = min if self.is_time else max
        best = better((self, older), key=lambda constant: constant.best_value)
        return replace(self, best_value=best.best_value, kernel=best.kernel)


def constant_of_times(seconds: Sequence[float], work: float | None = None, *, kernel: str = "") -> Constant:
    """Return the constant of repeated timings: seconds per unit of `work` when it is None, else `work` per second as
    B/s.

    The 95th percentile is the nearest rank, so that it is a time that happened.
    """
    return _summary(
        seconds, (lambda s: s) if work is None else (lambda s: work / s), "s" if work is None else "B/s", kernel
    )


def constant_of_flops(seconds: Sequence[float], flops: float, *, kernel: str = "") -> Constant:
    """Return the constant of repeated timings of one product, in FLOP/s."""
    return _summary(seconds, lambda s: flops / s, "FLOP/s", kernel)


def _summary(seconds: Sequence[float], convert: Any, unit: str, kernel: str) -> Constant:
    ordered = sorted(seconds)
    count = len(ordered)
    mean = math.fsum(ordered) / count
    spread = None
    if count > 1:
        spread = math.sqrt(math.fsum((s - mean) ** 2 for s in ordered) / (count - 1)) / mean
    middle = (ordered[(count - 1) // 2] + ordered[count // 2]) / 2
    slow = ordered[max(count // 2, math.ceil(0.95 * count) - 1)]
    slow = max(slow, middle)
    # Six digits are more than any repetition agrees on, and a file stays readable.
    best, median, slowest = (float(f"{convert(s):.6g}") for s in (ordered[0], middle, slow))
    return Constant(unit, best, median, slowest, None if spread is None else float(f"{spread:.3g}"), count, kernel)


@dataclass(frozen=True, slots=True)
class Calibration:
    """Everything `roofline calibrate` found out about one machine."""

    measured_at: str
    """UTC, ISO 8601, of the newest measuring."""
    subject: str
    """The exact CPU model or GPU name it was measured on."""
    kind: Literal["cpu", "cuda"]
    """cpu or cuda."""
    dram: Mapping[str, Constant]
    """Access mix → B/s on arrays far larger than the last-level cache."""
    peaks: Mapping[str, Constant] = field(default_factory=dict)
    """Format key → FLOP/s of the best matrix product."""
    cache: Mapping[str, Constant] = field(default_factory=dict)
    """Access mix → B/s on arrays well inside the last-level cache."""
    cache_capacity_bytes: float | None = None
    """Size of the last-level cache, bytes; None where it is not known."""
    floors: Mapping[str, Constant] = field(default_factory=dict)
    """One of `FLOORS` → seconds per call."""
    casts: Mapping[str, Constant] = field(default_factory=dict)
    """`FROM>TO` format keys → seconds per element, operands in cache: memory traffic is counted apart."""
    scaling: Mapping[str, Constant] = field(default_factory=dict)
    """Number of active cores (or SMs) → DRAM B/s."""
    kernels: tuple[KernelCurve, ...] = ()
    """Each kernel's own time over sizes, of cold operands; empty where only ceilings were measured."""
    kernels_disturbed_by: tuple[str, ...] = ()
    """Flags of the CPUs' load while the kernels were timed, in an older file: nothing is expected from it."""
    conditions: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    """What moves the numbers: torch, driver, threads, governor, clock (`_hz`: Hz), … Unknown ones are absent."""
    disturbed_by: tuple[str, ...] = ()
    """Flags of the CPUs' load while measuring: contended, stolen. Nothing is predicted from such constants."""
    fingerprint: str = ""
    """Of machine and software: tells this machine's own file from one of another machine of the same model."""
    provenance: Literal["measured-here", "measured"] = "measured-here"
    """measured-here, or measured: on another machine, or with other software, of the same model."""

    def best_bandwidth(self, of_cache: bool = False) -> tuple[str, Constant] | None:
        """Return the access mix with the best rate, or None when none was measured."""
        table = self.cache if of_cache else self.dram
        return max(table.items(), key=lambda item: item[1].best_value, default=None)

    @property
    def date(self) -> str:
        """The day it was measured."""
        return self.measured_at[:10]

    @property
    def threads_text(self) -> str:
        """`1 thread`, `8 threads`: those a kernel ran on, as the file has it; empty where nobody wrote them down."""
        count = self.conditions.get("threads")
        return "" if count is None else f"{count} thread{'s' * (count != 1)}"

    def to_dict(self) -> dict[str, Any]:
        """Return the [calibration] table as plain values; missing ones are left out (TOML has no null)."""
        plain: dict[str, Any] = {"version": CALIBRATION_VERSION}
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name in _UNITS:
                value = {key: _ConstantTable.of(constant).plain for key, constant in value.items()}
            elif each.name == "kernels":
                value = curves_to_dict(value)
            plain[each.name] = list(value) if isinstance(value, tuple) else value
        optional = ("kernels", "kernels_disturbed_by", "cache_capacity_bytes")
        return {name: value for name, value in plain.items() if value or name not in optional}

    @classmethod
    def from_dict(cls, data: Any, where: str) -> Calibration:
        """Read what `to_dict` wrote; raises `DefinitionError` naming `where` and the key that is wrong, and
        `OtherVersionError` for another version's.
        """
        place = f"{where}: [calibration] "
        if not isinstance(data, Mapping):
            raise refused(place.rstrip(), data, "a table")
        plain = dict(data)
        version = plain.pop("version", None)
        if version != CALIBRATION_VERSION:
            raise OtherVersionError(f"{place}version must be {CALIBRATION_VERSION}, got {shown(version)}")
        for name, unit in _UNITS.items():
            tables = value_as(Mapping[str, Any], plain.get(name, {}), f"{place}{name}")
            for key in tables:
                _check_key(name, key, f"{place}{name}")
            plain[name] = {key: _read_constant(each, unit, f"{place}{name}.{key}") for key, each in tables.items()}
        plain["kernels"] = curves_from_dict(plain.get("kernels", {}), where)
        calibration = read_as(cls, plain, place)
        if not {"read", "copy"} & calibration.dram.keys():
            raise DefinitionError(f"{place}dram needs at least read or copy")
        try:
            datetime.fromisoformat(calibration.measured_at)
        except ValueError:
            raise refused(
                f"{place}measured_at", calibration.measured_at, "a date such as 2026-11-21T12:00:00+00:00"
            ) from None
        if not calibration.subject.strip():
            raise DefinitionError(f"{place}subject is empty")
        if calibration.cache_capacity_bytes is not None:
            _check_range("cache_capacity_bytes", calibration.cache_capacity_bytes, "B", place)
        return calibration


@dataclass(frozen=True, slots=True)
class _ConstantTable:
    """A constant as a file has it, without the unit, which is that of its table."""

    best: float
    median: float
    slow: float
    repetitions: int
    sd_ratio: float | None = None
    kernel: str = ""

    @classmethod
    def of(cls, constant: Constant) -> _ConstantTable:
        return cls(
            constant.best_value,
            constant.median_value,
            constant.slow_value,
            constant.repetition_count,
            constant.sd_ratio,
            constant.kernel,
        )

    @property
    def plain(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value not in (None, "")}


def _read_constant(data: Any, unit: str, where: str) -> Constant:
    table = read_as(_ConstantTable, data, where)
    best, median, slow = table.best, table.median, table.slow
    for name, value in (("best", best), ("median", median), ("slow", slow)):
        _check_range(name, value, unit, f"{where} ")
    if not (best <= median <= slow if unit == "s" else best >= median >= slow):
        raise DefinitionError(f"{where} must run from best over median to slow, got {best:g}, {median:g}, {slow:g}")
    if table.repetitions < 1 or (table.sd_ratio is not None and not 0 <= table.sd_ratio < 1e6):
        raise DefinitionError(f"{where} needs repetitions of at least 1, and a sd_ratio from 0")
    return Constant(unit, best, median, slow, table.sd_ratio, table.repetitions, table.kernel)


def _check_range(name: str, value: float, unit: str, where: str) -> None:
    least, most = _RANGES[unit]
    if not least <= value <= most:
        raise DefinitionError(
            f"{where}{name} must be a number of {unit} from {least:g} to {most:g}, got {shown(value)}"
        )


def _check_key(name: str, key: str, where: str) -> None:
    """Refuse a name nobody would look up: a slip of the keyboard must not silently lose a constant."""
    allowed = {"dram": ACCESS_MIXES, "cache": ACCESS_MIXES, "floors": FLOORS}.get(name)
    if allowed is not None and key not in allowed:
        raise OtherVersionError(f"{where} has an unknown field {shown(key)}. Known: {', '.join(allowed)}.")
    if name == "scaling" and not (key.isascii() and key.isdecimal() and len(key) < 7 and int(key) > 0):
        raise DefinitionError(f"{where} must be keyed by a number of cores, got {shown(key)}")
    if name in ("peaks", "casts"):
        names = key.split(">")
        if len(names) != (2 if name == "casts" else 1):
            wanted = "FROM>TO" if name == "casts" else "a format"
            raise DefinitionError(f"{where} must be keyed by {wanted}, got {shown(key)}")
        try:
            is_exact = [get_format(name).key for name in names] == names
        except UnknownNameError as error:
            raise DefinitionError(f"{where} {error}") from None
        if not is_exact:
            raise DefinitionError(f"{where} must use the formats' own keys, got {shown(key)}")
