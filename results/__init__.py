"""Memory: records of runs, and the store that keeps them. `open_store` is the door."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__roofline_bench__ = True  # tells our package from another one of this common name

_PUBLIC = {
    "CanaryReading": "state_records",
    "EnergyReading": "state_records",
    "EnvironmentInfo": "records",
    "HardwareProfile": "records",
    "KernelAttribution": "state_records",
    "MachineState": "state_records",
    "Measurement": "records",
    "Method": "records",
    "NoiseFloor": "state_records",
    "PredictionRecord": "records",
    "ProcessInfo": "records",
    "Record": "records",
    "ResultStore": "store",
    "RunInfo": "records",
    "TelemetrySample": "records",
    "load_frame": "frame",
    "open_store": "store",
}

__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_PUBLIC[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
