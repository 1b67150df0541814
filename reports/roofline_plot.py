"""Draw the dual roofline: every format's roof, every measured point under its predicted one, the best configuration marked.

matplotlib's object interface only (no pyplot, no global state), so that reports can be drawn from any thread.
"""

from __future__ import annotations

import io
import math
from typing import TYPE_CHECKING

from reports.display_text import shown
from reports.label_layout import spread
from reports.plot_geometry import Spot, along, fraction, thinned
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
_RIDGE_WIDTH = 0.17  # of a ridge label, in fractions of the axes


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
    # What is drawn first may not be covered by what is written later: points, then ridges, slopes and the best.
    obstacles = draw_points(axes, view, inks)
    obstacles += _draw_ridges(axes, view, inks, obstacles)
    obstacles += _draw_slopes(axes, view, obstacles)
    obstacles += _draw_roofs(axes, view, inks)
    _name_roofs(axes, view, inks)
    annotate_best(axes, view, thinned(obstacles))
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


def _draw_roofs(axes: Axes, view: RooflineView, inks: dict[str, Ink]) -> list[Spot]:
    """Draw each format's roof in its colour; return what labels must keep clear of."""
    x_low, x_high = axes.get_xlim()
    unit = view.unit_flops_per_s
    covered = []
    for roof in view.roofs:
        twins = [one for one in view.roofs if math.isclose(one.peak_flops_per_s, roof.peak_flops_per_s, rel_tol=0.004)]
        ridge = roof.critical_intensity_flop_per_byte
        xs = [min(x_low, ridge), ridge, x_high]
        ys = [roof.rate_flops_per_s(x) / unit for x in xs]
        # Formats that share a unit share a roof: their dashes alternate, so that every colour is seen.
        dash, place = 7.0, twins.index(roof)
        style = "-" if len(twins) == 1 else (dash * place, (dash, dash * (len(twins) - 1)))
        axes.plot(
            xs,
            ys,
            color=inks[roof.precision].light,
            linewidth=2.2,
            linestyle=style,
            label=f"roof {roof.precision}",
            zorder=3,
            dash_capstyle="butt",
            solid_joinstyle="round",
        )
        covered += along(axes, (xs[1], ys[1]), (xs[2], ys[2]))
    return covered


def _draw_slopes(axes: Axes, view: RooflineView, taken: list[Spot]) -> list[Spot]:
    """Draw the memory slope that all formats share, and dashed ones for caches, each with its name along it."""
    x_low, unit = axes.get_xlim()[0], view.unit_flops_per_s
    top = max((roof.peak_flops_per_s for roof in view.roofs), default=0.0)
    dram = view.memory_bandwidth_bytes_per_s
    slopes = [*([CacheRoof("DRAM", dram)] if dram else []), *view.cache_roofs]
    covered: list[Spot] = []
    for slope in slopes:
        is_dram = dram is not None and slope is slopes[0]
        end = max(top / slope.bandwidth_bytes_per_s, x_low)
        xs = [x_low, end]
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
        covered += along(axes, (xs[0], ys[0]), (xs[1], ys[1]))
        covered += _name_slope(axes, slope, xs, ys, [*taken, *covered])
    return covered


def _name_slope(axes: Axes, slope: CacheRoof, xs: list[float], ys: list[float], taken: list[Spot]) -> list[Spot]:
    """Write a memory level's name along its slope, where it covers least; return the places it covers."""
    (x0, y0), (x1, y1) = axes.transData.transform(list(zip(xs, ys, strict=True)))
    frame = axes.get_window_extent()
    if x1 - x0 < 60:  # the slope is (nearly) outside: a bandwidth far beyond what the cases need
        return []
    tilt, to_axes = (y1 - y0) / (x1 - x0), axes.transAxes.inverted()
    angle = math.atan(tilt)
    start, stop = max(x0, x0 + (frame.y0 - y0) / tilt), min(x1, frame.x1, x0 + (frame.y1 - y0) / tilt)
    best: tuple[int, tuple[float, float], list[Spot]] | None = None
    for step in range(13):
        x = max(start + (stop - start) * (0.16 + 0.05 * step), start + 80 * math.cos(angle))  # clear of the axis
        y = y0 + tilt * (x - x0)
        place = to_axes.transform((x - 12 * math.sin(angle), y + 12 * math.cos(angle)))
        spots = [
            to_axes.transform(
                (x + d * math.cos(angle) - 18 * math.sin(angle), y + d * math.sin(angle) + 18 * math.cos(angle))
            )
            for d in range(-75, 76, 15)
        ]
        covered = sum(math.dist(spot, other) < 0.028 for spot in spots for other in taken)
        if best is None or covered < best[0]:
            best = (covered, (float(place[0]), float(place[1])), [(float(a), float(b)) for a, b in spots])
    assert best is not None
    text = f"{slope.name} {format_bandwidth(slope.bandwidth_bytes_per_s, 3)}"
    axes.text(
        *best[1],
        text,
        transform=axes.transAxes,
        rotation=math.degrees(angle),
        rotation_mode="anchor",
        ha="center",
        va="bottom",
        fontsize=9,
        color=INK.light,
        zorder=4,
        **PLAIN_TEXT,
    )
    return best[2]


def _draw_ridges(axes: Axes, view: RooflineView, inks: dict[str, Ink], taken: list[Spot]) -> list[Spot]:
    """Mark every ridge point and write its critical intensity beside it: left of it where that is free, else beneath its roof."""
    distinct: dict[tuple[float, float], Roof] = {}
    for roof in view.roofs:
        distinct.setdefault((roof.bandwidth_bytes_per_s, roof.peak_flops_per_s), roof)
    ridges = list(distinct.values())
    unit = view.unit_flops_per_s
    at = [fraction(axes, roof.critical_intensity_flop_per_byte, roof.peak_flops_per_s / unit) for roof in ridges]
    heights = spread([y for _, y in at], 0.034, 0.02, 0.985)
    covered: list[Spot] = []
    for roof, (x, y), height in zip(ridges, at, heights, strict=True):
        ink = inks[roof.precision].light
        corner = roof.critical_intensity_flop_per_byte, roof.peak_flops_per_s / unit
        name = f"ridge {roof.precision}"
        axes.plot(*corner, marker="o", markersize=6, color=ink, markeredgecolor=SURFACE.light, zorder=5, label=name)
        beneath = [("left", x + step, y - 0.034) for step in (0.012, 0.07, 0.13, 0.19, 0.25)]
        places = [("right", x - 0.022, height + 0.012), *(place for place in beneath if place[1] + _RIDGE_WIDTH < 1)]
        taken_now = [*taken, *covered]
        side, x_text, y_text = min(places, key=lambda place: _crowd(place, taken_now))
        axes.text(
            x_text,
            y_text,
            f"ridge {_short(roof.critical_intensity_flop_per_byte)} FLOP/byte",
            transform=axes.transAxes,
            ha=side,
            va="center",
            fontsize=8.5,
            zorder=4,
            color=ink,
            bbox={"boxstyle": "square,pad=0.12", "facecolor": SURFACE.light, "edgecolor": "none"},
            **PLAIN_TEXT,
        )
        covered += _label_spots((side, x_text, y_text))
    return covered


def _label_spots(place: tuple[str, float, float]) -> list[Spot]:
    """Return spots along a ridge label that is anchored at its left or right end."""
    side, x, y = place
    left = x - _RIDGE_WIDTH if side == "right" else x
    return [(left + _RIDGE_WIDTH * step / 10, y) for step in range(11)]


def _crowd(place: tuple[str, float, float], taken: list[Spot]) -> int:
    """Count what a ridge label would cover at a place."""
    return sum(abs(px - x) < 0.014 and abs(py - y) < 0.026 for x, y in _label_spots(place) for px, py in taken)


def _name_roofs(axes: Axes, view: RooflineView, inks: dict[str, Ink]) -> None:
    """Write each roof's format and peak in the right margin, in its colour, at its height."""
    wanted = [
        fraction(axes, axes.get_xlim()[1], roof.peak_flops_per_s / view.unit_flops_per_s)[1] for roof in view.roofs
    ]
    gap = 0.038
    heights = spread(list(wanted), gap, 0.0, 1.0)
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
