"""Draw a figure as JSON for Plotly: its data and layout, and what only a browser can place or choose.

The browser paints it (`figures/static/figure.js`): a colour is `$NUMBER` or `$NUMBER/OPACITY`, a number of `palette`,
whose entries are [on white, on a dark page]. `customdata` says what can be pointed at, `cards` what is told of it.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import replace
from math import log10
from typing import Any

from reports.figures.drawing.palette import ACCENT, GRID, INK, MUTED, SURFACE, Colour, Shape
from reports.figures.drawing.spec import (
    LEAST_BOXED,
    MOST_DOTS,
    Axis,
    Bars,
    Beside,
    Card,
    Drawable,
    Figure,
    Key,
    Label,
    LegendEntry,
    Line,
    Marks,
    Part,
    Row,
    RowFigure,
    RowOrder,
    Series,
    Stack,
    Strip,
)
from reports.figures.samples import time_unit

MOST_SVG_POINTS = 1_000
"""More cases than this are drawn by WebGL where the browser has it."""

_PIXELS_PER_POINT = 4 / 3
_MILLISECONDS = 1_000
"""Plotly counts time in them."""
_STEPS = 30
"""Corners of a line on logarithmic axes, so that it can be pointed at anywhere."""
_MOST_CHARACTERS = 120
_SYMBOLS: dict[Shape, str] = {
    "circle": "circle",
    "square": "square",
    "diamond": "diamond",
    "plus": "cross",
    "cross": "x",
    "up": "triangle-up",
    "down": "triangle-down",
    "pentagon": "pentagon",
    "hexagon": "hexagon",
    "star": "star",
    "left": "triangle-left",
    "right": "triangle-right",
    "dash": "line-ew-open",
    "bar": "line-ns-open",
    "thin-plus": "cross-thin-open",
    "thin-cross": "x-thin-open",
}
_STROKES = ("dash", "bar", "thin-plus", "thin-cross")


def figure_json(drawable: Drawable) -> dict[str, Any]:
    """Return a figure of any kind as JSON for a page that lets Plotly show what is told of a point."""
    match drawable:
        case Stack():
            return stack_json(drawable)
        case Beside():
            return beside_json(drawable)
        case RowFigure():
            return rows_json(drawable)
        case Figure():
            return plotly_json(drawable, with_texts=True)


def plotly_json(figure: Figure, *, most_svg_points: int = MOST_SVG_POINTS, with_texts: bool = False) -> dict[str, Any]:
    """Return a figure as `{data, layout, labels, legend, cards, palette, size}`, plain values that JSON has.

    `with_texts`: for a page that leaves it to Plotly to show what is told of a point, and whose policy forbids bold
    texts, which Plotly styles; otherwise the page shows it, from `cards` or from its own cases.
    """
    figure = _straightened(figure)
    palette = _Palette()
    texts = {key: _text(card) for key, card in figure.cards.items()} if with_texts else {}
    is_log = figure.x.is_log and figure.y.is_log
    cases = {key for series in figure.of("live") if isinstance(series, Marks) for key in series.keys}
    is_many = len(cases) > most_svg_points
    data = [_trace(series, palette, is_log=is_log, is_many=is_many) for series in figure.of("live")]
    for trace in data:
        if with_texts and trace["hoverinfo"] == "none":
            point_texts = [texts.get(key, "") for key in trace["customdata"]]
            trace |= {"hoverinfo": "text", "text": point_texts[0] if trace["mode"] == "lines" else point_texts}
    labels = [label for label in figure.labels if label.medium in ("any", "live")]
    if figure.x.is_time:
        for trace in data:
            trace["x"] = [None if value is None else round(value * _MILLISECONDS) for value in trace["x"]]
    x_scale = _MILLISECONDS if figure.x.is_time else 1
    top = 26 if any(label.place == "top" for label in labels) else 14
    right = 148 if any(label.place == "margin" for label in labels) else 14
    return {
        "data": data,
        "layout": {"xaxis": _axis(figure.x, palette), "yaxis": _axis(figure.y, palette), **_ground(palette)},
        "margin": {"wide": {"l": 66, "r": right, "t": top, "b": 52}, "narrow": {"l": 46, "r": 8, "t": top, "b": 44}},
        "labels": [_label(label, palette, x_scale, may_be_bold=not with_texts) for label in labels],
        "brief_titles": {
            name: plain(axis.brief_title)
            for name, axis in (("xaxis", figure.x), ("yaxis", figure.y))
            if axis.brief_title
        },
        "legend": _legend(figure.legend, palette),
        "notes": list(figure.notes),
        "cards": {} if with_texts else {key: _card(card) for key, card in figure.cards.items()},
        "ground": palette(SURFACE),
        "palette": palette.pairs,
    }


def _straightened(figure: Figure) -> Figure:
    """Return a figure whose x is plain where it was linear below a value and logarithmic above: Plotly has no such
    axis.
    """
    axis, least = figure.x, figure.x.linear_below_value
    if not least:
        return figure

    def place(value: float) -> float:
        return value / least if value <= least else 1 + log10(value / least)

    def moved(series: Series) -> Series:
        if isinstance(series, Line):
            return replace(series, x=tuple(None if value is None else place(value) for value in series.x))
        return replace(series, x=tuple(map(place, series.x))) if isinstance(series, Marks) else series

    ends = [None if end is None else place(end) for end in (axis.low_value, axis.high_value)]
    ticks = tuple((place(value), text) for value, text in axis.ticks)
    x = replace(axis, low_value=ends[0], high_value=ends[1], ticks=ticks, is_log=False, linear_below_value=0.0)
    labels = tuple(replace(label, x=place(label.x)) for label in figure.labels)
    return replace(figure, x=x, series=tuple(map(moved, figure.series)), labels=labels)


def stack_json(stack: Stack) -> dict[str, Any]:
    """Return planes over each other as `plotly_json` returns one."""
    palette = _Palette()
    whole, below = sum(panel.height_inches for panel in stack.panels), 1.0
    layout: dict[str, Any] = {"xaxis": _axis(stack.x, palette) | {"anchor": f"y{len(stack.panels)}"}}
    data: list[dict[str, Any]] = []
    for place, panel in enumerate(stack.panels, 1):
        top, below = below, below - panel.height_inches / whole
        name = "" if place == 1 else str(place)
        air = 0.14 * (top - below) if place < len(stack.panels) else 0.0
        layout[f"yaxis{name}"] = _axis(panel.y, palette, is_small=True) | {"domain": [max(below + air, 0), top]}
        drawn = (series for series in panel.series if series.medium in ("any", "live"))
        data += [_trace(series, palette) | {"xaxis": "x", "yaxis": f"y{name}"} for series in drawn]
    shade = {"type": "rect", "xref": "x", "yref": "paper", "y0": 0, "y1": 1, "line": {"width": 0}, "layer": "below"}
    layout["shapes"] = [
        shade | {"x0": _short(start), "x1": _short(stop), "fillcolor": palette(ACCENT), "opacity": 0.13}
        for start, stop in stack.shades
    ]
    return {
        "data": data,
        "layout": layout | {"barmode": "overlay", "bargap": 0, **_ground(palette)},
        "margin": {"wide": {"l": 74, "r": 14, "t": 10, "b": 46}, "narrow": {"l": 64, "r": 14, "t": 10, "b": 46}},
        "height": {"wide": round(108 * whole) + 74, "narrow": round(96 * whole) + 80},
        "labels": [],
        "legend": _legend(stack.legend, palette),
        "cards": {key: _card(card) for key, card in stack.cards.items()},
        "ground": palette(SURFACE),
        "palette": palette.pairs,
    }


def beside_json(beside: Beside) -> dict[str, Any]:
    """Return planes side by side as `plotly_json` returns one."""
    palette, left = _Palette(), 0.0
    count = len(beside.planes)
    air = 0.06 if count > 1 else 0.0
    layout: dict[str, Any] = {"yaxis": _axis(beside.y, palette), "shapes": []}
    data: list[dict[str, Any]] = []
    for place, plane in enumerate(beside.planes, 1):
        right = left + plane.share_ratio * (1 - air * (count - 1))
        name = "" if place == 1 else str(place)
        layout[f"xaxis{name}"] = _axis(plane.x, palette) | {"domain": [left, right]}
        data += [
            _evenly_spaced(_trace(series, palette)) | {"xaxis": f"x{name}", "yaxis": "y"} for series in plane.series
        ]
        band = {"type": "rect", "xref": f"x{name} domain", "yref": "y", "x0": 0, "x1": 1, "line": {"width": 0}}
        layout["shapes"] += [
            band | {"y0": low, "y1": high, "fillcolor": palette(ACCENT), "opacity": 0.14} for low, high in beside.bands
        ]
        left = right + air
    return {
        "data": data,
        "layout": layout | _ground(palette),
        "margin": {"wide": {"l": 66, "r": 14, "t": 14, "b": 52}, "narrow": {"l": 46, "r": 8, "t": 10, "b": 44}},
        "labels": [],
        "legend": _legend(beside.legend, palette),
        "cards": {},
        "ground": palette(SURFACE),
        "palette": palette.pairs,
    }


def _evenly_spaced(trace: dict[str, Any]) -> dict[str, Any]:
    """Return a series without what follows from its first points: evenly spaced x, and keys that count its points."""
    x, keys = trace["x"], trace["customdata"]
    if len(x) > 2 and all(abs(value - (x[0] + at * (x[1] - x[0]))) < 1e-5 * x[-1] for at, value in enumerate(x)):
        trace = {name: value for name, value in trace.items() if name != "x"} | {"x0": x[0], "dx": _short(x[1] - x[0])}
    if keys == list(range(len(keys))):
        trace.pop("customdata")
    return trace


def rows_json(figure: RowFigure) -> dict[str, Any]:
    """Return a figure with a row per name; the browser stacks the rows that pass its filter, in one of the orders.

    A row is [numbers of `names`: two lines, then the two for little room], with its `keys`; a strip names its row.
    """
    palette, names = _Palette(), dict[str, int]()
    rows = [[names.setdefault(line, len(names)) for line in (*row.name, *row.brief_name)] for row in figure.rows]
    axis = _axis(figure.x, palette) | {"ticksuffix": figure.x.suffix}
    if figure.levels and not figure.parts:
        axis |= {"rangemode": "tozero"}
    return {
        "data": [
            *(_strip(strip, palette) for strip in figure.strips),
            *(_part(part, palette) for part in figure.parts),
        ],
        "layout": {
            "xaxis": axis,
            "yaxis": _axis(Axis("", is_bare=True), palette),
            "barmode": "relative",
            "bargap": 0.3,
            **_ground(palette),
        },
        "brief_title": plain(figure.x.brief_title),
        "names": list(names),
        "rows": rows,
        "keys": [_row_keys(row) for row in figure.rows],
        "unit_s": _ROW_UNIT_S,
        "time_axis": _time_axis(figure.totals_s),
        "totals": [_brief(total_s) for total_s in figure.totals_s],
        "total_name": figure.total_name,
        "count_name": figure.count_name,
        "facts": [
            {
                "name": fact.name,
                **{end: [_brief(value) for value in getattr(fact, name)] for end, name in _FACT_ENDS.items()},
            }
            for fact in figure.facts
        ],
        "orders": [{"text": order.text, "rows": _order(order)} for order in figure.orders],
        "max_rows_count": figure.max_rows_count,
        "levels": [list(level) for level in figure.levels],
        "line": palette(INK),
        "least_boxed": LEAST_BOXED,
        "most_dots": MOST_DOTS,
        "labels": [],
        "legend": _legend(figure.legend, palette),
        "cards": {key: _card(card) for key, card in figure.cards.items()},
        "notes": list(figure.notes),
        "ground": palette(SURFACE),
        "palette": palette.pairs,
    }


def _time_axis(totals_s: Sequence[float]) -> dict[str, Any] | None:
    """Return the axis of times instead of shares: its unit is that of the longest."""
    if not totals_s:
        return None
    unit_s, unit = time_unit(max(totals_s))
    return {"unit_s": unit_s, "title": f"Time per call ({unit})"}


def _order(order: RowOrder) -> list[int] | None:
    """Return the rows of an order; None: as they stand."""
    return None if list(order.rows) == sorted(order.rows) else list(order.rows)


def _brief(time_s: float | None) -> float | None:
    """Return a time in `_ROW_UNIT_S`, as fine as it is drawn and told: five digits."""
    return None if time_s is None else float(f"{time_s / _ROW_UNIT_S:.5g}")


_FACT_ENDS = {"times": "times_s", "low": "low_s", "high": "high_s"}
_ROW_UNIT_S = 1e-6
"""Of the times of a figure with rows: fewer characters than seconds."""


def _row_keys(row: Row) -> Key | list[Key]:
    return row.keys[0] if len(row.keys) == 1 else list(row.keys)


def _strip(strip: Strip, palette: _Palette) -> dict[str, Any]:
    colour = palette(strip.colour)
    edge = palette(SURFACE) if strip.is_filled else colour
    return {
        "type": "box",
        "orientation": "h",
        "name": strip.name,
        "row": strip.row_index,
        "shift": strip.shift_value,
        "x": [float(f"{value:.4g}") for value in strip.values],
        "customdata": list(strip.keys),
        "width": strip.height_value,
        "is_dense": strip.is_dense,
        "whiskerwidth": 0.5,
        "jitter": 0.5,
        "pointpos": 0,
        "hoveron": "points",
        "hoverinfo": "none",
        "line": {"color": colour, "width": 1.2},
        "fillcolor": palette(strip.colour, 0.26 if strip.is_filled else 0.1),
        "marker": {
            "symbol": "circle" if strip.is_filled else "circle-open",
            "size": round(strip.size_points * _PIXELS_PER_POINT, 2),
            "color": colour,
            "line": {"width": 0.8 if strip.is_filled else 1.7, "color": edge},
        },
    }


def _part(part: Part, palette: _Palette) -> dict[str, Any]:
    colour, ground = palette(part.colour), palette(SURFACE)
    marker: dict[str, Any] = {"color": colour, "line": {"color": ground, "width": 0.6}}
    if part.is_hatched:
        stripes = {
            "shape": "/",
            "fillmode": "overlay",
            "size": 6,
            "solidity": 0.22,
            "bgcolor": ground,
            "fgcolor": colour,
        }
        marker = {"color": ground, "line": {"color": colour, "width": 0.6}, "pattern": stripes}
    return {
        "type": "bar",
        "orientation": "h",
        "name": part.name,
        "description": part.description,
        "width": 0.68,
        "x": [_brief(time_s) for time_s in part.times_s],
        "hoverinfo": "none",
        "marker": marker,
    }


def _ground(palette: _Palette) -> dict[str, Any]:
    return {
        "font": {"family": "system-ui, sans-serif", "color": palette(INK)},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "showlegend": False,
    }


def _trace(series: Series, palette: _Palette, *, is_log: bool = False, is_many: bool = False) -> dict[str, Any]:
    if isinstance(series, Line):
        return _line(series, palette, is_log)
    return _bars(series, palette) if isinstance(series, Bars) else _marks(series, palette, is_many=is_many)


class _Palette:
    """The colours of one figure, each once."""

    def __init__(self) -> None:
        self.pairs: list[list[str]] = []

    def __call__(self, colour: Colour, opacity: float = 1.0) -> str:
        pair = [colour.light, colour.dark]
        if pair not in self.pairs:
            self.pairs.append(pair)
        return f"${self.pairs.index(pair)}" + ("" if opacity == 1 else f"/{opacity:g}")


def _line(line: Line, palette: _Palette, is_log: bool) -> dict[str, Any]:
    x, y, keys = list(line.x), list(line.y), list(line.keys)
    if keys and is_log and not line.is_silent:
        x, y, keys = _along(x, y, keys)
    dash = ",".join(f"{length * _PIXELS_PER_POINT:g}px" for length in line.dash) or "solid"
    width = line.width_points * _PIXELS_PER_POINT
    return {
        "type": "scatter",
        "mode": "lines",
        "name": plain(line.name),
        "x": [_short(value) for value in x],
        "y": [_short(value) for value in y],
        "customdata": keys,
        "hoverinfo": "skip" if line.is_silent or not keys else "none",
        "line": {"color": palette(line.colour, line.opacity_ratio), "width": round(width, 2), "dash": dash}
        | ({"shape": "vh"} if line.is_stepped else {}),
    }


def _along(x: Sequence[Any], y: Sequence[Any], keys: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any]]:
    """Return a line with corners in between, even on logarithmic axes."""
    corners: tuple[list[Any], list[Any], list[Any]] = ([x[0]], [y[0]], [keys[0]])
    for at in range(1, len(x)):
        for step in range(1, _STEPS + 1):
            share = step / _STEPS
            corners[0].append(x[at - 1] * (x[at] / x[at - 1]) ** share)
            corners[1].append(y[at - 1] * (y[at] / y[at - 1]) ** share)
            corners[2].append(keys[at])
    return corners


def _marks(marks: Marks, palette: _Palette, *, is_many: bool) -> dict[str, Any]:
    is_stroke, is_open = marks.shape in _STROKES, marks.fill == "ring"
    colour, edge = palette(marks.colour, marks.opacity_ratio), palette(marks.edge or marks.colour, marks.opacity_ratio)
    width = round(marks.edge_width_points * _PIXELS_PER_POINT, 2)
    size = round(marks.size_points * _PIXELS_PER_POINT, 2)
    marker: dict[str, Any] = {"symbol": _SYMBOLS[marks.shape], "size": size, "color": colour}
    if is_open:
        marker |= {"symbol": f"{_SYMBOLS[marks.shape]}-open", "line": {"width": width, "color": edge}}
    elif is_stroke:
        marker |= {"line": {"width": width, "color": colour}}
    elif marks.fill == "hollow":
        marker |= {"color": palette(SURFACE), "line": {"width": width, "color": edge}}
    elif marks.fill in ("left", "right"):  # Plotly has no half-filled marks
        marker |= {"line": {"width": width, "color": palette(SURFACE)}}
    else:
        marker |= {"line": {"width": width, "color": edge}}
    trace = {
        "type": "scattergl" if is_many and not marks.is_silent and marks.keys else "scatter",
        "mode": "markers",
        "name": plain(marks.name),
        "x": [_short(value) for value in marks.x],
        "y": [_short(value) for value in marks.y],
        "customdata": list(marks.keys),
        "hoverinfo": "skip" if marks.is_silent or not marks.keys else "none",
        "marker": marker,
    }
    if marks.low and marks.high:
        trace["error_y"] = {
            "type": "data",
            "symmetric": False,
            "array": [_short(high - y) for y, high in zip(marks.y, marks.high, strict=True)],
            "arrayminus": [_short(y - low) for y, low in zip(marks.y, marks.low, strict=True)],
            "color": colour,
            "thickness": 1.5,
            "width": 4,
        }
    return trace


def _bars(bars: Bars, palette: _Palette) -> dict[str, Any]:
    marker: dict[str, Any] = {"color": palette(bars.colour), "line": {"color": palette(SURFACE), "width": 0.6}}
    if bars.is_hatched:
        stripes = {"shape": "/", "fillmode": "overlay", "size": 5, "solidity": 0.35, "fgcolor": palette(SURFACE)}
        marker["pattern"] = stripes
    return {
        "type": "bar",
        "orientation": "h",
        "name": plain(bars.name),
        "width": bars.height_value,
        "base": [_short(start) for start in bars.starts],
        "x": [_short(length) for length in bars.lengths],
        "y": [bars.y] * len(bars.starts),
        "customdata": list(bars.keys),
        "hoverinfo": "skip" if bars.is_silent or not bars.keys else "none",
        "marker": marker,
    }


def _axis(axis: Axis, palette: _Palette, *, is_small: bool = False) -> dict[str, Any]:
    title_size, standoff, tick_size = (11, 6, 10.5) if is_small else (13, 12, 12)
    style: dict[str, Any] = {
        "title": {
            "text": plain(axis.title),
            "font": {"color": palette(INK), "size": title_size},
            "standoff": standoff,
        },
        "tickfont": {"color": palette(MUTED), "size": tick_size},
        "gridcolor": palette(GRID),
        "linecolor": palette(MUTED),
        "tickcolor": palette(MUTED),
        "zeroline": False,
        "showline": True,
        "ticks": "outside",
        "ticklen": 4,
        "automargin": False,
    }
    if axis.is_log:
        style |= {"type": "log", "exponentformat": "none", "tickformat": ",~r", "minor": {"showgrid": False}}
        if axis.low_value and axis.high_value:
            style["range"] = [log10(axis.low_value), log10(axis.high_value)]
    elif axis.low_value is not None and axis.high_value is not None:
        scale = _MILLISECONDS if axis.is_time else 1
        style["range"] = [axis.low_value * scale, axis.high_value * scale]
        style |= {"type": "date"} if axis.is_time else {}
    elif is_small:
        style |= {"nticks": 5, "rangemode": "tozero" if axis.has_zero else "normal"}
    if axis.ticks:
        style |= {"tickvals": [value for value, _ in axis.ticks], "ticktext": [plain(text) for _, text in axis.ticks]}
    if axis.is_bare:
        style |= {"showgrid": False, "ticks": "", "showline": False}
    return style


def _label(label: Label, palette: _Palette, x_scale: float, *, may_be_bold: bool) -> dict[str, Any]:
    lines = [plain(line) for line in label.lines]
    return {
        "lines": lines,
        "x": label.x * x_scale if x_scale != 1 else _short(label.x),
        "y": _short(label.y),
        "color": palette(label.colour),
        "place": label.place,
        "toward": None if label.toward is None else list(label.toward),
        "is_bold": label.is_bold and may_be_bold,
    }


def _legend(entries: Sequence[LegendEntry], palette: _Palette) -> list[dict[str, Any]]:
    return [_entry(entry, palette) for entry in entries if entry.medium in ("any", "live")]


def _entry(entry: LegendEntry, palette: _Palette) -> dict[str, Any]:
    return {
        "text": entry.text,
        "kind": entry.kind,
        "color": palette(entry.colour, entry.opacity_ratio),
        "shape": entry.shape,
        "fill": entry.fill,
        "sign": entry.sign,
        "dash": list(entry.dash),
        "is_hatched": entry.is_hatched,
        "is_large": entry.is_large,
        "is_on_demand": entry.is_on_demand,
    }


def _card(card: Card) -> dict[str, Any]:
    return {"title": card.title, "facts": [list(fact) for fact in card.facts], "note": card.note}


def _text(card: Card) -> str:
    """Return a card as Plotly's own text: of its tags only `<br>`, as a page's policy may forbid the styles of
    others.
    """
    facts = [" ".join(part for part in fact if part) for fact in card.facts]
    return "<br>".join(plain(line) for line in (card.title, *facts, card.note) if line)


def plain(text: str) -> str:
    """Return text that Plotly takes for text: it reads a few tags and entities, so that these are written out."""
    return html.escape(text[:_MOST_CHARACTERS], quote=False)


def _short(value: float | None) -> float | None:
    """Return a coordinate as fine as seven digits: a hundredth of a pixel on any screen."""
    return None if value is None else float(f"{value:.7g}")
