"""Wrote run_v2.json and store_v2.sqlite with schema 2; kept to show how. A later schema gets a generator of its own.

Run from the repository root: python tests/golden/make_golden_v2.py FOLDER
"""

from __future__ import annotations

import json
import math
import sqlite3
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from results.exchange.exported.export import EXPORT_VERSION, export_run_json
from results.records.records import (
    EnvironmentInfo,
    HardwareProfile,
    Measurement,
    Method,
    PredictionRecord,
    ProcessInfo,
    Record,
    RunInfo,
    TelemetrySample,
)
from results.records.state_records import CanaryReading, EnergyReading, KernelAttribution, MachineState, NoiseFloor
from results.store.store import open_store
from roofline_model.core.finding import finding
from roofline_model.operators.case import Case

RUN = RunInfo(
    run_id="0" * 31 + "2",
    started_at="2026-01-02T03:04:05.678901+00:00",
    label="golden 2",
    finished_at="2026-01-02T03:05:00.000000+00:00",
    status="complete",
    exit_code=0,
    hardware_key="b10",
    command="pytest bench_cases -k gemv",
    git_commit="0123456789abcdef0123456789abcdef01234567",
    git_branch="main",
    git_is_dirty=False,
    plugin_version="0.2.0",
    environment=EnvironmentInfo({"cpu": "any", "torch": "2.13.0", "load": math.inf}, {"cpu": "any"}),
)

PROFILE = HardwareProfile("b10", "B10 (placeholder)", "0123456789abcdef", {"bandwidth": {"value": 1e12, "unit": "B/s"}})

PREDICTION = PredictionRecord(
    kind="ideal",
    model_version="ideal-1",
    hardware_key="b10",
    profile_hash=PROFILE.profile_hash,
    time_s=3.3570816e-05,
    memory_time_s=3.3570816e-05,
    compute_time_s=1e-06,
    bound="memory",
    flops=33554432.0,
    read_bytes=33562624.0,
    write_bytes=8192.0,
    bandwidth_bytes_per_s=1e12,
    peak_flops_per_s=3.3e13,
    compute_format="BF16",
    path="native",
    memory_level="DRAM",
    provenance="placeholder",
    low_s=3e-05,
    high_s=4e-05,
    findings=(finding("legacy-note", text="a note"),),  # stored as the text alone
    terms_s={"dram": 2.5e-05, "launch": 5e-06},
    error_ratio=-0.25,
)

MEASUREMENT = Measurement(
    samples_s=(4.5e-05, 4.4761088e-05, 0.1),
    calls_per_sample=2,
    median_s=4.4761088e-05,
    min_s=4.4e-05,
    max_s=0.1,
    mean_s=4.4e-05,
    std_s=None,
    q1_s=4.35e-05,
    q3_s=4.45e-05,
    sample_count=3,
    ci_low_s=4.4e-05,
    ci_high_s=4.5e-05,
    stop_reason="budget",
    first_call_s=0.25,
    warmup_calls=3,
    wall_s=1.5,
    rotation_count=4,
    working_set_bytes=134250496.0,
    max_error=0.001,
    tolerance=0.01,
    power_w=11.5,
    energy_j=0.0005,
    power_source="nvml",
    sm_clock_hz=2.4e9,
    temperature_c=51.0,
    flags=("noisy", "drift"),
    clocks_hz=(2.4e9, 2.385e9, 1.1e9),
    effective_sample_count=2.25,
    outlier_count=1,
    energy=EnergyReading(
        energy_j=0.0005,
        power_w=11.5,
        window_s=2.0009,
        window_count=3,
        call_count=134061,
        source="nvml-energy-counter",
        scope="module",
        std_j=1.5e-06,
        idle_power_w=4.25,
        net_energy_j=0.00031,
        cross_check_j=0.00052,
        sensor_period_s=0.02,
    ),
    state=MachineState(
        throttled_s={"sw-power-cap": 0.125, "hw-thermal, µ": 1e-09},
        rated_clock_hz=2.418e9,
        retry_count=3,
        others_ratio=0.015625,
        stolen_ratio=0.0,
        device_process_count=1,
        cpu_clock_hz=3.1e9,
    ),
    attribution=KernelAttribution("cupti", 2.0, 4.2e-05, 4.4e-05, ("void gemv<float, 4>(…)", "splitKreduce")),
)

BARE = replace(
    MEASUREMENT,
    clocks_hz=(),
    effective_sample_count=None,
    outlier_count=None,
    energy=None,
    attribution=None,
    state=MachineState(),
)

PROCESS = ProcessInfo(0, 4711, "box", "2026-01-02T03:04:05.000000+00:00")
WORKER = ProcessInfo(1, 4712, "box", "2026-01-02T03:04:06.000000+00:00", "worker", "killed by SIGABRT")
SILENT = ProcessInfo(2, 4713, "box", "2026-01-02T03:04:07.000000+00:00", "worker", "timeout after 60 s")
"""It ended before it had anything to store."""

METHOD = Method("monotonic", "1", {"target_ci_ratio": 0.01, "cache": "rotation"})

CANARIES = (
    CanaryReading(0, 0, "2026-01-02T03:04:08.000000+00:00", "gemv-bf16-4096x4096", 3.5e-05, None, False, 40.5, 2.4e9),
    CanaryReading(0, 1, "2026-01-02T03:04:09.000000+00:00", "gemv-bf16-4096x4096", 0.0001155, 3.5e-05, True),
)


def gemv(kernel: str, formats: tuple[str, str]) -> Case:
    """Return a case of the golden run."""
    return Case(
        "gemv", (("M", 1), ("N", 4096), ("K", 4096)), (("a", formats[0]), ("b", formats[1]), ("c", "BF16")), kernel
    )


RECORDS = (
    Record(
        "2" + "1" * 31,
        RUN.run_id,
        gemv("matmul", ("BF16", "BF16")),
        "measured",
        test_id="bench_cases/test_gemv.py::test_gemv[x]",
        created_at="2026-01-02T03:04:10.000000+00:00",
        process=PROCESS,
        method=METHOD,
        measurement=MEASUREMENT,
        predictions=(PREDICTION,),
        telemetry=(TelemetrySample(0.0, power_w=11.5, utilization_ratio=0.5), TelemetrySample(0.01)),
        extra={"note": "µ, 漢字 and \x00", "nested": [1, None, True]},
    ),
    Record(
        "2" + "2" * 31,
        RUN.run_id,
        gemv("tinygemm", ("BF16", "INT4")),
        "predicted",
        process=PROCESS,
        predictions=(PREDICTION,),
    ),
    Record(
        "2" + "3" * 31, RUN.run_id, gemv("int_mm", ("INT8", "INT8")), "skipped", reason="needs CUDA", process=PROCESS
    ),
    Record(
        "2" + "4" * 31,
        RUN.run_id,
        gemv("scaled_mm", ("FP8_E4M3", "FP8_E4M3")),
        "failed",
        reason="killed by SIGABRT",
        process=WORKER,
    ),
    Record(
        "2" + "5" * 31,
        RUN.run_id,
        gemv("matmul", ("FP16", "FP16")),
        "measured",
        process=PROCESS,
        method=Method("cuda-event", "2", {}),
        measurement=replace(BARE, flags=("quarantined",)),
    ),
)

FLOOR = NoiseFloor(
    RUN.environment.class_hash,
    RECORDS[0].case.case_key,
    METHOD.method_hash,
    0.03,
    0.0125,
    12,
    "2026-01-01T00:00:00.000000+00:00",
    ("f" * 32, "e" * 32),
)
OLDER_FLOOR = replace(FLOOR, process_count=4, between_sd_ratio=0.5, created_at="2025-12-01T00:00:00.000000+00:00")


def as_first_stored(record: Record) -> Record:
    """Return the record before its process ended and before it was quarantined."""
    record = replace(record, process=replace(record.process, end_reason=""))
    if record.measurement is None or "quarantined" not in record.measurement.flags:
        return record
    return replace(record, measurement=replace(record.measurement, flags=()))


def main(folder: Path) -> None:
    """Write both files into `folder`."""
    path = folder / "store_v2.sqlite"
    path.unlink(missing_ok=True)
    with open_store(path) as store:
        store.begin_run(RUN)
        store.add_profile(PROFILE)
        for reading in CANARIES:
            store.add_canary(RUN.run_id, reading)
        for record in RECORDS:
            store.add_record(as_first_stored(record))
        store.end_process(RUN.run_id, WORKER, WORKER.end_reason)
        store.end_process(RUN.run_id, SILENT, SILENT.end_reason)
        store.flag_records(["2" + "5" * 31], "quarantined")
        store.add_noise_floors([OLDER_FLOOR, FLOOR])
        document = export_run_json(store, RUN.run_id)
    with closing(sqlite3.connect(path)) as raw:  # small pages: a nearly empty database of 40 trees stays small
        for statement in (
            "PRAGMA journal_mode = DELETE",
            "PRAGMA page_size = 512",
            "VACUUM",
            "PRAGMA journal_mode = WAL",
        ):
            raw.execute(statement)
    (folder / f"run_v{EXPORT_VERSION}.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
