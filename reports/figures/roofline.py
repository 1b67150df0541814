"""The dual roofline as a figure: roofs, memory slopes, every predicted and measured point, the best configuration."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from reports.figures.drawing.palette import ACCENT, INK, MUTED, SURFACE, Colour, Shape, format_colours, operator_shapes
from reports.figures.drawing.spec import Axis, Card, Figure, Fill, Key, Label, LegendEntry, Line, Marks, Medium, Series
from reports.present.display_text import shown
from reports.view.roofline_view import CacheRoof, ExpectedRoof, Point, Roof, RooflineView
from roofline_model.core.units import format_bandwidth, format_flops

MANY_POINTS = 1_000
"""More points than this are small, pale and of one shape."""
MOST_RINGS = 60
"""Of more shapes no best is ringed but the best of all."""

_SAME_HEIGHT_RATIO = 0.004
_DASH = 9.0
_CACHE_FILLS: Mapping[str, Fill] = {"warm": "left", "flushed": "right"}
_MODE_SIGNS: Mapping[str, Shape] = {"graph": "thin-plus", "burst": "bar", "sustained": "dash"}
_RING_NAMES = {True: "fastest of its shape", False: "fastest, others tied with it"}
_PALE = 0.45


def roofline_figure(view: RooflineView, first_number: int = 1) -> Figure:
    """Return the figure of one chip. `first_number`: of its first case on the page, by which points are keyed."""
    if not view.roofs and not view.points:
        empty = Axis("")
        return Figure(view.title, empty, empty, (), subtitle=view.subtitle, notes=view.missing)
    colours = format_colours(view.precisions)
    shapes = operator_shapes(view.operators)
    rates = [
        rate
        for point in view.points
        for rate in (point.predicted_flops_per_s, point.measured_flops_per_s, point.expected_flops_per_s)
        if rate
    ]
    x, y = plane_axes(view, [point.intensity_flop_per_byte for point in view.points], rates)
    ends = (x.low_value or 0.0, x.high_value or 0.0)
    series: tuple[Series, ...] = (
        *roof_lines(view, ends, colours),
        *slope_lines(view, ends),
        *_expected_roof_lines(view, ends, colours),
        *_ridges(view, ends, colours),
        *_gaps(view, first_number),
        *_points(view, first_number, colours, shapes),
        *_rings(view, first_number),
    )
    labels = (*_ridge_labels(view, ends, colours), *slope_labels(view, ends), *roof_labels(view, ends, colours))
    return Figure(
        view.title,
        x,
        y,
        series,
        (*labels, *_best_label(view)),
        (*_legend(view, shapes), *_slope_entries(view, ends), *roof_entries(view, colours)),
        view.subtitle,
        view.missing,
        dict((*roof_cards(view), *_expected_cards(view))),
    )


def plane_axes(view: RooflineView, intensities: Iterable[float], rates: Sequence[float]) -> tuple[Axis, Axis]:
    """Return axes that reach every intensity (FLOP/byte) and rate (FLOP/s), and the ridge of every roof."""
    unit, points = view.unit_flops_per_s, tuple(intensities)
    ridges = [roof.critical_intensity_flop_per_byte for roof in view.roofs]
    low = min([*points, *ridges]) / 2.2
    high = max(max(points, default=0.0) * 2.5, max(ridges, default=0.0) * 1.6)
    lowest = min(rates or [roof.rate_flops_per_s(low) for roof in view.roofs])
    top = max([*(roof.rate_flops_per_s(high) for roof in view.roofs), *rates])
    return (
        Axis("Arithmetic intensity (FLOP/byte)", low, high, is_log=True),
        Axis(f"Performance ({view.unit_label})", lowest / 1.8 / unit, top * 1.8 / unit, is_log=True),
    )


# --- roofs and slopes, of a run's cases and of options alike


def memory_slopes(view: RooflineView) -> tuple[CacheRoof, ...]:
    """Return DRAM's slope, where it is known, and those of the caches."""
    dram = view.memory_bandwidth_bytes_per_s
    return (*((CacheRoof("DRAM", dram),) if dram else ()), *view.cache_roofs)


def roof_lines(view: RooflineView, ends: tuple[float, float], colours: Mapping[str, Colour]) -> Iterator[Line]:
    """Yield the roof of each format: its plateau, and its slope where no memory has that. Roofs of one height share
    their dashes.
    """
    low, high = ends
    slopes = {slope.bandwidth_bytes_per_s for slope in memory_slopes(view)}
    for place, roof in enumerate(view.roofs):
        ridge = roof.critical_intensity_flop_per_byte
        is_sloped = roof.bandwidth_bytes_per_s not in slopes
        if ridge >= high and not is_sloped:
            continue  # the slope of its memory is all that is seen of it
        xs = [max(ridge, low), high] if not is_sloped else [min(low, ridge), min(ridge, high), high]
        yield Line(
            f"roof {roof.precision}",
            tuple(xs),
            tuple(roof.rate_flops_per_s(x) / view.unit_flops_per_s for x in xs),
            colours[roof.precision],
            width_points=1.8,
            dash=_shared_dash(roof, view.roofs),
            keys=(f"roof:{place}",) * len(xs),
        )


def _shared_dash(roof: Roof, roofs: Sequence[Roof]) -> tuple[float, ...]:
    """Return the strokes of a roof that lies on others: each takes its part of the line, so that every colour is
    seen.
    """
    twins = [other for other in roofs if _is_level(other.peak_flops_per_s, roof.peak_flops_per_s)]
    place, after = twins.index(roof), len(twins) - 1 - twins.index(roof)
    if len(twins) == 1:
        return ()
    return (0.0, _DASH * place, _DASH, _DASH * after) if place else (_DASH, _DASH * after)


def _is_level(value: float, other: float) -> bool:
    return math.isclose(value, other, rel_tol=_SAME_HEIGHT_RATIO)


def _seen_slopes(view: RooflineView, ends: tuple[float, float]) -> list[tuple[int, CacheRoof]]:
    """Return the memory levels, by their place, that the highest roof does not cut off at the left edge."""
    top = max((roof.peak_flops_per_s for roof in view.roofs), default=0.0)
    return [each for each in enumerate(memory_slopes(view)) if top > each[1].bandwidth_bytes_per_s * ends[0]]


def slope_lines(view: RooflineView, ends: tuple[float, float]) -> Iterator[Line]:
    """Yield the slope of each memory level as far as the highest roof; caches are dashed."""
    (low, high), unit = ends, view.unit_flops_per_s
    top = max((roof.peak_flops_per_s for roof in view.roofs), default=0.0)
    for place, slope in _seen_slopes(view, ends):
        is_dram = place == 0 and view.memory_bandwidth_bytes_per_s is not None
        bandwidth = slope.bandwidth_bytes_per_s
        xs = (low, min(top / bandwidth, high))
        yield Line(
            f"memory {slope.name}",
            xs,
            tuple(x * bandwidth / unit for x in xs),
            INK if is_dram else MUTED,
            width_points=1.8 if is_dram else 1.1,
            dash=() if is_dram else (5.0, 3.0),
            keys=(f"level:{place}",) * 2,
        )


def slope_labels(view: RooflineView, ends: tuple[float, float]) -> Iterator[Label]:
    """Yield the name of each memory level, to be written along its slope."""
    for line, (_, slope) in zip(slope_lines(view, ends), _seen_slopes(view, ends), strict=True):
        (x, far_x), (y, far_y) = line.x, line.y
        text = f"{slope.name} {format_bandwidth(slope.bandwidth_bytes_per_s, 3)}".strip()
        yield Label((text,), x or 0.0, y or 0.0, INK, "along", toward=(far_x or 0.0, far_y or 0.0))


def roof_groups(roofs: Sequence[Roof]) -> list[list[Roof]]:
    """Return the roofs of one height together, the highest first."""
    groups: list[list[Roof]] = []
    for roof in roofs:
        same = (group for group in groups if _is_level(group[0].peak_flops_per_s, roof.peak_flops_per_s))
        group = next(same, None)
        if group is None:
            groups.append([roof])
        else:
            group.append(roof)
    return groups


def roof_labels(view: RooflineView, ends: tuple[float, float], colours: Mapping[str, Colour]) -> Iterator[Label]:
    """Yield the names of the roofs for the right margin of a file, each where it leaves the figure; a page has a
    legend.
    """
    for roof in view.roofs:
        via = f" on {shown(roof.compute_format, 16)}" if _is_by_way_of_another(roof) else ""
        text = f"{shown(roof.precision, 24)}{via}  {_rate(view, roof)}"
        y = roof.rate_flops_per_s(ends[1]) / view.unit_flops_per_s
        yield Label((text,), ends[1], y, colours[roof.precision], "margin", medium="still")


def _is_by_way_of_another(roof: Roof) -> bool:
    """Return whether a roof is that of another format's units: converted operands, and vector arithmetic in FP32."""
    is_vector = roof.compute_format == "FP32"
    return roof.compute_format != roof.precision and (is_vector or roof.path not in ("", "native"))


def _rate(view: RooflineView, roof: Roof) -> str:
    return f"{roof.peak_flops_per_s / view.unit_flops_per_s:,.4g} {view.unit_label}"


def roof_entries(view: RooflineView, colours: Mapping[str, Colour]) -> Iterator[LegendEntry]:
    """Yield every format in its colour with the peak of its roof, the highest first; those that are not the fastest of
    any shape on demand, where some are.
    """
    fastest = {point.precision for point in view.points if point.standing}
    if view.roofs:
        yield LegendEntry(f"roof of a format, with its peak in {view.unit_label}:", INK, "line", medium="live")
    texts: dict[str, str] = {}
    for roof in view.roofs:
        rate = f"{float(f'{roof.peak_flops_per_s / view.unit_flops_per_s:.3g}'):,g}"
        texts.setdefault(roof.precision, f"{shown(roof.precision, 40)} {rate}")
    for precision in dict.fromkeys(point.precision for point in view.points):
        texts.setdefault(precision, shown(precision, 40))
    for precision, text in texts.items():
        is_on_demand = bool(fastest) and precision not in fastest
        yield LegendEntry(text, colours[precision], "swatch", medium="live", is_on_demand=is_on_demand)


def roof_cards(view: RooflineView) -> Iterator[tuple[str, Card]]:
    """Yield what is told of a roof and of a slope."""
    for place, slope in enumerate(memory_slopes(view)):
        bandwidth = format_bandwidth(slope.bandwidth_bytes_per_s)
        yield f"level:{place}", Card(f"{slope.name} bandwidth".strip(), (("Bandwidth", bandwidth),))
    for place, roof in enumerate(view.roofs):
        path = roof.path if roof.path in ("", "native") else f"{roof.path} ({roof.compute_format})"
        facts = (
            ("Peak, dense", format_flops(roof.peak_flops_per_s)),
            ("Bandwidth", format_bandwidth(roof.bandwidth_bytes_per_s)),
            ("Ridge", f"{_plain(roof.critical_intensity_flop_per_byte)} FLOP/byte"),
            ("Path", path),
            ("Source", roof.provenance),
        )
        yield f"roof:{place}", Card(f"Ideal roof of {roof.precision}", tuple(fact for fact in facts if fact[1]))


def _plain(value: float) -> str:
    text = f"{value:.4g}"
    return f"{float(text):.0f}" if "e+" in text else text


# --- what a run adds


def _expected_roof_lines(
    view: RooflineView, ends: tuple[float, float], colours: Mapping[str, Colour]
) -> Iterator[Line]:
    low, high = ends
    dram = view.memory_bandwidth_bytes_per_s
    for place, roof in enumerate(view.expected_roofs):
        bandwidth, peak = roof.bandwidth_bytes_per_s, roof.peak_flops_per_s
        start = low if bandwidth else max(peak / dram if peak and dram else low, low)
        stop = high if peak else roof.last_flop_per_byte or low
        if stop <= start:
            continue
        xs = [start, stop]
        if bandwidth and peak and start < peak / bandwidth < stop:
            xs.insert(1, peak / bandwidth)
        yield Line(
            f"expected roof {roof.precision}",
            tuple(xs),
            tuple(_height(roof, x) / view.unit_flops_per_s for x in xs),
            colours[roof.precision],
            width_points=1.1,
            dash=(1.5, 2.25),
            opacity_ratio=0.75,
            keys=(f"expected:{place}",) * len(xs),
            medium="live",
        )


def _height(roof: ExpectedRoof, intensity: float) -> float:
    slope = math.inf if roof.bandwidth_bytes_per_s is None else roof.bandwidth_bytes_per_s * intensity
    return min(slope, math.inf if roof.peak_flops_per_s is None else roof.peak_flops_per_s)


def _expected_cards(view: RooflineView) -> Iterator[tuple[str, Card]]:
    for place, roof in enumerate(view.expected_roofs):
        facts = (
            ("Bandwidth", format_bandwidth(roof.bandwidth_bytes_per_s)),
            ("Rate", format_flops(roof.peak_flops_per_s)),
        )
        note = "The most that an expected time of this run reaches."
        given = tuple(fact for fact in facts if fact[1] != "–")
        yield f"expected:{place}", Card(f"Expected roof of {roof.precision}", given, note)


def _ridges(view: RooflineView, ends: tuple[float, float], colours: Mapping[str, Colour]) -> Iterator[Marks]:
    for group in roof_groups(view.roofs):
        roof = group[0]
        if roof.critical_intensity_flop_per_byte >= ends[1]:
            continue
        yield Marks(
            f"ridge {roof.precision}",
            (roof.critical_intensity_flop_per_byte,),
            (roof.peak_flops_per_s / view.unit_flops_per_s,),
            colours[roof.precision],
            size_points=6.0,
            edge=SURFACE,
            edge_width_points=1.0,
            keys=(f"roof:{view.roofs.index(roof)}",),
        )


def _ridge_labels(view: RooflineView, ends: tuple[float, float], colours: Mapping[str, Colour]) -> Iterator[Label]:
    distinct: dict[tuple[float, float], Roof] = {}
    for roof in view.roofs:
        distinct.setdefault((roof.bandwidth_bytes_per_s, roof.peak_flops_per_s), roof)
    for roof in distinct.values():
        ridge, y = roof.critical_intensity_flop_per_byte, roof.peak_flops_per_s / view.unit_flops_per_s
        text = f"ridge {ridge:.0f}" if ridge >= 99.5 else f"ridge {ridge:.3g}"  # in the units of the axis
        yield Label((text,), ridge, y, colours[roof.precision], "beside", medium="still")


def _gaps(view: RooflineView, first_number: int) -> Iterator[Line]:
    """Yield what lies between the predicted and the measured rate of every case, as one series; of many cases nothing:
    thousands of segments are a haze.
    """
    if len(view.points) > MANY_POINTS:
        return
    xs: list[float | None] = []
    ys: list[float | None] = []
    keys: list[Key] = []
    for point in view.points:
        if point.predicted_flops_per_s and point.measured_flops_per_s:
            xs += [point.intensity_flop_per_byte, point.intensity_flop_per_byte, None]
            ys += [
                point.predicted_flops_per_s / view.unit_flops_per_s,
                point.measured_flops_per_s / view.unit_flops_per_s,
                None,
            ]
            keys += [first_number + point.ordinal] * 3
    if xs:
        yield Line("gap", tuple(xs), tuple(ys), MUTED, 0.9, opacity_ratio=0.5, keys=tuple(keys), is_silent=True)


def _points(
    view: RooflineView, first_number: int, colours: Mapping[str, Colour], shapes: Mapping[str, Shape]
) -> Iterator[Marks]:
    """Yield predicted points hollow, expected ones as dashes, measured ones filled, by operator, format, cache state
    and mode.
    """
    is_many = len(view.points) > MANY_POINTS
    groups: dict[tuple[str, str, str, str], list[Point]] = {}
    for point in view.points:
        of = ("", point.precision, "", "eager") if is_many else (point.op, point.precision, point.cache, point.mode)
        groups.setdefault(of, []).append(point)

    def marks(
        kind: str, members: Iterable[tuple[Point, float | None]], colour: Colour, **look: object
    ) -> Iterator[Marks]:
        markses = [(point, rate) for point, rate in members if rate]
        if markses:
            yield Marks(
                kind,
                tuple(point.intensity_flop_per_byte for point, _ in markses),
                tuple(rate / view.unit_flops_per_s for _, rate in markses),
                colour,
                keys=tuple(first_number + point.ordinal for point, _ in markses),
                **look,  # type: ignore[arg-type]
            )

    medium: Medium = "live" if view.measured_count else "any"
    size = 3.75 if is_many else 5.5 if len(view.points) > 200 else 7.0
    for (op, precision, cache, mode), members in groups.items():
        name = " ".join(part for part in (op, precision, cache, "" if mode == "eager" else mode) if part)
        ideal = [(point, point.predicted_flops_per_s) for point in members]
        look = (
            {"fill": "full", "edge_width_points": 0.0, "opacity_ratio": 0.35}
            if is_many
            else {"fill": "hollow", "edge_width_points": 1.2}
        )
        shape = shapes.get(op, "circle")
        yield from marks(f"predicted {name}", ideal, colours[precision], shape=shape, size_points=size, **look)
    for (op, precision, _, _), members in () if is_many else groups.items():
        both = [(point, point.expected_flops_per_s) for point in members]
        look = {"shape": "dash", "size_points": size + 2.2, "edge_width_points": 1.35, "medium": medium}
        yield from marks(f"expected {op} {precision}", both, colours[precision], **look)
    for (op, precision, cache, mode), members in groups.items():
        name = " ".join(part for part in (op, precision, cache, "" if mode == "eager" else mode) if part)
        fill = _CACHE_FILLS.get(cache, "full")
        look = {"shape": shapes.get(op, "circle"), "size_points": size + 0.5, "fill": fill}
        look |= {"edge_width_points": 0.0} if is_many else {"edge": SURFACE if fill == "full" else colours[precision]}
        measured = [(point, point.measured_flops_per_s) for point in members]
        yield from marks(f"measured {name}", measured, colours[precision], **look)
        if mode != "eager":
            sign = {
                "shape": _MODE_SIGNS.get(mode, "thin-cross"),
                "size_points": 4.5,
                "edge_width_points": 1.3,
                "is_silent": True,
            }
            yield from marks(f"mode {name}", measured, SURFACE if fill == "full" else INK, **sign)


def _rings(view: RooflineView, first_number: int) -> Iterator[Marks]:
    top = view.highlight
    best = None if top is None else (top.intensity_flop_per_byte, top.rate_flops_per_s)
    fastest = [point for point in view.points if point.standing]
    for is_best, name in _RING_NAMES.items():
        spots = [
            (point, rate)
            for point in fastest
            if point.is_best is is_best
            and (rate := point.measured_flops_per_s or point.predicted_flops_per_s)
            and (point.intensity_flop_per_byte, rate) != best
        ]
        if spots and len(fastest) <= MOST_RINGS:
            yield Marks(
                name,
                tuple(point.intensity_flop_per_byte for point, _ in spots),
                tuple(rate / view.unit_flops_per_s for _, rate in spots),
                ACCENT,
                size_points=14.0,
                fill="ring",
                edge_width_points=1.3,
                opacity_ratio=1.0 if is_best else _PALE,
                keys=tuple(first_number + point.ordinal for point, _ in spots),
                is_silent=True,
            )
    if top is not None:
        x, y = (top.intensity_flop_per_byte,), (top.rate_flops_per_s / view.unit_flops_per_s,)
        yield Marks("best configuration", x, y, ACCENT, size_points=15.5, fill="ring", edge_width_points=2.4)


def _best_label(view: RooflineView) -> Iterator[Label]:
    top = view.highlight
    if top is not None:
        y = top.rate_flops_per_s / view.unit_flops_per_s
        yield Label(top.lines[:1], top.intensity_flop_per_byte, y, ACCENT, "around")


def _slope_entries(view: RooflineView, ends: tuple[float, float]) -> Iterator[LegendEntry]:
    """Yield the memory levels of a file that has several: marks may leave no room along their slopes."""
    if len(_seen_slopes(view, ends)) < 2:
        return
    for line, label in zip(slope_lines(view, ends), slope_labels(view, ends), strict=True):
        yield LegendEntry(label.lines[0], line.colour, "line", dash=line.dash, medium="still")


def _legend(view: RooflineView, shapes: Mapping[str, Shape]) -> Iterator[LegendEntry]:
    """Yield what shapes, fills, signs and rings mean; colours are explained by the roofs' names."""
    drawn = dict.fromkeys(point.op for point in view.points)
    for op in drawn:
        yield LegendEntry(shown(op, 30), MUTED, shape=shapes[op], medium="still")
    first: Shape = next((shapes[op] for op in drawn), "circle")
    measured = [point for point in view.points if point.measured_flops_per_s]
    if measured:
        yield LegendEntry("simulated" if view.is_simulated else "measured", MUTED, shape=first)
    if any(point.predicted_flops_per_s for point in view.points):
        yield LegendEntry("predicted (ideal)", MUTED, shape=first, fill="hollow")
    if len(view.points) <= MANY_POINTS and any(point.expected_flops_per_s for point in view.points):
        yield LegendEntry("expected", MUTED, shape="dash", medium="live" if measured else "any")
    if view.expected_roofs:
        yield LegendEntry("expected roof", MUTED, "line", dash=(1.5, 2.25), medium="live")
    caches = {point.cache for point in measured}
    for cache, fill in _CACHE_FILLS.items():
        if cache in caches:
            side, words = {"left": "half", "right": "right half"}[fill], "warm cache" if cache == "warm" else cache
            yield LegendEntry(f"{side}: measured, {words}", MUTED, shape=first, fill=fill, medium="still")
    for mode in dict.fromkeys(point.mode for point in measured if point.mode != "eager"):
        yield LegendEntry(shown(mode, 20), MUTED, shape=first, sign=_MODE_SIGNS.get(mode, "thin-cross"))
    for is_best, name in _RING_NAMES.items():
        if any(point.standing and point.is_best is is_best for point in view.points):
            yield LegendEntry(name, ACCENT, fill="ring", opacity_ratio=1.0 if is_best else _PALE, is_large=True)
