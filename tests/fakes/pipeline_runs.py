"""Measured pairs of a pipeline without a clock: what a run of pytest would have stored."""

from __future__ import annotations

import json
from dataclasses import replace

from bench_cases.pipeline.measure import MeasuredPair, MeasureRequest
from bench_cases.pipeline.records import (
    MeasuredCase,
    MeasuredQuality,
    PredictedTime,
    ProcessTime,
    Spread,
)
from roofline_model.chips.hardware import Device, create_custom_asic

REFERENCE = MeasuredQuality("reference")
ON_TEXT = MeasuredQuality(
    "measured",
    text="a text",
    is_language=True,
    tokens_count=1016,
    kl=Spread(0.02, 0.018, 0.022),
    top1=Spread(0.93, 0.9, 0.95),
    perplexity=Spread(1.015, 1.005, 1.025),
)
ON_RANDOM_TOKENS = replace(ON_TEXT, text="random tokens", is_language=False)


def cpu_chip() -> Device:
    """A chip of kind cpu with round numbers and no constants: ideal times only."""
    return replace(create_custom_asic("test cpu", 40, {"BF16": 0.4, "FP32": 0.2}), kind="cpu")


def measured(precision: str, *times_s: float, spread: float | None = 0.01, **fields) -> MeasuredCase:
    """A case with one median per process, each with an interval of ± `spread` (None: too few samples)."""
    times = tuple(
        ProcessTime(
            index + 1,
            time,
            None if spread is None else time * (1 - spread),
            None if spread is None else time * (1 + spread),
        )
        for index, time in enumerate(times_s)
    )
    known_figures = {
        "held_bytes": 300,
        "original_bytes": 1000,
        "cache_bytes": 50,
        "peak_bytes": 10,
        "quality": ON_TEXT,
        "method": "round-to-nearest",
        "check_error": 0.003,
    }
    return replace(MeasuredCase(precision, "measured", times=times), **{**known_figures, **fields})


def baseline(*times_s: float, **fields) -> MeasuredCase:
    """The 16-bit model of the same processes."""
    return measured("BF16", *times_s, **{"held_bytes": 1000, "quality": REFERENCE, "method": "", **fields})


def predicted(ms: float, host_ms: float | None = None) -> PredictedTime:
    return PredictedTime(ms * 1e-3, ms * 0.9e-3, ms * 1.1e-3, None if host_ms is None else host_ms * 1e-3)


class FakeMeasure:
    """Answers like `measure_pair`, with a speed-up per precision; remembers what it was asked."""

    def __init__(self, speedups: dict[str, float], base_s: float = 0.01, **fields) -> None:
        self.speedups, self.base_s, self.fields = speedups, base_s, fields
        self.asked: list[MeasureRequest] = []

    def __call__(self, request: MeasureRequest) -> MeasuredPair:
        self.asked.append(request)
        precision = request.case.precision
        own_s = self.base_s / self.speedups[precision]
        count = request.processes_count
        pair = MeasuredPair(
            baseline(*[self.base_s] * count), measured(precision, *[own_s] * count, **self.fields), f"run-{precision}"
        )
        json.dumps(pair.candidate.plain())  # what a state file has to hold
        return pair
