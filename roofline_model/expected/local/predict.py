"""What a machine's own kernel curves say of one call: that kernel's time, or the fastest one's where none is named."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from roofline_model.chips.calibration_doubt import doubt_of_times
from roofline_model.chips.curve import PRODUCT, KernelCurve, WorkSize, work_size
from roofline_model.chips.hardware import Device
from roofline_model.core.finding import Finding, finding
from roofline_model.operators.product import Operator

KERNEL_VERSION = "kernel-1"
"""Changes whenever the same call and curves would get another time; stored with every such prediction."""


@dataclass(frozen=True, slots=True)
class KernelTime:
    """The time of one call by a measured curve. Seconds."""

    curve: KernelCurve
    time_s: float
    low_s: float
    high_s: float
    findings: tuple[Finding, ...]


def predict_kernel(work: Operator, device: Device, *, kernel: str | None = None) -> KernelTime | None:
    """Return the time of `work` by the curve of `kernel`, or of the fastest measured kernel; None where none was measured.

    A kernel without a curve of its own (a user's) is held against the fastest one that does the same work. Products that
    were only timed with a result of another format (`torch._int_mm` leaves 32 bits) are known by that one, and say so.
    Curves are of cold operands.
    """
    known = device.calibration
    if known is None or not known.kernels:
        return None
    size = work_size(work)
    curves = [curve for curve in known.kernels if curve.fits(size)] or list(_of_another_result(known.kernels, size))
    if not curves:
        return None
    own = [curve for curve in curves if curve.kernel == kernel]
    best = min(own or curves, key=lambda curve: curve.time_s(size))
    findings = [finding("kernel-timed", kernel=best.kernel, size_count=best.point_count)]
    if kernel is not None and not own:
        findings.append(finding("other-kernel-stands", kernel=kernel, other_kernel=best.kernel))
    if best.formats != size.formats:
        timed, asked = best.formats[-1], size.formats[-1]
        findings.append(finding("other-result-format", kernel=best.kernel, timed_format=timed, format=asked))
    if best.row_counts and int(size.regime) > (most := best.row_counts[-1]):
        findings.append(finding("rows-beyond-timed", row_count=most))
    if (doubt := doubt_of_times(device)) is not None:
        findings.append(doubt)
    time_s, spread = best.time_s(size), best.interval_ratio
    return KernelTime(best, time_s, time_s / spread, time_s * spread, tuple(findings))


def _of_another_result(curves: Iterable[KernelCurve], size: WorkSize) -> Iterable[KernelCurve]:
    """Yield the curves of products with the same operands whose result has another format: the last of the three."""
    if size.family != PRODUCT:
        return
    for curve in curves:
        if curve.formats[:-1] == size.formats[:-1] and curve.fits(replace(size, formats=curve.formats)):
            yield curve
