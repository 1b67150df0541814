"""A grid of characters with logarithmic axes: curves as braille dots or ASCII, letters and marks above them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from reports.figures.drawing.spec import Axis

_BRAILLE = 0x2800
_DOTS = ((0x40, 0x04, 0x02, 0x01), (0x80, 0x20, 0x10, 0x08))
"""Bit of the dot in a column (left, right), from the lowest row to the highest (Unicode, chapter 21, Braille
Patterns).
"""

_SEGMENT_STYLE = "dim"

Dash = tuple[float, ...]
"""Of `reports.figures.drawing.spec.Line`."""
DOTTED: Dash = (1.5, 2.25)
DASHED: Dash = (5.0, 3.0)
_LOOKS: dict[Dash, tuple[str, tuple[int, int]]] = {DASHED: ("dim", (3, 6)), DOTTED: ("cyan", (1, 3)), (): ("", (1, 1))}
"""Dash of a curve → its style, and how many dots are drawn out of how many along it; what stands later wins a cell."""
_RANKS = tuple(_LOOKS)


@dataclass(frozen=True, slots=True)
class Signs:
    """The characters of an encoding."""

    is_braille: bool
    ridge: str
    expected: str
    segment: str
    y_tick: str
    y_axis: str
    corner: str
    x_axis: str
    x_tick: str


UNICODE_SIGNS = Signs(True, "◆", "╌", "┊", "┤", "│", "└", "─", "┴")
ASCII_SIGNS = Signs(False, "*", "=", ":", "+", "|", "+", "-", "+")


def place_of(value: float, axis: Axis) -> float:
    """Return where a value lies on a logarithmic axis: 0 at its low end, 1 at its high end."""
    low, high = ends_of(axis)
    return math.log(value / low) / math.log(high / low)


def value_at(place: float, axis: Axis) -> float:
    """Return the value at a place."""
    low, high = ends_of(axis)
    return low * math.exp(place * math.log(high / low))


def ends_of(axis: Axis) -> tuple[float, float]:
    """Return the ends of an axis, which a canvas needs."""
    assert axis.low_value is not None
    assert axis.high_value is not None
    return axis.low_value, axis.high_value


@dataclass(frozen=True, slots=True)
class Line:
    """One line: pieces of text, each with its style (empty: plain)."""

    pieces: tuple[tuple[str, str], ...]

    @property
    def text(self) -> str:
        """Without styles, and without blanks at the end."""
        return "".join(text for text, _ in self.pieces).rstrip()


class Canvas:
    """`columns` × `rows` characters. Rows count from the bottom."""

    def __init__(self, columns: int, rows: int, x_axis: Axis, y_axis: Axis, signs: Signs) -> None:
        self.columns, self.rows, self.x_axis, self.y_axis, self.signs = columns, rows, x_axis, y_axis, signs
        self._dots: dict[tuple[int, int], int] = {}
        self._dashes: dict[tuple[int, int], Dash] = {}
        self._texts: dict[tuple[int, int], tuple[str, str]] = {}

    def cell(self, x: float, y: float) -> tuple[int, int]:
        """Return the column and row of a point; what lies outside is in the cell at the edge."""
        return self.column(x), self.row(y)

    def column(self, x: float) -> int:
        """Return the column of a value."""
        return _index(place_of(x, self.x_axis), self.columns)

    def row(self, y: float) -> int:
        """Return the row of a value."""
        return _index(place_of(y, self.y_axis), self.rows)

    def curve(self, height: Callable[[float], float | None], dash: Dash) -> None:
        """Draw a function of x; None and what lies outside the axes is left out."""
        across, up = (2, 4) if self.signs.is_braille else (1, 1)
        drawn, of = _LOOKS[dash][1] if self.signs.is_braille else (1, 1)
        path = self._path(height, self.columns * across, self.rows * up)
        for number, (x, y, rise) in enumerate(path):
            if number % of >= drawn:
                continue
            cell = x // across, y // up
            bit = _DOTS[x % across][y % up] if self.signs.is_braille else ord(_ascii_sign(dash, rise))
            self._dots[cell] = self._dots.get(cell, 0) | bit if self.signs.is_braille else bit
            self._dashes[cell] = max(self._dashes.get(cell, dash), dash, key=_RANKS.index)

    def _path(self, height: Callable[[float], float | None], width: int, tall: int) -> list[tuple[int, int, int]]:
        """Return (column, row, rise) of the dots of a curve, without gaps where it is steep."""
        path: list[tuple[int, int, int]] = []
        last: int | None = None
        for x in range(width):
            y = height(value_at((x + 0.5) / width, self.x_axis))
            place = None if not y else place_of(y, self.y_axis)
            if place is None or not 0 <= place < 1:
                last = None
                continue
            row = int(place * tall)
            # Between two columns the dots go up in the later one: a function has no more than one at its start.
            start = row if last is None else last + (1 if row > last else -1 if row < last else 0)
            step = 1 if row >= start else -1
            rise = 0 if last is None else row - last
            path += [(x, step_row, rise) for step_row in range(start, row + step, step)]
            last = row
        return path

    def put(self, x: float, y: float, sign: str, style: str) -> None:
        """Put a character at a point."""
        self._texts[self.cell(x, y)] = sign, style

    def segment(self, x: float, y: float, other_y: float) -> None:
        """Draw a thin line between two heights, behind everything."""
        column = self.column(x)
        low, high = sorted((self.row(y), self.row(other_y)))
        for row in range(low + 1, high):
            if (column, row) not in self._texts and (column, row) not in self._dots:
                self._texts[column, row] = self.signs.segment, _SEGMENT_STYLE

    def write_beside(self, text: str, x_at: Callable[[float], float]) -> None:
        """Write a text beside a rising curve, left of it rather than right, in the row nearest to the upper middle that
        has room.
        """
        rows = sorted(range(1, self.rows - 1), key=lambda row: abs(row - self.rows * 0.62))
        for side in (-len(text) - 2, 3):
            for row in rows:
                x = x_at(value_at((row + 0.5) / self.rows, self.y_axis))
                start = self.column(x) + side
                places = [(start + offset, row) for offset in range(-1, len(text) + 1)]
                is_inside = 0 < place_of(x, self.x_axis) < 1 and start >= 0 and start + len(text) < self.columns
                if is_inside and not any(place in self._dots or place in self._texts for place in places):
                    self._texts.update({(start + i, row): (sign, "dim") for i, sign in enumerate(text)})
                    return

    def line(self, row: int) -> list[tuple[str, str]]:
        """Return the characters of a row with their styles."""
        return [self._character((column, row)) for column in range(self.columns)]

    def _character(self, cell: tuple[int, int]) -> tuple[str, str]:
        if cell in self._texts:
            return self._texts[cell]
        if cell not in self._dots:
            return " ", ""
        code = self._dots[cell]
        return chr(_BRAILLE + code if self.signs.is_braille else code), _LOOKS[self._dashes[cell]][0]


def merged(pieces: Sequence[tuple[str, str]]) -> Line:
    """Return a line with neighbours of one style put together."""
    groups = groupby(pieces, key=lambda piece: piece[1])
    return Line(tuple(("".join(text for text, _ in members), style) for style, members in groups))


def _ascii_sign(dash: Dash, rise: int) -> str:
    if dash:
        return "." if dash == DOTTED else ","
    return "-" if rise == 0 else "/" if abs(rise) == 1 else "|"


def _index(place: float, count: int) -> int:
    return min(max(int(place * count), 0), count - 1)
