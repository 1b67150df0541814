"""The dual roofline of one chip, ready to draw: roofs, ridge points, predicted and measured points, the best of
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from reports.cases.rows import CaseRow, option_label, option_precision
from reports.present.display_text import counted, shown
from reports.ranking.shape_results import ShapeResult, best_overall, fastest_by_case
from results.text.verdict_text import in_doubt_text
from roofline_model.chips.hardware import Device
from roofline_model.core.units import GIGA, TERA, format_speedup, format_time

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
    """Of the fastest of its shape, see `ShapeResult.standing`; empty for the others."""
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

    @property
    def measured_count(self) -> int:
        """Points with a measured rate."""
        return sum(point.measured_flops_per_s is not None for point in self.points)


def roofline_view(
    rows: Iterable[CaseRow],
    results: Iterable[ShapeResult],
    *,
    hardware_key: str,
    title: str,
    subtitle: str,
    device: Device | None = None,
) -> RooflineView:
    """Return the dual roofline of the rows of one chip; `device` adds the cache levels that no case used."""
    rows, results = tuple(rows), tuple(results)
    roofs = _roofs(tuple(row for row in rows if row.status in ("measured", "predicted")), device)
    fastest = fastest_by_case(results)
    placed = ((place, row, fastest.get(row.case_key)) for place, row in enumerate(rows))
    points = tuple(point for place in placed if (point := _point(*place)) is not None)
    unit = rate_unit(roofs)
    bandwidth, provenance = _memory(rows, device)
    return RooflineView(
        hardware_key=hardware_key,
        title=title,
        subtitle=subtitle,
        memory_bandwidth_bytes_per_s=bandwidth,
        memory_provenance=provenance,
        roofs=roofs,
        cache_roofs=_cache_roofs(rows, device),
        points=points,
        highlight=_highlight(best_overall(results)),
        unit_flops_per_s=unit[0],
        unit_label=unit[1],
        missing=_missing(rows, roofs, points),
        expected_roofs=_expected_roofs(rows),
        precisions=tuple(dict.fromkeys([*(roof.precision for roof in roofs), *(row.precision for row in rows)])),
        operators=tuple(dict.fromkeys(row.op_title for row in rows)),
    )


def rate_unit(roofs: Iterable[Roof]) -> tuple[float, str]:
    """Return the unit of rate that reads best over these roofs: its size in FLOP/s and its name."""
    highest = max((roof.peak_flops_per_s for roof in roofs), default=0.0)
    return (TERA, "TFLOP/s") if highest >= _TERA_FROM_FLOPS_PER_S else (GIGA, "GFLOP/s")


def _roofs(rows: tuple[CaseRow, ...], device: Device | None) -> tuple[Roof, ...]:
    bandwidth, _ = _memory(rows, device)
    roofs: dict[tuple[str, str, str], Roof] = {}
    for row in (*(other for other in rows if not _is_mixed(other)), *_one_per_format(rows, device)):
        # A warm case's own bandwidth is a cache's: its format still gets the DRAM roof, the cache is drawn apart.
        own_bandwidth = (
            row.bandwidth_bytes_per_s if row.memory_level == "DRAM" else bandwidth or row.bandwidth_bytes_per_s
        )
        if own_bandwidth and row.peak_flops_per_s:
            # A stored peak is FLOPs over time, and differs between shapes in its last digits.
            key = (row.precision, f"{own_bandwidth:.9g}", f"{row.peak_flops_per_s:.9g}")
            roofs.setdefault(
                key,
                Roof(row.precision, row.compute_format, row.path, own_bandwidth, row.peak_flops_per_s, row.provenance),
            )
    return tuple(sorted(roofs.values(), key=lambda roof: (-roof.peak_flops_per_s, roof.precision)))


def _is_mixed(row: CaseRow) -> bool:
    """Return whether a case computes in several formats: the passes of a model do, and products with a softmax or an
    activation between them.
    """
    return row.is_model or "+" in row.compute_format


def _one_per_format(rows: tuple[CaseRow, ...], device: Device | None) -> Iterator[CaseRow]:
    """Yield one row per choice of formats of the cases that mix them, with the peak of the path that most of the work
    takes; none where a case that mixes nothing has that roof.

    Their own peak is a mean that changes with their sizes: no roof.
    """
    pure = {(row.precision, row.compute_format) for row in rows if row.peak_flops_per_s and not _is_mixed(row)}
    choices: dict[tuple[str, ...], list[CaseRow]] = {}
    for row in rows:
        main = row.compute_format.partition("+")[0]
        if _is_mixed(row) and row.peak_flops_per_s and (row.precision, main) not in pure:
            key = (row.weight_format, row.activation_format) if row.is_model else (row.precision, main)
            choices.setdefault(key, []).append(replace(row, compute_format=main))
    for members in choices.values():
        path = None if device is None else device.paths.get(members[0].compute_format)
        mixed = max(row.peak_flops_per_s or 0.0 for row in members)
        yield replace(members[0], peak_flops_per_s=mixed if path is None else path.dense.value)


def _memory(rows: tuple[CaseRow, ...], device: Device | None) -> tuple[float | None, str]:
    for row in rows:
        if row.memory_level == "DRAM" and row.bandwidth_bytes_per_s:
            status = device.bandwidth.status if device is not None else ""
            return row.bandwidth_bytes_per_s, status
    return (device.bandwidth.value, device.bandwidth.status) if device is not None and rows else (None, "")


def _cache_roofs(rows: tuple[CaseRow, ...], device: Device | None) -> tuple[CacheRoof, ...]:
    roofs: dict[str, float] = {}
    for row in rows:
        if row.memory_level and row.memory_level != "DRAM" and row.bandwidth_bytes_per_s:
            roofs.setdefault(shown(row.memory_level, 30), row.bandwidth_bytes_per_s)
    if device is not None and rows:
        for level in device.levels:
            if level.bandwidth is not None:
                roofs.setdefault(shown(level.name, 30), level.bandwidth.value)
    return tuple(CacheRoof(name, bandwidth) for name, bandwidth in sorted(roofs.items(), key=lambda item: item[1]))


def _expected_roofs(rows: Iterable[CaseRow]) -> tuple[ExpectedRoof, ...]:
    slopes: dict[str, list[tuple[float, float]]] = {}
    peaks: dict[str, list[float]] = {}
    for row in rows:
        ideal, expected = row.record.ideal, row.record.expected
        if row.is_model or ideal is None or expected is None or expected.time_s <= 0 or not row.intensity_flop_per_byte:
            continue
        slopes.setdefault(row.precision, [])
        if ideal.bound == "compute":
            peaks.setdefault(row.precision, []).append(ideal.flops / expected.time_s)
        elif ideal.memory_level == "DRAM":
            slopes[row.precision].append((ideal.total_bytes / expected.time_s, row.intensity_flop_per_byte))
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


def _point(place: int, row: CaseRow, fastest_of: ShapeResult | None) -> Point | None:
    if row.status in ("skipped", "failed") or not row.intensity_flop_per_byte:
        return None
    if row.ideal_flops_per_s is None and row.achieved_flops_per_s is None:
        return None
    return Point(
        case_id=row.case_id,
        op=row.op_title,
        precision=row.precision,
        cache=row.cache,
        mode=row.mode,
        intensity_flop_per_byte=row.intensity_flop_per_byte,
        predicted_flops_per_s=row.ideal_flops_per_s,
        measured_flops_per_s=row.achieved_flops_per_s,
        is_best=fastest_of is not None and fastest_of.is_clear,
        standing="" if fastest_of is None else fastest_of.standing,
        ordinal=place,
        expected_flops_per_s=_expected_flops_per_s(row),
    )


def _expected_flops_per_s(row: CaseRow) -> float | None:
    ideal = row.record.ideal
    return ideal.flops / row.expected_s if ideal is not None and ideal.flops and row.expected_s else None


def _highlight(result: ShapeResult | None) -> Highlight | None:
    if result is None or result.best is None or not result.has_headline:
        return None
    best, times = result.best, result.best.times
    case = result.judged.cases[best.key]
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
        *_place_lines(result.title, f"{format_time(time_s, 3)} {evidence}"),
    ]
    if result.is_contest and result.baseline is best and result.level_with is None:
        lines.append("the baseline itself is fastest")
    elif result.is_contest and result.level_with is None:
        lines += _gain_lines(result, evidence)
    if result.is_contest and not result.is_clear:
        lines.append(result.level_text)
    return Highlight(ideal.intensity_flop_per_byte, rate, best.is_measured, tuple(lines))


def _gain_lines(result: ShapeResult, evidence: str) -> list[str]:
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


def _missing(rows: tuple[CaseRow, ...], roofs: tuple[Roof, ...], points: tuple[Point, ...]) -> tuple[str, ...]:
    missing = []
    if not rows:
        missing.append("the run holds no cases")
    elif not roofs:
        missing.append("no prediction was stored, so there is no roof to draw")
    if rows and points and not any(point.measured_flops_per_s is not None for point in points):
        missing.append("nothing was measured: hollow points are predictions")
    left_out = sum(row.status in ("measured", "predicted") for row in rows) - len(points)
    if rows and left_out > 0:
        missing.append(
            f"{left_out} of {counted(len(rows), 'case')} {'has' if left_out == 1 else 'have'} no FLOPs or no "
            f"prediction and {'is' if left_out == 1 else 'are'} not in the plot"
        )
    return tuple(missing)
