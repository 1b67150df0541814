"""Speed against loss, memory or energy: the configurations of a shape or of a model's phase on any two of their
axes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import floor, log10

from reports.advice.trade_offs import PlottedOption, TradeGroup, coordinate
from reports.figures.drawing.palette import ACCENT, GRID, INK, MUTED, SURFACE, Colour, Shape
from reports.figures.drawing.spec import Axis, Card, Figure, Label, LegendEntry, Line, Marks, Series
from reports.present.display_text import prefixed
from roofline_model.core.units import DECIMAL_PREFIXES, format_memory, format_time

X_AXES = {"speedup_ratio": "Speed-up", "time_s": "Time"}
Y_AXES = {"loss_pct": "Loss of quality", "memory_bytes": "Memory", "energy_j": "Energy"}
"""Coordinate of a point → what the button of its axis says."""
LOSS_SHAPES: dict[str, Shape] = {"claimed": "diamond", "reference": "square"}
"""Where a loss is known from → shape of the mark; a circle otherwise."""
_LEGEND = (
    LegendEntry("loss measured", MUTED),
    LegendEntry("loss published", MUTED, shape="diamond"),
    LegendEntry("16-bit reference", MUTED, shape="square"),
    LegendEntry("time predicted", MUTED, fill="ring"),
    LegendEntry("first in the ranking by time", ACCENT, fill="ring", is_large=True),
    LegendEntry("no other is better on both axes; pale: another is", MUTED, "line", dash=(3.75, 3.0)),
    LegendEntry("area: memory (a model: weights and cache; a product: operands of a call)", GRID, is_large=True),
)
_UNKNOWN = "?"
"""Tick of the points whose place on the vertical axis is not known."""


def axes_of(group: TradeGroup, texts: Mapping[str, str]) -> tuple[str, ...]:
    """Return the axes of `X_AXES` or `Y_AXES` on which any point of a group has a place, else the first of all. That of
    the losses needs the loss of a point that is no reference: zeros alone say nothing.
    """
    placed = [key for key in texts if any(coordinate(point, key) is not None for point in _telling(group, key))]
    return tuple(placed) or (next(iter(texts)),)


def _telling(group: TradeGroup, key: str) -> Iterator[PlottedOption]:
    """Yield the points whose coordinate says what tells them apart: no loss of what is the reference itself."""
    return (point for point in group.points if key != "loss_pct" or point.option.loss.source != "reference")


def trade_off_figure(group: TradeGroup, x: str, y: str, colours: Mapping[str, Colour]) -> Figure:
    """Return the points of a group on two axes, keyed by `point_key`; those without a place on y stand below a line.

    Every pair of axes has the same series, empty where nothing is drawn of them.
    """
    places = {at: point for at, point in enumerate(group.points) if coordinate(point, x) is not None}
    x_axis, x_scale = _x_axis(group, x)
    y_scale, y_title, y_brief = _title(group, y)
    ys = [value / y_scale for point in places.values() if (value := coordinate(point, y)) is not None]
    tops = [top for point in places.values() if y == "loss_pct" and (top := point.loss_high_pct) is not None]
    high = max(1.2 * max(ys, default=1.0), 1.05 * max(tops, default=0.0)) or 1.2
    is_any_apart = len(ys) < len(places)
    y_axis = Axis(y_title, _LINE * high, high, brief_title=y_brief)
    if is_any_apart:
        y_axis = replace(y_axis, low_value=_BOTTOM * high, ticks=((_APART * high, _UNKNOWN), *_ticks(high)))
    spots = {
        at: (
            (coordinate(point, x) or 0.0) / x_scale,
            _APART * high if (value := coordinate(point, y)) is None else value / y_scale,
        )
        for at, point in places.items()
    }
    front = sorted(spots[at] for at, point in places.items() if y in point.fronts)
    ends = (x_axis.low_value or 0.0, x_axis.high_value or 1.0)
    series: list[Series] = [
        _line("not beaten", front, _DASH),
        _line("no faster", [(1.0, 0.0), (1.0, high)] if x == "speedup_ratio" and ends[0] < 1 < ends[1] else [], _DOTS),
        _line("known above", [(end, _LINE * high) for end in ends] if is_any_apart else [], _DOTS),
        _intervals(places, spots, y),
        *(_ring(spots.get(at), point, group) for at, point in enumerate(group.points) if point.is_best),
        *(_mark(at, spots.get(at), point, group, y, colours) for at, point in enumerate(group.points)),
    ]
    ranked = sorted(places, key=lambda at: (not places[at].is_best, -len(places[at].fronts)))
    return Figure(
        group.title,
        x_axis,
        y_axis,
        tuple(series),
        tuple(Label((places[at].label,), *spots[at], _ink(places[at], y), "around") for at in ranked),
        _LEGEND,
        notes=tuple(_notes(group, x, y)),
        cards={point_key(at): _card(point, group) for at, point in enumerate(group.points)},
    )


_DASH, _DOTS = (3.75, 3.0), (1.5, 2.25)
_LINE, _APART, _BOTTOM = -0.06, -0.14, -0.22
"""Shares of the height, below zero: the line, the points without a place on y, the end of the plane."""


def point_key(at: int) -> str:
    """Return the key of a point by its place in the group."""
    return f"point:{at}"


def _line(name: str, spots: list[tuple[float, float]], dash: tuple[float, ...]) -> Line:
    return Line(name, tuple(x for x, _ in spots), tuple(y for _, y in spots), MUTED, 1.05, dash)


def _intervals(places: Mapping[int, PlottedOption], spots: Mapping[int, tuple[float, float]], y: str) -> Marks:
    """Return the intervals of measured losses."""
    ends = {
        at: (point.loss_low_pct, point.loss_high_pct)
        for at, point in places.items()
        if y == "loss_pct" and None not in (point.option.loss.pct, point.loss_low_pct, point.loss_high_pct)
    }
    return Marks(
        "interval",
        tuple(spots[at][0] for at in ends),
        tuple(spots[at][1] for at in ends),
        MUTED,
        size_points=0.75,
        low=tuple(low or 0.0 for low, _ in ends.values()),
        high=tuple(high or 0.0 for _, high in ends.values()),
    )


def _ring(spot: tuple[float, float] | None, point: PlottedOption, group: TradeGroup) -> Marks:
    x, y = ((), ()) if spot is None else ((spot[0],), (spot[1],))
    size = _size(point, group) + 9.75
    return Marks("recommended", x, y, ACCENT, size_points=size, fill="ring", edge_width_points=1.95)


def _mark(
    at: int,
    spot: tuple[float, float] | None,
    point: PlottedOption,
    group: TradeGroup,
    y: str,
    colours: Mapping[str, Colour],
) -> Marks:
    is_measured = point.option.estimate.source == "measured"
    pale_ratio = 0.42 if is_measured else 0.75  # an outline has little ink
    return Marks(
        point.label,
        () if spot is None else (spot[0],),
        () if spot is None else (spot[1],),
        colours[point.option.precision],
        LOSS_SHAPES.get(point.option.loss.source, "circle"),
        _size(point, group),
        "full" if is_measured else "ring",
        SURFACE if is_measured else None,
        0.9 if is_measured else 1.5,
        1.0 if y in point.fronts else pale_ratio,
        keys=() if spot is None else (point_key(at),),
    )


def _size(point: PlottedOption, group: TradeGroup) -> float:
    """Return a diameter whose square grows with the memory."""
    largest = max((coordinate(other, "memory_bytes") or 0.0 for other in group.points), default=0.0)
    memory_bytes = coordinate(point, "memory_bytes")
    return 8.25 + 14.25 * (memory_bytes / largest) ** 0.5 if memory_bytes and largest else 9.0


def _ink(point: PlottedOption, y: str) -> Colour:
    return ACCENT if point.is_best else INK if y in point.fronts else MUTED


def _x_axis(group: TradeGroup, key: str) -> tuple[Axis, float]:
    scale, title, brief_title = _title(group, key)
    values = [value / scale for point in group.points if (value := coordinate(point, key)) is not None] or [0.0, 1.0]
    left, right = min(values), max(values)
    air = 0.16 * ((right - left) or right or 1.0)
    floor_value = -0.02 * right if key == "time_s" else -0.05
    return Axis(title, max(left - air, floor_value), right + air, brief_title=brief_title), scale


def _ticks(high: float) -> Iterator[tuple[float, str]]:
    """Yield at most seven round ticks from zero up."""
    power = 10.0 ** floor(log10(high))
    step = next(size * power for size in (0.1, 0.2, 0.5, 1.0, 2.0) if high / (size * power) <= 6)
    for at in range(int(high / step) + 1):
        yield at * step, f"{at * step:.6g}"


def _title(group: TradeGroup, key: str) -> tuple[float, str, str]:
    """Return the unit of an axis as a factor of SI, its title, and its title where there is little room."""
    most = max((value for point in group.points if (value := coordinate(point, key)) is not None), default=1.0)
    if key == "speedup_ratio":
        return 1.0, f"Speed-up over {group.baseline_label or 'the baseline'}: more is better →", "Speed-up"
    if key == "loss_pct":
        return 1.0, "Loss (%), less is better", "Loss (%)"
    largest = 1.0 if key == "time_s" else DECIMAL_PREFIXES["P"]
    fitting = [name for name, size in DECIMAL_PREFIXES.items() if 1e-9 <= size <= min(most, largest)]
    prefix = fitting[-1] if fitting else ""
    scale = DECIMAL_PREFIXES[prefix]
    if key == "time_s":
        name = f"Time per {'pass' if group.per == 'token' else 'call'} ({prefix}s)"
        return scale, f"{name}: ← less is better", f"{name}: less is better"
    if key == "memory_bytes":
        return scale, f"{point_labels(group)[key]} ({prefix}B), less is better", f"Memory ({prefix}B)"
    name = f"Energy per {group.per} ({prefix}J)"
    return scale, f"{name}, less is better", name


def point_labels(group: TradeGroup) -> dict[str, str]:
    """Return what the numbers of a point are called, in its card and in the table."""
    return {
        "label": "Configuration",
        "time_s": "Time",
        "time_source": "Known by",
        "speedup_ratio": "Speed-up",
        "loss_pct": "Loss",
        "memory_bytes": f"Memory: {'weights and cache' if group.per == 'token' else 'operands of a call'}",
        "energy_j": f"Energy per {group.per}",
        "is_on_front": "Not beaten in speed, loss and memory together",
        "is_doubtful": "the time is in doubt",
        "is_over_doubt": "the baseline's time is in doubt",
        "is_best": "recommended",
        "unknown": "not known",
    }


def _notes(group: TradeGroup, x: str, y: str) -> Iterator[str]:
    """Yield what the figure of two axes does not say itself."""
    points = [point for point in group.points if coordinate(point, x) is not None]
    is_measured = any(point.option.loss.source == "measured" for point in points)
    if any(is_over_doubt(point, group) for point in points):
        doubts = ", ".join(group.baseline_doubts)
        yield f"Speed-ups are over {group.baseline_label}, whose time is in doubt ({doubts}): measure it again."
    if y == "loss_pct" and any(point.option.loss.source == "claimed" for point in points) and not is_measured:
        yield "No loss was measured here: published losses are drawn, each at its upper end."
    if y == "loss_pct" and is_measured:
        yield "Measured loss: e^KL − 1 against the 16-bit model, the rise of perplexity on text that model writes."
    unknown = [point.label for point in points if coordinate(point, y) is None]
    if unknown:
        yield f"{Y_AXES[y]} not known, drawn below the dotted line: {', '.join(unknown)}."
    if any(point.is_on_front and y not in point.fronts for point in group.points):
        yield (
            "The line joins the configurations that no other beats on these two axes. The table also marks those that "
            "no other beats in speed, loss and memory together."
        )
    telling = list(_telling(group, "loss_pct"))
    if y != "loss_pct" and len(telling) < len(group.points) and all(point.option.loss.pct is None for point in telling):
        why = "it is known of the 16-bit reference alone" if telling else "every configuration is a 16-bit reference"
        yield f"{Y_AXES['loss_pct']} is not drawn: {why}."
    missing = [
        text.lower() for key, text in Y_AXES.items() if all(coordinate(point, key) is None for point in group.points)
    ]
    if missing:
        yield f"Not known for any configuration: {', '.join(missing)}."
    if group.barred:
        yield f"Left out, because no kernel is known to run them here: {', '.join(group.barred)}."


def is_over_doubt(point: PlottedOption, group: TradeGroup) -> bool:
    """Return whether a point's measured speed-up is over a baseline whose time is in doubt."""
    return (
        bool(group.baseline_doubts)
        and point.option.estimate.source == "measured"
        and point.label != group.baseline_label
    )


def _card(point: PlottedOption, group: TradeGroup) -> Card:
    labels = point_labels(group)
    facts = [(labels[key], text) for key, text in point_texts(point, group).items()]
    facts[0] = (facts[0][0], f"{facts[0][1]}, {point.option.estimate.source}")
    if point.option.loss.source != "reference" and point.loss_text:
        facts.append(("", point.loss_text))
    marks = {
        "is_on_front": point.is_on_front,
        "is_doubtful": point.is_doubtful,
        "is_over_doubt": is_over_doubt(point, group),
        "is_best": point.is_best,
    }
    return Card(point.label, (*facts, *(("", labels[key]) for key, is_so in marks.items() if is_so)))


def point_texts(point: PlottedOption, group: TradeGroup) -> dict[str, str]:
    """Return the numbers of a point as they are shown, by coordinate."""
    unknown = point_labels(group)["unknown"]
    return {
        "time_s": format_time(point.option.estimate.time_s),
        "speedup_ratio": _speedup_text(point, group),
        "loss_pct": _loss_text(point),
        "memory_bytes": format_memory(memory.total_bytes) if (memory := point.option.memory) else unknown,
        "energy_j": unknown if point.option.energy_j is None else prefixed(point.option.energy_j, "J"),
    }


def _speedup_text(point: PlottedOption, group: TradeGroup) -> str:
    """Return a speed-up with what it is of, where its two times are of different nights, and whether the baseline is in
    doubt.
    """
    if point.option.speedup_ratio is None:
        return "not known"
    basis = f" ({point.speedup_basis})" if point.speedup_basis else ""
    return f"{point.option.speedup_ratio:.3g}×{' !' if is_over_doubt(point, group) else ''}{basis}"


def _loss_text(point: PlottedOption) -> str:
    if point.option.loss.source == "reference":
        return "none: the reference"
    if point.option.loss.pct is None:
        return "not known"
    ends = (point.loss_low_pct, point.loss_high_pct)
    span = "" if None in ends else f" [{point.loss_low_pct:.3g}, {point.loss_high_pct:.3g}]"
    source = "published" if point.option.loss.source == "claimed" else point.option.loss.source
    return f"{point.option.loss.pct:.3g} %{span}, {source}"
