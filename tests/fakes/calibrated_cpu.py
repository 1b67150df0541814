"""A CPU with a calibration of round numbers, so that whole passes have an expected time on it."""

from __future__ import annotations

from dataclasses import replace

from roofline_model import create_custom_asic
from roofline_model.chips.curve import TimedCall, kernel_curves
from roofline_model.chips.hardware import Device, MemoryLevel, Quantity
from roofline_model.chips.machine_constants import Calibration, Constant
from roofline_model.operators.product import gemm


def calibrated_cpu() -> Device:
    """A CPU of 40 GB/s with 30 MB of cache at 100 GB/s, and a call that costs 2 µs."""

    def rate(value: float) -> Constant:
        return Constant("B/s", value * 1.1, value, value * 0.9, 0.05, 10, "copy")

    def cost(value: float) -> Constant:
        return Constant("s", value, value, value * 1.2, 0.05, 10, "call")

    calibration = Calibration(
        measured_at="2026-11-21T12:00:00+00:00",
        subject="a test",
        kind="cpu",
        dram={name: rate(40e9) for name in ("read", "copy", "write", "triad")},
        cache={"read": rate(100e9), "copy": rate(100e9)},
        cache_capacity_bytes=2.0**25,
        peaks={"BF16": Constant("FLOP/s", 5e11, 4e11, 3e11, 0.05, 10, "mm")},
        floors={"call": cost(2e-6)},
        kernels=kernel_curves(
            [TimedCall(gemm(1, 64, 64, a="FP16"), "matmul", 1e-5)]
        ),  # of another format than the passes
    )
    level = MemoryLevel("LLC", 2.0**25, Quantity(100e9, "B/s", "measured-here", "test"))
    chip = create_custom_asic("test cpu", 40, {"BF16": 0.4, "FP32": 0.2})
    return replace(chip, kind="cpu", calibration=calibration, levels=(level,))
