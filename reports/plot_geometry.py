"""The bridge between matplotlib and `label_layout`: data to pixels of the axes, texts measured, written and kept clear of."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from reports.label_layout import Field, Position, rectangle
from reports.plot_style import PLAIN_TEXT

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from matplotlib.axes import Axes


def label_field(axes: Axes) -> Field:
    """Return the empty field of the axes, in pixels from their lower left corner; limits and scales must be final."""
    frame = axes.get_window_extent()
    return Field(frame.width, frame.height)


def pixels(axes: Axes, points: Sequence[Position]) -> list[Position]:
    """Return where data points lie, in pixels of the axes, thousands in one step."""
    if not points:
        return []
    frame = axes.get_window_extent()
    return [(float(x) - frame.x0, float(y) - frame.y0) for x, y in axes.transData.transform(points)]


def keep_marks(field: Field, spots: Iterable[Position], size_points: float, dpi: float) -> None:
    """Keep labels off markers of a size in points."""
    side = size_points * dpi / 72
    for spot in spots:
        field.add(rectangle(spot, (side, side)), "mark")


def text_size(axes: Axes, text: str, fontsize: float, *, air: Position = (6, 4), **style: Any) -> Position:
    """Return width and height of a text in pixels, with a little air around (in all, across and up)."""
    drawn = axes.text(0, 0, text, fontsize=fontsize, **style, **PLAIN_TEXT)
    extent = drawn.get_window_extent(axes.figure.canvas.get_renderer())  # type: ignore[attr-defined]  # Agg has one
    drawn.remove()
    return float(extent.width) + air[0], float(extent.height) + air[1]


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


def visible(field: Field, start: Position, stop: Position) -> tuple[Position, Position] | None:
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
