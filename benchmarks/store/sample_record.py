"""A typical measured record, as `bench_cases` stores one: 100 samples, one prediction, the method, the process."""

from __future__ import annotations

import os
import random
import uuid
from dataclasses import replace

from plugin.samples.stats import summarize
from results.records.records import EnvironmentInfo, Method, PredictionRecord, ProcessInfo, Record, RunInfo
from roofline_model import gemm, get_hardware, predict

SAMPLE_COUNT = 100
STARTED_AT = "2026-01-01T00:00:00.000000+00:00"


def run_info() -> RunInfo:
    """Return a run with an environment of the usual size."""
    facts = {f"fact_{number}": "some text of the usual length" for number in range(25)}
    return RunInfo(uuid.uuid4().hex, STARTED_AT, hardware_key="gb10", environment=EnvironmentInfo(facts, facts))


def measured_record(run_id: str, seed: int = 0) -> Record:
    """Return one measured record of the run; another seed gives another shape and so another case."""
    work = gemm(1, 4096, 1024 + 64 * seed, a="BF16", b="INT4")
    case = work.case("tinygemm")
    ideal = predict(work, get_hardware("gb10"), cache=case.cache)
    source = random.Random(seed)
    samples_s = tuple(source.lognormvariate(0, 0.02) * ideal.time_s / 0.7 for _ in range(SAMPLE_COUNT))
    measurement = replace(
        summarize(samples_s),
        calls_per_sample=4,
        stop_reason="converged",
        first_call_s=0.01,
        warmup_calls=64,
        wall_s=0.4,
        rotation_count=8,
        working_set_bytes=8 * work.cost.total_bytes,
        max_error=0.003,
        tolerance=0.01,
    )
    return Record(
        record_id=uuid.uuid4().hex,
        run_id=run_id,
        case=case,
        status="measured",
        test_id=f"bench_cases/test_gemv.py::test_gemv[{case.id}]",
        created_at=STARTED_AT,
        process=ProcessInfo(0, os.getpid(), "host", STARTED_AT),
        method=Method("monotonic", "1", {"target_ci_ratio": 0.01, "max_seconds": 0.7, "cache": "rotation"}),
        measurement=measurement,
        predictions=(PredictionRecord.from_prediction(ideal, "0" * 16, measurement.median_s),),
        extra={"origin": "llama-3-8b o_proj"},
    )


def again(record: Record) -> Record:
    """Return the same record under an id of its own."""
    return replace(record, record_id=uuid.uuid4().hex)
