"""The cases on the dual roofline: predicted and measured points, the gap between, the best configuration, the legend."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from reports.display_text import shown
from reports.label_layout import Field, callout_place, rectangle
from reports.label_layout import Position as Spot
from reports.plot_geometry import keep_marks, pixels, text_size
from reports.plot_style import ACCENT, INK, MUTED, PLAIN_TEXT, SURFACE, Ink, op_markers
from reports.roofline_view import Point, RooflineView

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_LEGEND_CHARS, _LEGEND_MARK_CHARS = 150, 6
"""What one line of the legend holds, and what a mark with its gaps takes of it."""
_RING_RADIUS = 15.0  # pixels from the best point where its arrow ends
_CACHE_FILLS: dict[str, Literal["left", "right"]] = {"warm": "left", "flushed": "right"}
_RINGS = {True: "best of its shape", False: "fastest, others level with it"}
"""By whether the intervals tell it from the others; the second ring is pale."""
_MODE_GLYPHS = {"graph": "+", "burst": "|", "sustained": "_"}


class _Place(NamedTuple):
    """A case's two points in the units of the axes."""

    point: Point
    predicted: Spot | None
    measured: Spot | None


def draw_points(axes: Axes, view: RooflineView, inks: dict[str, Ink], field: Field) -> None:
    """Draw predicted points hollow, measured ones filled, and the segment between; ring the best of each shape.

    All of it is added to the field that labels must keep clear of.
    """
    from matplotlib.collections import LineCollection

    unit, markers = view.unit_flops_per_s, op_markers(view.ops)
    places = [_place(point, unit) for point in view.points]
    pairs = [(one.predicted, one.measured, one.point) for one in places if one.predicted and one.measured]
    colors = [inks[point.precision].light for _, _, point in pairs]
    gaps = LineCollection(
        [(a, b) for a, b, _ in pairs], colors=colors, linewidths=1.1, alpha=0.55, zorder=4, label="gap"
    )
    axes.add_collection(gaps, autolim=False)
    groups: dict[tuple[str, str, str, str], list[_Place]] = {}
    for one in places:
        groups.setdefault((one.point.op, one.point.precision, one.point.cache, one.point.mode), []).append(one)
    for (op, precision, cache, mode), members in groups.items():
        ink, name = inks[precision].light, f"{op} {precision} {cache}{'' if mode == 'eager' else f' {mode}'}"
        hollow = {"markerfacecolor": SURFACE.light, "markeredgecolor": ink, "markeredgewidth": 1.4, "zorder": 6}
        filled = {"color": ink, "markeredgecolor": SURFACE.light, "markeredgewidth": 0.9, "zorder": 7}
        if cache in _CACHE_FILLS:
            filled |= {"fillstyle": _CACHE_FILLS[cache], "markerfacecoloralt": SURFACE.light, "markeredgecolor": ink}
        _scatter(axes, [one.predicted for one in members], markers[op], 7, f"predicted {name}", hollow)
        _scatter(axes, [one.measured for one in members], markers[op], 7.5, f"measured {name}", filled)
        if mode != "eager":
            _scatter(
                axes, [one.measured for one in members], _mode_glyph(mode), 4.5, f"mode {name}", _glyph_style(cache)
            )
    chosen = view.highlight and (view.highlight.intensity_flop_per_byte, view.highlight.rate_flops_per_s / unit)
    rings = [one.measured or one.predicted for one in places if one.point.standing]
    for is_best, name in _RINGS.items():
        ringed = (
            one.measured or one.predicted for one in places if one.point.standing and one.point.is_best is is_best
        )
        _scatter(axes, [spot for spot in ringed if spot != chosen], "o", 14, name, _ring(1.4, is_best))
    dpi = axes.figure.dpi
    keep_marks(field, pixels(axes, [spot for one in places for spot in (one.predicted, one.measured) if spot]), 9, dpi)
    keep_marks(field, pixels(axes, [spot for spot in rings if spot]), 16, dpi)
    starts, stops = pixels(axes, [a for a, _, _ in pairs]), pixels(axes, [b for _, b, _ in pairs])
    for start, stop in zip(starts, stops, strict=True):
        field.add((start, stop), "line")


def annotate_best(axes: Axes, view: RooflineView, field: Field) -> None:
    """Write what the best configuration is into a free place near it, with an arrow that crosses as little as can be."""
    if view.highlight is None:
        return
    highlight = view.highlight
    style: dict[str, Any] = {"fontsize": 9.5, "linespacing": 1.35}
    x, y = highlight.intensity_flop_per_byte, highlight.rate_flops_per_s / view.unit_flops_per_s
    _scatter(axes, [(x, y)], "o", 15, "best configuration", _ring(2.6))
    text = "\n".join(highlight.lines)
    width, height = text_size(axes, text, **style)
    target = pixels(axes, [(x, y)])[0]
    size = width + 14, height + 14
    center = callout_place(field, size, target, clear=_RING_RADIUS) or (size[0] / 2 + 4, field.height - size[1] / 2 - 4)
    field.add(rectangle(center, size), "label")
    axes.annotate(
        text,
        xy=(x, y),
        xytext=(center[0] / field.width, center[1] / field.height),
        textcoords="axes fraction",
        ha="center",
        va="center",
        multialignment="left",
        color=ACCENT.light,
        zorder=10,
        bbox={"boxstyle": "round,pad=0.45", "facecolor": SURFACE.light, "edgecolor": ACCENT.light, "linewidth": 1.1},
        arrowprops={"arrowstyle": "-|>", "color": ACCENT.light, "shrinkA": 0, "shrinkB": 9},
        **style,
        **PLAIN_TEXT,
    )


def draw_legend(figure: Figure, view: RooflineView) -> None:
    """Explain shapes, fill and rings under the axes; colours are explained by the roofs' names."""
    from matplotlib.legend_handler import HandlerTuple
    from matplotlib.lines import Line2D

    ink, empty = MUTED.light, SURFACE.light
    markers = op_markers(view.ops)

    def entry(label: str, marker: str, **style: object) -> Line2D:
        return Line2D([], [], linestyle="none", marker=marker, markersize=7.5, color=ink, label=label, **style)  # type: ignore[arg-type]

    handles: list[Any] = [entry(shown(op, 30), marker) for op, marker in markers.items()]
    first = next(iter(markers.values()), "o")
    filled, hollow = (
        entry("measured", first),
        entry("predicted (ideal)", first, markerfacecolor=empty, markeredgewidth=1.4),
    )
    has_prediction = any(point.predicted_flops_per_s for point in view.points)
    if view.measured_count and has_prediction:
        handles.append((filled, hollow))
    elif view.points:
        handles.append(filled if view.measured_count else hollow)
    seen = [point for point in view.points if point.measured_flops_per_s]
    for cache, fill in _CACHE_FILLS.items():
        if any(point.cache == cache for point in seen):
            side = {"left": "half", "right": "right half"}[fill]
            words = "warm cache" if cache == "warm" else cache
            handles.append(entry(f"{side}: measured, {words}", first, fillstyle=fill, markerfacecoloralt=empty))
    for mode in dict.fromkeys(point.mode for point in seen if point.mode != "eager"):
        glyph = Line2D([], [], linestyle="none", marker=_mode_glyph(mode), markersize=4.5, **_glyph_style("cold"))
        handles.append((entry(shown(mode, 20), first), glyph))
    for is_best, name in _RINGS.items():
        if any(point.standing and point.is_best is is_best for point in view.points):
            ring = _ring(1.6, is_best)
            handles.append(Line2D([], [], linestyle="none", marker="o", markersize=12, label=name, **ring))
    if view.cache_roofs:
        handles.append(Line2D([], [], color=ink, linewidth=1.4, linestyle=(0, (5, 3)), label="cache slope"))
    if handles:
        labels = [
            "filled measured, hollow predicted (ideal)"
            if isinstance(one, tuple) and one[1] is hollow
            else (one[0] if isinstance(one, tuple) else one).get_label()
            for one in handles
        ]  # type: ignore[attr-defined]
        chars = sum(len(str(label)) + _LEGEND_MARK_CHARS for label in labels)
        rows = 1 if len(handles) <= 8 and chars <= _LEGEND_CHARS else 2
        legend = figure.legend(
            handles,
            labels,
            loc="lower left",
            bbox_to_anchor=(0.06, 0.042 if rows == 1 else 0.03),
            ncol=-(-len(handles) // rows),
            frameon=False,
            fontsize=9 if len(handles) <= 7 else 7.5,
            labelspacing=0.25,
            handletextpad=0.5,
            columnspacing=1.5,
            labelcolor=INK.light,
            handler_map={
                one: HandlerTuple(ndivide=None if one[1] is hollow else 1, pad=0.6)
                for one in handles
                if isinstance(one, tuple)
            },
        )
        for text in legend.get_texts():
            text.set_parse_math(False)


def _place(point: Point, unit_flops_per_s: float) -> _Place:
    x, rates = point.intensity_flop_per_byte, (point.predicted_flops_per_s, point.measured_flops_per_s)
    predicted, measured = ((x, rate / unit_flops_per_s) if rate else None for rate in rates)
    return _Place(point, predicted, measured)


def _scatter(
    axes: Axes, spots: Iterable[Spot | None], marker: str, size: float, label: str, style: dict[str, Any]
) -> None:
    known = [spot for spot in spots if spot is not None]
    if known:
        xs, ys = zip(*known, strict=True)
        axes.plot(xs, ys, linestyle="none", marker=marker, markersize=size, label=label, **style)


def _mode_glyph(mode: str) -> str:
    """Return the small sign on a measured point that tells a mode from eager; a user's own mode gets an x."""
    return _MODE_GLYPHS.get(mode, "x")


def _glyph_style(cache: str) -> dict[str, Any]:
    """Light on a filled point, dark on a half-filled one."""
    colour = INK.light if cache in _CACHE_FILLS else SURFACE.light
    return {"color": colour, "markeredgewidth": 1.3, "zorder": 7.5}


def _ring(width: float, is_full: bool = True) -> dict[str, Any]:
    ink = ACCENT.light if is_full else f"{ACCENT.light}73"  # 45 %
    return {"markerfacecolor": "none", "markeredgecolor": ink, "markeredgewidth": width, "zorder": 8}
