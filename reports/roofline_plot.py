"""Draw the dual roofline: every format's roof, every measured point under its predicted one, the best configuration marked.

matplotlib's object interface only (no pyplot, no global state), so that reports can be drawn from any thread.
"""

from __future__ import annotations

import io
import math
from typing import TYPE_CHECKING, Any

from reports.display_text import shown
from reports.label_layout import Field, Position, callout_place, first_free, rectangle, spread
from reports.plot_geometry import keep_marks, label_field, pixels, text_size, visible, write_label
from reports.plot_points import annotate_best, draw_legend, draw_points
from reports.plot_style import GRID, INK, MUTED, PLAIN_TEXT, SURFACE, Ink, format_inks
from reports.roofline_view import CacheRoof, Roof, RooflineView
from roofline_model.units import format_bandwidth

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FIGURE_SIZE_INCHES = (11.6, 7.2)
PNG_DPI = 170
_LEFT, _BOTTOM, _HEIGHT = 0.072, 0.165, 0.725  # of the axes, in fractions of the figure


def draw_dual_roofline(view: RooflineView) -> Figure:
    """Return the figure of a view; a view without roofs or points gives a figure that says what is missing."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=FIGURE_SIZE_INCHES, facecolor=SURFACE.light)
    FigureCanvasAgg(figure)
    figure.text(0.02, 0.955, view.title, fontsize=15, fontweight="bold", color=INK.light, **PLAIN_TEXT)
    figure.text(0.02, 0.923, view.subtitle, fontsize=10, color=MUTED.light, **PLAIN_TEXT)
    if view.missing:
        note = f"Note: {'; '.join(view.missing)}."
        figure.text(0.02, 0.018, note, fontsize=8.5, style="italic", color=MUTED.light, **PLAIN_TEXT)
    if not view.roofs and not view.points:
        figure.text(0.5, 0.5, "Nothing to draw", ha="center", fontsize=13, color=MUTED.light)
        return figure
    # The right margin holds the roofs' names: as wide as the longest needs.
    longest = max((len(_roof_name(roof, view)) for roof in view.roofs), default=0)
    axes = figure.add_axes((_LEFT, _BOTTOM, max(0.895 - 0.0074 * longest, 0.45), _HEIGHT), facecolor=SURFACE.light)
    _scale(axes, view)
    inks = format_inks([*(roof.precision for roof in view.roofs), *(point.precision for point in view.points)])
    # Everything that is drawn first, then what is written: the least movable label chooses first.
    field = label_field(axes)
    draw_points(axes, view, inks, field)
    slopes = _draw_slopes(axes, view, field)
    _draw_roofs(axes, view, inks, field)
    _name_ridges(axes, view, inks, field)
    _name_slopes(axes, field, slopes)
    _name_roofs(axes, view, inks)
    annotate_best(axes, view, field)
    draw_legend(figure, view)
    return figure


def figure_png(figure: Figure) -> bytes:
    """Return the figure as PNG at `PNG_DPI`; equal figures give equal bytes."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=PNG_DPI, metadata={"Software": None})
    return buffer.getvalue()


def figure_svg(figure: Figure, *, text_as_paths: bool = True) -> str:
    """Return the figure as SVG, without a date, so that equal figures give equal text.

    `text_as_paths` looks the same everywhere (files); without it text stays text, smaller and readable aloud (pages).
    """
    from matplotlib import rc_context

    buffer = io.StringIO()
    with rc_context({"svg.hashsalt": "roofline", "svg.fonttype": "path" if text_as_paths else "none"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return buffer.getvalue()


def _scale(axes: Axes, view: RooflineView) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    unit = view.unit_flops_per_s
    intensities = [point.intensity_flop_per_byte for point in view.points]
    ridges = [roof.critical_intensity_flop_per_byte for roof in view.roofs]
    rates = [
        rate for point in view.points for rate in (point.predicted_flops_per_s, point.measured_flops_per_s) if rate
    ]
    peaks = [roof.peak_flops_per_s for roof in view.roofs]
    x_low, x_high = min(intensities or ridges) / 2.5, max([*intensities, *ridges]) * 3.5
    lowest = min(rates) if rates else min(roof.rate_flops_per_s(x_low) for roof in view.roofs)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(x_low, x_high)
    axes.set_ylim(lowest / 2.2 / unit, max([*peaks, *rates]) * 2.2 / unit)
    axes.set_xlabel("Arithmetic intensity (FLOP/byte)", fontsize=11, color=INK.light)
    axes.set_ylabel(f"Performance ({view.unit_label})", fontsize=11, color=INK.light)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(base=10, numticks=12))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())
    axes.grid(True, which="major", color=GRID.light, linewidth=0.9)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", colors=MUTED.light, labelsize=9.5)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(MUTED.light)


def _draw_roofs(axes: Axes, view: RooflineView, inks: dict[str, Ink], field: Field) -> None:
    """Draw each format's roof in its colour, and a dot at its ridge point."""
    x_low, x_high = axes.get_xlim()
    unit = view.unit_flops_per_s
    for roof in view.roofs:
        twins = [one for one in view.roofs if math.isclose(one.peak_flops_per_s, roof.peak_flops_per_s, rel_tol=0.004)]
        ridge, ink = roof.critical_intensity_flop_per_byte, inks[roof.precision].light
        xs = [min(x_low, ridge), ridge, x_high]
        ys = [roof.rate_flops_per_s(x) / unit for x in xs]
        # Formats that share a unit share a roof: their dashes alternate, so that every colour is seen.
        dash, place = 7.0, twins.index(roof)
        style = "-" if len(twins) == 1 else (dash * place, (dash, dash * (len(twins) - 1)))
        axes.plot(
            xs,
            ys,
            color=ink,
            linewidth=2.2,
            linestyle=style,
            label=f"roof {roof.precision}",
            zorder=3,
            dash_capstyle="butt",
            solid_joinstyle="round",
        )
        corners = pixels(axes, list(zip(xs, ys, strict=True)))
        field.add((corners[0], corners[1]), "line")
        field.add((corners[1], corners[2]), "line")
        if twins[0] is roof:
            name = f"ridge {roof.precision}"
            axes.plot(xs[1], ys[1], marker="o", markersize=6, color=ink, mec=SURFACE.light, zorder=5, label=name)
            keep_marks(field, corners[1:2], 6, axes.figure.dpi)


def _draw_slopes(axes: Axes, view: RooflineView, field: Field) -> list[tuple[CacheRoof, Position, Position]]:
    """Draw the memory slope that all formats share, and dashed ones for caches; return each with its visible ends."""
    x_low, unit = axes.get_xlim()[0], view.unit_flops_per_s
    top = max((roof.peak_flops_per_s for roof in view.roofs), default=0.0)
    dram = view.memory_bandwidth_bytes_per_s
    slopes = [*([CacheRoof("DRAM", dram)] if dram else []), *view.cache_roofs]
    drawn = []
    for slope in slopes:
        is_dram = dram is not None and slope is slopes[0]
        xs = [x_low, max(top / slope.bandwidth_bytes_per_s, x_low)]
        ys = [slope.bandwidth_bytes_per_s * x / unit for x in xs]
        axes.plot(
            xs,
            ys,
            color=(INK if is_dram else MUTED).light,
            linewidth=2.2 if is_dram else 1.4,
            linestyle="-" if is_dram else (0, (5, 3)),
            label=f"memory {slope.name}",
            zorder=3.1,
        )
        start, stop = pixels(axes, list(zip(xs, ys, strict=True)))
        seen = visible(field, start, stop)
        if seen is not None:  # else a bandwidth far beyond what the cases need
            field.add(seen, "line")
            drawn.append((slope, *seen))
    return drawn


def _name_slopes(axes: Axes, field: Field, slopes: list[tuple[CacheRoof, Position, Position]]) -> None:
    """Write each memory level's name along its slope, above it or beneath, where nothing else is."""
    style: dict[str, Any] = {"fontsize": 9, "color": INK.light, "zorder": 4}
    for slope, (x0, y0), (x1, y1) in slopes:
        text = f"{slope.name} {format_bandwidth(slope.bandwidth_bytes_per_s, 3)}"
        width, height = size = text_size(axes, text, 9)
        angle, length = math.atan2(y1 - y0, x1 - x0), math.dist((x0, y0), (x1, y1))
        reach = [width / 2 + step for step in range(4, max(int(length - width), 5), 6)]
        reach.sort(key=lambda along: abs(along - length * 0.3))
        centers = [
            (
                x0 + along * math.cos(angle) - away * math.sin(angle),
                y0 + along * math.sin(angle) + away * math.cos(angle),
            )
            for gap in (2, 6, 10)
            for along in reach
            for away in (height / 2 + gap, -height / 2 - gap)
        ]
        found = first_free(field, (rectangle(center, size, angle) for center in centers))
        if found is not None:
            write_label(axes, field, text, centers[found], size, angle, **style)
        else:
            _label_with_leader(axes, field, text, size, ((x0 + x1) / 2, (y0 + y1) / 2), style)


def _name_ridges(axes: Axes, view: RooflineView, inks: dict[str, Ink], field: Field) -> None:
    """Write every ridge's critical intensity beside it: left of it where that is free, else along its roof."""
    distinct: dict[tuple[float, float], Roof] = {}
    for roof in view.roofs:
        distinct.setdefault((roof.bandwidth_bytes_per_s, roof.peak_flops_per_s), roof)
    for roof in distinct.values():
        ridge = roof.critical_intensity_flop_per_byte
        x, y = pixels(axes, [(ridge, roof.peak_flops_per_s / view.unit_flops_per_s)])[0]
        text = f"ridge {_short(ridge)}"  # in the units of the axis
        width, height = size = text_size(axes, text, 8.5, air=(3, 2))
        above, beneath = y + height / 2 + 3, y - height / 2 - 3
        centers = [(x - back - width / 2, y + rise) for rise in (3, 5, 6, 7, 9, 14, 20) for back in (5, 8, 12)]
        for shift in range(0, int(field.width * 0.5), 8):
            centers += [(x + 6 + shift + width / 2, above), (x + 6 + shift + width / 2, beneath)]
        style: dict[str, Any] = {"fontsize": 8.5, "color": inks[roof.precision].light, "zorder": 4}
        found = first_free(field, (rectangle(center, size) for center in centers))
        if found is not None:
            write_label(axes, field, text, centers[found], size, **style)
        else:
            _label_with_leader(axes, field, text, size, (x, y), style)


def _label_with_leader(
    axes: Axes, field: Field, text: str, size: Position, target: Position, style: dict[str, Any]
) -> None:
    """Write a label into a free place away from what it names, with a thin line to it; where nothing is free, leave it out."""
    center = callout_place(field, size, target, clear=5)
    if center is not None:
        ends = [(x / field.width, y / field.height) for x, y in (center, target)]
        box = {"boxstyle": "square,pad=0.15", "facecolor": SURFACE.light, "edgecolor": "none"}
        axes.plot(*zip(*ends, strict=True), transform=axes.transAxes, color=style["color"], linewidth=0.7, zorder=3.9)
        field.add((center, target), "line")
        write_label(axes, field, text, center, size, bbox=box, **style)


def _name_roofs(axes: Axes, view: RooflineView, inks: dict[str, Ink]) -> None:
    """Write each roof's format and peak in the right margin, in its colour, at its height."""
    x_high, height_px = axes.get_xlim()[1], axes.get_window_extent().height
    ends = pixels(axes, [(x_high, roof.peak_flops_per_s / view.unit_flops_per_s) for roof in view.roofs])
    wanted = [y / height_px for _, y in ends]
    gap = 0.038
    heights = spread(wanted, gap, 0.0, 1.0)
    for roof, y, height in zip(view.roofs, wanted, heights, strict=True):
        ink = inks[roof.precision].light
        axes.plot(
            [1.0, 1.018, 1.028], [y, height, height], transform=axes.transAxes, clip_on=False, color=ink, linewidth=1.0
        )
        axes.plot([1.034], [height], marker="s", markersize=6, transform=axes.transAxes, clip_on=False, color=ink)
        axes.text(
            1.046,
            height,
            _roof_name(roof, view),
            transform=axes.transAxes,
            va="center",
            fontsize=9.5 if len(view.roofs) <= 20 else 7.5,
            color=ink,
            **PLAIN_TEXT,
        )


def _roof_name(roof: Roof, view: RooflineView) -> str:
    """`INT4 W4A16 on BF16  989 TFLOP/s`: the format, the unit that computes it if that is another one, its peak."""
    via = ""
    if roof.path not in ("", "native") and roof.compute_format != roof.precision:
        via = f" on {shown(roof.compute_format, 16)}"
    return f"{shown(roof.precision, 24)}{via}  {roof.peak_flops_per_s / view.unit_flops_per_s:,.4g} {view.unit_label}"


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 99.5 else f"{value:.3g}"
