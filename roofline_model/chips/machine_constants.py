"""What a machine measured about itself: ceilings and constants with their spread, and under which conditions.

`plugin.calibrate.cpu_calibration` measures them, a chip file carries them in its [calibration] table, `calibrated.py`
predicts with them. Times are in seconds, rates in B/s or FLOP/s; every number is the outcome of repeated measuring,
never a guess.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from roofline_model.chips.curve import KernelCurve, curves_from_dict, curves_to_dict
from roofline_model.core.definition_text import shown
from roofline_model.core.errors import DefinitionError, OtherVersionError, UnknownNameError
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
_CONSTANT_FIELDS = {"best", "median", "slow", "sd_ratio", "repetitions", "kernel"}


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
    kind: str
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
    provenance: str = "measured-here"
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
        plain: dict[str, Any] = {
            "version": CALIBRATION_VERSION,
            "provenance": self.provenance,
            "measured_at": self.measured_at,
            "subject": self.subject,
            "kind": self.kind,
            "fingerprint": self.fingerprint,
            "disturbed_by": list(self.disturbed_by),
        }
        if self.cache_capacity_bytes is not None:
            plain["cache_capacity_bytes"] = self.cache_capacity_bytes
        plain["conditions"] = dict(self.conditions)
        for name in _UNITS:
            table: Mapping[str, Constant] = getattr(self, name)
            plain[name] = {key: _constant_dict(constant) for key, constant in table.items()}
        if self.kernels:
            plain["kernels"] = curves_to_dict(self.kernels)
        if self.kernels_disturbed_by:
            plain["kernels_disturbed_by"] = list(self.kernels_disturbed_by)
        return plain

    @classmethod
    def from_dict(cls, data: Any, where: str) -> Calibration:
        """Read what `to_dict` wrote; raises `DefinitionError` naming `where` and the key that is wrong."""
        reader = _Reader(where)
        if not isinstance(data, dict):
            raise reader.fail("", "is not a table")
        allowed = {"version", "provenance", "measured_at", "subject", "kind", "fingerprint", "disturbed_by"}
        reader.only_known(
            "", data, allowed | {"cache_capacity_bytes", "conditions", "kernels", "kernels_disturbed_by", *_UNITS}
        )
        if data.get("version") != CALIBRATION_VERSION:
            raise reader.fail("version", f"must be {CALIBRATION_VERSION}, got {shown(data.get('version'))}")
        kind = reader.text(data, "kind")
        if kind not in ("cpu", "cuda"):
            raise reader.fail("kind", f"must be cpu or cuda, got {shown(kind)}")
        provenance = data.get("provenance", "measured-here")
        if provenance not in ("measured-here", "measured"):
            raise reader.fail("provenance", f"must be measured-here or measured, got {shown(provenance)}")
        tables = {name: reader.constants(name, data.get(name, {}), unit) for name, unit in _UNITS.items()}
        if "read" not in tables["dram"] and "copy" not in tables["dram"]:
            raise reader.fail("dram", "needs at least read or copy")
        capacity, kernels = data.get("cache_capacity_bytes"), data.get("kernels", {})
        return cls(
            measured_at=reader.moment(data),
            subject=reader.text(data, "subject"),
            kind=kind,
            provenance=provenance,
            cache_capacity_bytes=None if capacity is None else reader.number("cache_capacity_bytes", capacity, "B"),
            conditions=reader.conditions(data.get("conditions", {})),
            disturbed_by=reader.flags(data, "disturbed_by"),
            fingerprint=data.get("fingerprint", "") if isinstance(data.get("fingerprint", ""), str) else "",
            kernels=() if kernels == {} else curves_from_dict(kernels, where),
            kernels_disturbed_by=reader.flags(data, "kernels_disturbed_by"),
            **tables,
        )


def _constant_dict(constant: Constant) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "best": constant.best_value,
        "median": constant.median_value,
        "slow": constant.slow_value,
        "repetitions": constant.repetition_count,
    }
    if constant.sd_ratio is not None:
        plain["sd_ratio"] = constant.sd_ratio
    if constant.kernel:
        plain["kernel"] = constant.kernel
    return plain


class _Reader:
    """Checks one [calibration] table; knows its name for the messages."""

    def __init__(self, where: str) -> None:
        self.where = where

    def fail(self, key: str, message: str) -> DefinitionError:
        return DefinitionError(f"{self.where}: [calibration]{' ' + key if key else ''} {message}")

    def only_known(self, key: str, table: Mapping[str, Any], allowed: set[str]) -> None:
        for name in table:
            if name not in allowed:
                error = self.fail(key, f"has an unknown field {shown(name)}. Known: {', '.join(sorted(allowed))}.")
                raise OtherVersionError(str(error))

    def text(self, table: Mapping[str, Any], name: str) -> str:
        value = table.get(name)
        if not isinstance(value, str) or not value.strip():
            raise self.fail(name, "is missing or not text")
        return value

    def moment(self, data: Mapping[str, Any]) -> str:
        value = self.text(data, "measured_at")
        try:
            datetime.fromisoformat(value)
        except ValueError:
            raise self.fail(
                "measured_at", f"must be a date such as 2026-11-21T12:00:00+00:00, got {shown(value)}"
            ) from None
        return value

    def number(self, key: str, value: Any, unit: str) -> float:
        least, most = _RANGES[unit]
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
            raise self.fail(key, f"must be a number of {unit} from {least:g} to {most:g}, got {shown(value)}")
        return float(value)

    def conditions(self, value: Any) -> dict[str, str | int | float | bool]:
        if not isinstance(value, dict) or not all(
            isinstance(condition, str | int | float | bool) for condition in value.values()
        ):
            raise self.fail("conditions", "must be a table of texts and numbers")
        return value

    def flags(self, data: Mapping[str, Any], name: str) -> tuple[str, ...]:
        value = data.get(name, [])
        if not isinstance(value, list) or not all(isinstance(flag, str) for flag in value):
            raise self.fail(name, f"must be a list of texts, got {shown(value)}")
        return tuple(value)

    def constants(self, name: str, table: Any, unit: str) -> dict[str, Constant]:
        if not isinstance(table, dict):
            raise self.fail(name, f"must be a table, got {shown(table)}")
        for key in table:
            self.check_key(name, key)
        return {key: self.constant(f"{name}.{key}", value, unit) for key, value in table.items()}

    def check_key(self, name: str, key: str) -> None:
        """Refuse a name nobody would look up: a slip of the keyboard must not silently lose a constant."""
        allowed = {"dram": ACCESS_MIXES, "cache": ACCESS_MIXES, "floors": FLOORS}.get(name)
        if allowed is not None and key not in allowed:
            raise self.fail(name, f"has an unknown field {shown(key)}. Known: {', '.join(allowed)}.")
        if name == "scaling" and not (key.isascii() and key.isdecimal() and len(key) < 7 and int(key) > 0):
            raise self.fail(name, f"must be keyed by a number of cores, got {shown(key)}")
        if name in ("peaks", "casts"):
            names = key.split(">")
            if len(names) != (2 if name == "casts" else 1):
                raise self.fail(
                    name, f"must be keyed by {'FROM>TO' if name == 'casts' else 'a format'}, got {shown(key)}"
                )
            try:
                exact = [get_format(name).key for name in names] == names
            except UnknownNameError as error:
                raise self.fail(name, str(error)) from None
            if not exact:
                raise self.fail(name, f"must use the formats' own keys, got {shown(key)}")

    def constant(self, key: str, table: Any, unit: str) -> Constant:
        if not isinstance(table, dict):
            raise self.fail(key, f"must be {{best, median, slow, repetitions}}, got {shown(table)}")
        self.only_known(key, table, _CONSTANT_FIELDS)
        for name in ("best", "median", "slow", "repetitions"):
            if name not in table:
                raise self.fail(key, f"lacks {name}")
        best, median, slow = (self.number(f"{key} {name}", table[name], unit) for name in ("best", "median", "slow"))
        if not (best <= median <= slow if unit == "s" else best >= median >= slow):
            raise self.fail(key, f"must run from best over median to slow, got {best:g}, {median:g}, {slow:g}")
        count = table["repetitions"]
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise self.fail(f"{key} repetitions", f"must be a whole number of at least 1, got {shown(count)}")
        spread = table.get("sd_ratio")
        if spread is not None and (
            isinstance(spread, bool) or not isinstance(spread, int | float) or not 0 <= spread < 1e6
        ):
            raise self.fail(f"{key} sd_ratio", f"must be a number from 0, got {shown(spread)}")
        kernel = table.get("kernel", "")
        if not isinstance(kernel, str):
            raise self.fail(f"{key} kernel", f"must be text, got {shown(kernel)}")
        return Constant(unit, best, median, slow, None if spread is None else float(spread), count, kernel)
