"""Write a `Device` as the text of a chip file: the inverse of `read_device_text`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from roofline_model.chips.hardware import Device, MatchRule, Quantity

_READABLE: dict[str, tuple[tuple[str, float], ...]] = {
    "B/s": (("GB/s", 1e9),),
    "FLOP/s": (("TFLOP/s", 1e12), ("GFLOP/s", 1e9)),
    "B": (("GB", 1e9), ("GiB", 1024**3), ("MiB", 1024**2), ("KiB", 1024)),
    "Hz": (("MHz", 1e6),),
}
"""SI unit → units to try; the one that gives the shortest number is written."""


def device_text(device: Device, *, heading: str = "") -> str:
    """Return TOML that reads back as an equal device; `heading` becomes a comment above it.

    One thing is not kept by `Device` and so not written as it was: the source of a cache's capacity.
    """
    calibration, match = device.calibration, device.match
    lines = [f"# {line}" for line in heading.splitlines()]
    lines += _fields(schema=1, key=device.key, name=device.name, kind=device.kind, vendor=device.vendor)
    lines += _fields(architecture=device.architecture, aliases=device.aliases, placeholder=device.is_placeholder)
    lines += _fields(notes=device.notes)
    if match != MatchRule():
        names, capability = match.device_names, match.compute_capability
        lines += ["", "[match]", *_fields(device_names=names, compute_capability=capability)]
        lines += _fields(sm_count=match.sm_count, memory_gb=match.memory_gb)
    lines += ["", "[memory]", *_fields(bandwidth=device.bandwidth, bandwidth_achieved=device.bandwidth_achieved)]
    lines += _fields(capacity=device.capacity, system=device.system_memory)
    is_here = calibration is not None and calibration.kind == "cpu"
    source = "the kernel's files of this machine" if is_here else f"the chip file of {device.key}"
    for level in device.levels:
        capacity = Quantity(level.capacity_bytes, "B", "measured-here" if is_here else "secondary", source=source)
        lines += ["", "[[level]]", *_fields(name=level.name, capacity=capacity, bandwidth=level.bandwidth)]
    if device.chip:
        lines += ["", "[chip]", *_fields(**device.chip)]
    for key, path in device.paths.items():
        if path.kind == "native":
            lines += ["", "[[peak]]", *_fields(formats=[key], dense=path.dense, sparse=path.sparse)]
            lines += _fields(achieved=path.achieved, fp16_accumulate=path.fp16_accumulate, reason=path.reason)
        else:
            lines += ["", "[[path]]", *_fields(formats=[key], kind=path.kind, compute=path.compute_format)]
            lines += _fields(reason=path.reason)
    if calibration is not None:
        lines += _table("calibration", calibration.to_dict())
    return "\n".join(lines) + "\n"


def _fields(**values: Any) -> list[str]:
    """Return a line for each value that there is: not for None, False, and what is empty."""
    return [f"{name} = {_value(value)}" for name, value in values.items() if value not in (None, False, "", ())]


def _quantity(quantity: Quantity) -> str:
    candidates = [(_number(quantity.value), quantity.unit)]
    for unit, scale in _READABLE.get(quantity.unit, ()):
        scaled = quantity.value / scale
        if scaled * scale == quantity.value:  # the number itself matters more than how it reads
            candidates.append((_number(scaled), unit))
    value, unit = min(candidates, key=lambda candidate: len(repr(candidate[0])))
    fields: dict[str, Any] = {
        "value": value,
        "unit": unit,
        "status": quantity.status,
        "source": quantity.source,
    }
    if quantity.clock_hz is not None:
        fields["clock_mhz"] = quantity.clock_hz / 1e6
    if quantity.note:
        fields["note"] = quantity.note
    return _value(fields)


def _number(value: float) -> float | int:
    return int(value) if value == int(value) and value < 1e15 else value


def _table(name: str, table: Mapping[str, Any]) -> list[str]:
    """Return one table and those inside it: plain values first, as TOML wants."""
    plain = {key: value for key, value in table.items() if not isinstance(value, Mapping)}
    inner = {key: value for key, value in table.items() if isinstance(value, Mapping)}
    lines = ["", f"[{name}]", *(f"{_key(key)} = {_value(value)}" for key, value in plain.items())]
    for key, value in inner.items():
        lines += ["", f"[{name}.{_key(key)}]", *(f"{_key(k)} = {_value(entry)}" for k, entry in value.items())]
    return lines


def _key(key: str) -> str:
    bare = key.isascii() and key.replace("-", "").replace("_", "").isalnum()
    return key if bare else _value(key)


def _value(value: Any) -> str:
    """Return one value as TOML writes it; texts take JSON's escapes, which TOML shares except for DEL."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Quantity):
        return _quantity(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(key)} = {_value(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(entry) for entry in value) + "]"
    if isinstance(value, float):
        short = f"{value:.6g}"
        return (
            short if float(short) == value and len(short) < len(repr(value)) and not short.isdecimal() else repr(value)
        )
    return repr(value)
