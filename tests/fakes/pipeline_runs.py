"""Measured pairs of a pipeline without a clock: what a run of pytest would have exported."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from model_records import model_record
from run_makers import flat_measurement, make_run

from bench_cases.models.model_cases import ModelCase
from bench_cases.models.reference import find_model
from bench_cases.pipeline.measure import MeasuredPair, MeasureRequest, read_pair
from results.cases.case_result import CaseResult, case_results
from results.exchange.exported.export import ExportedRun, export_document
from results.records.records import Method, PredictionRecord, ProcessInfo, Record
from roofline_model.chips.hardware import Device, create_custom_asic

REFERENCE = {"source": "reference"}
ON_TEXT = {
    "source": "measured",
    "text": "a text",
    "is_language": True,
    "tokens_count": 1016,
    "kl_nats_per_token": {"value": 0.02, "low": 0.018, "high": 0.022},
    "top1_agreement_ratio": {"value": 0.93, "low": 0.9, "high": 0.95},
    "perplexity_ratio": {"value": 1.015, "low": 1.005, "high": 1.025},
}
ON_RANDOM_TOKENS = {**ON_TEXT, "text": "random tokens", "is_language": False}
MEMORY = {"held_bytes": 300, "original_bytes": 1000, "cache_bytes": 50, "peak_bytes": 10}


def cpu_chip() -> Device:
    """A chip of kind cpu with round numbers and no constants: ideal times only."""
    return replace(create_custom_asic("test cpu", 40, {"BF16": 0.4, "FP32": 0.2}), kind="cpu")


def model_case(precision: str) -> ModelCase:
    """A decode step of a small model."""
    return ModelCase(find_model("seeded-llama-1m"), precision, "decode", 1, 128, "BF16")


def records(
    precision: str,
    *times_s: float,
    spread: float | None = 0.01,
    run_id: str = "a" * 32,
    quality: dict[str, Any] = ON_TEXT,
    method: str = "round-to-nearest",
    predictions: tuple[PredictionRecord, ...] = (),
    issue_s: float | None = None,
    flags: tuple[str, ...] = (),
    status: str = "failed",
    reason: str = "",
    **memory: int | None,
) -> list[Record]:
    """A record per process, its median with an interval of ± `spread` (None: too few samples); without times one with
    a status and a reason.
    """
    case = model_case(precision)
    facts = {"name": "m", "precision": precision, "phase": "decode", "method": method}
    extra = {"model": facts, "tokens_per_call": 1, "memory": MEMORY | memory, "quality": quality}
    if issue_s is not None:
        extra["issue_s"] = issue_s
    timed = Method("monotonic", "1", {})
    return [
        Record(
            record_id=f"{precision}{ordinal}".encode().hex().ljust(32, "0")[:32],
            run_id=run_id,
            case=case.case,
            status="measured" if time_s else status,  # type: ignore[arg-type]
            reason=reason,
            method=timed if time_s else None,
            measurement=flat_measurement(time_s, 12, half_width=spread, max_error=0.003, flags=flags)
            if time_s
            else None,
            predictions=predictions,
            process=ProcessInfo(ordinal),
            extra=extra,
        )
        for ordinal, time_s in enumerate(times_s or (0.0,))
    ]


def measured(precision: str, *times_s: float, **given: Any) -> CaseResult:
    """The result of `records`."""
    (result,) = case_results(records(precision, *times_s, **given))
    return result


def baseline(*times_s: float, **given: Any) -> CaseResult:
    """The 16-bit model of the same processes."""
    return measured("BF16", *times_s, **(BASELINE | given))


BASELINE = {"held_bytes": 1000, "quality": REFERENCE, "method": ""}


def predicted(kind: str, ms: float, host_ms: float | None = None) -> PredictionRecord:
    """A prediction, of an expected time with the framework's own."""
    terms = None if host_ms is None else {"host": host_ms * 1e-3}
    (ideal,) = (each for each in model_record("BF16").predictions if each.kind == "ideal")
    return replace(ideal, kind=kind, time_s=ms * 1e-3, terms_s=terms)  # type: ignore[arg-type]


class FakeMeasure:
    """Answers like `measure_pair`, with a speed-up per precision; remembers what it was asked. `failing`: precisions
    that have no time.
    """

    def __init__(self, speedups: dict[str, float], base_s: float = 0.01, failing: tuple[str, ...] = ()) -> None:
        self.speedups, self.base_s, self.failing = speedups, base_s, failing
        self.asked: list[MeasureRequest] = []

    def __call__(self, request: MeasureRequest) -> MeasuredPair:
        self.asked.append(request)
        precision, count = request.case.precision, request.processes_count
        run = make_run(run_id=precision.encode().hex().ljust(32, "0"))
        base = records("BF16", *[self.base_s] * count, run_id=run.run_id, **BASELINE)
        if precision in self.failing:
            own = records(precision, run_id=run.run_id, reason="timeout after 180 s")
        else:
            own = records(precision, *[self.base_s / self.speedups[precision]] * count, run_id=run.run_id)
        request.export.write_text(json.dumps(export_document(ExportedRun(run, (), (), (*base, *own)))))
        return read_pair(request)
