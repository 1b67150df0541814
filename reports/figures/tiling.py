"""Efficiency of a product against N as a figure: the saw-tooth of waves and edge tiles, and the time the model expects
under it.
"""

from __future__ import annotations

from collections.abc import Sequence

from reports.figures.drawing.palette import ACCENT, MUTED, format_colours
from reports.figures.drawing.spec import Axis, Figure, Label, LegendEntry, Line, Marks
from reports.present.display_text import shown
from roofline_model.tiling.waves import EfficiencyCurve

_COLOUR = format_colours(["BF16"])["BF16"]


def efficiency_figure(curve: EfficiencyCurve, *, title: str, asked_columns: int | None = None) -> Figure:
    """Return the figure: share of the dense tensor peak in percent over N, for the tile chosen at each N and for one
    fixed tile.

    `asked_columns` marks one N.
    """
    expected = _line("expected", curve.N, curve.expected_ratio)
    legend = [LegendEntry("expected, best tile at each N", _COLOUR, "line")]
    series: list[Line | Marks] = [expected]
    if curve.fixed_tile_ratio:
        series.insert(0, Line("fixed tile", expected.x, _percent(curve.fixed_tile_ratio), MUTED, 1.1))
        rows, columns, _ = curve.fixed_tile.split("x")  # the third number is how often k is split
        text = f"useful share of SM time with one tile of {rows}x{columns}: last wave and edges taken off"
        legend.insert(0, LegendEntry(text, MUTED, "line"))
    labels: tuple[Label, ...] = ()
    if asked_columns is not None and asked_columns in curve.N:
        x, y = float(asked_columns), 100 * curve.expected_ratio[curve.N.index(asked_columns)]
        series.append(Marks("asked for", (x,), (y,), ACCENT))
        labels = (Label((f"N = {asked_columns}: {y:.0f} %",), x, y, ACCENT, "beside", medium="still"),)
    return Figure(
        shown(title, 110),
        Axis("N", float(curve.N[0]), float(curve.N[-1])),
        Axis("share of the dense tensor peak", 0.0, 103.0, suffix=" %"),
        tuple(series),
        labels,
        tuple(legend),
    )


def _line(name: str, columns: Sequence[int], ratios: Sequence[float]) -> Line:
    return Line(name, tuple(map(float, columns)), _percent(ratios), _COLOUR, 1.8)


def _percent(ratios: Sequence[float]) -> tuple[float, ...]:
    return tuple(100 * ratio for ratio in ratios)
