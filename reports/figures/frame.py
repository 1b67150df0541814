"""The frame that figures of a report share: title, plain axes, one font, room for names of any length."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reports.figures.palette import GRID, INK, MUTED, SURFACE
from reports.text.display_text import shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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


def frame(title: str, subtitle: str, size_inches: tuple[float, float]) -> Figure:
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


def row_axes(figure: Figure, names: list[str], *, bottom_inches: float = 0.95, top_inches: float = 0.8) -> Axes:
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


def key(figure: Figure, entries: list[KeyEntry], bottom_inches: float = 0.2) -> None:
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
    columns = _key_columns(entries, float(figure.get_size_inches()[0]))
    legend = figure.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(0.012, (bottom_inches - 0.12) / figure.get_size_inches()[1]),
        ncols=columns,
        frameon=False,
        fontsize=FONT - 0.5,
        labelcolor=MUTED.light,
        handletextpad=0.3,
        columnspacing=1.4,
    )
    for text in legend.get_texts():
        text.set_parse_math(False)


def _shortened(figure: Figure, name: str, room_inches: float) -> str:
    """Return a name that fits: what is too long loses its middle, because configurations differ at their ends."""
    shown = name
    for keep in range(len(name) - 1, 8, -2):
        if _name_inches(figure, shown) <= room_inches:
            break
        shown = f"{name[: keep // 3]}…{name[len(name) - (keep - keep // 3) :]}"
    return shown


def _name_inches(figure: Figure, name: str) -> float:
    drawn = figure.text(0, 0, name, fontsize=FONT - 0.5, **PLAIN_TEXT)
    extent = drawn.get_window_extent(figure.canvas.get_renderer())  # type: ignore[attr-defined]  # Agg has one
    drawn.remove()
    return float(extent.width) / figure.dpi
