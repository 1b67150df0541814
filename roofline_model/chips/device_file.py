"""Read and check chip files. A file that passes here can be trusted by everything else.

The layout (schema 1)::

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

    [[level]]                          # caches, innermost first
    name = "L2"
    capacity = {value = 24, unit = "MiB", …}
    bandwidth = {…}                    # optional

    [chip]                             # counts and limits: sm_count, clock, tdp, shared_memory_per_sm, …
    sm_count = {value = 48, unit = "", …}
    headline = {…}                     # the rate the vendor advertises, with its meaning in `note`; never used to predict

    [[peak]]                           # native compute rates
    formats = ["BF16", "FP16"]
    dense = {value = 118.8, unit = "TFLOP/s", clock_mhz = 2418, …}
    sparse = {…}                       # optional
    achieved = {…}                     # optional

    [[path]]                           # formats without a unit of their own
    formats = ["NF4"]
    kind = "dequantize"                # or "emulated"
    compute = "BF16"
    reason = "no unit: codes are looked up and multiplied in 16 bit"

    [calibration]                      # what one machine measured: written by `roofline calibrate -o FILE`
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from roofline_model.chips.device_check import check_device, errors_of
from roofline_model.chips.hardware import STATUSES, ComputePath, Device, MatchRule, MemoryLevel, Quantity
from roofline_model.chips.machine_constants import Calibration
from roofline_model.core.definition_text import parse_definition, read_definition_text, shown
from roofline_model.core.errors import DefinitionError, UnknownNameError
from roofline_model.core.finding import subject_text
from roofline_model.formats.catalog import get_format

__all__ = ["check_device", "errors_of", "read_device_file", "read_device_text"]

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
_QUANTITY_FIELDS = {"value", "unit", "status", "source", "clock_mhz", "note"}
_CHIP_UNITS: dict[str, str] = {
    "sm_count": "", "core_count": "", "tensor_cores": "", "registers_per_sm": "", "warps_per_sm": "", "blocks_per_sm": "",
    "exp_per_clock_per_sm": "", "clock": "Hz", "clock_max": "Hz", "memory_clock": "Hz", "tdp": "W",
    "shared_memory_per_sm": "B", "shared_memory_per_block": "B", "shared_memory_reserved_per_block": "B",
    "registers_per_thread": "", "interconnect": "B/s", "headline": "FLOP/s",
}  # fmt: skip


def read_device_file(path: Path) -> Device:
    """Read a custom chip from a TOML file; raises `DefinitionError` naming file, field and fix."""
    hint = "`roofline hardware show gb10 --toml` prints one to start from"
    text = read_definition_text(path, "chip file", hint)
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
        if self.data.get("schema") != 1:
            raise self.fail(
                f"schema must be 1, got {shown(self.data.get('schema'))} (a newer file needs a newer roofline-bench)"
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
        self._only_known("[memory]", memory, {"bandwidth", "bandwidth_achieved", "capacity"})
        if "bandwidth" not in memory:
            raise self.fail("[memory] bandwidth is missing; give {value, unit, status, source}")
        paths = self._peaks()
        paths.update(self._paths(paths))
        chip = self._table("chip")
        measured = self.data.get("calibration")
        self._only_known("[chip]", chip, set(_CHIP_UNITS))
        return Device(
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
            levels=tuple(self._level(i, table) for i, table in enumerate(self._tables("level"))),
            chip={name: self._quantity(f"[chip] {name}", value, _CHIP_UNITS[name]) for name, value in chip.items()},
            paths=paths,
            match=self._match(),
            calibration=None if measured is None else Calibration.from_dict(measured, self.where),
        )

    def _peaks(self) -> dict[str, ComputePath]:
        paths: dict[str, ComputePath] = {}
        for i, table in enumerate(self._tables("peak")):
            where = f"[[peak]] {i + 1}"
            self._only_known(where, table, {"formats", "dense", "sparse", "achieved", "reason"})
            if "dense" not in table:
                raise self.fail(f"{where}: dense is missing; give {{value, unit, status, source}}")
            dense = self._quantity(f"{where} dense", table["dense"], "FLOP/s")
            sparse = self._optional(f"{where} sparse", table.get("sparse"), "FLOP/s")
            achieved = self._optional(f"{where} achieved", table.get("achieved"), "FLOP/s")
            reason = self._optional_text(f"{where} reason", table.get("reason", ""))
            for key in self._formats(where, table):
                if key in paths:
                    raise self.fail(f"{where}: {key} is given twice")
                paths[key] = ComputePath(key, "native", key, dense, sparse, achieved, reason)
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
            compute = self._format(where, table.get("compute", ""))
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
        for name in ("value", "unit", "status", "source"):
            if name not in table:
                raise self.fail(f"{where}: {name} is missing")
        value = table["value"]
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.fail(f"{where}: value must be a number, got {shown(value)}")
        if not 0 < value < 1e30:
            raise self.fail(f"{where}: value must be positive and finite, got {shown(value)}")
        scale, si_unit = _UNITS.get(table["unit"], (0.0, "?")) if isinstance(table["unit"], str) else (0.0, "?")
        if si_unit != unit:
            known = ", ".join(name or '""' for name, (_, si) in _UNITS.items() if si == unit)
            raise self.fail(f"{where}: unit {shown(table['unit'])} does not fit; use one of {known}")
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
        names = self._strings("formats", table)
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
            raise self.fail(f"{name} is missing or not text")
        if len(value) > _LONGEST_NAME:
            raise self.fail(f"{name} must be {_LONGEST_NAME} characters at most, got {len(value):,}")
        return value

    def _optional_text(self, where: str, value: Any) -> str:
        if not isinstance(value, str):
            raise self.fail(f"{where} must be text, got {shown(value)}")
        return value

    def _strings(self, name: str, table: dict[str, Any]) -> list[str]:
        value = table.get(name, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.fail(f"{name} must be a list of texts, got {shown(value)}")
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

    def _only_known(self, where: str, table: Mapping[str, Any], known: set[str]) -> None:
        for name in table:
            if name not in known:
                raise self.fail(f"{where}: unknown field {shown(name)}. Known: {', '.join(sorted(known))}.")
