"""A dual roofline drawn in characters: log-log axes with ticks and units, roofs, ridge points, points as letters.

Pure: a `RooflinePlot` and a width in, lines out. Curves are braille dots (two by four to a character) where the
encoding has them, else ASCII. Nothing here knows where the numbers come from: see `sources.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from roofline_cli.plot.axes import Axis, axis_rows, rate_tick, tick_values
from roofline_cli.plot.canvas import ASCII_SIGNS, UNICODE_SIGNS, Canvas, Line

MIN_WIDTH = 40
MAX_WIDTH = 160
"""A wider plot is no better to read: the eye follows no line that long."""

_MOST_ROWS, _LEAST_ROWS = 26, 14


@dataclass(frozen=True, slots=True)
class PlotRoof:
    """One roof: min(bandwidth × intensity, peak)."""

    label: str
    bandwidth_bytes_per_s: float
    peak_flops_per_s: float

    @property
    def ridge_flop_per_byte(self) -> float:
        """The critical intensity."""
        return self.peak_flops_per_s / self.bandwidth_bytes_per_s

    def rate_flops_per_s(self, intensity_flop_per_byte: float) -> float:
        """Return the height of the roof."""
        return min(self.bandwidth_bytes_per_s * intensity_flop_per_byte, self.peak_flops_per_s)


@dataclass(frozen=True, slots=True)
class PlotSlope:
    """The slope of a memory level."""

    label: str
    bandwidth_bytes_per_s: float


@dataclass(frozen=True, slots=True)
class PlotPoint:
    """One case: a small letter at its ideal rate, its capital where the case is, a mark at what was expected."""

    letter: str
    """A capital letter; several points may share one."""
    intensity_flop_per_byte: float
    ideal_flops_per_s: float | None
    reached_flops_per_s: float | None
    """Where the capital stands: the measured rate, or the expected one in a plot of predictions."""
    expected_flops_per_s: float | None = None
    """Where the mark stands."""


@dataclass(frozen=True, slots=True)
class RooflinePlot:
    """What is drawn. Rates in FLOP/s, intensities in FLOP/byte."""

    roofs: tuple[PlotRoof, ...]
    memory: PlotSlope | None
    """The slope that the roofs share."""
    caches: tuple[PlotSlope, ...] = ()
    expected_roof: tuple[tuple[float, float], ...] = ()
    """(intensity, rate) of the expected roof, ascending; empty where none is known."""
    points: tuple[PlotPoint, ...] = ()


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


def draw(plot: RooflinePlot, width: int, *, is_ascii: bool = False) -> Drawing:
    """Return the drawing of a plot in at most `width` characters (from 40; more than 160 are not used).

    A plot with neither a roof nor a point has no lines.
    """
    axes = _axes(plot)
    if axes is None:
        return Drawing(())
    x_axis, y_axis = axes
    signs = ASCII_SIGNS if is_ascii else UNICODE_SIGNS
    width = min(max(width, MIN_WIDTH), MAX_WIDTH)
    names = _roof_names(plot.roofs, _name_room(width))
    margin = max(len(rate_tick(value)) for value in tick_values(y_axis)) + 2
    longest = max(map(len, names.values()), default=0)
    columns = width - margin - (longest + 1 if longest else 0)
    rows = min(max(round(columns * 0.27), _LEAST_ROWS), _MOST_ROWS)
    canvas = Canvas(columns, rows, x_axis, y_axis, signs)
    _draw_curves(canvas, plot)
    _mark_ridges(canvas, plot.roofs)
    hidden = _place_points(canvas, plot.points)
    _name_slopes(canvas, plot)
    labels = _label_rows(canvas, names)
    return Drawing(tuple(axis_rows(canvas, margin, labels)), hidden)


def _axes(plot: RooflinePlot) -> tuple[Axis, Axis] | None:
    """Return the two axes: every point and every ridge is inside, with room beyond."""
    xs = [point.intensity_flop_per_byte for point in plot.points]
    ridges = [roof.ridge_flop_per_byte for roof in plot.roofs]
    rates = [
        rate
        for point in plot.points
        for rate in (point.ideal_flops_per_s, point.reached_flops_per_s, point.expected_flops_per_s)
        if rate
    ]
    peaks = [roof.peak_flops_per_s for roof in plot.roofs]
    if not xs and not ridges:
        return None
    x_low, x_high = min([*xs, *ridges] if xs else [ridge / 100 for ridge in ridges]) / 2, max([*xs, *ridges]) * 4
    lowest, highest = min(rates or [roof.rate_flops_per_s(x_low) for roof in plot.roofs]), max([*peaks, *rates])
    room = max(highest / lowest, 2.0)
    return Axis(x_low, x_high), Axis(lowest / room**0.07, highest * room**0.07)


def _draw_curves(canvas: Canvas, plot: RooflinePlot) -> None:
    """Draw what lies behind first: caches, the expected roof, then the roofs."""
    top = max((roof.peak_flops_per_s for roof in plot.roofs), default=math.inf)
    for cache in plot.caches:
        canvas.curve(_slope(cache, top), "cache")
    if len(plot.expected_roof) > 1:
        canvas.curve(_between(plot.expected_roof), "expected")
    if plot.memory is not None:
        canvas.curve(_slope(plot.memory, top), "roof")
    for roof in plot.roofs:
        canvas.curve(_height_of(roof), "roof")


def _height_of(roof: PlotRoof) -> Callable[[float], float | None]:
    return lambda x: roof.rate_flops_per_s(x)


def _slope(slope: PlotSlope, top: float) -> Callable[[float], float | None]:
    """Return the height of a slope, which ends at the highest roof."""

    def height(x: float) -> float | None:
        rate = slope.bandwidth_bytes_per_s * x
        return rate if rate <= top else None

    return height


def _between(points: Sequence[tuple[float, float]]) -> Callable[[float], float | None]:
    """Return the curve through points, straight between them on logarithmic axes; nothing outside."""

    def height(x: float) -> float | None:
        for (x0, y0), (x1, y1) in pairwise(points):
            if x0 <= x <= x1 and x1 > x0:
                share = math.log(x / x0) / math.log(x1 / x0)
                return math.exp(math.log(y0) + share * math.log(y1 / y0))
        return None

    return height


def _mark_ridges(canvas: Canvas, roofs: Sequence[PlotRoof]) -> None:
    for roof in roofs:
        canvas.put(roof.ridge_flop_per_byte, roof.peak_flops_per_s, canvas.signs.ridge, "bold")


def _place_points(canvas: Canvas, points: Sequence[PlotPoint]) -> dict[str, str]:
    """Put every letter into its cell: capitals first, then small ones, then marks; return the letters that are
    nowhere.
    """
    taken: dict[tuple[int, int], str] = {}
    seen: set[str] = set()
    behind: dict[str, str] = {}

    def put(letter: str, intensity: float, rate: float | None, sign: str, style: str) -> None:
        if not rate:
            return
        cell = canvas.cell(intensity, rate)
        if cell not in taken:
            taken[cell] = letter
            canvas.put(intensity, rate, sign, style)
        if taken[cell] == letter:
            seen.add(letter)
        else:
            behind.setdefault(letter, taken[cell])

    for point in points:
        put(point.letter, point.intensity_flop_per_byte, point.reached_flops_per_s, point.letter, "bold green")
    for point in points:
        put(point.letter, point.intensity_flop_per_byte, point.ideal_flops_per_s, point.letter.lower(), "yellow")
    for point in points:
        rate = point.expected_flops_per_s
        if rate and canvas.cell(point.intensity_flop_per_byte, rate) not in taken:
            canvas.put(point.intensity_flop_per_byte, rate, canvas.signs.expected, "cyan")
        if point.ideal_flops_per_s and point.reached_flops_per_s:
            canvas.segment(point.intensity_flop_per_byte, point.ideal_flops_per_s, point.reached_flops_per_s)
    return {letter: other for letter, other in behind.items() if letter not in seen}


def _name_slopes(canvas: Canvas, plot: RooflinePlot) -> None:
    """Write each memory level's name left of its slope, where nothing is drawn."""
    for slope in [*([plot.memory] if plot.memory else []), *plot.caches]:
        canvas.write_beside(slope.label, lambda y, slope=slope: y / slope.bandwidth_bytes_per_s)  # type: ignore[misc]


def _name_room(width: int) -> int:
    """Return how many characters the names of roofs may take on the right."""
    return 11 if width < 80 else 18 if width < 110 else 28


def _roof_names(roofs: Sequence[PlotRoof], room: int) -> dict[float, str]:
    """Return peak → the names of the roofs that share it, `FP8_E4M3 +2` where not all fit."""
    groups: dict[float, list[str]] = {}
    for roof in roofs:
        peak = next(
            (group for group in groups if math.isclose(group, roof.peak_flops_per_s, rel_tol=0.004)),
            roof.peak_flops_per_s,
        )
        names = groups.setdefault(peak, [])
        if roof.label not in names:
            names.append(roof.label)
    roof_names = {}
    for peak, names in groups.items():
        text = ", ".join(names)
        if len(text) > room:
            more = f" +{len(names) - 1}" if len(names) > 1 else ""
            first = names[0] if len(names[0]) + len(more) <= room else f"{names[0][: room - len(more) - 1]}…"
            text = first + more
        roof_names[peak] = text
    return roof_names


def _label_rows(canvas: Canvas, names: dict[float, str]) -> dict[int, str]:
    """Return row → name; a name whose row is taken moves to the nearest free one, the higher roof above the lower."""
    label_rows: dict[int, str] = {}
    for peak in sorted(names, reverse=True):
        row = canvas.row(peak)
        while row in label_rows and row > 0:
            row -= 1
        if row not in label_rows:
            label_rows[row] = names[peak]
    return label_rows
