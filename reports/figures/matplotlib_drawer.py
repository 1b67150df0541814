"""Draw a figure with matplotlib: PNG and SVG, on a light ground.

The object interface only (no pyplot, no global state), so that figures can be drawn from any thread.
"""

from __future__ import annotations

import io
import itertools
import math
import textwrap
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from reports.figures.palette import ACCENT, GRID, INK, MUTED, SURFACE, Colour, Shape
from reports.figures.samples import thinned
from reports.figures.spec import (
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
    Panel,
    RowFigure,
    Series,
    Sheet,
    SheetTable,
    Stack,
    Strip,
)
from reports.present.display_text import shown
from roofline_model.core.units import format_time

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

SIZE_INCHES = (11.6, 7.2)
PNG_DPI = 170

_SMALL_FONT = 8.5
_SMALL_TITLE_INCHES = 0.34
_LETTER_RATIO = 0.66
"""Width of a bold letter over its size."""
_ROWS_WIDTH_INCHES = 10.8
_TWO_STRIPS_SHARE = 1.3
"""What a row with two strips takes, of the height of a row with one."""
_LEFT, _BOTTOM, _HEIGHT = 0.072, 0.165, 0.725  # of the axes, in fractions of the figure
_LEGEND_CHARACTERS, _LEGEND_MARK_CHARACTERS = 150, 6
"""What one line of the legend holds, and what a mark with its gaps takes of it."""
_NEAR_PIXELS, _FAR_PIXELS = 70, 420  # gaps between a mark and its label
_MARK_AIR = 1.5  # points around a mark that labels keep clear of
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


def draw_figure(figure: Figure) -> Drawing:
    """Return the drawing of a figure; one without series says that there is nothing, and why."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Drawing

    drawing = Drawing(figsize=SIZE_INCHES, facecolor=SURFACE.light)
    FigureCanvasAgg(drawing)
    drawing.text(0.02, 0.955, figure.title, fontsize=15, fontweight="bold", color=INK.light, **PLAIN_TEXT)
    drawing.text(0.02, 0.923, figure.subtitle, fontsize=10, color=MUTED.light, **PLAIN_TEXT)
    if figure.notes:
        note = f"Note: {'; '.join(figure.notes)}."
        drawing.text(0.02, 0.018, note, fontsize=8.5, style="italic", color=MUTED.light, **PLAIN_TEXT)
    if not figure.series:
        drawing.text(0.5, 0.5, "Nothing to draw", ha="center", fontsize=13, color=MUTED.light)
        return drawing
    labels = [label for label in figure.labels if label.medium in ("any", "still")]
    # The right margin holds names: as wide as the longest needs.
    longest = max((len(label.lines[0]) for label in labels if label.place == "margin"), default=0)
    place = (_LEFT, _BOTTOM, max(0.895 - 0.0074 * longest, 0.45), _HEIGHT)
    _draw_plane(drawing.add_axes(place, facecolor=SURFACE.light), figure, labels)
    _draw_legend(drawing, [entry for entry in figure.legend if entry.medium in ("any", "still")])
    return drawing


def _draw_plane(axes: Axes, figure: Figure, labels: Sequence[Label]) -> None:
    """Draw everything first, then write the labels: the least movable one chooses its place first."""
    _scale(axes, figure.x, figure.y)
    field = label_field(axes)
    for place_in_order, series in enumerate(figure.of("still")):
        _draw_series(axes, series, field, 3 + 0.01 * place_in_order)
    _write_labels(axes, labels, field)


SHEET_DPI = 100
"""A sheet of 12 by 6.3 inches has 1200 by 630 pixels."""
_SHEET_LEFT, _SHEET_MIDDLE, _SHEET_RIGHT = 0.035, 0.475, 0.975
_SHEET_CHARACTERS = 52
_FEW_DECADES = 2.4
"""Axes shorter than this name 2 and 5 beside the powers of ten."""
_MOST_SWATCHES = 9


def draw_sheet(sheet: Sheet) -> Drawing:
    """Return the drawing of a sheet: tables on the left, the figure with its formats on the right."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Drawing

    drawing = Drawing(figsize=sheet.size_inches, dpi=SHEET_DPI, facecolor=SURFACE.light)
    FigureCanvasAgg(drawing)
    drawing.text(
        _SHEET_LEFT, 0.905, _cut(sheet.title, 48), fontsize=23, fontweight="bold", color=INK.light, **PLAIN_TEXT
    )
    drawing.text(_SHEET_LEFT, 0.855, _cut(sheet.subtitle, 110), fontsize=12, color=MUTED.light, **PLAIN_TEXT)
    drawing.text(_SHEET_LEFT, 0.035, sheet.caption, fontsize=10.5, color=MUTED.light, **PLAIN_TEXT)
    drawing.text(_SHEET_RIGHT, 0.035, sheet.footer, fontsize=10.5, color=MUTED.light, ha="right", **PLAIN_TEXT)
    height = 0.77
    for table in sheet.tables:
        height = _draw_sheet_table(drawing, table, height)
    for note in sheet.notes:
        for line in textwrap.wrap(note, _SHEET_CHARACTERS + 16):
            drawing.text(_SHEET_LEFT, height, line, fontsize=10.5, color=MUTED.light, **PLAIN_TEXT)
            height -= 0.038
    if sheet.figure.series:
        place = (_SHEET_MIDDLE + 0.055, 0.31, _SHEET_RIGHT - _SHEET_MIDDLE - 0.055, 0.5)
        labels = [
            label
            for label in sheet.figure.labels
            if label.medium in ("any", "still") and label.place in ("along", "around")
        ]
        _draw_plane(drawing.add_axes(place, facecolor=SURFACE.light), sheet.figure, labels)
        _draw_swatches(drawing, sheet)
    return drawing


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _draw_sheet_table(drawing: Drawing, table: SheetTable, height: float) -> float:
    """Write a table from a height down; return the height under it."""
    drawing.text(
        _SHEET_LEFT, height, _cut(table.title, 60), fontsize=11.5, color=ACCENT.light, fontweight="bold", **PLAIN_TEXT
    )
    for line in textwrap.wrap(table.text, _SHEET_CHARACTERS)[:2]:
        height -= 0.045
        drawing.text(_SHEET_LEFT, height, line, fontsize=13, color=INK.light, **PLAIN_TEXT)
    width = _SHEET_MIDDLE - _SHEET_LEFT - 0.015
    ends = [_SHEET_LEFT + width * share for share in (0.0, 0.62, 0.8, 1.0)]
    for at, row in enumerate((table.header, *table.rows)):
        height -= 0.05 if at else 0.052
        style = {"fontsize": 11.5 if at else 10.0, "color": INK.light if at else MUTED.light}
        weight = "bold" if at == 1 else "normal"
        for place, (end, cell) in enumerate(zip(ends, row, strict=True)):
            side = "right" if place else "left"
            drawing.text(end, height, cell, ha=side, fontweight=weight, **style, **PLAIN_TEXT)  # type: ignore[arg-type]
    return height - 0.075


def _draw_swatches(drawing: Drawing, sheet: Sheet) -> None:
    """Explain the colours of the formats under the figure of a sheet."""
    swatches = [entry for entry in sheet.figure.legend if entry.kind == "swatch"]
    drawing.text(_SHEET_MIDDLE + 0.03, 0.2, sheet.legend_title, fontsize=10, color=MUTED.light, **PLAIN_TEXT)
    more = len(swatches) - _MOST_SWATCHES
    shown_swatches = swatches if more <= 1 else swatches[:_MOST_SWATCHES]
    entries = [_key_entry(entry) for entry in shown_swatches]
    entries += [("s", SURFACE.light, f"and {more} more")] if more > 1 else []
    rows = key_rows(entries, 6.0)
    key(drawing, entries, bottom_inches=1.2 - 0.195 * rows, left=_SHEET_MIDDLE + 0.02, width_inches=6.0)


def draw_stack(stack: Stack) -> Drawing:
    """Return the drawing of planes over each other, the lowest with the title of their axis."""
    width = 10.4
    entries = [_key_entry(entry) for entry in stack.legend if entry.medium in ("any", "still")]
    below = 0.72 + KEY_INCHES * key_rows(entries, width)
    height = 0.85 + below + sum(panel.height_inches for panel in stack.panels)
    drawing = frame(stack.title, stack.subtitle, (width, height))
    bottom, lowest = below, None
    for panel in reversed(stack.panels):
        air = 0.2 if lowest is not None else 0.08
        place = (0.092, bottom / height, 0.888, (panel.height_inches - air) / height)
        axes = drawing.add_axes(place, facecolor=SURFACE.light, sharex=lowest)
        _draw_panel(axes, panel)
        for start, stop in stack.shades:
            axes.axvspan(start, stop, color=ACCENT.light, alpha=0.13, linewidth=0)
        if lowest is None:
            axes.set_xlabel(stack.x.title, fontsize=FONT, color=INK.light)
        else:
            axes.tick_params(labelbottom=False)
        bottom, lowest = bottom + panel.height_inches, lowest or axes
    key(drawing, entries)
    return drawing


def draw_beside(beside: Beside, title: str = "") -> Drawing:
    """Return the drawing of planes side by side, small; without a title where what stands beside it names it."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Drawing
    from matplotlib.ticker import MaxNLocator

    width, plain_height = beside.size_inches
    height = plain_height + (_SMALL_TITLE_INCHES if title else 0)
    drawing = Drawing(figsize=(width, height), facecolor=SURFACE.light)
    FigureCanvasAgg(drawing)
    legend_top = plain_height / height
    if title:
        text = shown(title, 90)
        points = min(FONT, 72 * 0.96 * width / (_LETTER_RATIO * len(text)))
        drawing.text(0.02, 1 - 0.24 / height, text, fontsize=points, weight="bold", color=INK.light, **PLAIN_TEXT)
    gap, left, first = 0.25 / width, 0.6 / width, None
    bottom, top = 0.45 / height, legend_top - (0.34 if beside.legend else 0.1) / height
    room = 0.98 - left - gap * (len(beside.planes) - 1)
    for plane in beside.planes:
        axes = drawing.add_axes((left, bottom, room * plane.share_ratio, top - bottom), sharey=first)
        plain(axes, grid="y")
        axes.set_facecolor(SURFACE.light)
        for place, series in enumerate(plane.series):
            _draw_series(axes, series, None, 3 + 0.01 * place)
        for low, high in beside.bands:
            axes.axhspan(low, high, color=ACCENT.light, alpha=0.16, linewidth=0, zorder=1)
        axes.autoscale_view()
        axes.set_xlim(plane.x.low_value, plane.x.high_value)
        axes.set_ylim(beside.y.low_value, beside.y.high_value)
        axes.xaxis.set_major_locator(
            MaxNLocator(5 if plane.share_ratio > 0.5 else 2, integer=True, steps=[1, 2, 5, 10])
        )
        axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
        axes.tick_params(labelsize=_SMALL_FONT - 0.5, labelleft=first is None)
        axes.set_xlabel(plane.x.title, fontsize=_SMALL_FONT, color=INK.light, labelpad=1)
        if first is None:
            axes.set_ylabel(beside.y.title, fontsize=_SMALL_FONT, color=INK.light)
            axes.get_yaxis().get_major_formatter().set_useOffset(False)  # type: ignore[attr-defined]  # a ScalarFormatter
        left, first = left + room * plane.share_ratio + gap, first or axes
    _draw_small_legend(drawing, beside.legend, legend_top)
    return drawing


def _draw_small_legend(drawing: Drawing, entries: Sequence[LegendEntry], top: float) -> None:
    """Explain looks over the axes, in one row that ends at a share of the height."""
    if not entries:
        return
    legend = drawing.legend(
        [_handle(entry) for entry in entries],
        [entry.text for entry in entries],
        loc="upper left",
        bbox_to_anchor=(0.06, top),
        ncols=len(entries),
        frameon=False,
        fontsize=_SMALL_FONT,
        labelcolor=MUTED.light,
        handletextpad=0.2,
        markerscale=0.75,
    )
    for text in legend.get_texts():
        text.set_parse_math(False)


def draw_rows(figure: RowFigure) -> Drawing:
    """Return the drawing of a figure with a row per name, in the first of its orders; parts are shares of their rows'
    totals.
    """
    order = figure.orders[0].rows if figure.orders else range(len(figure.rows))
    rows = sorted(list(order)[: figure.max_rows_count])
    entries = [_key_entry(entry) for entry in figure.legend if entry.medium in ("any", "still")]
    below = 0.75 + KEY_INCHES * key_rows(entries, _ROWS_WIDTH_INCHES)
    height = (
        below
        + 0.95
        + ROW_INCHES * (_TWO_STRIPS_SHARE if any(strip.shift_value for strip in figure.strips) else 1.0) * len(rows)
    )
    drawing = frame(figure.title, figure.subtitle, (_ROWS_WIDTH_INCHES, height))
    axes = row_axes(drawing, [" ".join(filter(None, figure.rows[row].name)) for row in rows], bottom_inches=below)
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
    axes.set_xlabel(figure.x.title, fontsize=FONT, color=MUTED.light)
    key(drawing, entries)
    return drawing


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


def _log_steps(axis: Axis) -> tuple[float, ...]:
    """Return the digits that a logarithmic axis names: powers of ten, 2 and 5 too where few of them are seen."""
    ends = axis.low_value, axis.high_value
    is_short = ends[0] is not None and ends[1] is not None and ends[1] < ends[0] * 10**_FEW_DECADES
    return (1.0, 2.0, 5.0) if is_short else (1.0,)


def _scale(axes: Axes, x: Axis, y: Axis) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter

    for ours, axis, set_scale, set_ends, set_title in (
        (x, axes.xaxis, axes.set_xscale, axes.set_xlim, axes.set_xlabel),
        (y, axes.yaxis, axes.set_yscale, axes.set_ylim, axes.set_ylabel),
    ):
        set_title(ours.title, fontsize=11, color=INK.light)
        if ours.is_log and ours.linear_below_value:
            set_scale("symlog", linthresh=ours.linear_below_value, linscale=0.6)
            axis.set_major_locator(FixedLocator([value for value, _ in ours.ticks]))
            axis.set_major_formatter(FuncFormatter(lambda value, _, texts=dict(ours.ticks): texts.get(value, "")))  # type: ignore[misc]
        elif ours.is_log:
            set_scale("log")
            axis.set_major_locator(LogLocator(base=10, subs=_log_steps(ours), numticks=12))
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}"))
            axis.set_minor_formatter(NullFormatter())
        elif ours.is_time:
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{datetime.fromtimestamp(value, UTC):%Y-%m-%d}"))
        elif ours.suffix:
            axis.set_major_formatter(FuncFormatter(lambda value, _, suffix=ours.suffix: f"{value:g}{suffix}"))  # type: ignore[misc]
        set_ends(ours.low_value, ours.high_value)
    axes.grid(True, which="major", color=GRID.light, linewidth=0.9)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", colors=MUTED.light, labelsize=9.5)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(MUTED.light)


def _draw_panel(axes: Axes, panel: Panel) -> None:
    from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

    y = panel.y
    plain(axes, grid="x" if y.is_bare else "both")
    if y.is_log:
        axes.set_yscale("log")
    field = label_field(axes)
    for place, series in enumerate(panel.series):
        if series.medium in ("any", "still"):
            _draw_series(axes, series, field, 3 + 0.01 * place)
    axes.autoscale_view()
    if y.low_value is not None and y.high_value is not None:
        axes.set_ylim(y.low_value, y.high_value)
    elif y.has_zero:
        axes.set_ylim(bottom=0)
    if y.ticks:
        axes.yaxis.set_major_locator(FixedLocator([value for value, _ in y.ticks]))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(lambda value, _: dict(y.ticks).get(value, ""))
    elif not y.is_log:
        axes.yaxis.set_major_locator(MaxNLocator(4))
        axes.get_yaxis().get_major_formatter().set_useOffset(False)  # type: ignore[attr-defined]  # a ScalarFormatter
    if y.is_bare:
        axes.tick_params(axis="y", length=0)
    axes.set_ylabel(y.title, fontsize=FONT - 1.5, color=INK.light)
    axes.yaxis.set_label_coords(-0.078, 0.5)


def _key_entry(entry: LegendEntry) -> KeyEntry:
    marker = {"swatch": "s", "line": "_"}.get(entry.kind) or _SHAPES[entry.shape]
    faded = (
        f"{entry.colour.light}{round(255 * entry.opacity_ratio):02x}" if entry.opacity_ratio < 1 else entry.colour.light
    )
    marker = f"{marker} hollow" if entry.fill in ("hollow", "ring") else marker
    return (marker, faded, f"{entry.text} (dashed)" if entry.dash else entry.text)


# --- rows


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
    heights = [height + rise * ((index * 4) % 7 - 3) for index in range(len(dots))]
    axes.plot(
        dots,
        heights,
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
    least, most = (-math.inf if figure.x.low_value is None else figure.x.low_value, figure.x.high_value or math.inf)
    right, left = dict.fromkeys(rows, 0.0), dict.fromkeys(rows, 0.0)
    for part in figure.parts:
        shares = {row: 100 * (part.times_s[row] or 0.0) / figure.totals_s[row] for row in rows}
        starts = [right[row] if share > 0 else left[row] for row, share in shares.items()]
        shares = {
            row: min(max(start + share, least), most) - start
            for start, (row, share) in zip(starts, shares.items(), strict=True)
        }
        axes.barh(
            range(len(rows)),
            list(shares.values()),
            left=starts,
            height=0.66,
            color=part.colour.light,
            edgecolor=SURFACE.light,
            linewidth=0.5,
            zorder=3,
            hatch="////" if part.is_hatched else None,
        )
        for row, share in shares.items():
            side = right if share > 0 else left
            side[row] += share
    for place, row in enumerate(rows):
        time = format_time(figure.totals_s[row], 3)
        axes.text(right[row] + 1.2, place, time, va="center", fontsize=FONT - 1, color=INK.light)
    lowest, highest = min(left.values()), max(right.values())
    axes.set_xlim(lowest * 1.05, highest + 13)
    if lowest < 0:
        axes.axvline(0, color=INK.light, linewidth=1, zorder=4)
    axes.set_xticks([tick for tick in axes.get_xticks() if lowest - 1e-9 <= tick <= highest + 1e-9])


# --- series


def _draw_series(axes: Axes, series: Series, field: Field | None, zorder: float) -> None:
    if isinstance(series, Line):
        _draw_line(axes, series, field, zorder)
    elif isinstance(series, Bars):
        pieces = list(zip(series.starts, series.lengths, strict=True))
        style: dict[str, Any] = {"hatch": "////"} if series.is_hatched else {}
        place = (series.y - series.height_value / 2, series.height_value)
        colour = series.colour.light
        axes.broken_barh(
            pieces, place, facecolors=colour, edgecolor=SURFACE.light, linewidth=0.5, zorder=zorder, **style
        )
    else:
        _draw_marks(axes, series, field, zorder)


def _draw_line(axes: Axes, line: Line, field: Field | None, zorder: float) -> None:
    """Draw the pieces of a line and keep labels off them, where there are any (`field`)."""
    from matplotlib.collections import LineCollection

    pieces = _pieces(line)
    style: dict[str, Any] = {
        "linewidths": line.width_points,
        "colors": line.colour.light,
        "alpha": line.opacity_ratio,
        "linestyles": (0, [length / line.width_points for length in line.dash]) if line.dash else "-",
        "label": line.name,
        "capstyle": "butt" if line.dash else "projecting",
    }
    axes.add_collection(LineCollection(pieces, zorder=zorder, **style), autolim=axes.get_autoscaley_on())
    if field is None:
        return
    for piece in pieces:
        corners = pixels(axes, piece)
        for start, stop in itertools.pairwise(corners):
            seen = _visible(field, start, stop)
            if seen is not None:
                field.add(seen, "line")


def _pieces(line: Line) -> list[list[Position]]:
    pieces: list[list[Position]] = [[]]
    for x, y in zip(line.x, line.y, strict=True):
        if x is None or y is None:
            pieces.append([])
        else:
            if line.is_stepped and pieces[-1]:
                pieces[-1].append((pieces[-1][-1][0], y))
            pieces[-1].append((x, y))
    return [piece for piece in pieces if len(piece) > 1]


def _draw_marks(axes: Axes, marks: Marks, field: Field | None, zorder: float) -> None:
    if field is None and marks.shape == "circle" and not marks.edge_width_points:
        return _draw_dots(axes, marks, zorder)
    axes.plot(
        marks.x,
        marks.y,
        linestyle="none",
        marker=_SHAPES[marks.shape],
        markersize=marks.size_points,
        alpha=marks.opacity_ratio,
        label=marks.name,
        zorder=zorder,
        **_fill(marks.colour.light, marks.fill, (marks.edge or marks.colour).light, marks.edge_width_points),
    )
    if field is None:
        return
    keep_marks(
        field, pixels(axes, list(zip(marks.x, marks.y, strict=True))), marks.size_points + _MARK_AIR, axes.figure.dpi
    )


def _draw_dots(axes: Axes, marks: Marks, zorder: float) -> None:
    """Draw points as one path of tiny strokes, so that thousands of them stay small in a page."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    points = [point for x, y in zip(marks.x, marks.y, strict=True) for point in ((x, y), (x + 1e-3, y))]
    path = Path(points, [Path.MOVETO, Path.LINETO] * len(marks.x))
    path.should_simplify = False
    style: dict[str, Any] = {"edgecolor": marks.colour.light, "facecolor": "none", "capstyle": "round", "snap": False}
    axes.add_patch(PathPatch(path, zorder=zorder, linewidth=marks.size_points, label=marks.name, **style))


def _fill(colour: str, fill: str, edge: str, edge_width: float) -> dict[str, Any]:
    style: dict[str, Any] = {"color": colour, "markeredgecolor": edge, "markeredgewidth": edge_width}
    if fill in ("left", "right"):
        return style | {"fillstyle": fill, "markerfacecoloralt": SURFACE.light}
    return style | {"markerfacecolor": {"hollow": SURFACE.light, "ring": "none"}.get(fill, colour)}


# --- labels


def _write_labels(axes: Axes, labels: Sequence[Label], field: Field) -> None:
    is_only = sum(label.place == "around" for label in labels) == 1
    writers: dict[str, Callable[[Axes, Label, Field], None]] = {
        "beside": _write_beside,
        "around": partial(_write_around, is_only=is_only),
        "along": _write_along,
        "top": _write_at_top,
    }
    for label in labels:
        if label.place in writers:
            writers[label.place](axes, label, field)
    _write_in_margin(axes, [label for label in labels if label.place == "margin"])


def _write_beside(axes: Axes, label: Label, field: Field) -> None:
    """Write a label beside its point: left of it where that is free, else farther along; where nothing is, leave it
    out.
    """
    (x, y), text = pixels(axes, [(label.x, label.y)])[0], label.lines[0]
    width, height = size = text_size(axes, text, 8.5, air=(3, 2))
    above, beneath = y + height / 2 + 3, y - height / 2 - 3
    centers = [(x - back - width / 2, y + rise) for rise in (3, 5, 6, 7, 9, 14, 20) for back in (5, 8, 12)]
    centers += [(x - back - width / 2, y + rise) for rise in (3, 9, 16, 26, 38) for back in (20, 30, 45)]
    for shift in range(0, int(field.width * 0.5), 8):
        centers += [(x + 6 + shift + width / 2, above), (x + 6 + shift + width / 2, beneath)]
    style: dict[str, Any] = {"fontsize": 8.5, "color": label.colour.light, "zorder": 4}
    place = first_free(field, (rectangle(center, size) for center in centers))
    if place is not None:
        write_label(axes, field, text, centers[place], size, **style)


def _write_around(axes: Axes, label: Label, field: Field, *, is_only: bool) -> None:
    """Write a label at the nearest free place around its point. Where none is near, the only one of a figure goes
    farther off, with a line to its point; several are left out, because they would be taken for each other's.
    """
    (x, y), text = pixels(axes, [(label.x, label.y)])[0], label.lines[0]
    width, height = size = text_size(axes, text, 9)
    gaps = [*range(8, _NEAR_PIXELS, 4), *(range(_NEAR_PIXELS, _FAR_PIXELS, 12) if is_only else ())]
    centers = [
        center
        for gap in gaps
        for center in (
            (x + gap + width / 2, y),
            (x, y + gap + height / 2),
            (x, y - gap - height / 2),
            (x - gap - width / 2, y),
            (x + gap + width / 2, y + gap),
            (x + gap + width / 2, y - gap),
        )
    ]
    place = first_free(field, (rectangle(center, size) for center in centers))
    if place is None:
        return
    center = centers[place]
    if gaps[place // (len(centers) // len(gaps))] >= _NEAR_PIXELS:
        _draw_leader(axes, field, (x, y), center, size, label.colour)
    write_label(axes, field, text, center, size, fontsize=9, color=label.colour.light, zorder=6)


def _draw_leader(axes: Axes, field: Field, point: Position, center: Position, size: Position, colour: Colour) -> None:
    """Draw a thin line from a point to the nearest spot on the edge of its label."""
    ends = [
        min(max(at, middle - extent / 2), middle + extent / 2)
        for at, middle, extent in zip(point, center, size, strict=True)
    ]
    xs, ys = [point[0] / field.width, ends[0] / field.width], [point[1] / field.height, ends[1] / field.height]
    axes.plot(xs, ys, transform=axes.transAxes, linewidth=0.8, color=colour.light, zorder=5)


def _write_along(axes: Axes, label: Label, field: Field) -> None:
    """Write a label along its line, above it or beneath, where nothing else is; of a line that is not seen, nowhere."""
    assert label.toward is not None
    start, stop = pixels(axes, [(label.x, label.y), label.toward])
    seen = _visible(field, start, stop)
    if seen is None:
        return
    (x0, y0), (x1, y1) = seen
    text = label.lines[0]
    width, height = size = text_size(axes, text, 9)
    angle, length = math.atan2(y1 - y0, x1 - x0), math.dist((x0, y0), (x1, y1))
    reach = [width / 2 + step for step in range(4, max(int(length - width), 5), 6)]
    reach.sort(key=lambda along: abs(along - length * 0.3))
    centers = [
        (x0 + along * math.cos(angle) - away * math.sin(angle), y0 + along * math.sin(angle) + away * math.cos(angle))
        for gap in range(2, 20, 2)
        for along in reach
        for away in (height / 2 + gap, -height / 2 - gap)
    ]
    style: dict[str, Any] = {"fontsize": 9, "color": label.colour.light, "zorder": 4}
    place = first_free(field, (rectangle(center, size, angle) for center in centers))
    if place is not None:
        write_label(axes, field, text, centers[place], size, angle, **style)


def _write_at_top(axes: Axes, label: Label, field: Field) -> None:
    """Write a label over the top of the plane, where its point is from the left."""
    x = pixels(axes, [(label.x, label.y)])[0][0] / field.width
    style: dict[str, Any] = {"fontsize": 9, "color": label.colour.light, "ha": "center", "va": "bottom"}
    axes.text(x, 1.005, label.lines[0], transform=axes.transAxes, **style, **PLAIN_TEXT)


def _write_in_margin(axes: Axes, labels: Sequence[Label]) -> None:
    """Write labels into the right margin, each in its colour at its height, moved apart where they would touch."""
    height_px = _size(axes)[1]
    heights = [y / height_px for _, y in pixels(axes, [(label.x, label.y) for label in labels])]
    for label, y, placed in zip(labels, heights, spread(heights, 0.038, 0.0, 1.0), strict=True):
        style: dict[str, Any] = {"transform": axes.transAxes, "clip_on": False, "color": label.colour.light}
        axes.plot([1.0, 1.018, 1.028], [y, placed, placed], linewidth=1.0, **style)
        axes.plot([1.034], [placed], marker="s", markersize=6, **style)
        axes.text(
            1.046,
            placed,
            " ".join(label.lines),
            transform=axes.transAxes,
            va="center",
            fontsize=9.5 if len(labels) <= 20 else 7.5,
            color=label.colour.light,
            **PLAIN_TEXT,
        )


def write_label(
    axes: Axes, field: Field, text: str, center: Position, size: Position, angle: float = 0.0, **style: Any
) -> None:
    """Write a text around a place, turned by `angle` (radians), and keep later labels off it."""
    field.add(rectangle(center, size, angle), "label")
    axes.text(
        center[0] / field.width,
        center[1] / field.height,
        text,
        transform=axes.transAxes,
        rotation=math.degrees(angle),
        rotation_mode="anchor",
        ha="center",
        va="center",
        **style,
        **PLAIN_TEXT,
    )


# --- legend


def _draw_legend(drawing: Drawing, entries: Sequence[LegendEntry]) -> None:
    """Explain looks under the axes, in one row or two."""
    from matplotlib.legend_handler import HandlerTuple

    if not entries:
        return
    handles = [_handle(entry) for entry in entries]
    texts = [entry.text for entry in entries]
    characters = sum(len(text) + _LEGEND_MARK_CHARACTERS for text in texts)
    rows = 1 if len(entries) <= 8 and characters <= _LEGEND_CHARACTERS else 2
    legend = drawing.legend(
        handles,
        texts,
        loc="lower left",
        bbox_to_anchor=(0.06, 0.042 if rows == 1 else 0.03),
        ncol=-(-len(entries) // rows),
        frameon=False,
        fontsize=9 if len(entries) <= 7 else 7.5,
        labelspacing=0.25,
        handletextpad=0.5,
        columnspacing=1.5,
        labelcolor=INK.light,
        handler_map={handle: HandlerTuple(ndivide=1) for handle in handles if isinstance(handle, tuple)},
    )
    for text in legend.get_texts():
        text.set_parse_math(False)


def _handle(entry: LegendEntry) -> Any:
    from matplotlib.lines import Line2D

    colour = entry.colour.light
    if entry.kind == "line":
        return Line2D([], [], color=colour, linewidth=1.4, linestyle=(0, entry.dash) if entry.dash else "-")
    size = 12.0 if entry.is_large else 7.5
    mark = Line2D(
        [],
        [],
        linestyle="none",
        marker=_SHAPES[entry.shape],
        markersize=size,
        alpha=entry.opacity_ratio,
        **_fill(colour, entry.fill, colour, 1.5),
    )
    if entry.sign is None:
        return mark
    sign = Line2D([], [], linestyle="none", marker=_SHAPES[entry.sign], markersize=4.5)
    sign.set(color=SURFACE.light, markeredgewidth=1.3)
    return mark, sign


# --- data, pixels and texts


def pixels(axes: Axes, points: Sequence[Position]) -> list[Position]:
    """Return where data points lie, in pixels from the lower left corner of the axes, thousands in one step.

    Limits and scales must be final.
    """
    if not points:
        return []
    frame = axes.get_window_extent()
    return [(float(x) - frame.x0, float(y) - frame.y0) for x, y in axes.transData.transform(points)]


def _size(axes: Axes) -> Position:
    frame = axes.get_window_extent()
    return frame.width, frame.height


def label_field(axes: Axes) -> Field:
    """Return the empty field of the axes, in pixels from their lower left corner; limits and scales must be final."""
    return Field(*_size(axes))


def text_size(axes: Axes, text: str, fontsize: float, *, air: Position = (6, 4), **style: Any) -> Position:
    """Return width and height of a text in pixels, with a little air around (in all, across and up)."""
    drawn = axes.text(0, 0, text, fontsize=fontsize, **style, **PLAIN_TEXT)
    extent = drawn.get_window_extent(axes.figure.canvas.get_renderer())  # type: ignore[attr-defined]  # Agg has one
    drawn.remove()
    return float(extent.width) + air[0], float(extent.height) + air[1]


def keep_marks(field: Field, spots: Iterable[Position], size_points: float, dpi: float) -> None:
    """Keep labels off markers of a size in points."""
    side = size_points * dpi / 72
    for spot in spots:
        field.add(rectangle(spot, (side, side)), "mark")


def _visible(field: Field, start: Position, stop: Position) -> tuple[Position, Position] | None:
    """Cut a line to the field (Liang and Barsky); None when it runs outside."""
    (x, y), (dx, dy) = start, (stop[0] - start[0], stop[1] - start[1])
    low, high = 0.0, 1.0
    for step, room in ((-dx, x), (dx, field.width - x), (-dy, y), (dy, field.height - y)):
        if step == 0:
            if room < 0:
                return None
        elif step < 0:
            low = max(low, room / step)
        else:
            high = min(high, room / step)
    if low >= high:
        return None
    return (x + low * dx, y + low * dy), (x + high * dx, y + high * dy)


PLAIN_TEXT: dict[str, Any] = {"parse_math": False}
"""For every text that holds a name from outside: a `$` in a label is a dollar sign, not a formula."""
FONT = 9.5
TITLE_FONT = 13
ROW_INCHES = 0.3
"""Height of one row of a figure with a row per case."""
KEY_INCHES = 0.2
"""Height of one row of a legend."""

KeyEntry = tuple[str, str, str]
"""(marker, `hollow` behind it where it is not filled; colour; words)."""


def frame(title: str, subtitle: str, size_inches: tuple[float, float]) -> Drawing:
    """Return an empty figure with its title; it belongs to no backend but Agg, and to no global state."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size_inches, facecolor=SURFACE.light)
    FigureCanvasAgg(figure)
    height = size_inches[1]
    figure.text(
        0.02,
        1 - 0.32 / height,
        shown(title, 110),
        fontsize=TITLE_FONT,
        fontweight="bold",
        color=INK.light,
        **PLAIN_TEXT,
    )
    figure.text(0.02, 1 - 0.57 / height, shown(subtitle, 150), fontsize=FONT, color=MUTED.light, **PLAIN_TEXT)
    return figure


def row_axes(figure: Drawing, names: list[str], *, bottom_inches: float = 0.95, top_inches: float = 0.8) -> Axes:
    """Return axes with one row per name, the first at the top, their names on the left in full."""
    width, height = figure.get_size_inches()
    room_inches = 0.55 * width - 0.25
    names = [_shortened(figure, name, room_inches) for name in names]
    longest = max((_name_inches(figure, name) for name in names), default=0.5)
    left = (longest + 0.25) / width
    bottom = bottom_inches / height
    axes = figure.add_axes((left, bottom, 0.97 - left, 1 - top_inches / height - bottom), facecolor=SURFACE.light)
    plain(axes, grid="x")
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_yticks(range(len(names)))
    for label, name in zip(axes.set_yticklabels(names), names, strict=True):
        label.set_parse_math(False)
        label.set_text(name)
        label.set_color(INK.light)
    axes.tick_params(axis="y", length=0)
    return axes


def plain(axes: Axes, grid: str = "both") -> None:
    """Give axes the look of the report: thin grid, no box."""
    axes.grid(True, axis=grid, color=GRID.light, linewidth=0.8)  # type: ignore[arg-type]  # x, y or both
    axes.set_axisbelow(True)
    axes.tick_params(colors=MUTED.light, labelsize=FONT - 0.5, length=3)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(MUTED.light)


def key_rows(entries: list[KeyEntry], width_inches: float) -> int:
    """Return how many rows a legend takes in a figure of a width."""
    return -(-len(entries) // _key_columns(entries, width_inches))


def _key_columns(entries: list[KeyEntry], width_inches: float) -> int:
    longest = max((len(words) for _, _, words in entries), default=1)
    return max(min(len(entries), int(width_inches / (0.5 + 0.078 * longest))), 1)


def key(
    figure: Drawing,
    entries: list[KeyEntry],
    bottom_inches: float = 0.2,
    left: float = 0.012,
    width_inches: float | None = None,
) -> None:
    """Write a legend at the bottom, in rows; every word is plain text."""
    from matplotlib.lines import Line2D

    handles = [
        Line2D(
            [],
            [],
            linestyle="none",
            marker=marker.removesuffix(" hollow"),
            markersize=7,
            color=colour,
            markerfacecolor="none" if marker.endswith("hollow") else colour,
            label=words,
        )
        for marker, colour, words in entries
    ]
    columns = _key_columns(entries, width_inches or float(figure.get_size_inches()[0]))
    legend = figure.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(left, (bottom_inches - 0.12) / figure.get_size_inches()[1]),
        ncols=columns,
        frameon=False,
        fontsize=FONT - 0.5,
        labelcolor=MUTED.light,
        handletextpad=0.3,
        columnspacing=1.4,
    )
    for text in legend.get_texts():
        text.set_parse_math(False)


def _shortened(figure: Drawing, name: str, room_inches: float) -> str:
    """Return a name that fits: what is too long loses its middle, because configurations differ at their ends."""
    shown = name
    for keep in range(len(name) - 1, 8, -2):
        if _name_inches(figure, shown) <= room_inches:
            break
        shown = f"{name[: keep // 3]}…{name[len(name) - (keep - keep // 3) :]}"
    return shown


def _name_inches(figure: Drawing, name: str) -> float:
    drawn = figure.text(0, 0, name, fontsize=FONT - 0.5, **PLAIN_TEXT)
    extent = drawn.get_window_extent(figure.canvas.get_renderer())  # type: ignore[attr-defined]  # Agg has one
    drawn.remove()
    return float(extent.width) / figure.dpi


Position = tuple[float, float]
Polygon = tuple[Position, ...]
"""Corners of a convex shape in order; two corners are a line."""

_CELL = 48.0


class Field:
    """What labels must keep clear of, by kind, found again by place: thousands of points cost a search no more than
    dozens.
    """

    def __init__(self, width: float, height: float) -> None:
        self.width, self.height = width, height
        self._cells: dict[tuple[int, int], list[tuple[Polygon, str]]] = {}
        self._drawn: set[tuple[Polygon, str]] = set()

    def add(self, polygon: Polygon, kind: str) -> None:
        """Keep a place taken; the same place (to three pixels) is kept once."""
        rounded = tuple((round(x / 3), round(y / 3)) for x, y in polygon)
        if (rounded, kind) not in self._drawn:
            self._drawn.add((rounded, kind))
            for cell in self._cells_of(polygon):
                self._cells.setdefault(cell, []).append((polygon, kind))

    def is_free(self, polygon: Polygon) -> bool:
        """Return whether a polygon lies inside the field and covers nothing."""
        if not self.holds(polygon):
            return False
        seen: set[int] = set()
        for cell in self._cells_of(polygon):
            for other, _ in self._cells.get(cell, ()):
                if id(other) not in seen:
                    seen.add(id(other))
                    if overlap(polygon, other):  # the first is enough: a crowded place is refused at once
                        return False
        return True

    def holds(self, polygon: Polygon) -> bool:
        """Return whether a polygon lies inside the field."""
        return all(0 <= x <= self.width and 0 <= y <= self.height for x, y in polygon)

    def _cells_of(self, polygon: Polygon) -> Iterable[tuple[int, int]]:
        xs, ys = [x for x, _ in polygon], [y for _, y in polygon]
        # What sticks out of the field is cut off: a line may end far outside.
        columns = (int(min(max(x, 0.0), self.width) // _CELL) for x in (min(xs), max(xs)))
        rows = (int(min(max(y, 0.0), self.height) // _CELL) for y in (min(ys), max(ys)))
        first, last = columns
        low, high = rows
        return ((i, j) for i in range(first, last + 1) for j in range(low, high + 1))


def rectangle(center: Position, size: Position, angle: float = 0.0) -> Polygon:
    """Return a rectangle of `size` around `center`, turned by `angle` (radians)."""
    (x, y), (width, height) = center, size
    along, across = (math.cos(angle), math.sin(angle)), (-math.sin(angle), math.cos(angle))
    corners = ((-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5))
    return tuple(
        (x + a * width * along[0] + b * height * across[0], y + a * width * along[1] + b * height * across[1])
        for a, b in corners
    )


def overlap(first: Polygon, second: Polygon) -> bool:
    """Return whether two convex polygons share more than an edge or a corner (separating axes)."""
    for polygon in (first, second):
        for (x0, y0), (x1, y1) in zip(polygon, (*polygon[1:], polygon[0]), strict=True):
            normal = y0 - y1, x1 - x0
            if normal == (0.0, 0.0):
                continue
            mine = [x * normal[0] + y * normal[1] for x, y in first]
            theirs = [x * normal[0] + y * normal[1] for x, y in second]
            if max(mine) <= min(theirs) or max(theirs) <= min(mine):
                return False
    return True


def first_free(field: Field, candidates: Iterable[Polygon]) -> int | None:
    """Return the number of the first candidate that is free, or None."""
    return next((index for index, candidate in enumerate(candidates) if field.is_free(candidate)), None)


def spread(wanted: Sequence[float], gap: float, low: float = 0.0, high: float = 1.0) -> list[float]:
    """Return one position per wanted one, in the same order, at least `gap` apart and inside [low, high] if they fit.

    Neighbours that would touch move apart evenly around their common mean; labels that are far apart stay put.
    """
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    if len(order) > 1:
        gap = min(gap, (high - low) / (len(order) - 1))
    # Each cluster is [sum of wanted starts, size]; a cluster that touches the one before it joins it.
    clusters: list[tuple[float, list[int]]] = []
    for index in order:
        start, members = wanted[index], [index]
        start = min(max(start, low), high)
        while clusters and start < clusters[-1][0] + gap * len(clusters[-1][1]):
            _, before = clusters.pop()
            members = before + members
            mean = sum(wanted[i] for i in members) / len(members)
            start = min(max(mean - gap * (len(members) - 1) / 2, low), high - gap * (len(members) - 1))
        clusters.append((start, members))
    placed = [0.0] * len(wanted)
    for start, members in clusters:
        start = max(low, min(start, high - gap * (len(members) - 1)))
        for rank, index in enumerate(members):
            placed[index] = start + rank * gap
    return placed
