"""The best matrix product that somebody has published for a chip, and where it beats the rated peak.

A peak belongs to a clock. A board whose real clock exceeds the rated one (RTX 5090: 245.8 of 209.5 TFLOP/s in BF16) is
faster than its own ideal time: the ideal keeps the rated peak and says so.
"""

from __future__ import annotations

from roofline_model.chips.hardware import Device, Quantity
from roofline_model.core.finding import Finding, finding
from roofline_model.core.memo import Memo
from roofline_model.formats.catalog import NumberFormat, get_format
from roofline_model.operators.product import Operator


def published_rate(device: Device, format_key: str) -> Quantity | None:
    """Return the best product published for the chip in a format, or in one that the same unit multiplies; None: nothing.

    The same unit: as wide, of the same kind, both or neither in blocks with scales, at the same dense peak (BF16 and FP16).
    Raises `UnsupportedError` for a format that the chip cannot compute in.
    """
    asked = get_format(format_key)
    return _KEPT.of((device, asked), lambda: _best(device, asked))


_KEPT: Memo[Quantity | None] = Memo(1024)


def _best(device: Device, asked: NumberFormat) -> Quantity | None:
    path = device.path(asked.key)
    if path.kind != "native":
        return None
    if path.achieved is not None:
        return path.achieved
    for key, other in device.paths.items():
        fmt = get_format(key)
        is_same = (fmt.element_bits, fmt.kind, bool(fmt.scales)) == (asked.element_bits, asked.kind, bool(asked.scales))
        if other.achieved is not None and other.kind == "native" and is_same and other.dense.value == path.dense.value:
            return other.achieved
    return None


def published_over_peak(device: Device, format_key: str) -> float:
    """Return the published rate over the dense peak of the unit that computes, where it is higher; else 1."""
    path = device.path(format_key)
    best = published_rate(device, path.compute_format)
    return 1.0 if best is None else max(1.0, best.value / path.dense.value)


def beaten_ratio(work: Operator, device: Device) -> float:
    """Return how far the rated compute time of a call may be beaten: the largest `published_over_peak` of its formats."""
    return max((published_over_peak(device, key) for key, count in work.cost.flops if count), default=1.0)


def peak_exceeded(device: Device, format_key: str) -> Finding | None:
    """Return that products faster than the rated peak were published; None where none were."""
    path = device.path(format_key)
    best = published_rate(device, path.compute_format)
    if best is None or best.value <= path.dense.value:
        return None
    return finding(
        "peak-exceeded",
        hardware=device.key,
        format=path.compute_format,
        best_flops_per_s=best.value,
        peak_flops_per_s=path.dense.value,
        clock_hz=path.dense.clock_hz,
    )
