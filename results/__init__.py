"""Memory: records of runs, the store that keeps them, and what is asked of it. `open_store` is the door.

What the commands do is here for Python: `import_any`, `compare_suites` and `gate`, `case_history`, `find_records`, `prune`, ….
Names are imported when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__roofline_bench__ = True  # tells our package from another one of this common name

_PUBLIC = {
    "CanaryReading": "state_records",
    "DiffRules": "diff.rules",
    "EnergyReading": "state_records",
    "EnvironmentInfo": "records",
    "HardwareProfile": "records",
    "HistoryOptions": "history.case_history",
    "KernelAttribution": "state_records",
    "MachineState": "state_records",
    "Measurement": "records",
    "Method": "records",
    "NoiseFloor": "state_records",
    "PredictionRecord": "records",
    "ProcessInfo": "records",
    "Record": "records",
    "RecordQuery": "query",
    "ResultStore": "store",
    "RunInfo": "records",
    "SuiteSide": "diff.suites",
    "TelemetrySample": "records",
    "case_histories": "history.case_history",
    "case_history": "history.case_history",
    "check_store": "store_check",
    "compare_suites": "diff.suites",
    "copy_store": "store_copy",
    "deliver_waiting": "deliver",
    "find_baseline": "diff.baseline",
    "find_records": "query",
    "gate": "diff.gate",
    "import_any": "exchange.importing",
    "load_annotations": "history.annotations",
    "load_frame": "frame",
    "load_quarantine": "diff.quarantine",
    "open_store": "store",
    "parse_fail_on": "diff.gate",
    "prune": "retention",
    "read_lots": "query",
    "stats_of": "store_stats",
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
