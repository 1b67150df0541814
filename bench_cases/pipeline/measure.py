"""Measures one candidate beside the 16-bit model: both in the same fresh processes, so that their ratio is a paired
one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench_cases.models.model_cases import ModelCase
from bench_cases.pipeline.pytest_run import (
    case_arguments,
    export_of,
    pytest_command,
    pytest_failure_text,
    run_pytest,
)
from bench_cases.pipeline.records import MeasuredCase, cases_of_export

LEAST_CASE_S = 180.0
"""Loading torch, torchao and a small model, and quantising it, on a busy machine."""
CASE_S_PER_BILLION = {"cpu": 600.0, "cuda": 60.0}
"""More for every 1e9 parameters: loading twice, quantising, scoring the text with both models."""
AWQ_FACTOR = 4.0
"""A calibrated method runs the model over text and searches 20 scales per layer."""
SAMPLES_WANTED_COUNT = 60
LEAST_SAMPLING_S, MOST_SAMPLING_S = 2.0, 60.0


@dataclass(frozen=True, slots=True)
class MeasureRequest:
    """One candidate to measure."""

    baseline: ModelCase
    case: ModelCase
    hw: str
    device: str
    """cpu or cuda."""
    db: str | None
    label: str
    """Of the stored run."""
    folder: Path
    """Where log and export go."""
    processes_count: int
    parameters_count: int
    slowest_s: float | None
    """Expected time of the slower of the two passes; None: unknown."""
    text: str

    @property
    def timeout_s(self) -> float:
        """Time one case may take in one process."""
        billions = self.parameters_count / 1e9
        allowed = LEAST_CASE_S + CASE_S_PER_BILLION[self.device] * billions
        return allowed * (AWQ_FACTOR if self.case.method == "AWQ" else 1.0) + 2 * self.sampling_s

    @property
    def sampling_s(self) -> float:
        """Time to sample a case for: enough passes for an interval."""
        sampling_time_s = SAMPLES_WANTED_COUNT * (self.slowest_s or 0.0)
        return min(MOST_SAMPLING_S, max(LEAST_SAMPLING_S, sampling_time_s))

    @property
    def name(self) -> str:
        """Name of log and export."""
        return self.case.precision.replace(".", "_")


@dataclass(frozen=True, slots=True)
class MeasuredPair:
    """The candidate and the 16-bit model of the same processes."""

    baseline: MeasuredCase
    candidate: MeasuredCase
    run_id: str = ""
    """Of the stored run; empty when there is none."""


Measure = Callable[[MeasureRequest], MeasuredPair]


def measure_pair(request: MeasureRequest) -> MeasuredPair:
    """Measure with pytest and return what it stored; what went wrong is the reason of a case that was not measured."""
    export, log = request.folder / f"{request.name}.json", request.folder / f"{request.name}.log"
    export.unlink(missing_ok=True)
    names = (request.baseline.precision, request.case.precision)
    code = run_pytest(measure_command(request, export), log, timeout_s=_whole_s(request))
    document = export_of(export)
    if document is None:
        reason = pytest_failure_text(log, code)
        return _unmeasured(names, reason)
    try:
        cases = cases_of_export(document, names)
        return MeasuredPair(cases[names[0]], cases[names[1]], str(document["run"]["run_id"]))
    except (KeyError, TypeError, ValueError) as error:
        reason = f"export unreadable ({type(error).__name__}: {error})"
        return _unmeasured(names, reason)


def measure_command(request: MeasureRequest, export: Path) -> list[str]:
    """Return the command line of pytest for a request."""
    return pytest_command(
        *case_arguments(request.baseline, request.case),
        "--roofline-hw",
        request.hw,
        "--roofline-run",
        request.label,
        "--roofline-json",
        str(export),
        "--roofline-processes",
        str(request.processes_count),
        "--roofline-timeout",
        f"{request.timeout_s:.0f}",
        "--roofline-max-seconds",
        f"{request.sampling_s:.3g}",
        *(("--roofline-db", request.db) if request.db else ()),
        *(("--roofline-text", request.text) if request.text else ()),
    )


def _unmeasured(names: tuple[str, str], reason: str) -> MeasuredPair:
    return MeasuredPair(MeasuredCase(names[0], "failed", reason), MeasuredCase(names[1], "failed", reason))


def _whole_s(request: MeasureRequest) -> float:
    """Time for all of pytest: both cases in every process, and a calibration of the machine."""
    return 900.0 + 2 * request.processes_count * request.timeout_s
