"""Write a `Device` as the text of a chip file: the inverse of `read_device_text`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from roofline_model.chips.hardware import Device, Quantity, Status
from roofline_model.core.toml_text import toml_text

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
    is_here = calibration is not None and calibration.kind == "cpu"
    source = "the kernel's files of this machine" if is_here else f"the chip file of {device.key}"
    status: Status = "measured-here" if is_here else "secondary"
    native = {key: path for key, path in device.paths.items() if path.kind == "native"}
    document = {
        "schema": 1,
        **_given(key=device.key, name=device.name, kind=device.kind, vendor=device.vendor),
        **_given(architecture=device.architecture, aliases=device.aliases, placeholder=device.is_placeholder),
        **_given(notes=device.notes),
        "match": _given(**asdict(match)) or None,
        "memory": _given(
            bandwidth=device.bandwidth,
            bandwidth_achieved=device.bandwidth_achieved,
            capacity=device.capacity,
            system=device.system_memory,
        ),
        "level": [
            _given(
                name=level.name,
                capacity=Quantity(level.capacity_bytes, "B", status, source=source),
                bandwidth=level.bandwidth,
            )
            for level in device.levels
        ],
        "chip": _given(**device.chip) or None,
        "peak": [
            {
                "formats": [key],
                **_given(dense=path.dense, sparse=path.sparse, achieved=path.achieved),
                **_given(fp16_accumulate=path.fp16_accumulate, reason=path.reason),
            }
            for key, path in native.items()
        ],
        "path": [
            {"formats": [key], **_given(kind=path.kind, compute=path.compute_format, reason=path.reason)}
            for key, path in device.paths.items()
            if key not in native
        ],
        "calibration": None if calibration is None else calibration.to_dict(),
    }
    return toml_text(document, comment=heading)


def _given(**values: Any) -> dict[str, Any]:
    """Return the values that there are: not None, False, and what is empty."""
    return {
        name: _quantity(value) if isinstance(value, Quantity) else value
        for name, value in values.items()
        if value not in (None, False, "", ())
    }


def _quantity(quantity: Quantity) -> dict[str, Any]:
    candidates = [(_number(quantity.value), quantity.unit)]
    for unit, scale in _READABLE.get(quantity.unit, ()):
        scaled = quantity.value / scale
        if scaled * scale == quantity.value:  # the number itself matters more than how it reads
            candidates.append((_number(scaled), unit))
    value, unit = min(candidates, key=lambda candidate: len(repr(candidate[0])))
    clock_mhz = None if quantity.clock_hz is None else quantity.clock_hz / 1e6
    return {
        "value": value,
        "unit": unit,
        **_given(status=quantity.status, source=quantity.source, clock_mhz=clock_mhz, note=quantity.note),
    }


def _number(value: float) -> float | int:
    return int(value) if value == int(value) and value < 1e15 else value
