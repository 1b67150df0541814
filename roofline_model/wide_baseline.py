"""Which 16-bit format is the baseline of a shape on a CPU: the one whose kernel is expected to be the faster there.

A GPU runs FP16 and BF16 at one rate. A CPU may have instructions for one of them only, and its library's kernels differ by
far more than that, either way with the shape: the measured comparisons (pytest, `roofline compare`, the report) take the
fastest 16-bit kernel, and so do predictions.
"""

from __future__ import annotations

from collections.abc import Callable

from roofline_model.case import Case
from roofline_model.errors import UnsupportedError
from roofline_model.format_choices import WIDE_KEYS, field_of
from roofline_model.formats import NumberFormat, get_format
from roofline_model.hardware import Device
from roofline_model.operators import gemm
from roofline_model.recommendation import TimeEstimate


def fastest_wide(
    device: Device, M: int, N: int, K: int, times: Callable[[Case], TimeEstimate | None]
) -> NumberFormat | None:
    """Return the 16-bit format with the shorter time on a CPU, FP16 at a tie; None elsewhere, or where a time is not known."""
    if device.kind != "cpu" or not all(device.declares(key) for key in WIDE_KEYS):
        return None
    found = {key: times(gemm(M, N, K, a=key).case("*")) for key in WIDE_KEYS}
    known = {key: one for key, one in found.items() if one is not None}
    if len(known) < len(found) or len({one.source for one in known.values()}) > 1:
        return None
    return get_format(min(known, key=lambda key: known[key].time_s))


def baseline_of(device: Device) -> str | None:
    """Return the 16-bit format that speed-ups refer to on a chip, the one of recommendations; None where it declares none."""
    try:
        return field_of(device, None).choices[0].fmt.key
    except UnsupportedError:
        return None


def product_baseline(device: Device, shape: tuple[int, int, int]) -> str | None:
    """Return the 16-bit format that a recommendation for this product compares with: on a CPU the faster one at this shape."""
    from roofline_model.expected.case_times import expected_times

    fastest = fastest_wide(device, *shape, expected_times(device))
    return baseline_of(device) if fastest is None else fastest.key
