"""The nights of one case as a chart of characters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from reports.present.screen import has_unicode

ROWS = 9


@dataclass(frozen=True, slots=True)
class Point:
    """One night to be drawn."""

    value: float
    is_used: bool
    """False: drawn hollow."""
    mark: str = ""
    """What stands below it: the number of the change that begins here."""


def chart(points: Sequence[Point], labels: Sequence[str], width: int) -> list[str]:
    """Return the lines of a chart, oldest night on the left; several nights share a column where there are too many.

    `labels`: the text of the smallest and of the largest value. `width`: characters a line may have. Every line below
    the axis holds the marks. No line for no points.
    """
    if not points:
        return []
    full, hollow, axis = "●○┤" if has_unicode() else "*o|"
    margin = max(len(label) for label in labels) + 2
    columns = _columns(points, max(width - margin, 10))
    low, high = min(point.value for point in points), max(point.value for point in points)
    grid = [[" "] * len(columns) for _ in range(ROWS)]
    for place, column in enumerate(columns):
        used = [point.value for point in column if point.is_used]
        value = median(used or [point.value for point in column])
        grid[_row(value, low, high)][place] = full if used else hollow
    lines = []
    for row in range(ROWS - 1, -1, -1):
        label = labels[1] if row == ROWS - 1 else labels[0] if row == 0 else ""
        lines.append(f"{label:>{margin - 2}} {axis}{''.join(grid[row])}".rstrip())
    marks = [next((point.mark for point in column if point.mark), " ") for column in columns]
    if any(mark.strip() for mark in marks):
        lines.append(" " * margin + "".join(mark[-1] for mark in marks).rstrip())
    return lines


def _columns(points: Sequence[Point], most: int) -> list[list[Point]]:
    share = math.ceil(len(points) / most)
    return [list(points[start : start + share]) for start in range(0, len(points), share)]


def _row(value: float, low: float, high: float) -> int:
    return ROWS // 2 if high <= low else min(int((value - low) / (high - low) * ROWS), ROWS - 1)
