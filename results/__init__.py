"""Memory: records of runs, the store that keeps them, and what is asked of it. `open_store` is the door.

What the commands do is here for Python: `import_any`, `compare_suites` and `gate`, `case_history`, `find_records`,
`prune`, …. Names are imported when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__roofline_bench__ = True  # tells our package from another one of this common name

_PUBLIC = {
    "CanaryReading": "records.state_records",
    "DiffRules": "diff.rules",
    "EnergyReading": "records.state_records",
    "EnvironmentInfo": "records.records",
    "HardwareProfile": "records.records",
    "HistoryOptions": "history.case_history",
    "KernelAttribution": "records.state_records",
    "MachineState": "records.state_records",
    "Measurement": "records.records",
    "Method": "records.records",
    "NoiseFloor": "records.state_records",
    "PredictionRecord": "records.records",
    "ProcessInfo": "records.records",
    "Record": "records.records",
    "RecordQuery": "store.query",
    "ResultStore": "store.store",
    "RunInfo": "records.records",
    "SuiteSide": "diff.suites",
    "TelemetrySample": "records.records",
    "case_histories": "history.case_history",
    "case_history": "history.case_history",
    "check_store": "operations.check",
    "compare_suites": "diff.suites",
    "find_baseline": "diff.baseline",
    "find_records": "store.query",
    "finished_runs": "store.push",
    "gate": "diff.gate",
    "import_any": "exchange.importing",
    "load_annotations": "watch.annotations",
    "load_frame": "exchange.exported.frame",
    "load_quarantine": "watch.quarantine",
    "open_store": "store.store",
    "parse_fail_on": "diff.gate",
    "prune": "operations.retention",
    "push": "store.push",
    "read_lots": "store.query",
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
