"""Measures one candidate beside the 16-bit model: both in the same fresh processes, so that their ratio is a paired
one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from bench_cases.models.model_cases import ModelCase
from bench_cases.pipeline.pytest_run import case_arguments, pytest_command, pytest_failure_text, run_pytest
from results.cases.case_result import CaseResult, case_results
from results.exchange.exported.load import read_export
from results.records.model_figures import model_figures
from results.records.records import Record
from roofline_model.core.errors import StoreError

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

    @property
    def export(self) -> Path:
        """The exported run, which is kept: an interrupted pipeline goes on with it."""
        return self.folder / f"{self.name}.json"


@dataclass(frozen=True, slots=True)
class MeasuredPair:
    """What a run of pytest stored of the candidate and of the 16-bit model, by the same processes."""

    baseline: CaseResult | None
    """None: it was not reached."""
    candidate: CaseResult | None
    run_id: str = ""
    """Of the stored run; empty when there is none."""
    failure: str = ""
    """Why pytest stored no run; empty where it did."""

    def reason_of(self, case: CaseResult | None) -> str:
        """Return why one of the two has no time."""
        return self.failure or "not reached" if case is None else case.reason or "no reason stored"


Measure = Callable[[MeasureRequest], MeasuredPair]


def measure_pair(request: MeasureRequest) -> MeasuredPair:
    """Measure with pytest and return what it stored, or why it stored nothing."""
    log = request.folder / f"{request.name}.log"
    request.export.unlink(missing_ok=True)
    code = run_pytest(measure_command(request), log, timeout_s=_whole_s(request))
    if not request.export.is_file():
        return MeasuredPair(None, None, failure=pytest_failure_text(log, code))
    try:
        return read_pair(request)
    except StoreError as error:
        return MeasuredPair(None, None, failure=str(error))


def read_pair(request: MeasureRequest) -> MeasuredPair:
    """Return the pair that an exported run holds. Raises `StoreError` where it cannot be read."""
    exported = read_export(request.export)
    baseline, candidate = (_case_of(exported.records, case.precision) for case in (request.baseline, request.case))
    return MeasuredPair(baseline, candidate, exported.run.run_id)


def _case_of(records: Iterable[Record], precision: str) -> CaseResult | None:
    """Return the result of one precision of the model; None without a record of it."""
    of_precision = []
    for record in records:
        figures = model_figures(record)
        if figures is not None and figures.precision == precision:
            of_precision.append(record)
    return next(iter(case_results(of_precision)), None)


def measure_command(request: MeasureRequest) -> list[str]:
    """Return the command line of pytest for a request."""
    return pytest_command(
        *case_arguments(request.baseline, request.case),
        "--roofline-hw",
        request.hw,
        "--roofline-run",
        request.label,
        "--roofline-json",
        str(request.export),
        "--roofline-processes",
        str(request.processes_count),
        "--roofline-timeout",
        f"{request.timeout_s:.0f}",
        "--roofline-max-seconds",
        f"{request.sampling_s:.3g}",
        *(("--roofline-db", request.db) if request.db else ()),
        *(("--roofline-text", request.text) if request.text else ()),
    )


def _whole_s(request: MeasureRequest) -> float:
    """Time for all of pytest: both cases in every process, and a calibration of the machine."""
    return 900.0 + 2 * request.processes_count * request.timeout_s
