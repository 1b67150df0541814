"""Write a `Device` as the text of a chip file: the inverse of `read_device_text`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from roofline_model.chips.hardware import Device, MatchRule, MemoryLevel, Quantity

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
    lines = [f"# {line}" for line in heading.splitlines()]
    lines += ["schema = 1"]
    lines += [f"{name} = {_value(getattr(device, name))}" for name in ("key", "name", "kind")]
    lines += [f"{name} = {_value(text)}" for name in ("vendor", "architecture") if (text := getattr(device, name))]
    lines += [f"aliases = {_value(list(device.aliases))}"] if device.aliases else []
    lines += ["placeholder = true"] if device.is_placeholder else []
    lines += [f"notes = {_value(list(device.notes))}"] if device.notes else []
    lines += _match(device.match)
    lines += ["", "[memory]", f"bandwidth = {_quantity(device.bandwidth)}"]
    lines += [
        f"{name} = {_quantity(quantity)}"
        for name, quantity in (
            ("bandwidth_achieved", device.bandwidth_achieved),
            ("capacity", device.capacity),
            ("system", device.system_memory),
        )
        if quantity is not None
    ]
    for level in device.levels:
        lines += _level(device, level)
    if device.chip:
        lines += ["", "[chip]", *(f"{name} = {_quantity(quantity)}" for name, quantity in device.chip.items())]
    lines += _paths(device)
    if device.calibration is not None:
        lines += _table("calibration", device.calibration.to_dict())
    return "\n".join(lines) + "\n"


def _match(rule: MatchRule) -> list[str]:
    if rule == MatchRule():
        return []
    lines = ["", "[match]", f"device_names = {_value(list(rule.device_names))}"]
    lines += [] if rule.compute_capability is None else [f"compute_capability = {_value(rule.compute_capability)}"]
    lines += [] if rule.sm_count is None else [f"sm_count = {rule.sm_count}"]
    return lines + ([] if rule.memory_gb is None else [f"memory_gb = {_value(list(rule.memory_gb))}"])


def _level(device: Device, level: MemoryLevel) -> list[str]:
    here = device.calibration is not None and device.calibration.kind == "cpu"
    source = "the kernel's files of this machine" if here else f"the chip file of {device.key}"
    capacity = Quantity(level.capacity_bytes, "B", "measured-here" if here else "secondary", source=source)
    lines = ["", "[[level]]", f"name = {_value(level.name)}", f"capacity = {_quantity(capacity)}"]
    return lines + ([] if level.bandwidth is None else [f"bandwidth = {_quantity(level.bandwidth)}"])


def _paths(device: Device) -> list[str]:
    lines: list[str] = []
    for key, path in device.paths.items():
        if path.kind == "native":
            lines += ["", "[[peak]]", f"formats = {_value([key])}", f"dense = {_quantity(path.dense)}"]
            optional = (
                ("sparse", path.sparse),
                ("achieved", path.achieved),
                ("fp16_accumulate", path.fp16_accumulate),
            )
            lines += [f"{name} = {_quantity(quantity)}" for name, quantity in optional if quantity is not None]
        else:
            lines += ["", "[[path]]", f"formats = {_value([key])}", f"kind = {_value(path.kind)}"]
            lines += [f"compute = {_value(path.compute_format)}"]
        lines += [f"reason = {_value(path.reason)}"] if path.reason else []
    return lines


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
