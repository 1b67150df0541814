"""The dual roofline of one chip, ready to draw: roofs, ridge points, predicted and measured points, the best of
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from reports.present.cases import case_precision, operator_title, option_label, option_precision
from reports.present.display_text import counted, shown
from reports.present.shapes import shape_title, standing_text, tie_text
from reports.present.words.verdict_text import in_doubt_text
from results.cases.best_shapes import best_overall, fastest_by_case
from results.cases.case_result import CaseResult
from results.cases.shape_verdict import ShapeVerdict
from results.records.records import PredictionRecord
from roofline_model.chips.hardware import Device
from roofline_model.core.units import GIGA, TERA, format_speedup, format_time
from roofline_model.operators.case import is_model_case

_TERA_FROM_FLOPS_PER_S = 10 * TERA
"""Roofs from here on are printed in TFLOP/s, slower machines in GFLOP/s: few zeros either way."""


_ANNOTATION_CHARS = 48


@dataclass(frozen=True, slots=True)
class Roof:
    """One format's roof: min(bandwidth × intensity, dense peak of the path it takes)."""

    precision: str
    compute_format: str
    path: str
    bandwidth_bytes_per_s: float
    peak_flops_per_s: float
    provenance: str

    @property
    def critical_intensity_flop_per_byte(self) -> float:
        """The ridge point."""
        return self.peak_flops_per_s / self.bandwidth_bytes_per_s

    def rate_flops_per_s(self, intensity_flop_per_byte: float) -> float:
        """Return the roof's height at an intensity."""
        return min(self.bandwidth_bytes_per_s * intensity_flop_per_byte, self.peak_flops_per_s)


@dataclass(frozen=True, slots=True)
class CacheRoof:
    """The slope of a cache level, for cases whose operands stay in it."""

    name: str
    bandwidth_bytes_per_s: float


@dataclass(frozen=True, slots=True)
class Point:
    """One case on the plane: its predicted and its measured rate at its arithmetic intensity."""

    case_id: str
    op: str
    precision: str
    cache: str
    mode: str
    intensity_flop_per_byte: float
    predicted_flops_per_s: float | None
    measured_flops_per_s: float | None
    is_best: bool
    """True for the best configuration of its shape: the fastest, and no other is tied with it."""
    standing: str
    """Of the fastest of its shape, see `standing_text`; empty for the others."""
    ordinal: int = 0
    """Of its case among the cases of the chip, from 0."""
    expected_flops_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class ExpectedRoof:
    """The highest rates that an expected time of one format reaches: what a good kernel gets, as an envelope."""

    precision: str
    bandwidth_bytes_per_s: float | None
    """Best of the memory-bound cases from DRAM; None where the run has none."""
    peak_flops_per_s: float | None
    """Best of the compute-bound cases; None where the run has none."""
    last_flop_per_byte: float | None
    """Where the memory-bound cases end."""


@dataclass(frozen=True, slots=True)
class Highlight:
    """The best configuration of all, to be annotated."""

    intensity_flop_per_byte: float
    rate_flops_per_s: float
    is_measured: bool
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RooflineView:
    """Everything that a figure of it shows (`reports.figures.roofline`)."""

    hardware_key: str
    title: str
    subtitle: str
    memory_bandwidth_bytes_per_s: float | None
    memory_provenance: str
    roofs: tuple[Roof, ...]
    """Highest peak first."""
    cache_roofs: tuple[CacheRoof, ...]
    points: tuple[Point, ...]
    highlight: Highlight | None
    unit_flops_per_s: float
    unit_label: str
    missing: tuple[str, ...]
    """What the plot cannot show, in words."""
    expected_roofs: tuple[ExpectedRoof, ...] = ()
    precisions: tuple[str, ...] = ()
    """Of the roofs and of every case, those without a point among them, in the order first met."""
    operators: tuple[str, ...] = ()
    """Of every case, in the order first met."""
    is_simulated: bool = False
    """Whether no kernel ran for any of its times."""

    @property
    def measured_count(self) -> int:
        """Points with a measured rate."""
        return sum(point.measured_flops_per_s is not None for point in self.points)


def roofline_view(
    cases: Iterable[CaseResult],
    results: Iterable[ShapeVerdict],
    *,
    hardware_key: str,
    title: str,
    subtitle: str,
    device: Device | None = None,
) -> RooflineView:
    """Return the dual roofline of the cases of one chip; `device` adds the cache levels that no case used."""
    cases, results = tuple(cases), tuple(results)
    roofs = _roofs([each for each in cases if each.status in ("measured", "predicted")], device)
    fastest = fastest_by_case(results)
    placed = ((place, each, fastest.get(each.case_key)) for place, each in enumerate(cases))
    points = tuple(point for place in placed if (point := _point(*place)) is not None)
    unit = rate_unit(roofs)
    bandwidth, provenance = _memory(cases, device)
    return RooflineView(
        hardware_key=hardware_key,
        title=title,
        subtitle=subtitle,
        memory_bandwidth_bytes_per_s=bandwidth,
        memory_provenance=provenance,
        roofs=roofs,
        cache_roofs=_cache_roofs(cases, device),
        points=points,
        highlight=_highlight(best_overall(results)),
        unit_flops_per_s=unit[0],
        unit_label=unit[1],
        missing=_missing(cases, roofs, points),
        expected_roofs=_expected_roofs(cases),
        precisions=tuple(
            dict.fromkeys([*(roof.precision for roof in roofs), *(case_precision(each.case) for each in cases)])
        ),
        operators=tuple(dict.fromkeys(operator_title(each.case) for each in cases)),
        is_simulated=any("simulated" in each.flags for each in cases),
    )


def rate_unit(roofs: Iterable[Roof]) -> tuple[float, str]:
    """Return the unit of rate that reads best over these roofs: its size in FLOP/s and its name."""
    highest = max((roof.peak_flops_per_s for roof in roofs), default=0.0)
    return (TERA, "TFLOP/s") if highest >= _TERA_FROM_FLOPS_PER_S else (GIGA, "GFLOP/s")


def _roofs(results: Sequence[CaseResult], device: Device | None) -> tuple[Roof, ...]:
    """Return the roofs of the cases that compute in one format, then those that only others have."""
    dram, _ = _memory(results, device)
    with_ideal = [(case_precision(each.case), each.ideal, each) for each in results if each.ideal is not None]
    pure = [(name, ideal) for name, ideal, each in with_ideal if not _is_mixed(each)]
    mixed = [(name, ideal, each) for name, ideal, each in with_ideal if _is_mixed(each) and ideal.peak_flops_per_s]
    formats = {(name, ideal.compute_format) for name, ideal in pure if ideal.peak_flops_per_s}
    choices: dict[tuple[str, ...], list[tuple[str, PredictionRecord]]] = {}
    for name, ideal, each in mixed:
        # Their own peak is a mean that changes with their sizes, and no roof: the path that most of the work takes is.
        main = ideal.compute_format.partition("+")[0]
        if (name, main) not in formats:
            operands = dict(each.case.formats)
            key = (operands.get("b", ""), operands.get("a", "")) if is_model_case(each.case) else (name, main)
            choices.setdefault(key, []).append((name, replace(ideal, compute_format=main)))
    for members in choices.values():
        name, ideal = members[0]
        path = None if device is None else device.paths.get(ideal.compute_format)
        peak = max(each.peak_flops_per_s or 0.0 for _, each in members)
        pure.append((name, replace(ideal, peak_flops_per_s=peak if path is None else path.dense.value)))
    roofs: dict[tuple[str, str, str], Roof] = {}
    for name, ideal in pure:
        # A warm case's own bandwidth is a cache's: its format still gets the DRAM roof, the cache is drawn apart.
        own, peak_flops_per_s = ideal.bandwidth_bytes_per_s, ideal.peak_flops_per_s
        bandwidth = own if ideal.memory_level == "DRAM" else dram or own
        if bandwidth and peak_flops_per_s:
            # A stored peak is FLOPs over time, and differs between shapes in its last digits.
            rates = (name, f"{bandwidth:.9g}", f"{peak_flops_per_s:.9g}")
            compute_format, path_name = shown(ideal.compute_format, 60), shown(ideal.path, 30)
            roof = Roof(name, compute_format, path_name, bandwidth, peak_flops_per_s, shown(ideal.provenance, 60))
            roofs.setdefault(rates, roof)
    return tuple(sorted(roofs.values(), key=lambda roof: (-roof.peak_flops_per_s, roof.precision)))


def _is_mixed(result: CaseResult) -> bool:
    """Return whether a case computes in several formats: the passes of a model do, and products with a softmax or an
    activation between them.
    """
    return is_model_case(result.case) or (result.ideal is not None and "+" in result.ideal.compute_format)


def _memory(results: Sequence[CaseResult], device: Device | None) -> tuple[float | None, str]:
    for ideal in (each.ideal for each in results):
        if ideal is not None and ideal.memory_level == "DRAM" and ideal.bandwidth_bytes_per_s:
            return ideal.bandwidth_bytes_per_s, device.bandwidth.status if device is not None else ""
    return (device.bandwidth.value, device.bandwidth.status) if device is not None and results else (None, "")


def _cache_roofs(results: Sequence[CaseResult], device: Device | None) -> tuple[CacheRoof, ...]:
    roofs: dict[str, float] = {}
    for ideal in (each.ideal for each in results):
        if ideal is not None and ideal.memory_level not in ("", "DRAM") and ideal.bandwidth_bytes_per_s:
            roofs.setdefault(shown(ideal.memory_level, 30), ideal.bandwidth_bytes_per_s)
    if device is not None and results:
        for level in device.levels:
            if level.bandwidth is not None:
                roofs.setdefault(shown(level.name, 30), level.bandwidth.value)
    return tuple(CacheRoof(name, bandwidth) for name, bandwidth in sorted(roofs.items(), key=lambda item: item[1]))


def _expected_roofs(results: Iterable[CaseResult]) -> tuple[ExpectedRoof, ...]:
    slopes: dict[str, list[tuple[float, float]]] = {}
    peaks: dict[str, list[float]] = {}
    for result in results:
        ideal, expected, intensity = result.lead.ideal, result.lead.expected, result.intensity_flop_per_byte
        if is_model_case(result.case) or ideal is None or expected is None or expected.time_s <= 0 or not intensity:
            continue
        precision = case_precision(result.case)
        slopes.setdefault(precision, [])
        if ideal.bound == "compute":
            peaks.setdefault(precision, []).append(ideal.flops / expected.time_s)
        elif ideal.memory_level == "DRAM":
            slopes[precision].append((ideal.total_bytes / expected.time_s, intensity))
    return tuple(
        ExpectedRoof(
            precision,
            max((bandwidth for bandwidth, _ in reached), default=None),
            max(peaks.get(precision, ()), default=None),
            max((intensity for _, intensity in reached), default=None),
        )
        for precision, reached in slopes.items()
        if reached or precision in peaks
    )


def _point(place: int, result: CaseResult, fastest_of: ShapeVerdict | None) -> Point | None:
    case, intensity = result.case, result.intensity_flop_per_byte
    if result.status in ("skipped", "failed") or not intensity:
        return None
    if result.ideal_flops_per_s is None and result.achieved_flops_per_s is None:
        return None
    return Point(
        case_id=shown(case.id, 160),
        op=operator_title(case),
        precision=case_precision(case),
        cache=case.cache,
        mode=shown(case.mode, 30),
        intensity_flop_per_byte=intensity,
        predicted_flops_per_s=result.ideal_flops_per_s,
        measured_flops_per_s=result.achieved_flops_per_s,
        is_best=fastest_of is not None and fastest_of.is_clear,
        standing="" if fastest_of is None else standing_text(fastest_of),
        ordinal=place,
        expected_flops_per_s=result.expected_flops_per_s,
    )


def _highlight(result: ShapeVerdict | None) -> Highlight | None:
    if result is None or result.best is None or result.gap is not None:
        return None
    best, times = result.best, result.best.times
    case = result.cases[best.key]
    ideal, time_s = case.ideal, best.times.measured_s if best.is_measured else best.times.ideal_s
    if ideal is None or not ideal.flops or not time_s or not ideal.intensity_flop_per_byte:
        return None
    rate = ideal.flops / time_s
    evidence = "measured" if best.is_measured else "ideal"
    is_expected = not best.is_measured and result.expected_speedup is not None
    if is_expected and times.expected_s is not None:
        evidence, time_s = "expected", times.expected_s
    lines = [
        f"{'Fastest' if result.is_contest else 'Only configuration'}: {option_label(best)}",
        *_place_lines(shape_title(result), f"{format_time(time_s, 3)} {evidence}"),
    ]
    if result.is_contest and result.baseline is best and result.level_with is None:
        lines.append("the baseline itself is fastest")
    elif result.is_contest and result.level_with is None:
        lines += _gain_lines(result, evidence)
    if result.is_contest and not result.is_clear:
        lines.append(tie_text(result))
    return Highlight(ideal.intensity_flop_per_byte, rate, best.is_measured, tuple(lines))


def _gain_lines(result: ShapeVerdict, evidence: str) -> list[str]:
    """Return what the best gains over the baseline, no finer than their times bear, and which of these is in doubt."""
    if result.baseline is None:
        return []
    name, gain = option_precision(result.baseline), result.gain
    if gain is not None:
        doubt = [f"{in_doubt_text(gain)}: measure again"] if gain.is_doubtful else []
        return [f"{gain.over(name)}, {evidence}", *doubt]
    likely = result.expected_speedup if evidence == "expected" else result.predicted_speedup
    return [] if likely is None else [f"{format_speedup(likely)} {name}, {evidence}"]


def _place_lines(title: str, time: str) -> tuple[str, ...]:
    """Return the title and the time, in two lines where one would be too wide for its place on the plot."""
    line = f"{title}: {time}"
    return (line,) if len(line) <= _ANNOTATION_CHARS else (title, time)


def _missing(cases: Sequence[CaseResult], roofs: tuple[Roof, ...], points: tuple[Point, ...]) -> tuple[str, ...]:
    missing = []
    if not cases:
        missing.append("the run holds no cases")
    elif not roofs:
        missing.append("no prediction was stored, so there is no roof to draw")
    if cases and points and not any(point.measured_flops_per_s is not None for point in points):
        missing.append("nothing was measured: hollow points are predictions")
    left_out = sum(each.status in ("measured", "predicted") for each in cases) - len(points)
    if cases and left_out > 0:
        missing.append(
            f"{left_out} of {counted(len(cases), 'case')} {'has' if left_out == 1 else 'have'} no FLOPs or no "
            f"prediction and {'is' if left_out == 1 else 'are'} not in the plot"
        )
    return tuple(missing)
