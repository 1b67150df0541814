"""The self-check of a chip: slips of unit, order and sense that a parser cannot see."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from roofline_model.core.units import format_quantity
from roofline_model.formats.catalog import FORMATS

if TYPE_CHECKING:
    from roofline_model.chips.hardware import Device, Quantity

# Sane ranges over every chip there is, from a single CPU core to a rack accelerator, with room on both sides.
_RANGES: dict[str, tuple[float, float]] = {"B/s": (1e9, 1e15), "FLOP/s": (1e9, 1e18), "B": (1e3, 1e14), "Hz": (1e7, 1e11), "W": (0.5, 1e5)}  # fmt: skip
_SMALLEST_GPU_MEMORY_BYTES = 1e9
_RIDGE_RANGE = (0.05, 50_000.0)
# Rates that may not fall when a format narrows, within one family.
_MONOTONE = (("FP64", "FP32"), ("FP32", "TF32"), ("TF32", "BF16"), ("BF16", "FP8_E4M3"), ("BF16", "INT8"), ("FP8_E4M3", "NVFP4"),
             ("FP8_E4M3", "MXFP4"), ("INT8", "INT4"))  # fmt: skip


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of the self-check of a chip file."""

    severity: Literal["error", "warning"]
    message: str


def check_device(device: Device) -> list[Finding]:
    """Check one chip for slips of unit, order and sense: ranges, monotone rates, ridge points, sparse = 2 × dense.

    Errors make a file unusable; warnings are shown by `roofline hardware check`.
    """
    findings: list[Finding] = []
    quantities: dict[str, Quantity] = {"memory bandwidth": device.bandwidth}
    optional = (("achieved bandwidth", device.bandwidth_achieved), ("memory capacity", device.capacity))
    quantities.update({name: quantity for name, quantity in optional if quantity is not None})
    quantities.update({f"peak of {key}": path.dense for key, path in device.paths.items() if path.kind == "native"})
    quantities.update(device.chip)
    for name, quantity in quantities.items():
        low, high = _RANGES.get(quantity.unit, (1, 1e9))
        if not low <= quantity.value <= high:
            found, least, most = (format_quantity(number, quantity.unit) for number in (quantity.value, low, high))
            findings.append(Finding("error", f"{name}: {found} is outside {least} to {most}: a slip of unit?"))
    findings += _check_paths(device)
    findings += _check_memory(device)
    if device.kind == "gpu":
        bare = [key for key, path in device.paths.items() if path.kind != "native" and not path.reason]
        if bare:
            findings.append(Finding("warning", f"[[path]] without a reason: {', '.join(bare)}"))
        missing = [key for key in FORMATS if key not in device.paths]
        if missing:
            findings.append(Finding("warning", f"no peak or path for {', '.join(missing)}"))
        if device.capacity is not None and device.capacity.value < _SMALLEST_GPU_MEMORY_BYTES:
            size = format_quantity(device.capacity.value, device.capacity.unit)
            findings.append(Finding("warning", f"memory capacity: {size} is little for a GPU: a slip of unit?"))
        if not device.match.device_names and not device.is_placeholder:
            findings.append(Finding("warning", "no [match] device_names: `auto` can never find this chip"))
    return findings


def _check_paths(device: Device) -> list[Finding]:
    findings: list[Finding] = []
    native = {key: path for key, path in device.paths.items() if path.kind == "native"}
    for key, path in native.items():
        ridge = path.dense.value / device.bandwidth.value
        if not _RIDGE_RANGE[0] <= ridge <= _RIDGE_RANGE[1]:
            findings.append(
                Finding("error", f"ridge point of {key} is {ridge:.3g} FLOP/byte: bandwidth or peak has a wrong unit")
            )
        if path.sparse is not None and not math.isclose(path.sparse.value, 2 * path.dense.value, rel_tol=0.02):
            findings.append(
                Finding(
                    "error",
                    f"{key}: sparse peak must be 2 × dense (2:4), got {path.sparse.value / path.dense.value:.2f} ×",
                )
            )
        if path.achieved is not None and path.achieved.value > 1.25 * path.dense.value:
            findings.append(
                Finding(
                    "warning",
                    f"{key}: achieved {path.achieved.value / 1e12:.1f} TFLOP/s exceeds the peak by more than 25 %",
                )
            )
        if device.kind == "gpu" and path.dense.clock_hz is None and not device.is_placeholder:
            findings.append(Finding("warning", f"{key}: peak without clock_mhz"))
    for wide, narrow in _MONOTONE:
        if wide in native and narrow in native and native[narrow].dense.value < 0.99 * native[wide].dense.value:
            explained = native[narrow].reason or any(wide in note and narrow in note for note in device.notes)
            # A CPU's narrow formats really are slower where it lacks the instructions; a GPU's are not.
            if not explained and device.kind == "gpu":
                findings.append(
                    Finding("error", f"{narrow} peak is below {wide}: a slip, or state the reason in the file")
                )
    return findings


def _check_memory(device: Device) -> list[Finding]:
    findings: list[Finding] = []
    achieved = device.bandwidth_achieved
    if achieved is not None and not 0.3 <= achieved.value / device.bandwidth.value <= 1.02:
        findings.append(
            Finding(
                "error",
                f"achieved bandwidth is {achieved.value / device.bandwidth.value:.2f} of the peak: one of them is wrong",
            )
        )
    cached_bytes = sum(level.capacity_bytes for level in device.levels)
    if device.capacity is not None and cached_bytes >= device.capacity.value:
        caches = " + ".join(level.name for level in device.levels)
        findings.append(Finding("error", f"{caches} is not smaller than the memory behind it"))
    slow = [one for one in device.levels if one.bandwidth is not None and one.bandwidth.value < device.bandwidth.value]
    return findings + [Finding("error", f"{level.name} bandwidth is below DRAM bandwidth") for level in slow]
