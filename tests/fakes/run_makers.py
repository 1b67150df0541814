"""Small makers of records, so that each test says only what it is about. Times are invented but of a real machine's
size.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable
from dataclasses import replace
from random import Random
from types import SimpleNamespace

import pytest

from results.exchange.exported.export import write_rows
from results.records.records import (
    EnvironmentInfo,
    HardwareProfile,
    Measurement,
    Method,
    PredictionRecord,
    ProcessInfo,
    Record,
    RunInfo,
)
from results.records.state_records import CanaryReading, EnergyReading, KernelAttribution, MachineState, NoiseFloor
from results.store.query import RecordQuery, find_records
from results.store.store import ResultStore
from roofline_model.chips.hardware import ComputePath, Device, MemoryLevel, Quantity
from roofline_model.ideal.roofline import predict
from roofline_model.operators.product import gemm


def make_device(
    key: str,
    *,
    bandwidth_gb_s: float,
    tflops: dict[str, float],
    paths: dict[str, tuple[str, str]],
    kind: str = "gpu",
    name: str = "",
    cache: tuple[str, float, float] | None = None,
    status: str = "datasheet",
) -> Device:
    """Describe a chip: dense TFLOP/s by native format, {format: (path kind, compute format)}, (cache name, MB,
    GB/s).
    """
    native = {
        f: ComputePath(f, "native", f, Quantity(rate * 1e12, "FLOP/s", status, "test")) for f, rate in tflops.items()
    }
    others = {
        f: ComputePath(f, how, to, native[to].dense, reason=f"{f} has no unit here") for f, (how, to) in paths.items()
    }
    levels = (MemoryLevel(cache[0], cache[1] * 1e6, Quantity(cache[2] * 1e9, "B/s", status, "test")),) if cache else ()
    bandwidth = Quantity(bandwidth_gb_s * 1e9, "B/s", status, "test")
    return Device(key, name or key, kind, bandwidth, {**native, **others}, levels=levels)


CPU = make_device(
    "this-cpu",
    name="AMD EPYC 9554 (2 of 64 cores)",
    kind="cpu",
    bandwidth_gb_s=76,
    status="measured-here",
    tflops={"FP32": 0.20, "BF16": 1.55, "FP16": 1.48, "INT8": 2.9},
    paths={"INT4": ("dequantize", "BF16"), "FP8_E4M3": ("emulated", "FP32")},
    cache=("L3", 64, 390),
)
GPU = make_device(
    "h200-sxm",
    name="NVIDIA H200 SXM",
    bandwidth_gb_s=4800,
    tflops={"FP32": 67, "TF32": 494.5, "BF16": 989.4, "FP16": 989.4, "FP8_E4M3": 1979, "INT8": 1979},
    paths={"INT4": ("dequantize", "BF16"), "NF4": ("dequantize", "BF16"), "NVFP4": ("dequantize", "BF16")},
    cache=("L2", 50, 9800),
)


def flat_measurement(
    median_s: float, count: int = 5, *, half_width: float | None = None, **changes: object
) -> Measurement:
    """`count` samples that all took the same time; `half_width`: half their interval over the median, None: no
    interval. `changes`: other fields.
    """
    low_s, high_s = (None, None) if half_width is None else (median_s * (1 - half_width), median_s * (1 + half_width))
    values: dict[str, object] = {
        **dict.fromkeys(("median_s", "min_s", "max_s", "mean_s", "q1_s", "q3_s"), median_s),
        "samples_s": (median_s,) * count,
        "calls_per_sample": 1,
        "std_s": 0.0,
        "sample_count": count,
        "ci_low_s": low_s,
        "ci_high_s": high_s,
        "stop_reason": "converged",
        **changes,
    }
    return Measurement(**values)  # type: ignore[arg-type]


def make_record(
    shape: tuple[int, int, int],
    b: str,
    a: str,
    kernel: str,
    measured_s: float | None = None,
    *,
    device: Device | None = CPU,
    status: str | None = None,
    reason: str = "",
    cache: str = "cold",
    number: int = 0,
    run_id: str = "",
    **measurement: object,
) -> Record:
    """One record; measured when a time is given, else predicted. `device=None` stores no prediction."""
    work = gemm(*shape, a=a, b=b)
    case = work.case(kernel, cache=cache)
    timed = None
    if measured_s is not None:
        values: dict[str, object] = {
            "samples_s": (measured_s,) * 3,
            "calls_per_sample": 1,
            "median_s": measured_s,
            "min_s": measured_s * 0.98,
            "max_s": measured_s * 1.2,
            "mean_s": measured_s * 1.02,
            "std_s": measured_s * 0.01,
            "q1_s": measured_s * 0.99,
            "q3_s": measured_s * 1.01,
            "sample_count": 3,
            "ci_low_s": measured_s * 0.99,
            "ci_high_s": measured_s * 1.01,
            "stop_reason": "converged",
            **measurement,
        }
        timed = Measurement(**values)  # type: ignore[arg-type]
    predictions = ()
    if device is not None:
        ideal = predict(work, device, cache="warm" if cache == "warm" else "cold")
        predictions = (PredictionRecord.from_prediction(ideal, device.content_hash, measured_s),)
    return Record(
        record_id=f"{number:032x}",
        run_id=run_id or RUN_ID,
        case=case,
        status=status or ("measured" if timed else "predicted"),  # type: ignore[arg-type]
        reason=reason,
        method=Method("monotonic", "1", {}) if timed else None,
        measurement=timed,
        predictions=predictions,
    )


RUN_ID = "0193a1b2c3d4e5f60718293a4b5c6d7e"


def make_run(**changes: object) -> RunInfo:
    values: dict[str, object] = {
        "run_id": RUN_ID,
        "started_at": "2026-11-21T09:08:11.123456+00:00",
        "finished_at": "2026-11-21T09:09:30.000000+00:00",
        "label": "nightly",
        "status": "complete",
        "exit_code": 0,
        "hardware_key": "this-cpu",
        "command": "pytest bench_cases -k gemv",
        "environment": EnvironmentInfo(
            {"cpu": "AMD EPYC 9554", "torch": "2.13.0", "threads": 2, "git": {"commit": "abc1234"}}, {"torch": "2.13.0"}
        ),
        **changes,
    }
    return RunInfo(**values)  # type: ignore[arg-type]


def cpu_records() -> list[Record]:
    """A CPU run: GEMV and GEMM at the speeds a two-core machine really shows, a skip and a failure among them."""
    records: list[Record] = []

    def add(*args: object, **more: object) -> None:
        records.append(make_record(*args, number=len(records), **more))  # type: ignore[arg-type]

    for m, n, k in ((1, 4096, 4096), (1, 14336, 4096), (8, 4096, 4096)):
        weights = n * k
        add((m, n, k), "FP32", "FP32", "matmul", weights * 4 / 24e9)
        add((m, n, k), "BF16", "BF16", "matmul", weights * 2 / 36e9)
        add((m, n, k), "FP16", "FP16", "matmul", weights * 2 / 54e9)
        add((m, n, k), "INT8", "BF16", "int8pack", weights / 70e9 * (1 if m == 1 else 3.1))
        add((m, n, k), "INT8", "INT8", "int_mm", weights / 61e9)
        add((m, n, k), "INT4", "BF16", "int4pack", weights * 0.5 / 32e9 * (1 if m == 1 else 2.4))
    flops = 2 * 512 * 4096 * 4096
    for b, a, kernel, rate in (
        ("FP32", "FP32", "matmul", 0.165e12),
        ("BF16", "BF16", "matmul", 1.21e12),
        ("FP16", "FP16", "matmul", 1.02e12),
        ("INT8", "INT8", "int_mm", 1.9e12),
        ("INT8", "BF16", "int8pack", 0.09e12),
        ("INT4", "BF16", "int4pack", 0.11e12),
    ):
        add((512, 4096, 4096), b, a, kernel, flops / rate)
    add((64, 512, 512), "FP8_E4M3", "FP8_E4M3", "scaled_mm", 41e-3)
    add((1, 4096, 4096), "NF4", "BF16", "bnb", status="skipped", reason="bitsandbytes is not installed", device=None)
    add(
        (8, 4096, 4096),
        "FP8_E4M3",
        "BF16",
        "fp8_wo",
        status="failed",
        reason="relative error 0.31 exceeds the tolerance 0.08",
    )
    add((1, 1024, 1024), "BF16", "BF16", "matmul", 2 * 1024 * 1024 / 210e9, cache="warm")
    add((1, 1024, 1024), "INT8", "BF16", "int8pack", 1024 * 1024 / 150e9, cache="warm")
    return records


def gpu_records() -> list[Record]:
    """An H200-like run with power: seven formats over decode and prefill shapes."""
    records: list[Record] = []
    efficiency = {"FP32": (0.80, 0.72), "TF32": (0.80, 0.66), "BF16": (0.82, 0.74), "FP16": (0.82, 0.75), "FP8_E4M3": (0.71, 0.63),
                  "INT8": (0.55, 0.60), "INT4": (0.46, 0.31)}  # fmt: skip
    kernels = {"FP8_E4M3": "scaled_mm_row", "INT8": "int_mm_padded", "INT4": "tinygemm"}
    for m, n, k in ((1, 4096, 4096), (1, 28672, 8192), (8, 8192, 8192), (512, 4096, 4096), (2048, 8192, 8192)):
        for b, (slow, fast) in efficiency.items():
            a = "BF16" if b == "INT4" else b
            ideal = predict(gemm(m, n, k, a=a, b=b), GPU)
            time_s = ideal.time_s / (fast if ideal.bound == "compute" else slow) + 2.1e-6
            records.append(
                make_record(
                    (m, n, k), b, a, kernels.get(b, "matmul"), time_s, device=GPU, number=len(records), power_w=612.0
                )
            )
    records.append(
        make_record(
            (1, 4096, 4096),
            "NVFP4",
            "NVFP4",
            "scaled_mm_block",
            device=None,
            number=len(records),
            status="skipped",
            reason="compute capability 9.0 has no FP4 unit (needs 10.0)",
        )
    )
    return records


def csv_rows(store: ResultStore, run_id: str) -> list[dict[str, str]]:
    """The rows of a run's CSV export."""
    stream = io.StringIO(newline="")
    write_rows(store, find_records(store, RecordQuery(run_id=run_id)), stream)
    return list(csv.DictReader(io.StringIO(stream.getvalue(), newline="")))


def profiles_of(*devices: Device) -> dict[str, HardwareProfile]:
    return {d.content_hash: HardwareProfile(d.key, d.name, d.content_hash, d.to_dict()) for d in devices}


def in_process(record: Record, ordinal: int, end_reason: str = "") -> Record:
    """The same record as measured by a worker."""
    role = "worker" if ordinal else "main"
    return replace(record, process=ProcessInfo(ordinal, 4000 + ordinal, "lab", role=role, end_reason=end_reason))


def as_mode(record: Record, mode: str) -> Record:
    """The same record in another mode: another case."""
    return replace(record, case=replace(record.case, mode=mode))


def series(kind: str, median_s: float, count: int = 240) -> tuple[float, ...]:
    """Samples of one shape, always the same."""
    noise = Random(count)
    plain = [median_s * (1 + 0.01 * noise.gauss(0, 1)) for _ in range(count)]
    if kind == "bimodal":
        plain = [value * (1.35 if (index // 20) % 2 else 0.95) for index, value in enumerate(plain)]
    if kind == "drift":
        plain = [value * (0.92 + 0.16 * index / count) for index, value in enumerate(plain)]
    if kind == "outliers":
        plain = [value * (1.8 if index % 17 == 3 else 1.0) for index, value in enumerate(plain)]
    return tuple(plain)


def reading(median_s: float, flops: float, power_w: float = 612.0, *, apart: float = 0.02) -> EnergyReading:
    """Energy by the counter, with idle, spread and a second source that is `apart`."""
    energy_j = power_w * median_s
    return EnergyReading(
        energy_j=energy_j,
        power_w=power_w,
        window_s=2.0,
        window_count=3,
        call_count=int(6 / median_s),
        source="nvml-energy-counter",
        scope="gpu",
        std_j=energy_j * 0.012,
        idle_power_w=74.0,
        net_energy_j=energy_j - 74 * median_s,
        cross_check_j=energy_j * (1 + apart),
        sensor_period_s=0.1,
    )


def rich_records() -> list[Record]:
    """A run that uses everything: three processes, every mode and cache state, flags, state, energy, kernels, a dead
    worker.
    """
    records: list[Record] = []
    _add_rich_decode(records)
    _add_rich_prefill(records)
    _add_what_was_not_measured(records)
    return records


RICH_DECODE, RICH_PREFILL = (1, 28672, 8192), (2048, 8192, 8192)


def _add_rich(
    records, shape, b, a, kernel, time_s, *, cache="cold", mode="eager", processes=(0,), kind="", flags=(), **more
):
    """Append a measured case in each process, fifteen seconds after the last; `kind` is the shape of its samples and a
    flag.
    """
    for ordinal in processes:
        own_s = time_s * (1 + 0.01 * (ordinal - 1))
        samples = series(kind, own_s) if kind else (own_s,) * 12
        values = {
            "samples_s": samples,
            "sample_count": len(samples),
            "flags": ((kind,) if kind else ()) + tuple(flags),
            "power_w": 612.0,
            "energy": reading(own_s, 2.0 * shape[0] * shape[1] * shape[2]),
            "energy_j": 612.0 * own_s,
            "sm_clock_hz": 1.98e9,
            "temperature_c": 61.0,
            "effective_sample_count": 9.0,
            "clocks_hz": (1.98e9,) * (len(samples) - 1) + (1.9e9,),
            "state": MachineState(
                throttled_s={}, rated_clock_hz=1.98e9, others_ratio=0.01, stolen_ratio=0.0, device_process_count=0
            ),
        } | more
        record = make_record(shape, b, a, kernel, own_s, device=GPU, cache=cache, number=len(records), **values)
        minute = len(records) // 4
        record = replace(
            record, created_at=f"2026-11-21T09:{10 + minute:02d}:{15 * (len(records) % 4):02d}.000000+00:00"
        )
        records.append(as_mode(in_process(record, ordinal), mode))


def _add_rich_decode(records):
    traced = KernelAttribution("cupti", 2.0, 41e-6, 43e-6, ("tinygemm_m16n8k16", "memset"))
    three = (0, 1, 2)
    _add_rich(records, RICH_DECODE, "BF16", "BF16", "matmul", 122e-6, processes=three)
    _add_rich(records, RICH_DECODE, "FP8_E4M3", "FP8_E4M3", "scaled_mm_row", 71e-6, processes=three)
    _add_rich(records, RICH_DECODE, "INT4", "BF16", "tinygemm", 52e-6, processes=three, kind="bimodal")
    _add_rich(records, RICH_DECODE, "BF16", "BF16", "matmul", 118e-6, mode="graph")
    _add_rich(records, RICH_DECODE, "INT4", "BF16", "tinygemm", 44e-6, mode="graph", attribution=traced)
    _add_rich(records, RICH_DECODE, "BF16", "BF16", "matmul", 121e-6, cache="flushed")
    _add_rich(records, RICH_DECODE, "INT4", "BF16", "tinygemm", 50e-6, cache="warm", kind="outliers")


def _add_rich_prefill(records):
    traced = KernelAttribution("cupti", 1.0, 0.36e-3, 0.362e-3, ("nvjet_tst_256x128",))
    held_down = MachineState(
        throttled_s={"sw-power-cap": 1.31, "hw-thermal": 0.08},
        rated_clock_hz=1.98e9,
        retry_count=3,
        device_process_count=1,
    )
    three = (0, 1, 2)
    _add_rich(records, RICH_PREFILL, "BF16", "BF16", "matmul", 0.37e-3, processes=three, attribution=traced)
    _add_rich(records, RICH_PREFILL, "FP8_E4M3", "FP8_E4M3", "scaled_mm_row", 0.21e-3, processes=three)
    _add_rich(
        records,
        RICH_PREFILL,
        "BF16",
        "BF16",
        "matmul",
        0.41e-3,
        mode="sustained",
        kind="drift",
        flags=("capped",),
        energy=reading(0.41e-3, 2.75e11, 690.0, apart=-0.18),
        state=held_down,
    )
    _add_rich(records, RICH_PREFILL, "BF16", "BF16", "matmul", 0.33e-3, mode="burst")
    _add_rich(records, RICH_PREFILL, "INT8", "INT8", "int_mm_padded", 0.62e-3, flags=("quarantined",))
    _add_rich(
        records,
        RICH_PREFILL,
        "INT4",
        "BF16",
        "tinygemm",
        1.7e-3,
        flags=("quarantined", "noisy"),
        ci_low_s=1.5e-3,
        ci_high_s=1.9e-3,
        energy=None,
        energy_j=None,
        power_w=None,
    )


def _add_what_was_not_measured(records):
    lost = make_record(
        RICH_PREFILL,
        "NF4",
        "BF16",
        "dequantize_matmul",
        device=GPU,
        number=len(records),
        status="failed",
        reason="the worker was killed by SIGABRT",
    )
    records.append(in_process(lost, 3, "killed by SIGABRT"))
    records.append(
        make_record(
            RICH_DECODE,
            "NVFP4",
            "NVFP4",
            "scaled_mm_block",
            device=None,
            number=len(records),
            status="skipped",
            reason="compute capability 9.0 has no FP4 unit (needs 10.0)",
        )
    )


def canaries() -> list[CanaryReading]:
    """Readings of a run that fell into a slow state near its end and came back."""
    times_s = [410e-6, 412e-6, 409e-6, 411e-6, 415e-6, 410e-6, 1.31e-3, 1.29e-3, 411e-6]
    return [
        CanaryReading(
            index,
            0,
            f"2026-11-21T09:{9 + index:02d}:30.000000+00:00",
            "gemv-bf16-4096x4096",
            time_s,
            410e-6,
            time_s > 6e-4,
            300.0,
            1.98e9,
        )
        for index, time_s in enumerate(times_s)
    ]


class FakeStore:
    """What a report asks a store."""

    def __init__(self, records: Iterable[Record], *devices: Device, canaries: Iterable[CanaryReading] = ()) -> None:
        self._records = list(records)
        self._profiles = profiles_of(*devices)
        self._canaries = list(canaries)

    def canaries(self, run_id: str) -> list[CanaryReading]:
        return self._canaries

    def noise_floors(self, class_hash: str) -> dict[tuple[str, str], NoiseFloor]:
        return {}

    def records(self, run_id: str, *, with_samples: bool = True) -> list[Record]:
        return [record for record in self._records if record.run_id == run_id]

    def profile(self, profile_hash: str) -> HardwareProfile | None:
        return self._profiles.get(profile_hash)


@pytest.fixture(scope="session")
def make() -> SimpleNamespace:
    """Every maker by name: `make.record(…)`, `make.run(…)`, `make.cpu_records()`, …"""
    return SimpleNamespace(
        device=make_device,
        record=make_record,
        run=make_run,
        cpu_records=cpu_records,
        gpu_records=gpu_records,
        rich_records=rich_records,
        canaries=canaries,
        in_process=in_process,
        as_mode=as_mode,
        series=series,
        profiles=profiles_of,
        store=FakeStore,
        CPU=CPU,
        GPU=GPU,
        RUN_ID=RUN_ID,
    )


Maker = Callable[..., Record]
