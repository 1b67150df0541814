"""The self-check of a chip: slips of unit, order and sense that a parser cannot see."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from roofline_model.core.finding import Finding, finding
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


def check_device(device: Device) -> list[Finding]:
    """Check one chip for slips of unit, order and sense: ranges, monotone rates, ridge points, sparse = 2 × dense.

    Warnings make a file unusable (`errors_of`); cautions are shown by `roofline hardware check`.
    """
    findings = _check_ranges(device) + _check_paths(device) + _check_memory(device)
    if device.kind != "gpu":
        return findings
    bare = tuple(key for key, path in device.paths.items() if path.kind != "native" and not path.reason)
    if bare:
        findings.append(finding("path-without-reason", formats=bare))
    missing = tuple(key for key in FORMATS if key not in device.paths)
    if missing:
        findings.append(finding("formats-undeclared", formats=missing))
    if device.capacity is not None and device.capacity.value < _SMALLEST_GPU_MEMORY_BYTES:
        findings.append(finding("memory-small", value_bytes=device.capacity.value))
    if not device.match.device_names and not device.is_placeholder:
        findings.append(finding("chip-unmatched"))
    return findings


def errors_of(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings that make a chip's description unusable."""
    return [item for item in findings if item.severity == "warning"]


def _check_ranges(device: Device) -> list[Finding]:
    quantities: dict[str, Quantity] = {"memory bandwidth": device.bandwidth}
    optional = (("achieved bandwidth", device.bandwidth_achieved), ("memory capacity", device.capacity))
    quantities.update({name: quantity for name, quantity in optional if quantity is not None})
    quantities.update({f"peak of {key}": path.dense for key, path in device.paths.items() if path.kind == "native"})
    quantities.update(device.chip)
    findings = []
    for name, quantity in quantities.items():
        low, high = _RANGES.get(quantity.unit, (1, 1e9))
        if not low <= quantity.value <= high:
            value, least, most = (format_quantity(number, quantity.unit) for number in (quantity.value, low, high))
            findings.append(finding("quantity-out-of-range", name, value=value, low=least, high=most))
    return findings


def _check_paths(device: Device) -> list[Finding]:
    findings: list[Finding] = []
    native = {key: path for key, path in device.paths.items() if path.kind == "native"}
    for key, path in native.items():
        ridge = path.dense.value / device.bandwidth.value
        if not _RIDGE_RANGE[0] <= ridge <= _RIDGE_RANGE[1]:
            findings.append(finding("ridge-out-of-range", key, ridge_flop_per_byte=ridge))
        if path.sparse is not None and not math.isclose(path.sparse.value, 2 * path.dense.value, rel_tol=0.02):
            findings.append(finding("sparse-not-double", key, sparse_factor=path.sparse.value / path.dense.value))
        if path.achieved is not None and path.achieved.value > 1.25 * path.dense.value:
            findings.append(finding("achieved-above-peak", key, achieved_flops_per_s=path.achieved.value))
        if device.kind == "gpu" and path.dense.clock_hz is None and not device.is_placeholder:
            findings.append(finding("peak-without-clock", key))
    for wide, narrow in _MONOTONE:
        if wide not in native or narrow not in native:
            continue
        is_lower = native[narrow].dense.value < 0.99 * native[wide].dense.value
        # A CPU's narrow formats really are slower where it lacks the instructions; a GPU's are not.
        if is_lower and not native[narrow].reason and device.kind == "gpu":
            findings.append(finding("narrow-rate-lower", narrow, wide=wide))
    return findings


def _check_memory(device: Device) -> list[Finding]:
    findings: list[Finding] = []
    achieved = device.bandwidth_achieved
    if achieved is not None and not 0.3 <= achieved.value / device.bandwidth.value <= 1.02:
        findings.append(finding("achieved-bandwidth-odd", share_ratio=achieved.value / device.bandwidth.value))
    cached_bytes = sum(level.capacity_bytes for level in device.levels)
    if device.capacity is not None and cached_bytes >= device.capacity.value:
        findings.append(finding("caches-exceed-memory", caches=" + ".join(level.name for level in device.levels)))
    slow = [level for level in device.levels if level.bandwidth and level.bandwidth.value < device.bandwidth.value]
    return findings + [finding("cache-below-memory", level.name) for level in slow]
