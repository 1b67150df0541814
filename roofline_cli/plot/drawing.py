"""A figure drawn in characters: logarithmic axes with ticks and units, curves, ridge points, points as letters.

Pure: a `Figure` and a width in, lines out. Curves are braille dots (two by four to a character) where the encoding has
them, else ASCII. A line along y alone is a thin gap; marks with keys show these: capitals where they are filled, small
letters where they are hollow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from reports.figures.drawing.spec import Figure, Label, Marks
from reports.figures.drawing.spec import Line as Curve
from roofline_cli.plot.axes import axis_rows, rate_tick, tick_values
from roofline_cli.plot.canvas import ASCII_SIGNS, UNICODE_SIGNS, Canvas, Line

MIN_WIDTH = 40
MAX_WIDTH = 160
"""A wider plot is no better to read: the eye follows no line that long."""

_MOST_ROWS, _LEAST_ROWS = 26, 14
_SAME_HEIGHT_RATIO = 0.004


@dataclass(frozen=True, slots=True)
class Drawing:
    """The lines of a plot, and the letters that found no place of their own."""

    lines: tuple[Line, ...]
    hidden: dict[str, str] = field(default_factory=dict)
    """Letter → the letter that stands where all of its points would be."""

    @property
    def texts(self) -> list[str]:
        """The lines without their styles."""
        return [line.text for line in self.lines]


def draw(figure: Figure, width: int, *, is_ascii: bool = False) -> Drawing:
    """Return the drawing of a figure in at most `width` characters (from 40; more than 160 are not used).

    A figure without series has no lines.
    """
    if not figure.series:
        return Drawing(())
    width = min(max(width, MIN_WIDTH), MAX_WIDTH)
    names = _margin_names([label for label in figure.labels if label.place == "margin"], _name_room(width))
    margin = max(len(rate_tick(value)) for value in tick_values(figure.y)) + 2
    longest = max(map(len, names.values()), default=0)
    columns = width - margin - (longest + 1 if longest else 0)
    rows = min(max(round(columns * 0.27), _LEAST_ROWS), _MOST_ROWS)
    canvas = Canvas(columns, rows, figure.x, figure.y, ASCII_SIGNS if is_ascii else UNICODE_SIGNS)
    hidden = _draw_series(canvas, figure)
    for label in figure.labels:
        if label.place == "along":
            canvas.write_beside(label.lines[0], lambda y, label=label: label.x * y / label.y)  # type: ignore[misc]
    return Drawing(tuple(axis_rows(canvas, margin, _label_rows(canvas, names))), hidden)


def _draw_series(canvas: Canvas, figure: Figure) -> dict[str, str]:
    """Draw every series, the first letter of a cell in front; return the letters that are nowhere."""
    taken: dict[tuple[int, int], str] = {}
    seen: set[str] = set()
    behind: dict[str, str] = {}
    for series in figure.series:
        if isinstance(series, Curve):
            _draw_line(canvas, series)
        elif isinstance(series, Marks):
            for at, (x, y) in enumerate(zip(series.x, series.y, strict=True)):
                cell = canvas.cell(x, y)
                letter = str(series.keys[at]) if series.keys else ""
                if cell not in taken:
                    canvas.put(x, y, *_sign(canvas, series, letter))
                if not letter:
                    continue
                if taken.setdefault(cell, letter) == letter:
                    seen.add(letter)
                else:
                    behind.setdefault(letter, taken[cell])
    return {letter: other for letter, other in behind.items() if letter not in seen}


def _sign(canvas: Canvas, marks: Marks, letter: str) -> tuple[str, str]:
    """Return the character of a mark and its style."""
    if letter:
        return (letter, "bold green") if marks.fill == "full" else (letter.lower(), "yellow")
    return (canvas.signs.expected, "cyan") if marks.shape == "dash" else (canvas.signs.ridge, "bold")


def _draw_line(canvas: Canvas, line: Curve) -> None:
    corners = [(x, y) for x, y in zip(line.x, line.y, strict=True) if x is not None and y is not None]
    if len({x for x, _ in corners}) == 1:
        canvas.segment(corners[0][0], corners[0][1], corners[-1][1])
    else:
        canvas.curve(_between(corners), line.dash)


def _between(corners: Sequence[tuple[float, float]]) -> Callable[[float], float | None]:
    """Return the curve through points, straight between them on logarithmic axes; nothing outside."""

    def height(x: float) -> float | None:
        for (x0, y0), (x1, y1) in pairwise(corners):
            if x0 <= x <= x1 and x1 > x0:
                return float(y0 * (y1 / y0) ** (math.log(x / x0) / math.log(x1 / x0)))
        return None

    return height


def _name_room(width: int) -> int:
    """Return how many characters the names of roofs may take on the right."""
    return 11 if width < 80 else 18 if width < 110 else 28


def _margin_names(labels: Sequence[Label], room: int) -> dict[float, str]:
    """Return height → the names that share it, `FP8_E4M3 +2` where not all fit."""
    groups: dict[float, list[str]] = {}
    for label in labels:
        near = (height for height in groups if math.isclose(height, label.y, rel_tol=_SAME_HEIGHT_RATIO))
        names = groups.setdefault(next(near, label.y), [])
        if label.lines[0] not in names:
            names.append(label.lines[0])
    texts = {}
    for height, names in groups.items():
        text = ", ".join(names)
        if len(text) > room:
            more = f" +{len(names) - 1}" if len(names) > 1 else ""
            text = (names[0] if len(names[0] + more) <= room else f"{names[0][: room - len(more) - 1]}…") + more
        texts[height] = text
    return texts


def _label_rows(canvas: Canvas, names: dict[float, str]) -> dict[int, str]:
    """Return row → name; a name whose row is taken moves to the nearest free one, the higher roof above the lower."""
    label_rows: dict[int, str] = {}
    for height in sorted(names, reverse=True):
        row = canvas.row(height)
        while row in label_rows and row > 0:
            row -= 1
        label_rows.setdefault(row, names[height])
    return label_rows
