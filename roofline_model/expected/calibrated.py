"""Times of a call by a machine's own calibration, and what a measurement of it changes in constants that were lent to
it.

A call by its ceilings (not the model of a good kernel), or by the curve of the very kernel where it was timed:

    time = max(bytes / bandwidth of the access mix, Σ FLOPs / rate of the format) + launch floor + cast

All from `Device.calibration`: medians for the time, the best repetitions for its low end, the slow ones for its high
end. Known beyond the ideal: bandwidth that is reached instead of printed, the fixed cost of a call, and what widening
narrow operands costs. Not known: how a kernel tiles, its efficiency, its occupancy. The interval is the spread of
micro-kernels in one process, so it says what the machine does, not how well a kernel uses it. Nothing is predicted from
what was measured on a busy machine.

Transferred constants take over what is known of this chip's own DRAM, measured here or published. Only the DRAM share
moves: what `roofline calibrate` reads back is the same number that fits find (on five chips the fitted share agrees
with read micro-benchmarks). Its smallest launch is shorter than the floor of a library call, and its products are whole
kernels: neither is a constant of the model. Products and attention share the rule.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from roofline_model.chips.curve import PRODUCT, KernelCurve, WorkSize, work_size
from roofline_model.chips.hardware import ComputePath, Device, get_hardware
from roofline_model.chips.machine_constants import Calibration, Constant
from roofline_model.core.cost import OpCost
from roofline_model.core.errors import InvalidValueError, RooflineError
from roofline_model.core.finding import Finding, finding
from roofline_model.expected.prediction import ExpectedPrediction
from roofline_model.formats.catalog import get_format
from roofline_model.ideal.roofline import WARM_CACHE_SHARE, predict
from roofline_model.operators.product import Operator

CALIBRATED_VERSION = "calibrated-1"
"""Changes whenever the same case and constants would get another time; stored with every such prediction."""

_WRITTEN_SHARES = {"read": 0.0, "triad": 1 / 3, "copy": 0.5, "write": 1.0}
"""Written bytes over all bytes of each micro-kernel."""

FORK_JOIN_BYTES = 2 * 32768 * 4
"""Below two grains of at::parallel_for (32768 elements, ATen/Parallel.h) an operation stays on one thread."""

Triple = tuple[float, float, float]
"""Seconds: low, typical, high."""


def predict_calibrated(work: Operator | OpCost, device: Device, *, cache: str = "cold") -> ExpectedPrediction | None:
    """Return the prediction from this machine's measured constants, or None when it was never calibrated while quiet.

    Its `kernel` is the micro-kernel whose bandwidth was used: read, copy, triad or write. The interval begins at the
    best constants with casts hidden behind the memory traffic, and ends at the slow ones with casts in full.
    `cache="warm"` uses the cache's measured bandwidth for operands that stay in it (`WARM_CACHE_SHARE`).
    Raises `UnsupportedError` when the chip cannot compute in the format.
    """
    calibration = device.calibration
    if calibration is None or calibration.disturbed_by:
        return None
    predict(work, device, cache=cache)  # refuses what the chip cannot compute
    cost = work.cost if isinstance(work, Operator) else work
    mix, bandwidth = _bandwidth(calibration, cost, device, cache)
    memory = _seconds(bandwidth, cost.total_bytes)
    compute, provenance, findings = _compute(cost, device, calibration)
    floor = _floor(calibration, cost)
    cast, cast_findings = _cast(work, device, calibration)
    findings += cast_findings
    if not floor[1]:
        findings.append(finding("ceiling-unmeasured", kind="call-cost"))
    longer = "tensor" if compute[1] > memory[1] else "dram"
    parts = _present({"launch": floor[1], longer: max(memory[1], compute[1]), "cast": cast[1]})
    return ExpectedPrediction(
        hardware=device.key,
        time_s=max(memory[1], compute[1]) + floor[1] + cast[1],
        low_s=max(memory[0], compute[0]) + floor[0],
        high_s=max(memory[2], compute[2]) + floor[2] + cast[2],
        parts=parts,
        binding=max(parts, key=lambda part: part[1])[0],
        kernel=mix,
        provenance=provenance,
        findings=tuple(dict.fromkeys(findings)),
        terms=_present({"dram": memory[1], "tensor": compute[1], "launch": floor[1], "cast": cast[1]}),
        model_version=CALIBRATED_VERSION,
    )


def _present(seconds: Mapping[str, float]) -> tuple[tuple[str, float], ...]:
    return tuple((name, value) for name, value in seconds.items() if value > 0)


def _seconds(rate: Constant, amount: float) -> Triple:
    return amount / rate.best_value, amount / rate.median_value, amount / rate.slow_value


def _bandwidth(calibration: Calibration, cost: OpCost, device: Device, cache: str) -> tuple[str, Constant]:
    """Return the measured mix nearest to the work's share of written bytes, and its bandwidth."""
    last = device.last_level_cache
    fits = last is not None and cost.total_bytes <= WARM_CACHE_SHARE * last.capacity_bytes
    in_cache = cache == "warm" and fits and bool(calibration.cache)
    table = calibration.cache if in_cache else calibration.dram
    share = cost.total_write_bytes / cost.total_bytes if cost.total_bytes else 0.0
    mix = min(table, key=lambda name: abs(_WRITTEN_SHARES[name] - share))
    return mix, table[mix]


def _compute(cost: OpCost, device: Device, calibration: Calibration) -> tuple[Triple, str, list[Finding]]:
    """Return the compute time, the weakest provenance used, and which rates were not measured here."""
    low, typical, high = 0.0, 0.0, 0.0
    provenance: str = calibration.provenance
    findings: list[Finding] = []
    for format_name, count in cost.flops:
        if not count:
            continue
        path = device.path(format_name)
        rate = calibration.peaks.get(path.compute_format) or _stated_rate(path)
        if path.compute_format not in calibration.peaks:
            provenance = path.dense.status
            findings.append(finding("ceiling-unmeasured", kind="rate", format=path.compute_format))
        times = _seconds(rate, count)
        low, typical, high = low + times[0], typical + times[1], high + times[2]
    if not math.isfinite(high):
        raise InvalidValueError("this work cannot be predicted: its FLOPs are out of range")
    return (low, typical, high), provenance, findings


def _stated_rate(path: ComputePath) -> Constant:
    rate = path.dense.value
    return Constant("FLOP/s", rate, rate, rate, None, 1)


def _floor(calibration: Calibration, cost: OpCost) -> Triple:
    """Return the fixed cost of one call: a GPU's launch, or a CPU's call plus waking the threads for larger work."""
    names = ["launch"] if calibration.kind == "cuda" else ["call"]
    if calibration.kind == "cpu" and cost.total_bytes > FORK_JOIN_BYTES:
        names.append("fork-join")
    floors = [calibration.floors[name] for name in names if name in calibration.floors]
    return (
        math.fsum(floor.best_value for floor in floors),
        math.fsum(floor.median_value for floor in floors),
        math.fsum(floor.slow_value for floor in floors),
    )


def _cast(work: Operator | OpCost, device: Device, calibration: Calibration) -> tuple[Triple, list[Finding]]:
    """Return what widening narrow operands costs; the low end is 0, because a fused kernel can hide it."""
    if not isinstance(work, Operator):
        return (0.0, 0.0, 0.0), []
    typical, high = 0.0, 0.0
    findings: list[Finding] = []
    for source, target, element_count in _widened_operands(work, device):
        constant = calibration.casts.get(f"{source}>{target}")
        if constant is None:
            findings.append(finding("ceiling-unmeasured", kind="widening", format=source, compute_format=target))
            continue
        typical += element_count * constant.median_value
        high += element_count * constant.slow_value
    return (0.0, typical, high), findings


def _widened_operands(work: Operator, device: Device) -> list[tuple[str, str, float]]:
    """Return (format, format it is widened to, elements) of each operand that this chip cannot multiply as stored."""
    formats = dict(work.formats)
    sizes = {name.lower(): size for name, size in work.cost.read_bytes}
    targets = [device.path(name).compute_format for name, count in work.cost.flops if count]
    if len(targets) != 1:
        return []
    wide = get_format(targets[0])
    widened = []
    for operand in ("a", "b"):
        if operand not in formats or operand not in sizes:
            continue
        fmt = get_format(formats[operand])
        if fmt.element_bits < wide.element_bits and fmt.key != wide.key and fmt.container_bits is None:
            widened.append((fmt.key, wide.key, sizes[operand] / fmt.traffic_bytes_per_element))
    return widened


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
    """Return the time of `work` by the curve of `kernel`, or of the fastest measured kernel; None where none was
    measured.

    A kernel without a curve of its own (a user's) is held against the fastest one that does the same work. Products
    that were only timed with a result of another format (`torch._int_mm` leaves 32 bits) are known by that one, and say
    so. Curves are of cold operands.
    """
    calibration = device.calibration
    if calibration is None or calibration.kernels_disturbed_by or not calibration.kernels:
        return None
    size = work_size(work)
    curves = [curve for curve in calibration.kernels if curve.fits(size)] or list(
        _of_another_result(calibration.kernels, size)
    )
    if not curves:
        return None
    kernel_curves = [curve for curve in curves if curve.kernel == kernel]
    best = min(kernel_curves or curves, key=lambda curve: curve.time_s(size))
    findings = [finding("kernel-timed", kernel=best.kernel, size_count=best.point_count)]
    if kernel is not None and not kernel_curves:
        findings.append(finding("calibration-stands-in", kind="kernel", kernel=kernel, other_kernel=best.kernel))
    if best.formats != size.formats:
        timed, asked_format = best.formats[-1], size.formats[-1]
        findings.append(finding("other-result-format", kernel=best.kernel, timed_format=timed, format=asked_format))
    if best.row_counts and int(size.regime) > (most := best.row_counts[-1]):
        findings.append(finding("calibration-stands-in", kind="rows", row_count=most))
    time_s, spread = best.time_s(size), best.interval_ratio
    return KernelTime(best, time_s, time_s / spread, time_s * spread, tuple(findings))


def from_kernel(timed: KernelTime, ceilings: ExpectedPrediction) -> ExpectedPrediction:
    """Return the time of a timed kernel: its fixed cost, the part that the ceilings account for, and the rest.

    A kernel that beats the ceilings (its operands were not as cold as the micro-kernels') has no part of its own.
    """
    terms = dict(ceilings.terms)
    memory_s, compute_s = terms.get("dram", 0.0), terms.get("tensor", 0.0)
    fixed_s = min(terms.get("launch", 0.0), timed.time_s)
    left_s = timed.time_s - fixed_s
    bound_s = min(max(memory_s, compute_s), left_s)
    cast_s = min(terms.get("cast", 0.0), left_s - bound_s)
    longer, kernel_s = "tensor" if compute_s > memory_s else "dram", left_s - bound_s - cast_s
    parts = _present({"launch": fixed_s, longer: bound_s, "cast": cast_s, "kernel": kernel_s})
    present = _present({"dram": memory_s, "tensor": compute_s, "launch": fixed_s, "cast": cast_s})
    return ExpectedPrediction(
        hardware=ceilings.hardware,
        time_s=timed.time_s,
        low_s=timed.low_s,
        high_s=timed.high_s,
        parts=parts,
        binding=max(parts, key=lambda part: part[1])[0],
        kernel=timed.curve.kernel,
        provenance=ceilings.provenance,
        findings=timed.findings,
        terms=(*present, ("kernel", kernel_s)),
        model_version=KERNEL_VERSION,
    )


def _of_another_result(curves: Iterable[KernelCurve], size: WorkSize) -> Iterable[KernelCurve]:
    """Yield the curves of products with the same operands whose result has another format: the last of the three."""
    if size.family != PRODUCT:
        return
    for curve in curves:
        if curve.formats[:-1] == size.formats[:-1] and curve.fits(replace(size, formats=curve.formats)):
            yield curve


MEASURED_HERE = "measured-here"


@dataclass(frozen=True, slots=True)
class KnownDram:
    """What is known of the DRAM share that a chip reaches, beyond the constants it was lent."""

    share_ratio: float
    """Of the specified bandwidth."""
    is_measured: bool
    """Measured on this very machine; else the most that anybody has published for the chip."""
    lender_ratio: float | None
    """The same published share of the chip that lends the constants; None where there is none."""
    published_for: str = ""
    """Key of the chip that the share was published for; empty where it was measured."""

    def applied(self, lent_ratio: float, bounds: tuple[float, float]) -> float:
        """Return the share to use in place of a lent one.

        A measured share replaces it, within the bounds of a fit. A published one only limits it: a share near 1 means
        that the source chip's kernel was never bound by DRAM, which says nothing about slower memory. Where the
        lender's kernels beat what was published for the lender (a copy, an older kernel), the limit is as much higher.
        """
        if self.is_measured:
            return min(max(self.share_ratio, bounds[0]), bounds[1])
        beaten = 1.0 if self.lender_ratio is None else max(1.0, lent_ratio / self.lender_ratio)
        return min(lent_ratio, self.share_ratio * beaten)

    def finding_over(self, provenance: str) -> Finding:
        """Return what replaces the DRAM share of constants of a provenance."""
        if self.is_measured:
            return finding(
                "constants-adjusted", kind="dram-measured", dram_share_ratio=self.share_ratio, provenance=provenance
            )
        return finding(
            "constants-adjusted", kind="limited", dram_share_ratio=self.share_ratio, hardware=self.published_for
        )


def known_dram(device: Device, bandwidth_bytes_per_s: float, lenders: Sequence[str]) -> KnownDram | None:
    """Return what this machine measured, else what was published, over `bandwidth_bytes_per_s`; None where nothing is
    known.
    """
    share = measured_share(device, bandwidth_bytes_per_s)
    if share is not None:
        return KnownDram(share, True, None)
    if device.bandwidth_achieved is None:
        return None
    most = device.bandwidth_achieved.value / bandwidth_bytes_per_s
    published = [ratio for key in lenders if (ratio := _published_ratio(key)) is not None]
    return KnownDram(most, False, min(published, default=None), device.key)


def _published_ratio(key: str) -> float | None:
    """Return the published share of a registry chip's bandwidth, or None where there is none."""
    try:
        lender = get_hardware(key)
    except RooflineError:
        return None  # constants of a chip that only the caller's file describes
    return None if lender.bandwidth_achieved is None else lender.bandwidth_achieved.value / lender.bandwidth.value


def measured_share(device: Device, bandwidth_bytes_per_s: float) -> float | None:
    """Return the share of `bandwidth_bytes_per_s` that this machine reads at, or None where it was never measured while
    quiet.
    """
    calibration = device.calibration
    read = None if calibration is None else calibration.dram.get("read")
    if calibration is None or calibration.disturbed_by or read is None:
        return None
    return read.median_value / bandwidth_bytes_per_s
