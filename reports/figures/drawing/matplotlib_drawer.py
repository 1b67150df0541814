"""Draw a figure with matplotlib: PNG and SVG, on a light ground.

The object interface only (no pyplot, no global state), so that figures can be drawn from any thread.
"""

from __future__ import annotations

import io
import itertools
import math
import textwrap
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from reports.figures.drawing.label_places import PLAIN_TEXT, Position, write_labels
from reports.figures.drawing.palette import ACCENT, GRID, INK, MUTED, SURFACE, Colour, Shape
from reports.figures.drawing.spec import (
    LEAST_BOXED,
    MOST_DOTS,
    Axis,
    Bars,
    Beside,
    Drawable,
    Figure,
    Label,
    LegendEntry,
    Line,
    Marks,
    RowFigure,
    Series,
    Sheet,
    SheetTable,
    Stack,
    Strip,
)
from reports.figures.samples import thinned
from reports.present.display_text import shown
from roofline_model.core.units import format_time

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

SIZE_INCHES = (11.6, 7.2)
PNG_DPI = 170
SHEET_DPI = 100
"""A sheet of 12 by 6.3 inches has 1200 by 630 pixels."""

_FONT, _SMALL_FONT = 9.5, 8.5
_SMALL_TITLE_INCHES = 0.34
_LETTER_RATIO = 0.66
"""Width of a bold letter over its size."""
_STACK_WIDTH_INCHES, _ROWS_WIDTH_INCHES = 10.4, 10.8
_ROW_INCHES = 0.3
"""Height of one row of a figure with a row per case."""
_TWO_STRIPS_SHARE = 1.3
"""What a row with two strips takes, of the height of a row with one."""
_MOST_NAME_CHARACTERS = 82
"""Of a row's name: they take half the width."""
_LEFT, _BOTTOM, _HEIGHT = 0.072, 0.165, 0.725  # of the axes, in fractions of the figure
_SHEET_LEFT, _SHEET_MIDDLE, _SHEET_RIGHT = 0.035, 0.475, 0.975
_SHEET_CHARACTERS = 52
_FEW_DECADES = 2.4
"""Axes shorter than this name 2 and 5 beside the powers of ten."""
_MOST_SWATCHES = 9
_ROUND_STEPS = (1, 2, 5, 10)
_SHAPES: dict[Shape, str] = {
    "circle": "o",
    "square": "s",
    "diamond": "D",
    "plus": "P",
    "cross": "X",
    "up": "^",
    "down": "v",
    "pentagon": "p",
    "hexagon": "h",
    "star": "*",
    "left": "<",
    "right": ">",
    "dash": "_",
    "bar": "|",
    "thin-plus": "+",
    "thin-cross": "x",
}


def draw(drawable: Drawable, small_title: str = "") -> Drawing:
    """Return a figure of any kind, drawn; `small_title`: of a small one, which has none among text."""
    match drawable:
        case Stack():
            return draw_stack(drawable)
        case Beside():
            return draw_beside(drawable, small_title)
        case RowFigure():
            return draw_rows(drawable)
        case Figure():
            return draw_figure(drawable)


def figure_png(drawing: Drawing, dpi: int = PNG_DPI) -> bytes:
    """Return the drawing as PNG; equal drawings give equal bytes."""
    buffer = io.BytesIO()
    drawing.savefig(buffer, format="png", dpi=dpi, metadata={"Software": None})
    return buffer.getvalue()


def figure_svg(drawing: Drawing, *, text_as_paths: bool = True) -> str:
    """Return the drawing as SVG, without a date, so that equal drawings give equal text.

    `text_as_paths` looks the same everywhere (files); without it text stays text, smaller and readable aloud (pages).
    """
    from matplotlib import rc_context

    buffer = io.StringIO()
    with rc_context({"svg.hashsalt": "roofline", "svg.fonttype": "path" if text_as_paths else "none"}):
        drawing.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return buffer.getvalue()


# --- one plane


def draw_figure(figure: Figure) -> Drawing:
    """Return the drawing of a figure; one without series says that there is nothing, and why."""
    drawing = _paper(SIZE_INCHES)
    _write(drawing, 0.02, 0.955, figure.title, 15, INK, fontweight="bold")
    _write(drawing, 0.02, 0.923, figure.subtitle, 10)
    if figure.notes:
        _write(drawing, 0.02, 0.018, f"Note: {'; '.join(figure.notes)}.", _SMALL_FONT, style="italic")
    if not figure.series:
        _write(drawing, 0.5, 0.5, "Nothing to draw", 13, ha="center")
        return drawing
    labels = [label for label in figure.labels if label.medium in ("any", "still")]
    # The right margin holds names: as wide as the longest needs.
    longest = max((len(label.lines[0]) for label in labels if label.place == "margin"), default=0)
    _draw_plane(drawing, (_LEFT, _BOTTOM, max(0.895 - 0.0074 * longest, 0.45), _HEIGHT), figure, labels)
    entries = _still(figure.legend)
    _draw_legend(drawing, entries, (0.7, 0.3), 10.7, colour=INK, fontsize=9 if len(entries) <= 7 else 7.5)
    return drawing


def _draw_plane(
    drawing: Drawing, place: tuple[float, float, float, float], figure: Figure, labels: Sequence[Label]
) -> None:
    axes = _axes(drawing, place)
    _scale(axes, "x", figure.x, 11)
    _scale(axes, "y", figure.y, 11)
    axes.tick_params(which="both", labelsize=_FONT)
    _draw_series(axes, figure.of("still"))
    write_labels(axes, labels)


def draw_sheet(sheet: Sheet) -> Drawing:
    """Return the drawing of a sheet: tables on the left, the figure with its formats on the right."""
    drawing = _paper(sheet.size_inches, dpi=SHEET_DPI)
    _write(drawing, _SHEET_LEFT, 0.905, shown(sheet.title, 48), 23, INK, fontweight="bold")
    _write(drawing, _SHEET_LEFT, 0.855, shown(sheet.subtitle, 110), 12)
    _write(drawing, _SHEET_LEFT, 0.035, sheet.caption, 10.5)
    _write(drawing, _SHEET_RIGHT, 0.035, sheet.footer, 10.5, ha="right")
    height = 0.77
    for table in sheet.tables:
        height = _draw_sheet_table(drawing, table, height)
    for line in itertools.chain.from_iterable(textwrap.wrap(note, _SHEET_CHARACTERS + 16) for note in sheet.notes):
        _write(drawing, _SHEET_LEFT, height, line, 10.5)
        height -= 0.038
    if sheet.figure.series:
        place = (_SHEET_MIDDLE + 0.055, 0.31, _SHEET_RIGHT - _SHEET_MIDDLE - 0.055, 0.5)
        labels = [label for label in sheet.figure.labels if label.place in ("along", "around")]
        _draw_plane(drawing, place, sheet.figure, labels)
        _write(drawing, _SHEET_MIDDLE + 0.03, 0.2, sheet.legend_title, 10)
        swatches = [entry for entry in sheet.figure.legend if entry.kind == "swatch"]
        more = len(swatches) - _MOST_SWATCHES
        if more > 1:
            swatches = [*swatches[:_MOST_SWATCHES], LegendEntry(f"and {more} more", SURFACE, "swatch")]
        _draw_legend(drawing, swatches, ((_SHEET_MIDDLE + 0.02) * 12, 1.22), 6.0, loc="upper left")
    return drawing


def _draw_sheet_table(drawing: Drawing, table: SheetTable, height: float) -> float:
    """Write a table from a height down; return the height under it."""
    _write(drawing, _SHEET_LEFT, height, shown(table.title, 60), 11.5, ACCENT, fontweight="bold")
    for line in textwrap.wrap(table.text, _SHEET_CHARACTERS)[:2]:
        height -= 0.045
        _write(drawing, _SHEET_LEFT, height, line, 13, INK)
    width = _SHEET_MIDDLE - _SHEET_LEFT - 0.015
    ends = [_SHEET_LEFT + width * share for share in (0.0, 0.62, 0.8, 1.0)]
    for at, row in enumerate((table.header, *table.rows)):
        height -= 0.05 if at else 0.052
        size, colour, weight = (11.5 if at else 10.0), (INK if at else MUTED), ("bold" if at == 1 else "normal")
        for place, (end, cell) in enumerate(zip(ends, row, strict=True)):
            _write(drawing, end, height, cell, size, colour, fontweight=weight, ha="right" if place else "left")
    return height - 0.075


# --- several planes


def draw_stack(stack: Stack) -> Drawing:
    """Return the drawing of planes over each other, the lowest with the title of their axis."""
    body_inches = sum(panel.height_inches for panel in stack.panels)
    drawing, bottom = _page(stack.title, stack.subtitle, _STACK_WIDTH_INCHES, body_inches, stack.legend)
    height, lowest = drawing.get_figheight(), None
    for panel in reversed(stack.panels):
        air = 0.2 if lowest is not None else 0.08
        place = (0.092, bottom / height, 0.888, (panel.height_inches - air) / height)
        axes = _axes(drawing, place, grid="x" if panel.y.is_bare else "both", sharex=lowest)
        _scale(axes, "y", panel.y, _FONT - 1.5)
        _draw_series(axes, [series for series in panel.series if series.medium in ("any", "still")])
        if panel.y.has_zero:
            axes.set_ylim(bottom=0)
        if not panel.y.ticks and not panel.y.is_log:
            axes.locator_params(axis="y", nbins=4)
            axes.ticklabel_format(axis="y", useOffset=False)
        axes.yaxis.set_label_coords(-0.078, 0.5)
        for start, stop in stack.shades:
            axes.axvspan(start, stop, color=ACCENT.light, alpha=0.13, linewidth=0)
        if lowest is None:
            axes.set_xlabel(stack.x.title, fontsize=_FONT, color=INK.light)
        else:
            axes.tick_params(labelbottom=False)
        bottom, lowest = bottom + panel.height_inches, lowest or axes
    return drawing


def draw_beside(beside: Beside, title: str = "") -> Drawing:
    """Return the drawing of planes side by side, small; without a title where what stands beside it names it."""
    width, plain_height = beside.size_inches
    height = plain_height + (_SMALL_TITLE_INCHES if title else 0)
    drawing = _paper((width, height))
    if title:
        text = shown(title, 90)
        points = min(_FONT, 72 * 0.96 * width / (_LETTER_RATIO * len(text)))
        _write(drawing, 0.02, 1 - 0.24 / height, text, points, INK, weight="bold")
    gap, left, first = 0.25 / width, 0.6 / width, None
    bottom, top = 0.45 / height, (plain_height - (0.34 if beside.legend else 0.1)) / height
    room = 0.98 - left - gap * (len(beside.planes) - 1)
    for plane in beside.planes:
        axes = _axes(drawing, (left, bottom, room * plane.share_ratio, top - bottom), grid="y", sharey=first)
        _scale(axes, "x", plane.x, _SMALL_FONT)
        _scale(axes, "y", beside.y, _SMALL_FONT)
        _draw_series(axes, plane.series)
        for low, high in beside.bands:
            axes.axhspan(low, high, color=ACCENT.light, alpha=0.16, linewidth=0, zorder=1)
        axes.locator_params(axis="x", nbins=5 if plane.share_ratio > 0.5 else 2, integer=True, steps=_ROUND_STEPS)
        axes.locator_params(axis="y", nbins=5, steps=_ROUND_STEPS)
        axes.ticklabel_format(axis="y", useOffset=False)
        axes.tick_params(labelsize=_SMALL_FONT - 0.5, labelleft=first is None)
        axes.xaxis.labelpad = 1
        if first is not None:
            axes.set_ylabel("")
        left, first = left + room * plane.share_ratio + gap, first or axes
    _draw_legend(drawing, _still(beside.legend), (0.06 * width, plain_height), width, _SMALL_FONT, loc="upper left")
    return drawing


# --- a row per name


def draw_rows(figure: RowFigure) -> Drawing:
    """Return the drawing of a figure with a row per name, in the first of its orders; parts are shares of their rows'
    totals.
    """
    order = figure.orders[0].rows if figure.orders else range(len(figure.rows))
    rows = sorted(list(order)[: figure.max_rows_count])
    share = _TWO_STRIPS_SHARE if any(strip.shift_value for strip in figure.strips) else 1.0
    body_inches = 0.15 + _ROW_INCHES * share * len(rows)
    drawing, below = _page(figure.title, figure.subtitle, _ROWS_WIDTH_INCHES, body_inches, figure.legend)
    axes = _row_axes(drawing, [" ".join(filter(None, figure.rows[row].name)) for row in rows], below, body_inches)
    for value, is_dashed in figure.levels:
        style = (0, (4, 3)) if is_dashed else "-"
        axes.axvline(value, color=INK.light, linewidth=1.0, linestyle=style, zorder=4 if is_dashed else 2)
    places = {row: place for place, row in enumerate(rows)}
    for strip in figure.strips:
        if strip.row_index in places:
            _draw_strip(axes, strip, places[strip.row_index] + strip.shift_value)
    if figure.parts:
        _draw_parts(axes, figure, rows)
    else:
        low, high = axes.get_xlim()
        axes.set_xlim(min(low, -5.0), max(high, 5.0))
    sign = "" if figure.parts else "+"
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:{sign}g}{figure.x.suffix}" if value else "0")
    axes.set_xlabel(figure.x.title, fontsize=_FONT, color=MUTED.light)
    return drawing


def _row_axes(drawing: Drawing, names: Sequence[str], below_inches: float, body_inches: float) -> Axes:
    """Return axes with one row per name, the first at the top, their names on the left."""
    width, height = drawing.get_size_inches()
    axes = _axes(drawing, (0.5, below_inches / height, 0.47, body_inches / height), grid="x")
    axes.set_ylim(len(names) - 0.5, -0.5)
    shortened = [_cut_inside(name, _MOST_NAME_CHARACTERS) for name in names]
    axes.set_yticks(range(len(names)), shortened, color=INK.light, **PLAIN_TEXT)
    axes.tick_params(axis="y", length=0)
    renderer = drawing.canvas.get_renderer()  # type: ignore[attr-defined]  # Agg has one
    longest = max((label.get_window_extent(renderer).width for label in axes.get_yticklabels()), default=0.0)
    left = min(longest / drawing.dpi / width + 0.25 / width, 0.55)
    axes.set_position((left, below_inches / height, 0.97 - left, body_inches / height))
    return axes


def _cut_inside(name: str, most: int) -> str:
    """Return a name of at most `most` characters without its middle: configurations differ at their ends."""
    head = most // 3
    return name if len(name) <= most else f"{name[:head]}…{name[len(name) - (most - 1 - head) :]}"


def _draw_strip(axes: Axes, strip: Strip, height: float) -> None:
    values, colour = strip.values, strip.colour.light
    dots = [values[at] for at in thinned(values, MOST_DOTS)] if strip.is_dense else values
    if len(values) >= LEAST_BOXED:
        boxes = axes.boxplot(
            [values],
            positions=[height],
            widths=strip.height_value,
            orientation="horizontal",
            manage_ticks=False,
            patch_artist=True,
            showfliers=False,
            boxprops={"facecolor": f"{colour}{'42' if strip.is_filled else '1a'}", "edgecolor": colour},
            medianprops={"color": colour, "linewidth": 2.0},
            whiskerprops={"color": colour},
            capprops={"color": colour},
            zorder=2.5,
        )
        if len(dots) > MOST_DOTS:
            low, high = (float(line.get_xdata()[1]) for line in boxes["whiskers"])
            dots = [value for value in values if not low <= value <= high]
    # The dots go up and down in turn: where they lie is the value, how high is nothing.
    rise = 0.06 * strip.height_value if len(dots) > 2 else 0.0
    axes.plot(
        dots,
        [height + rise * ((index * 4) % 7 - 3) for index in range(len(dots))],
        linestyle="none",
        marker="o",
        markersize=strip.size_points,
        alpha=0.75,
        zorder=3,
        markerfacecolor=colour if strip.is_filled else "none",
        markeredgecolor=colour,
        markeredgewidth=min(1.1, strip.size_points / 5),
    )


def _draw_parts(axes: Axes, figure: RowFigure, rows: Sequence[int]) -> None:
    """Stack the parts of each row, negative ones to the left, as far as the ends of the axis."""
    least, most = (-math.inf if figure.x.low_value is None else figure.x.low_value, figure.x.high_value or math.inf)
    ends = {row: [0.0, 0.0] for row in rows}  # of what is stacked: on the left, on the right
    for part in figure.parts:
        starts, shares = [], []
        for row in rows:
            share = 100 * (part.times_s[row] or 0.0) / figure.totals_s[row]
            start = ends[row][share > 0]
            ends[row][share > 0] = min(max(start + share, least), most)
            starts.append(start)
            shares.append(ends[row][share > 0] - start)
        style: dict[str, Any] = {"color": part.colour.light, "edgecolor": SURFACE.light, "linewidth": 0.5, "zorder": 3}
        style |= {"hatch": "////"} if part.is_hatched else {}
        axes.barh(range(len(rows)), shares, left=starts, height=0.66, **style)
    for place, row in enumerate(rows):
        time = format_time(figure.totals_s[row], 3)
        axes.text(ends[row][1] + 1.2, place, time, va="center", fontsize=_FONT - 1, color=INK.light)
    lowest, highest = min(low for low, _ in ends.values()), max(high for _, high in ends.values())
    axes.set_xlim(lowest * 1.05, highest + 13)
    if lowest < 0:
        axes.axvline(0, color=INK.light, linewidth=1, zorder=4)
    axes.set_xticks([tick for tick in axes.get_xticks() if lowest - 1e-9 <= tick <= highest + 1e-9])


# --- paper, axes, legend


def _paper(size_inches: tuple[float, float], dpi: float = 100) -> Drawing:
    """Return an empty drawing; it belongs to no backend but Agg, and to no global state."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Drawing

    drawing = Drawing(figsize=size_inches, dpi=dpi, facecolor=SURFACE.light)
    FigureCanvasAgg(drawing)
    return drawing


def _page(
    title: str, subtitle: str, width_inches: float, body_inches: float, legend: Iterable[LegendEntry]
) -> tuple[Drawing, float]:
    """Return paper as high as a title, a body and the legend below it need, and where the body begins, in inches."""
    drawing = _paper((width_inches, 1.0))
    below = 0.56 + _draw_legend(drawing, _still(legend), (0.1, 0.06), width_inches - 0.2, _FONT - 0.5)
    height = 0.8 + body_inches + below
    drawing.set_size_inches(width_inches, height)
    _write(drawing, 0.02, 1 - 0.32 / height, shown(title, 110), 13, INK, fontweight="bold")
    _write(drawing, 0.02, 1 - 0.57 / height, shown(subtitle, 150), _FONT)
    return drawing, below


def _write(
    drawing: Drawing, x: float, y: float, text: str, points: float, colour: Colour = MUTED, **style: Any
) -> None:
    """Write a text; places are shares of the drawing."""
    drawing.text(x, y, text, fontsize=points, color=colour.light, **style, **PLAIN_TEXT)


def _axes(drawing: Drawing, place: tuple[float, float, float, float], grid: str = "both", **shared: Any) -> Axes:
    """Return axes with the look of the report: thin grid, no box."""
    axes = drawing.add_axes(place, facecolor=SURFACE.light, **shared)
    axes.grid(True, axis=grid, color=GRID.light, linewidth=0.8)  # type: ignore[arg-type]  # x, y or both
    axes.set_axisbelow(True)
    axes.tick_params(which="both", colors=MUTED.light, labelsize=_FONT - 0.5)
    axes.tick_params(length=3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(MUTED.light)
    return axes


def _scale(axes: Axes, name: Literal["x", "y"], ours: Axis, fontsize: float) -> None:
    """Give an axis its title, scale, ends and ticks."""
    from matplotlib.ticker import FixedLocator, LogLocator, NullFormatter, NullLocator

    axis = axes.xaxis if name == "x" else axes.yaxis
    axis.set_label_text(ours.title, fontsize=fontsize, color=INK.light)
    low, high = ours.low_value, ours.high_value
    if ours.is_log and ours.linear_below_value:
        set_scale = axes.set_xscale if name == "x" else axes.set_yscale
        set_scale("symlog", linthresh=ours.linear_below_value, linscale=0.6)
    elif ours.is_log:
        axes.set(**{f"{name}scale": "log"})
        is_short = low is not None and high is not None and high < low * 10**_FEW_DECADES
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if is_short else (1.0,), numticks=12))
        axis.set_major_formatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}")
        axis.set_minor_formatter(NullFormatter())
    elif ours.is_time:
        axis.set_major_formatter(lambda value, _: f"{datetime.fromtimestamp(value, UTC):%Y-%m-%d}")
    elif ours.suffix:
        axis.set_major_formatter(lambda value, _: f"{value:g}{ours.suffix}")
    if ours.ticks:
        axis.set_major_locator(FixedLocator([value for value, _ in ours.ticks]))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(lambda value, _: dict(ours.ticks).get(value, ""))
    if ours.is_bare:
        axes.tick_params(axis=name, length=0)
    if low is not None and high is not None:
        axes.set(**{f"{name}lim": (low, high)})


def _still(legend: Iterable[LegendEntry]) -> list[LegendEntry]:
    return [entry for entry in legend if entry.medium in ("any", "still")]


def _draw_legend(
    drawing: Drawing,
    entries: Sequence[LegendEntry],
    corner_inches: Position,
    width_inches: float,
    fontsize: float = _FONT - 0.5,
    *,
    colour: Colour = MUTED,
    loc: Literal["lower left", "upper left"] = "lower left",
) -> float:
    """Explain looks in as few even rows as fit a width, from a corner of the paper; return their height in inches."""
    from matplotlib.legend_handler import HandlerTuple

    handles = [_handle(entry) for entry in entries]
    for rows in range(1, len(entries) + 1):
        legend = drawing.legend(
            handles,
            [entry.text for entry in entries],
            loc=loc,
            bbox_to_anchor=corner_inches,
            bbox_transform=drawing.dpi_scale_trans,
            borderaxespad=0,
            ncols=-(-len(entries) // rows),
            frameon=False,
            fontsize=fontsize,
            labelspacing=0.25,
            handletextpad=0.5,
            columnspacing=1.5,
            labelcolor=colour.light,
            handler_map={tuple: HandlerTuple(ndivide=1)},
        )
        for text in legend.get_texts():
            text.set_parse_math(False)
        extent = legend.get_window_extent(drawing.canvas.get_renderer())  # type: ignore[attr-defined]  # Agg has one
        if extent.width <= width_inches * drawing.dpi or rows == len(entries):
            return float(extent.height / drawing.dpi)
        legend.remove()
    return 0.0


def _handle(entry: LegendEntry) -> Any:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    colour = entry.colour.light
    if entry.kind == "line":
        return Line2D([], [], color=colour, linewidth=1.4, linestyle=(0, entry.dash) if entry.dash else "-")
    if entry.is_hatched:
        return Patch(facecolor=colour, edgecolor=SURFACE.light, linewidth=0.5, hatch="////")
    shape, size = "s" if entry.kind == "swatch" else _SHAPES[entry.shape], 12.0 if entry.is_large else 7.5
    style: dict[str, Any] = {"marker": shape, "markersize": size, "alpha": entry.opacity_ratio}
    mark = Line2D([], [], linestyle="none", **style, **_fill(colour, entry.fill, colour, 1.5))
    if entry.sign is None:
        return mark
    sign_style: dict[str, Any] = {"marker": _SHAPES[entry.sign], "markersize": 4.5, "markeredgewidth": 1.3}
    return mark, Line2D([], [], linestyle="none", color=SURFACE.light, **sign_style)


# --- series


def _draw_series(axes: Axes, every: Iterable[Series]) -> None:
    """Draw series, each over those before."""
    for place, series in enumerate(every):
        zorder = 3 + 0.01 * place
        if isinstance(series, Line):
            _draw_line(axes, series, zorder)
        elif isinstance(series, Bars):
            pieces = list(zip(series.starts, series.lengths, strict=True))
            style: dict[str, Any] = {"hatch": "////"} if series.is_hatched else {}
            style |= {"facecolors": series.colour.light, "edgecolor": SURFACE.light, "linewidth": 0.5}
            height = (series.y - series.height_value / 2, series.height_value)
            axes.broken_barh(pieces, height, zorder=zorder, **style)
        elif series.shape == "circle" and not series.edge_width_points and series.opacity_ratio == 1:
            _draw_dots(axes, series, zorder)
        else:
            look = _fill(
                series.colour.light, series.fill, (series.edge or series.colour).light, series.edge_width_points
            )
            look |= {"marker": _SHAPES[series.shape], "markersize": series.size_points, "alpha": series.opacity_ratio}
            axes.plot(series.x, series.y, linestyle="none", label=series.name, zorder=zorder, **look)
    axes.autoscale_view()


def _draw_line(axes: Axes, line: Line, zorder: float) -> None:
    from matplotlib.collections import LineCollection

    pieces: list[list[Position]] = [[]]
    for x, y in zip(line.x, line.y, strict=True):
        if x is None or y is None:
            pieces.append([])
        else:
            if line.is_stepped and pieces[-1]:
                pieces[-1].append((pieces[-1][-1][0], y))
            pieces[-1].append((x, y))
    style: dict[str, Any] = {
        "linewidths": line.width_points,
        "colors": line.colour.light,
        "alpha": line.opacity_ratio,
        "linestyles": (0, [length / line.width_points for length in line.dash]) if line.dash else "-",
        "label": line.name,
        "capstyle": "butt" if line.dash else "projecting",
        "zorder": zorder,
    }
    axes.add_collection(LineCollection([piece for piece in pieces if len(piece) > 1], **style))


def _draw_dots(axes: Axes, marks: Marks, zorder: float) -> None:
    """Draw points as one path of tiny strokes, so that thousands of them stay small in a page."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    points = [point for x, y in zip(marks.x, marks.y, strict=True) for point in ((x, y), (1.001 * x, y))]
    path = Path(points, [Path.MOVETO, Path.LINETO] * len(marks.x))
    path.should_simplify = False
    style: dict[str, Any] = {"edgecolor": marks.colour.light, "facecolor": "none", "capstyle": "round", "snap": False}
    axes.add_patch(PathPatch(path, zorder=zorder, linewidth=marks.size_points, label=marks.name, **style))


def _fill(colour: str, fill: str, edge: str, edge_width: float) -> dict[str, Any]:
    style: dict[str, Any] = {"color": colour, "markeredgecolor": edge, "markeredgewidth": edge_width}
    if fill in ("left", "right"):
        return style | {"fillstyle": fill, "markerfacecoloralt": SURFACE.light}
    return style | {"markerfacecolor": {"hollow": SURFACE.light, "ring": "none"}.get(fill, colour)}
