"""What a text plot draws of a stored run's cases, and the words for what it shows; pure, printing is elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from reports.present.cases import case_precision, operator_title, regime_of
from roofline_cli.plot.drawing import PlotPoint, PlotRoof, PlotSlope, RooflinePlot
from roofline_model.core.units import format_bandwidth, format_flops

if TYPE_CHECKING:
    from reports.view.roofline_view import RooflineView
    from results.cases.case_result import CaseResult

OTHER_LETTER = "*"
"""Stands for every series beyond the alphabet."""


@dataclass(frozen=True, slots=True)
class Series:
    """All cases of one operator and precision in one cache state and mode: they share a letter."""

    letter: str
    op: str
    precision: str
    regime: str
    case_count: int
    measured_count: int
    low_intensity_flop_per_byte: float
    high_intensity_flop_per_byte: float
    ideal_flops_per_s: float | None
    """Medians over its cases; missing is None."""
    expected_flops_per_s: float | None
    measured_flops_per_s: float | None
    roof_share_ratio: float | None


@dataclass(frozen=True, slots=True)
class RunPlot:
    """The plot of a chip's cases and what its letters mean."""

    plot: RooflinePlot
    series: tuple[Series, ...]


def letter_of(index: int) -> str:
    """Return A to Z for the first 26, `*` for the rest."""
    return chr(ord("A") + index) if index < 26 else OTHER_LETTER


def run_plot(view: RooflineView, cases: Sequence[CaseResult]) -> RunPlot:
    """Return the plot of some cases of one chip; roofs of formats that none of them has are left out."""
    rows = [each for each in cases if each.intensity_flop_per_byte and each.ideal_flops_per_s]
    groups: dict[tuple[str, str, str], list[CaseResult]] = {}
    for row in rows:
        key = operator_title(row.case), case_precision(row.case), regime_of(row.case)
        groups.setdefault(key, []).append(row)
    ordered = sorted(groups.items(), key=lambda item: -len(item[1])) if len(groups) > 26 else list(groups.items())
    letters = {key: letter_of(index) for index, (key, _) in enumerate(ordered)}
    points = [_point(row, letters[key]) for key, members in groups.items() for row in members]
    used = {case_precision(row.case) for row in rows}
    roofs = [
        PlotRoof(roof.precision, roof.bandwidth_bytes_per_s, roof.peak_flops_per_s)
        for roof in view.roofs
        if roof.precision in used
    ]
    bandwidth = view.memory_bandwidth_bytes_per_s
    memory = None if bandwidth is None else PlotSlope(f"DRAM {format_bandwidth(bandwidth, 3)}", bandwidth)
    caches = tuple(
        PlotSlope(
            f"{cache_roof.name} {format_bandwidth(cache_roof.bandwidth_bytes_per_s, 3)}",
            cache_roof.bandwidth_bytes_per_s,
        )
        for cache_roof in view.cache_roofs
    )
    plot = RooflinePlot(highest_first(roofs), memory, caches, (), tuple(points))
    return RunPlot(plot, tuple(_series(letters[key], key, members) for key, members in ordered))


def ridge_texts(roofs: Sequence[PlotRoof], at_most: int = 12) -> list[str]:
    """Return `FP16, BF16: 989 TFLOP/s from 295 FLOP/byte` for every distinct roof, the highest first."""

    # Roofs that read alike are one: the peaks of a model's operators differ in their last digits.
    groups: dict[str, list[str]] = {}
    for roof in roofs:
        where = f"{format_flops(roof.peak_flops_per_s, 3)} from {_short(roof.ridge_flop_per_byte)} FLOP/byte"
        names = groups.setdefault(where, [])
        if roof.label not in names:
            names.append(roof.label)
    texts = []
    for where, names in groups.items():
        more = f" and {len(names) - at_most} more" if len(names) > at_most else ""
        texts.append(f"{', '.join(names[:at_most])}{more}: {where}")
    return texts


def hidden_texts(hidden: Mapping[str, str]) -> list[str]:
    """Return `B, C under A` for the letters that have no place of their own."""
    groups: dict[str, list[str]] = {}
    for letter, other in hidden.items():
        groups.setdefault(other, []).append(letter)
    return [f"{', '.join(sorted(letters))} under {other}" for other, letters in groups.items()]


def _point(row: CaseResult, letter: str) -> PlotPoint:
    assert row.intensity_flop_per_byte is not None  # kept by `run_plot`
    return PlotPoint(
        letter, row.intensity_flop_per_byte, row.ideal_flops_per_s, row.achieved_flops_per_s, row.expected_flops_per_s
    )


def _series(letter: str, key: tuple[str, str, str], rows: Sequence[CaseResult]) -> Series:
    intensities = [row.intensity_flop_per_byte for row in rows if row.intensity_flop_per_byte is not None]
    return Series(
        letter,
        *key,
        len(rows),
        sum(row.measured_s is not None for row in rows),
        min(intensities),
        max(intensities),
        _typical([row.ideal_flops_per_s for row in rows]),
        _typical([row.expected_flops_per_s for row in rows]),
        _typical([row.achieved_flops_per_s for row in rows]),
        _typical([row.roof_share_ratio for row in rows]),
    )


def _typical(values: Sequence[float | None]) -> float | None:
    finite = [value for value in values if value is not None]
    return median(finite) if finite else None


def highest_first(roofs: Sequence[PlotRoof]) -> tuple[PlotRoof, ...]:
    """Return the distinct roofs by their peaks."""
    return tuple(sorted(dict.fromkeys(roofs), key=lambda roof: -roof.peak_flops_per_s))


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 99.5 else f"{value:.3g}"
