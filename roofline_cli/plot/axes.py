"""Ticks, their labels, and the frame around a canvas."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from roofline_cli.plot.canvas import Axis, Canvas, Line, merged
from roofline_model.core.units import DECIMAL_PREFIXES

__all__ = ["Axis", "axis_rows", "rate_tick", "tick_values"]

X_UNIT = "FLOP/byte"
Y_UNIT = "FLOP/s"


def tick_values(axis: Axis) -> list[float]:
    """Return the decades of an axis, with 2 and 5 times them where it has fewer than three."""
    first, last = math.floor(math.log10(axis.low_value)), math.ceil(math.log10(axis.high_value))
    decades = [10.0**power for power in range(first, last + 1)]
    inside = [value for value in decades if axis.low_value <= value <= axis.high_value]
    if len(inside) >= 3:
        return inside
    return [
        value
        for decade in decades
        for value in (decade, 2 * decade, 5 * decade)
        if axis.low_value <= value <= axis.high_value
    ] or [axis.low_value, axis.high_value]


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
    yield merged([(f"{Y_UNIT:>{margin - 1}}" if margin > len(Y_UNIT) else Y_UNIT, "dim")])
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
    width = margin + canvas.columns
    text = [" "] * width
    free = 0
    for column, label in sorted(columns.items()):
        start = min(max(margin + column - len(label) // 2, free), width - len(label))
        if start >= free and abs(start + len(label) // 2 - margin - column) <= 2:
            text[start : start + len(label)] = label
            free = start + len(label) + 1
    if free + len(X_UNIT) + 1 <= width:
        text[width - len(X_UNIT) :] = X_UNIT
        yield merged([("".join(text), "")])
        return
    yield merged([("".join(text), "")])
    yield merged([(X_UNIT.rjust(width), "dim")])
