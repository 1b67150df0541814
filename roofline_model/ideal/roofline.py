"""The ideal time: speed of light, `max(bytes / bandwidth, FLOPs / peak)`, with everything that went into it.

Source: S. Williams, A. Waterman, D. Patterson, "Roofline: an insightful visual performance model", CACM 52(4), 2009.

`predict` answers for any operator; `ProductRoof` gives the same of products in fixed formats, looked up once, then a
few multiplications a shape. A peak belongs to a clock: a board whose real clock exceeds the rated one (RTX 5090: 245.8
of 209.5 TFLOP/s in BF16) is faster than its own ideal time. The ideal keeps the rated peak, and a finding names the
best product that somebody has published for the chip (`published_rate`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

from roofline_model.chips.hardware import ComputePath, Device, Quantity, check_ceilings, get_hardware
from roofline_model.core.answer import NOT_IN_JSON
from roofline_model.core.cost import OpCost
from roofline_model.core.elementwise import Numbers, choose, larger
from roofline_model.core.errors import InvalidValueError
from roofline_model.core.finding import Finding, finding
from roofline_model.core.memo import Memo
from roofline_model.core.seed_names import SeedNames
from roofline_model.core.units import format_time
from roofline_model.formats.catalog import NumberFormat, attention_name, format_name, format_pair, get_format
from roofline_model.operators.product import (
    FormatLike,
    Operator,
    compute_format,
    gemm,
    gemv,
    stored_weight,
    weight_counting,
)

MODEL_VERSION = "ideal-2"
"""Changes whenever the same case would get another ideal time; stored with every prediction.

ideal-2: a warm case that fills more than `WARM_CACHE_SHARE` of the last-level cache keeps the DRAM roof.
"""

WARM_CACHE_SHARE = 0.75
"""Share of the last-level cache up to which operands are taken to stay in it: the rest holds code, stack and other
data, and a hashed or divided cache evicts before it is full.
"""

Bound = Literal["memory", "compute"]


@dataclass(frozen=True, slots=True)
class RoofTimes:
    """Calls under their roof: numbers of one call, arrays of many."""

    flops: Numbers
    total_bytes: Numbers
    """Operands read once, results written once."""
    memory_s: Numbers
    compute_s: Numbers

    @property
    def time_s(self) -> Numbers:
        """The ideal time."""
        return larger(self.memory_s, self.compute_s)

    @property
    def bound(self) -> Numbers:
        """What takes the ideal time: `memory` or `compute`."""
        return choose(self.compute_s > self.memory_s, "compute", "memory")


@dataclass(frozen=True, slots=True)
class MemoryRoof:
    """The bandwidth that bounds calls by the bytes they move; numbers of one call, arrays of many."""

    bandwidth_bytes_per_s: Numbers
    fits_cache: Numbers
    """Warm operands stay in the last-level cache: its bandwidth is the roof where it is known."""
    fits_partly: Numbers
    """Warm operands take more of it than stays, and no more than it has."""


def memory_roof(device: Device, total_bytes: Numbers, cache: str) -> MemoryRoof:
    """Return the memory roof of calls in a state of the cache: DRAM unless it is `warm` and the operands stay in it."""
    last, dram = device.last_level_cache, device.bandwidth.value
    if cache != "warm" or last is None:
        return MemoryRoof(dram, False, False)
    fits = total_bytes <= WARM_CACHE_SHARE * last.capacity_bytes
    fits_partly = choose(fits, False, total_bytes <= last.capacity_bytes)
    return MemoryRoof(dram if last.bandwidth is None else choose(fits, last.bandwidth.value, dram), fits, fits_partly)


@dataclass(frozen=True, slots=True)
class Prediction(SeedNames):
    """The ideal prediction of one call: time, bound, FLOPs, bytes, findings. All SI."""

    DERIVED: ClassVar = ("intensity_flop_per_byte", "critical_intensity_flop_per_byte", "rate_flops_per_s")

    hardware: str
    """Key of the chip."""
    time_s: float
    """Ideal time, the speed of light, seconds."""
    memory_time_s: float
    """Bytes over bandwidth, seconds."""
    compute_time_s: float
    """FLOPs over dense peak, seconds."""
    bound: Bound
    """memory or compute: which of bytes and FLOPs takes the longer time."""
    flops: float
    """Work, FLOP; a multiply and an add are two."""
    read_bytes: float
    """Every input read once, bytes, scales included."""
    write_bytes: float
    """The output written once, bytes."""
    bandwidth_bytes_per_s: float
    """Of the memory level used, bytes per second."""
    peak_flops_per_s: float
    """Dense peak of the path, FLOP per second; for a cost with several compute formats, their FLOP-weighted harmonic
    mean."""
    compute_format: str
    """The format whose unit computes; several are joined by `+`; empty for a pure copy."""
    path: str
    """native, emulated or dequantize (widened to 16 bit first)."""
    memory_level: str
    """DRAM, or the cache whose bandwidth was used for a warm case."""
    provenance: str
    """Status of the weakest number used: datasheet, measured, derived, …, placeholder."""
    findings: tuple[Finding, ...] = ()
    """What to know about it, may be empty."""
    model_version: str = MODEL_VERSION
    """Version of the ideal model."""
    formats_name: str = field(default="", metadata=NOT_IN_JSON)
    """What people call the formats of its operands: `INT4 (W4A16)`; empty for a plain cost."""

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} {self.formats_name or self.compute_format or 'copy'} on {self.hardware}: "
            f"ideal {format_time(self.time_s)}, {self.bound}-bound>"
        )

    def _repr_html_(self) -> str:
        from roofline_model.ideal.roofline_picture import prediction_html

        return prediction_html(self)

    @property
    def intensity_flop_per_byte(self) -> float:
        """Arithmetic intensity of the case, FLOP per byte."""
        moved = self.read_bytes + self.write_bytes
        return self.flops / moved if moved else math.inf

    @property
    def critical_intensity_flop_per_byte(self) -> float:
        """Ridge point, peak over bandwidth, FLOP per byte: memory and compute take equal time."""
        return self.peak_flops_per_s / self.bandwidth_bytes_per_s

    @property
    def rate_flops_per_s(self) -> float:
        """Rate of the whole call at its ideal time, FLOP per second."""
        return self.flops / self.time_s


@dataclass(frozen=True, slots=True)
class DualRooflinePoint:
    """A predicted and a measured point of one case, side by side (seeds' name)."""

    label: str
    precision: str
    prediction: Prediction
    measured_time_s: float | None = None

    @property
    def predicted_time_us(self) -> float:
        """Predicted time in µs."""
        return self.prediction.time_s * 1e6

    @property
    def measured_time_us(self) -> float | None:
        """Measured time in µs, or None when nothing was measured."""
        return None if self.measured_time_s is None else self.measured_time_s * 1e6

    @property
    def error_ratio(self) -> float | None:
        """(predicted − measured) / measured; negative: the prediction was too fast."""
        return error_ratio(self.prediction.time_s, self.measured_time_s)

    @property
    def error_pct(self) -> float | None:
        """`error_ratio` in percent (seeds' name)."""
        return None if self.error_ratio is None else self.error_ratio * 100


def error_ratio(predicted_s: float | None, measured_s: float | None) -> float | None:
    """Return (predicted − measured) / measured, or None when either is missing."""
    if predicted_s is None or not measured_s:
        return None
    return (predicted_s - measured_s) / measured_s


def predict(work: Operator | OpCost, hardware: Device | str, *, cache: str = "cold") -> Prediction:
    """Return the ideal prediction of `work` on a chip.

    Time is max(bytes / bandwidth, FLOPs / dense peak), in seconds (Williams, Waterman, Patterson, CACM 52(4), 2009).
    `cache="warm"` uses the last-level cache's bandwidth when it is known and the operands take at most
    `WARM_CACHE_SHARE` of the cache. Otherwise the DRAM roof is used, and where the operands fit a finding says that the
    case may run faster. Raises `UnsupportedError` when the chip cannot compute in the format,
    or its ceilings were measured while it was busy, `InvalidValueError` for FLOPs without a format.
    """
    device = get_hardware(hardware)
    check_ceilings(device)
    cost = work.cost if isinstance(work, Operator) else work
    paths = _paths(cost, device)
    compute_time_s = math.fsum([count / path.dense.value for count, path in paths])
    flops, total_bytes = cost.total_flops, cost.total_bytes
    bandwidth, level, findings = _memory(total_bytes, device, cache)
    times = RoofTimes(flops, total_bytes, total_bytes / bandwidth.value, compute_time_s)
    time_s = times.time_s
    if time_s <= 0:
        raise InvalidValueError("the work has neither FLOPs nor bytes: there is nothing to predict")
    widened = _widened(work)
    findings += [_path_finding(device, path) for _, path in paths]
    if widened is not None:
        findings.append(finding("operands-widened", **widened))
    findings += [peak_exceeded(device, path.format) for _, path in paths]
    return Prediction(
        hardware=device.key,
        time_s=time_s,
        memory_time_s=times.memory_s,
        compute_time_s=compute_time_s,
        bound=times.bound,
        flops=flops,
        read_bytes=cost.total_read_bytes,
        write_bytes=cost.total_write_bytes,
        bandwidth_bytes_per_s=bandwidth.value,
        peak_flops_per_s=flops / compute_time_s if compute_time_s else _default_peak(device),
        compute_format="+".join(dict.fromkeys([path.compute_format for _, path in paths])),
        path=path_kind([path.kind for _, path in paths], widens_operand=widened is not None),
        memory_level=level,
        provenance=weakest_provenance([bandwidth.status, *(path.dense.status for _, path in paths)]),
        findings=tuple(dict.fromkeys(filter(None, findings))),
        formats_name=_formats_name(work),
    )


def _formats_name(work: Operator | OpCost) -> str:
    formats = dict(work.formats) if isinstance(work, Operator) else {}
    if {"a", "b"} <= formats.keys():
        return format_name(formats["b"], formats["a"])
    return attention_name(formats["kv"], formats["q"]) if {"q", "kv"} <= formats.keys() else ""


def predict_gemm(
    hardware: Device | str,
    M: int,
    N: int,
    K: int,
    precision: str | NumberFormat = "FP16",
    *,
    weight_precision: str | NumberFormat | None = None,
    output_precision: str | NumberFormat | None = None,
) -> Prediction:
    """Return the ideal prediction of C(M×N) = A(M×K)·B(K×N): seconds, FLOPs, bytes.

    Both operands have `precision` unless `weight_precision` names B's. A pair such as `INT4.FP16` names the weight
    first, as on the command line; its weight is counted with group scales, as kernels store it.
    Raises `UnknownNameError` for a chip or format, `InvalidValueError` for a size, `UnsupportedError` where the chip
    cannot compute in the format.
    """
    activation, weight = _operand_formats(precision, weight_precision)
    return predict(gemm(M, N, K, a=activation, b=weight, c=output_precision), hardware)


def predict_gemv(
    hardware: Device | str,
    N: int,
    K: int,
    precision: str | NumberFormat = "FP16",
    *,
    M: int = 1,
    weight_precision: str | NumberFormat | None = None,
    output_precision: str | NumberFormat | None = None,
) -> Prediction:
    """Return the ideal prediction of y(M×N) = x(M×K)·W(K×N), the product of a decode step: seconds, FLOPs, bytes.

    Arguments and errors as of `predict_gemm`.
    """
    activation, weight = _operand_formats(precision, weight_precision)
    return predict(gemv(N, K, M=M, a=activation, b=weight, c=output_precision), hardware)


def _operand_formats(
    precision: str | NumberFormat, weight_precision: str | NumberFormat | None
) -> tuple[str | NumberFormat, str | NumberFormat | None]:
    """Return the formats of A and B; None for B where it has A's."""
    if weight_precision is not None or not isinstance(precision, str) or "." not in precision:
        return precision, weight_precision
    weight, activation = format_pair(precision)
    return activation, stored_weight(weight, activation)


def _paths(cost: OpCost, device: Device) -> list[tuple[float, ComputePath]]:
    paths = []
    for key, count in cost.flops:
        if count and not key:
            raise InvalidValueError(
                "these FLOPs name no format; write OpCost(flops={'BF16': …}) so that the right peak is used"
            )
        if count:
            paths.append((count, device.path(key)))
    return paths


def path_kind(kinds: Iterable[str], *, widens_operand: bool) -> str:
    """Return how a call computes by the kinds of its formats' paths: emulated, dequantize or native.

    `widens_operand`: one operand is widened to the format of the other, whose own unit computes.
    """
    taken = set(kinds)
    if widens_operand and "native" in taken:
        return "dequantize"
    return "emulated" if "emulated" in taken else "dequantize" if "dequantize" in taken else "native"


def _memory(total_bytes: float, device: Device, cache: str) -> tuple[Quantity, str, list[Finding | None]]:
    last = device.last_level_cache
    if cache != "warm" or last is None:
        return device.bandwidth, "DRAM", []
    roof = memory_roof(device, total_bytes, cache)
    if not (roof.fits_cache or roof.fits_partly):
        return device.bandwidth, "DRAM", []
    if roof.fits_partly:
        share = total_bytes / last.capacity_bytes
        return (
            device.bandwidth,
            "DRAM",
            [finding("cached-in-part", kind="share", cache_share_ratio=share, level=last.name)],
        )
    if last.bandwidth is None:
        return device.bandwidth, "DRAM", [finding("cache-bandwidth-unknown", level=last.name)]
    return last.bandwidth, last.name, []


def weakest_provenance(statuses: Iterable[str]) -> str:
    """Return the least trustworthy of the statuses of the numbers that made a prediction."""
    order = ("measured-here", "datasheet", "measured", "derived", "declared", "secondary", "unconfirmed", "placeholder")
    return max(statuses, key=order.index)


def _widened(work: Operator | OpCost) -> dict[str, str] | None:
    """Return which operand is widened from its format to the other's before the product; None where none is."""
    if not isinstance(work, Operator):
        return None
    formats = dict(work.formats)
    for narrow, wide, operand in (("b", "a", "weights"), ("kv", "q", "keys and values"), ("kv", "p", "values")):
        if narrow in formats and wide in formats:
            key, compute_key = formats[narrow], formats[wide]
            if get_format(key).element_bits < get_format(compute_key).element_bits:
                return {"operand": operand, "format": key, "compute_format": compute_key}
    return None


def _path_finding(device: Device, path: ComputePath) -> Finding | None:
    """Return why another unit than the format's own computes; None for a native path, or one without a stated
    reason.
    """
    if path.kind == "native":
        return None
    if not device.declares(path.format):
        return finding(
            "rate-not-declared",
            kind="widened",
            hardware=device.key,
            format=path.format,
            compute_format=path.compute_format,
        )
    return finding("no-native-unit", format=path.format, reason=path.reason) if path.reason else None


def _default_peak(device: Device) -> float:
    """Return a peak for the ridge of a pure copy: the widest native rate the chip has."""
    return max(path.dense.value for path in device.paths.values())


@dataclass(frozen=True, slots=True)
class ProductRoof:
    """Bytes per element, bandwidth and peak that `predict` has for products of these formats on this chip."""

    device: Device
    activation_bytes_per_element: float
    weight_bytes_per_element: float
    output_bytes_per_element: float
    bandwidth_bytes_per_s: float
    """Of the DRAM."""
    peak_flops_per_s: float
    path: str
    """native, emulated or dequantize."""
    beaten_ratio: float
    """The best published rate over the peak where it is higher, else 1 (`published_over_peak`)."""

    @classmethod
    def of(cls, device: Device, *, activation: NumberFormat, weight: NumberFormat, output: NumberFormat) -> ProductRoof:
        """Return the roof of C = A·B; raises `UnsupportedError` when the chip cannot compute in the formats."""
        check_ceilings(device)
        computes_in = compute_format(activation, weight)
        return cls(
            device,
            activation.traffic_bytes_per_element,
            weight.traffic_bytes_per_element,
            output.traffic_bytes_per_element,
            device.bandwidth.value,
            device.peak_flops_per_s(computes_in),
            path_kind([device.path(computes_in).kind], widens_operand=weight.element_bits < activation.element_bits),
            published_over_peak(device, computes_in),
        )

    def at(self, M: Numbers, N: Numbers, K: Numbers, *, cache: str = "cold") -> RoofTimes:
        """Return the times of shapes: whole numbers of one, arrays of many. `cache` as of `predict`."""
        flops = 2.0 * (M * N * K)
        read_bytes = M * K * self.activation_bytes_per_element + K * N * self.weight_bytes_per_element
        total_bytes = read_bytes + M * N * self.output_bytes_per_element
        bandwidth_bytes_per_s = self.bandwidth_bytes_per_s
        if cache == "warm":
            bandwidth_bytes_per_s = memory_roof(self.device, total_bytes, cache).bandwidth_bytes_per_s
        return RoofTimes(flops, total_bytes, total_bytes / bandwidth_bytes_per_s, flops / self.peak_flops_per_s)


def with_storage(prediction: Prediction, weight: FormatLike, activation: FormatLike) -> Prediction:
    """Return the ideal prediction of `product_of_pair` with a finding on how its weight is counted, where that needs
    one.

    A unit that multiplies the format takes it as it is: none.
    """
    if prediction.path == "native" and get_format(weight) == get_format(activation):
        return prediction
    counted = weight_counting(get_format(weight), get_format(activation))
    return prediction if counted is None else replace(prediction, findings=(*prediction.findings, counted))


def published_rate(device: Device, format_key: str) -> Quantity | None:
    """Return the best product published for the chip in a format or in one of the same unit; None where there is none.

    The same unit: as wide, of the same kind, both or neither in blocks with scales, at the same dense peak (BF16 and
    FP16). Raises `UnsupportedError` for a format that the chip cannot compute in.
    """
    asked_format = get_format(format_key)
    return _PEAKS.of((device, asked_format), lambda: _best(device, asked_format))


_PEAKS: Memo[Quantity | None] = Memo(1024)


def _best(device: Device, asked_format: NumberFormat) -> Quantity | None:
    path = device.path(asked_format.key)
    if path.kind != "native":
        return None
    if path.achieved is not None:
        return path.achieved
    for key, other in device.paths.items():
        fmt = get_format(key)
        is_same = (fmt.element_bits, fmt.kind, bool(fmt.scales)) == (
            asked_format.element_bits,
            asked_format.kind,
            bool(asked_format.scales),
        )
        if other.achieved is not None and other.kind == "native" and is_same and other.dense.value == path.dense.value:
            return other.achieved
    return None


def published_over_peak(device: Device, format_key: str) -> float:
    """Return the published rate over the dense peak of the unit that computes, where it is higher; else 1."""
    path = device.path(format_key)
    best = published_rate(device, path.compute_format)
    return 1.0 if best is None else max(1.0, best.value / path.dense.value)


def beaten_ratio(work: Operator, device: Device) -> float:
    """Return the factor by which a call may beat its rated compute time: the largest `published_over_peak`."""
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
