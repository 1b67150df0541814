"""Ticks, their labels, and the frame around a canvas."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from reports.figures.drawing.spec import Axis
from roofline_cli.plot.canvas import Canvas, Line, ends_of, merged
from roofline_model.core.units import DECIMAL_PREFIXES


def tick_values(axis: Axis) -> list[float]:
    """Return the decades of an axis, with 2 and 5 times them where it has fewer than three."""
    low, high = ends_of(axis)
    decades = [10.0**power for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]
    inside = [value for value in decades if low <= value <= high]
    if len(inside) < 3:
        inside = [digit * decade for decade in decades for digit in (1, 2, 5) if low <= digit * decade <= high]
    return inside or [low, high]


def rate_tick(rate_flops_per_s: float) -> str:
    """Return `100 G`, `1 T`: a rate without its unit, which stands above the axis."""
    rounded = float(f"{rate_flops_per_s:.3g}")
    names = [name for name, scale in DECIMAL_PREFIXES.items() if rounded >= scale * (1 - 1e-12)]
    prefix = names[-1] if names else ""
    return f"{rounded / DECIMAL_PREFIXES[prefix]:.3g} {prefix}".rstrip()


def intensity_tick(intensity_flop_per_byte: float) -> str:
    """Return `0.5`, `20`, `1,000`."""
    return f"{intensity_flop_per_byte:,.0f}" if intensity_flop_per_byte >= 1 else f"{intensity_flop_per_byte:.3g}"


def axis_rows(canvas: Canvas, margin: int, labels: Mapping[int, str]) -> Iterator[Line]:
    """Yield the lines of the frame: the unit, the rows with ticks on the left and names on the right, the axis
    below.
    """
    signs = canvas.signs
    ticks = {canvas.row(value): rate_tick(value) for value in tick_values(canvas.y_axis)}
    yield merged([(canvas.y_axis.title.rjust(margin - 1), "dim")])
    for row in range(canvas.rows - 1, -1, -1):
        sign = signs.y_tick if row in ticks else signs.y_axis
        left = [(f"{ticks.get(row, ''):>{margin - 2}} ", ""), (sign, "dim")]
        name = [(f" {labels[row]}", "bold")] if row in labels else []
        yield merged([*left, *canvas.line(row), *name])
    columns = {canvas.column(value): intensity_tick(value) for value in tick_values(canvas.x_axis)}
    rule = "".join(signs.x_tick if column in columns else signs.x_axis for column in range(canvas.columns))
    yield merged([(" " * (margin - 1) + signs.corner + rule, "dim")])
    yield from _x_labels(canvas, margin, columns)


def _x_labels(canvas: Canvas, margin: int, columns: Mapping[int, str]) -> Iterator[Line]:
    """Yield the numbers below the axis, the unit behind them where it fits, else in a line of its own."""
    width, unit = margin + canvas.columns, canvas.x_axis.title
    text = [" "] * width
    free = 0
    for column, label in sorted(columns.items()):
        start = min(max(margin + column - len(label) // 2, free), width - len(label))
        if start >= free and abs(start + len(label) // 2 - margin - column) <= 2:
            text[start : start + len(label)] = label
            free = start + len(label) + 1
    fits = free + len(unit) + 1 <= width
    if fits:
        text[width - len(unit) :] = unit
    yield merged([("".join(text), "")])
    if not fits:
        yield merged([(unit.rjust(width), "dim")])
