"""Small makers of records, so that each test says only what it is about. Times are invented but of a real machine's size."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import SimpleNamespace

import pytest

from results.records import (
    EnvironmentInfo,
    HardwareProfile,
    Measurement,
    Method,
    PredictionRecord,
    Record,
    RunInfo,
)
from roofline_model.hardware import ComputePath, Device, MemoryLevel, Quantity
from roofline_model.operators import gemm
from roofline_model.roofline import predict


def make_device(
    key: str, *, bandwidth_gb_s: float, tflops: dict[str, float], paths: dict[str, tuple[str, str]], kind: str = "gpu",
    name: str = "", cache: tuple[str, float, float] | None = None, status: str = "datasheet",
) -> Device:  # fmt: skip
    """Describe a chip: dense TFLOP/s by native format, {format: (path kind, compute format)}, (cache name, MB, GB/s)."""
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
    "this-cpu", name="AMD EPYC 9554 (2 of 64 cores)", kind="cpu", bandwidth_gb_s=76, status="measured-here",
    tflops={"FP32": 0.20, "BF16": 1.55, "FP16": 1.48, "INT8": 2.9},
    paths={"INT4": ("dequantize", "BF16"), "FP8_E4M3": ("emulated", "FP32")}, cache=("L3", 64, 390),
)  # fmt: skip
GPU = make_device(
    "h200-sxm", name="NVIDIA H200 SXM", bandwidth_gb_s=4800,
    tflops={"FP32": 67, "TF32": 494.5, "BF16": 989.4, "FP16": 989.4, "FP8_E4M3": 1979, "INT8": 1979},
    paths={"INT4": ("dequantize", "BF16"), "NF4": ("dequantize", "BF16"), "NVFP4": ("dequantize", "BF16")}, cache=("L2", 50, 9800),
)  # fmt: skip


def make_record(
    shape: tuple[int, int, int], b: str, a: str, kernel: str, measured_s: float | None = None, *, device: Device | None = CPU,
    status: str | None = None, reason: str = "", cache: str = "cold", number: int = 0, run_id: str = "", **measurement: object,
) -> Record:  # fmt: skip
    """One record; measured when a time is given, else predicted. `device=None` stores no prediction."""
    work = gemm(*shape, a=a, b=b)
    case = work.case(kernel, cache=cache)
    timed = None
    if measured_s is not None:
        values: dict[str, object] = {
            "samples_s": (measured_s,) * 3, "calls_per_sample": 1, "median_s": measured_s, "min_s": measured_s * 0.98, "max_s": measured_s * 1.2,
            "mean_s": measured_s * 1.02, "std_s": measured_s * 0.01, "q1_s": measured_s * 0.99, "q3_s": measured_s * 1.01, "sample_count": 3,
            "ci_low_s": measured_s * 0.99, "ci_high_s": measured_s * 1.01, "stop_reason": "converged", **measurement,
        }  # fmt: skip
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
        "run_id": RUN_ID, "started_at": "2026-11-21T09:08:11.123456+00:00", "finished_at": "2026-11-21T09:09:30.000000+00:00",
        "label": "nightly", "status": "complete", "exit_code": 0, "hardware_key": "this-cpu", "command": "pytest bench_cases -k gemv",
        "environment": EnvironmentInfo({"cpu": "AMD EPYC 9554", "torch": "2.13.0", "threads": 2, "git": {"commit": "abc1234"}}, {"torch": "2.13.0"}),
        **changes,
    }  # fmt: skip
    return RunInfo(**values)  # type: ignore[arg-type]


def cpu_records() -> list[Record]:
    """A CPU run: GEMV and GEMM at the speeds a two-core machine really shows, a skip and a failure among them."""
    found: list[Record] = []

    def add(*args: object, **more: object) -> None:
        found.append(make_record(*args, number=len(found), **more))  # type: ignore[arg-type]

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
        ("FP32", "FP32", "matmul", 0.165e12), ("BF16", "BF16", "matmul", 1.21e12), ("FP16", "FP16", "matmul", 1.02e12),
        ("INT8", "INT8", "int_mm", 1.9e12), ("INT8", "BF16", "int8pack", 0.09e12), ("INT4", "BF16", "int4pack", 0.11e12),
    ):  # fmt: skip
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
    return found


def gpu_records() -> list[Record]:
    """An H200-like run with power: seven formats over decode and prefill shapes."""
    found: list[Record] = []
    efficiency = {"FP32": (0.80, 0.72), "TF32": (0.80, 0.66), "BF16": (0.82, 0.74), "FP16": (0.82, 0.75), "FP8_E4M3": (0.71, 0.63),
                  "INT8": (0.55, 0.60), "INT4": (0.46, 0.31)}  # fmt: skip
    kernels = {"FP8_E4M3": "scaled_mm_row", "INT8": "int_mm_padded", "INT4": "tinygemm"}
    for m, n, k in ((1, 4096, 4096), (1, 28672, 8192), (8, 8192, 8192), (512, 4096, 4096), (2048, 8192, 8192)):
        for b, (slow, fast) in efficiency.items():
            a = "BF16" if b == "INT4" else b
            ideal = predict(gemm(m, n, k, a=a, b=b), GPU)
            time_s = ideal.time_s / (fast if ideal.bound == "compute" else slow) + 2.1e-6
            found.append(
                make_record(
                    (m, n, k), b, a, kernels.get(b, "matmul"), time_s, device=GPU, number=len(found), power_w=612.0
                )
            )
    found.append(make_record((1, 4096, 4096), "NVFP4", "NVFP4", "scaled_mm_block", device=None, number=len(found), status="skipped",
                             reason="compute capability 9.0 has no FP4 unit (needs 10.0)"))  # fmt: skip
    return found


def profiles_of(*devices: Device) -> dict[str, HardwareProfile]:
    return {d.content_hash: HardwareProfile(d.key, d.name, d.content_hash, d.to_dict()) for d in devices}


class FakeStore:
    """The two questions a report asks a store."""

    def __init__(self, records: Iterable[Record], *devices: Device) -> None:
        self._records = list(records)
        self._profiles = profiles_of(*devices)

    def records(self, run_id: str, *, with_samples: bool = True) -> list[Record]:
        return [record for record in self._records if record.run_id == run_id]

    def profile(self, profile_hash: str) -> HardwareProfile | None:
        return self._profiles.get(profile_hash)


@pytest.fixture
def make() -> SimpleNamespace:
    """Every maker by name: `make.record(…)`, `make.run(…)`, `make.cpu_records()`, …"""
    return SimpleNamespace(
        device=make_device, record=make_record, run=make_run, cpu_records=cpu_records, gpu_records=gpu_records,
        profiles=profiles_of, store=FakeStore, CPU=CPU, GPU=GPU, RUN_ID=RUN_ID,
    )  # fmt: skip


Maker = Callable[..., Record]
