"""Efficiency of a product against N: the saw-tooth of waves and edge tiles, and the time the model expects under it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reports.figures.frame import PLAIN_TEXT
from reports.figures.palette import ACCENT, GRID, INK, MUTED, SURFACE, format_colours
from reports.text.display_text import shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from roofline_model.tiling.waves import EfficiencyCurve

SIZE_INCHES = (9.0, 4.6)
_FONT = 9.5


def draw_efficiency(curve: EfficiencyCurve, *, title: str, asked_columns: int | None = None) -> Figure:
    """Return the figure: share of the tensor peak over N, for the tile chosen at each N and for one fixed tile.

    `asked_columns` marks one N. The figure belongs to no backend; save it with `savefig`.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import PercentFormatter

    figure = Figure(figsize=SIZE_INCHES, facecolor=SURFACE.light)
    axes = figure.add_axes((0.08, 0.135, 0.895, 0.67), facecolor=SURFACE.light)
    if curve.fixed_tile_ratio:
        axes.plot(
            curve.N,
            curve.fixed_tile_ratio,
            color=MUTED.light,
            linewidth=1.1,
            drawstyle="default",
            zorder=2,
            label=f"useful share of SM time with one tile, {curve.fixed_tile}: last wave and edges taken off",
        )
    ink = format_colours(["BF16"])["BF16"].light
    axes.plot(curve.N, curve.expected_ratio, color=ink, linewidth=1.8, zorder=3, label="expected, best tile at each N")
    if asked_columns is not None and asked_columns in curve.N:
        reached = curve.expected_ratio[curve.N.index(asked_columns)]
        axes.plot([asked_columns], [reached], marker="o", markersize=7, color=ACCENT.light, zorder=4, linestyle="none")
        is_right = asked_columns > (curve.N[0] + curve.N[-1]) / 2
        axes.annotate(
            f"N = {asked_columns}: {reached:.0%}",
            (asked_columns, reached),
            xytext=(-9 if is_right else 9, -15),
            textcoords="offset points",
            ha="right" if is_right else "left",
            fontsize=_FONT,
            color=ACCENT.light,
        )
    axes.set_ylim(0, 1.03)
    axes.set_xlim(curve.N[0], curve.N[-1])
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.set_ylabel("share of the dense tensor peak", fontsize=_FONT, color=INK.light)
    axes.set_xlabel("N", fontsize=_FONT, color=INK.light)
    axes.grid(color=GRID.light, linewidth=0.8)
    axes.tick_params(labelsize=_FONT - 0.5, colors=INK.light, length=0)
    for side in axes.spines.values():
        side.set_visible(False)
    figure.text(0.08, 0.945, shown(title, 110), fontsize=12, color=INK.light, weight="bold", **PLAIN_TEXT)
    axes.legend(
        loc="lower left",
        bbox_to_anchor=(-0.005, 1.005),
        ncols=1,
        frameon=False,
        fontsize=_FONT - 0.5,
        labelcolor=INK.light,
    )
    return figure
