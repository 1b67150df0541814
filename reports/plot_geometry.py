"""From data to fractions of the axes (0…1), where labels are placed: the bridge between matplotlib and `label_layout`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Spot = tuple[float, float]
"""A place in fractions of the axes."""


def fraction(axes: Axes, x: float, y: float) -> Spot:
    """Return where a data point lies on the axes; limits and scales must be final."""
    return fractions(axes, [(x, y)])[0]


def fractions(axes: Axes, points: list[Spot]) -> list[Spot]:
    """Return where data points lie on the axes, thousands in one step."""
    if not points:
        return []
    return [(float(x), float(y)) for x, y in (axes.transData + axes.transAxes.inverted()).transform(points)]


def along(axes: Axes, start: Spot, stop: Spot, count: int = 60) -> list[Spot]:
    """Return spots along the line between two data points, which is straight on log–log axes."""
    return between(fraction(axes, *start), fraction(axes, *stop), count)


def between(start: Spot, stop: Spot, count: int) -> list[Spot]:
    """Return `count` + 1 evenly spaced spots from one to another."""
    (x0, y0), (x1, y1) = start, stop
    return [(x0 + (x1 - x0) * i / count, y0 + (y1 - y0) * i / count) for i in range(count + 1)]


def thinned(spots: list[Spot], grid: float = 0.008) -> list[Spot]:
    """Return the spots on a coarse grid, each once: thousands of cases cost a label search no more than dozens."""
    return list(dict.fromkeys((round(x / grid) * grid, round(y / grid) * grid) for x, y in spots))
