"""Where the labels of a still figure go: the first of a few places where nothing is drawn yet.

The rule. Everything but the labels is drawn first, without grid and axes; a pixel that differs from the ground is
taken. Each label, in the order of the figure, tries its places from the nearest on, takes the first whose rectangle
holds no taken pixel, and takes those pixels itself. A label without a free place is left out. Equal input gives equal
places.

Positions and sizes are in pixels from the lower left corner of the axes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from reports.figures.drawing.palette import SURFACE
from reports.figures.drawing.spec import Label

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.text import Text

Position = tuple[float, float]

PLAIN_TEXT: dict[str, Any] = {"parse_math": False}
"""For every text that holds a name from outside: a `$` in a label is a dollar sign, not a formula."""

_FAINT = 8
"""Of 255: a pixel that differs less from the ground shows nothing."""
_NEAR_PIXELS, _FAR_PIXELS = 70, 420
"""Between a mark and its label."""


def write_labels(axes: Axes, labels: Sequence[Label]) -> None:
    """Write the labels of finished axes; their limits and scales must be final."""
    plane = _Plane(axes)
    is_only = sum(label.place == "around" for label in labels) == 1
    for label in labels:
        if label.place == "beside":
            _write_beside(plane, label)
        elif label.place == "around":
            _write_around(plane, label, is_only=is_only)
        elif label.place == "along":
            _write_along(plane, label)
        elif label.place == "top":
            x = plane.pixel(label.x, label.y)[0] / plane.width
            style: dict[str, Any] = {"fontsize": 9, "color": label.colour.light, "ha": "center", "va": "bottom"}
            axes.text(x, 1.005, label.lines[0], transform=axes.transAxes, **style, **PLAIN_TEXT)
    _write_in_margin(plane, [label for label in labels if label.place == "margin"])


class _Plane:
    """The pixels of axes, and which of them are taken."""

    def __init__(self, axes: Axes) -> None:
        import numpy as np

        self.axes, self.canvas = axes, axes.figure.canvas
        frame = axes.get_window_extent()
        self.left, self.bottom, self.width, self.height = frame.x0, frame.y0, frame.width, frame.height
        axes.set_axis_off()
        self.canvas.draw()
        axes.set_axis_on()
        ground = [int(SURFACE.light[at : at + 2], 16) for at in (1, 3, 5)]
        picture = np.asarray(self.canvas.buffer_rgba())[::-1, :, :3].astype(int)  # type: ignore[attr-defined]  # Agg has one
        columns, rows = (slice(round(start), round(end)) for start, end in (frame.intervalx, frame.intervaly))
        self._taken: np.ndarray = np.any(abs(picture[rows, columns] - ground) > _FAINT, axis=2)

    def pixel(self, x: float, y: float) -> Position:
        """Return where a data point lies."""
        across, up = self.axes.transData.transform((x, y))
        return float(across) - self.left, float(up) - self.bottom

    def text(self, label: Label, fontsize: float, air: Position, zorder: float) -> tuple[Text, Position]:
        """Return the text of a label, not placed yet, and its size with some air around (in all, across and up)."""
        style: dict[str, Any] = {"fontsize": fontsize, "color": label.colour.light, "zorder": zorder}
        style |= {"ha": "center", "va": "center", "rotation_mode": "anchor", "transform": self.axes.transAxes}
        text = self.axes.text(0, 0, label.lines[0], **style, **PLAIN_TEXT)
        extent = text.get_window_extent(self.canvas.get_renderer())  # type: ignore[attr-defined]  # Agg has one
        return text, (float(extent.width) + air[0], float(extent.height) + air[1])

    def place(self, text: Text, size: Position, centers: Sequence[Position], angle: float = 0.0) -> Position | None:
        """Put a text, turned by `angle` (radians), around the first centre where it covers nothing, and return that;
        remove it where there is none.
        """
        import numpy as np

        across, up = np.meshgrid(*(np.arange(-extent / 2, extent / 2 + 0.5) for extent in size))
        columns = across * math.cos(angle) - up * math.sin(angle)
        rows = across * math.sin(angle) + up * math.cos(angle)
        for x, y in centers:
            pixels = np.rint(y + rows).astype(int), np.rint(x + columns).astype(int)
            if self._is_inside(pixels) and not self._taken[pixels].any():
                self._taken[pixels] = True
                text.set(position=(x / self.width, y / self.height), rotation=math.degrees(angle))
                return x, y
        text.remove()
        return None

    def _is_inside(self, pixels: tuple[np.ndarray, np.ndarray]) -> bool:
        return all(axis.min() >= 0 and axis.max() < most for axis, most in zip(pixels, self._taken.shape, strict=True))


def _write_beside(plane: _Plane, label: Label) -> None:
    """Write a label left of its point, else farther along to the right, over or under its level."""
    x, y = plane.pixel(label.x, label.y)
    text, size = plane.text(label, 8.5, (3, 2), zorder=4)
    width, height = size
    centers = [(x - back - width / 2, y + rise) for back in (5, 8, 12) for rise in (3, 5, 7, 9, 14, 20)]
    centers += [(x - back - width / 2, y + rise) for rise in (3, 9, 16, 26, 38) for back in (20, 30, 45)]
    shifts = range(6, int(plane.width / 2), 8)
    centers += [(x + shift + width / 2, y + side * (height / 2 + 3)) for shift in shifts for side in (1, -1)]
    plane.place(text, size, centers)


def _write_around(plane: _Plane, label: Label, *, is_only: bool) -> None:
    """Write a label near its point, on any side. Where no near place is free, the only one of a figure goes farther
    off, with a line to its point; several are left out, because they would be taken for each other's.
    """
    x, y = plane.pixel(label.x, label.y)
    text, size = plane.text(label, 9, (6, 4), zorder=6)
    width, height = size
    gaps = [*range(8, _NEAR_PIXELS, 4), *(range(_NEAR_PIXELS, _FAR_PIXELS, 12) if is_only else ())]
    sides = ((1, 0), (0, 1), (0, -1), (-1, 0), (1, 1), (1, -1))
    # A side of the mark is nearer to the eye than a corner.
    spots = sorted(
        ((gap, i, j) for gap in gaps for i, j in sides), key=lambda spot: spot[0] + 12 * abs(spot[1] * spot[2])
    )
    centers = [(x + i * (gap + width / 2), y + j * (gap + height / 2)) for gap, i, j in spots]
    center = plane.place(text, size, centers)
    if center is not None:
        end = [
            min(max(at, middle - extent / 2), middle + extent / 2)
            for at, middle, extent in zip((x, y), center, size, strict=True)
        ]
        if max(abs(end[0] - x), abs(end[1] - y)) >= _NEAR_PIXELS:
            xs, ys = (x / plane.width, end[0] / plane.width), (y / plane.height, end[1] / plane.height)
            style: dict[str, Any] = {"linewidth": 0.8, "color": label.colour.light, "zorder": 5}
            plane.axes.plot(xs, ys, transform=plane.axes.transAxes, **style)


def _write_along(plane: _Plane, label: Label) -> None:
    """Write a label along its line, above it or beneath; of a line that is not seen, nowhere."""
    assert label.toward is not None
    start, stop = plane.pixel(label.x, label.y), plane.pixel(*label.toward)
    angle, length = math.atan2(stop[1] - start[1], stop[0] - start[0]), math.dist(start, stop)
    cos, sin = math.cos(angle), math.sin(angle)
    text, size = plane.text(label, 9, (4, 1), zorder=4)
    seen = [
        along
        for along in range(0, int(length), 6)
        if 0 <= start[0] + along * cos <= plane.width and 0 <= start[1] + along * sin <= plane.height
    ]
    best = seen[int(0.3 * len(seen))] if seen else 0
    aways = [side * (size[1] / 2 + gap) for gap in range(2, 20, 2) for side in (1, -1)]
    centers = [
        (start[0] + along * cos - away * sin, start[1] + along * sin + away * cos)
        for away in aways
        for along in sorted(seen, key=lambda along: abs(along - best))
    ]
    plane.place(text, size, centers, angle)


def _write_in_margin(plane: _Plane, labels: Sequence[Label]) -> None:
    """Write labels into the right margin, each in its colour at its height, moved apart where they would touch."""
    heights = [plane.pixel(label.x, label.y)[1] / plane.height for label in labels]
    for label, y, placed in zip(labels, heights, spread(heights, 0.038), strict=True):
        style: dict[str, Any] = {"transform": plane.axes.transAxes, "clip_on": False, "color": label.colour.light}
        plane.axes.plot([1.0, 1.018, 1.028], [y, placed, placed], linewidth=1.0, **style)
        plane.axes.plot([1.034], [placed], marker="s", markersize=6, **style)
        fontsize = 9.5 if len(labels) <= 20 else 7.5
        plane.axes.text(1.046, placed, " ".join(label.lines), va="center", fontsize=fontsize, **style, **PLAIN_TEXT)


def spread(wanted: Sequence[float], gap: float) -> list[float]:
    """Return one height from 0 to 1 per wanted one, in the same order, at least `gap` apart if they fit.

    Half way between pushing up all that touch from the lowest on, and pushing down from the highest on: neighbours
    move apart around their middle, and what is far apart stays put.
    """
    import numpy as np

    if not wanted:
        return []
    order = np.argsort(wanted, kind="stable")
    steps = np.arange(len(wanted)) * min(gap, 1.0 / max(len(wanted) - 1, 1))
    packed = np.asarray(wanted)[order] - steps
    middle = (np.maximum.accumulate(packed) + np.minimum.accumulate(packed[::-1])[::-1]) / 2
    placed = np.empty(len(wanted))
    placed[order] = np.clip(middle, 0.0, 1.0 - steps[-1]) + steps
    return [float(height) for height in placed]
