"""The roofline of options: formats that one question was asked in, with their ideal and expected times, and measured
cases.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from reports.figures.drawing.palette import INK, MUTED, SURFACE, Colour, Shape, format_colours
from reports.figures.drawing.spec import Axis, Card, Figure, LegendEntry, Line, Marks, Series
from reports.figures.roofline import (
    plane_axes,
    roof_cards,
    roof_entries,
    roof_labels,
    roof_lines,
    slope_labels,
    slope_lines,
)
from reports.present.cases import case_precision, title_of
from reports.present.display_text import shown
from reports.present.predicted.row import Row
from reports.view.roofline_view import CacheRoof, Roof, RooflineView, rate_unit
from roofline_model.core.units import format_flops, format_percent, format_time

if TYPE_CHECKING:
    from results.cases.case_result import CaseResult

_SAME_BANDWIDTH_RATIO = 2e-3
"""A stored bandwidth is bytes over time, and differs between cases in its last digits."""
_CASE_SHAPES: Mapping[str, Shape] = {"gemv": "diamond", "gemm": "square", "attention": "hexagon"}


def options_colours(
    options: Iterable[Row], cases: Iterable[CaseResult], names: Iterable[str] = ()
) -> dict[str, Colour]:
    """Return the colour of every label that the figure of these has; of `names`, further formats on the page, the
    colour of the family.
    """
    drawn = format_colours(
        [*(each.label for each in options), *(case_precision(case.case) for case in _plotted(cases))]
    )
    return {name: format_colours([name])[name] for name in names} | drawn


def options_roofline(options: Sequence[Row], cases: Sequence[CaseResult], focus_key: str | None = None) -> Figure:
    """Return the figure; its roofs are those of the options, without any those of the cases. The option in focus is
    larger, one without a roof is left out.
    """
    options = [option for option in options if option.peak_flops_per_s]
    measured = _plotted(cases)
    colours = options_colours(options, measured)
    view = _view(options, measured)
    if not view.roofs:
        return Figure("", Axis(""), Axis(""), ())
    intensities = [option.intensity_flop_per_byte for option in options]
    intensities += [case.intensity_flop_per_byte or 0.0 for case in measured]
    rates = [option.ideal.flops / option.ideal.time_s for option in options]
    rates += [option.ideal.flops / option.expected.high_s for option in options if option.expected is not None]
    rates += [case.achieved_flops_per_s or 0.0 for case in measured]
    x, y = plane_axes(view, intensities, rates)
    ends = (x.low_value or 0.0, x.high_value or 0.0)
    ordered = sorted(options, key=lambda candidate: candidate.key == focus_key)
    points = [
        series
        for option in ordered
        for series in _option_series(
            option, view.unit_flops_per_s, colours[option.label], is_focus=option.key == focus_key
        )
    ]
    return Figure(
        "",
        x,
        y,
        (
            *roof_lines(view, ends, colours),
            *slope_lines(view, ends),
            *points,
            *_measured(measured, view.unit_flops_per_s, colours),
        ),
        (*slope_labels(view, ends), *roof_labels(view, ends, colours)),
        (*_legend(options, measured), *roof_entries(view, colours)),
        cards={
            **dict(roof_cards(view)),
            **{option.key: _option_card(option) for option in options},
            **{_case_key(case): _case_card(case) for case in measured},
        },
    )


def _plotted(cases: Iterable[CaseResult]) -> list[CaseResult]:
    return [case for case in cases if case.achieved_flops_per_s and case.intensity_flop_per_byte]


def _view(options: Sequence[Row], cases: Sequence[CaseResult]) -> RooflineView:
    """Return the roofs and slopes; nearly equal bandwidths are one slope."""
    slopes: list[CacheRoof] = []

    def slope_of(level: str, bandwidth: float) -> float:
        near = (
            roof
            for roof in slopes
            if math.isclose(roof.bandwidth_bytes_per_s, bandwidth, rel_tol=_SAME_BANDWIDTH_RATIO)
        )
        slope = next(near, None)
        if slope is None:
            slope = CacheRoof(shown(level, 30), bandwidth)
            slopes.append(slope)
        return slope.bandwidth_bytes_per_s

    made = [
        (each.memory_level, Roof(each.label, *each.unit, each.bandwidth_bytes_per_s, each.peak_flops_per_s or 0.0, ""))
        for each in options
    ]
    for case in () if options else cases:
        ideal = case.ideal
        if ideal is not None and ideal.peak_flops_per_s and ideal.bandwidth_bytes_per_s:
            path, rates = shown(ideal.path, 30), (ideal.bandwidth_bytes_per_s, ideal.peak_flops_per_s)
            roof = Roof(case_precision(case.case), ideal.compute_format, path, *rates, ideal.provenance)
            made.append((ideal.memory_level, roof))
    roofs: dict[tuple[str, float], Roof] = {}
    for level, roof in made:
        bandwidth = slope_of(level, roof.bandwidth_bytes_per_s)
        roofs.setdefault((roof.precision, bandwidth), replace(roof, bandwidth_bytes_per_s=bandwidth))
    ordered = tuple(sorted(roofs.values(), key=lambda roof: (-roof.peak_flops_per_s, roof.precision)))
    unit, label = rate_unit(ordered)
    dram = next((roof.bandwidth_bytes_per_s for roof in slopes if roof.name == "DRAM"), None)
    caches = tuple(roof for roof in slopes if roof.name != "DRAM")
    return RooflineView("", "", "", dram, "", ordered, caches, (), None, unit, label, ())


def _option_series(option: Row, unit: float, colour: Colour, *, is_focus: bool) -> Iterator[Series]:
    """Yield the expected rate with its interval, filled, and the ideal one, hollow, with a dotted line between."""
    flops, expected = option.ideal.flops, option.expected
    x, ideal, keys = (option.intensity_flop_per_byte,), flops / option.ideal.time_s / unit, (option.key,)
    size = 10.5 if is_focus else 7.0
    if expected is not None:
        rate = flops / expected.time_s / unit
        yield Line(option.label, (*x, *x), (ideal, rate), colour, 1.1, dash=(1.5, 2.25))
        edge, width = (INK, 1.5) if is_focus else (SURFACE, 0.75)
        yield Marks(
            option.label,
            x,
            (rate,),
            colour,
            size_points=size,
            edge=edge,
            edge_width_points=width,
            low=(flops / expected.high_s / unit,),
            high=(flops / expected.low_s / unit,),
            keys=keys,
        )
    size = size if expected is None else 7.0
    yield Marks(option.label, x, (ideal,), colour, size_points=size, fill="ring", edge_width_points=1.5, keys=keys)


def _measured(cases: Iterable[CaseResult], unit: float, colours: Mapping[str, Colour]) -> Iterator[Marks]:
    groups: dict[tuple[str, str], list[CaseResult]] = {}
    for case in cases:
        groups.setdefault((case.case.op, case_precision(case.case)), []).append(case)
    for (op, precision), members in groups.items():
        yield Marks(
            f"measured {precision}",
            tuple(case.intensity_flop_per_byte or 0.0 for case in members),
            tuple((case.achieved_flops_per_s or 0.0) / unit for case in members),
            colours[precision],
            shape=_CASE_SHAPES.get(op, "up"),
            size_points=6.0,
            edge=INK,
            edge_width_points=0.75,
            opacity_ratio=0.85,
            keys=tuple(map(_case_key, members)),
        )


def _case_key(case: CaseResult) -> str:
    return f"case:{case.case_key}"


def _option_card(option: Row) -> Card:
    ideal, expected = option.ideal, option.expected
    facts = [
        "no expected time",
        f"ideal {format_time(ideal.time_s)}, {ideal.bound}-bound",
        f"{option.intensity_flop_per_byte:.4g} FLOP/byte, ridge {option.ridge_flop_per_byte:.4g}",
        f"{format_flops(ideal.flops / ideal.time_s)} at most",
    ]
    if expected is not None:
        interval = f"{format_time(expected.low_s, 3)} to {format_time(expected.high_s, 3)}"
        facts[0] = f"expected {format_time(expected.time_s)} ({interval})"
        facts.append(f"{format_flops(ideal.flops / expected.time_s)} expected")
    return Card(option.label, tuple(("", fact) for fact in facts))


def _case_card(case: CaseResult) -> Card:
    likely = f"expected {format_time(case.expected_s)} ({format_percent(case.error_expected_ratio, signed=True)})"
    facts = (
        f"{case_precision(case.case)}, {shown(case.case.kernel, 80)}, {case.case.cache}",
        f"measured {format_time(case.measured_s)}, {format_flops(case.achieved_flops_per_s)}",
        f"ideal {format_time(case.ideal_s)}" if case.expected_s is None else likely,
    )
    return Card(title_of(case.case), tuple(("", fact) for fact in facts), "click for details")


def _legend(options: Sequence[Row], cases: Sequence[CaseResult]) -> Iterator[LegendEntry]:
    if any(option.expected is not None for option in options):
        yield LegendEntry("expected, 80 % interval", MUTED)
    if options:
        yield LegendEntry("ideal", MUTED, fill="ring")
    if cases:
        yield LegendEntry("measured", MUTED, shape="diamond")
