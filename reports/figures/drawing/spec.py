"""A figure as data: series, axes, labels, legend and what is told of a thing that is pointed at. Built once, drawn
anywhere.

Numbers are in the units of the axes; sizes are points (1/72 inch). Series are drawn in their order, the last on top.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from reports.figures.drawing.palette import Colour, Shape

LEAST_BOXED = 2
"""Values of a strip from which on it has a box."""
MOST_DOTS = 120
"""Values of a strip that are all dots; of more only those beyond the whiskers."""

Medium = Literal["any", "still", "live"]
"""Where it is drawn: on paper and in files, where figures can be pointed at, or anywhere."""
Fill = Literal["full", "hollow", "ring", "left", "right"]
"""Of a mark: all of it, the colour of the ground, nothing, or one half."""
Key = str | int
"""What can be pointed at: the number of a case on its page, or a key of `Figure.cards`."""


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis. Without ends it goes as far as the data."""

    title: str
    low_value: float | None = None
    high_value: float | None = None
    is_log: bool = False
    linear_below_value: float = 0.0
    """Of a logarithmic axis with a place for zero: below this it is linear."""
    is_time: bool = False
    """Its numbers are seconds since 1970 (UTC), its ticks dates."""
    has_zero: bool = False
    """Without ends, zero is on it all the same."""
    ticks: tuple[tuple[float, str], ...] = ()
    """Empty: where and how the drawer likes them."""
    is_bare: bool = False
    """Neither line nor grid: its ticks are names."""
    suffix: str = ""
    """Behind every number of it."""
    brief_title: str = ""
    """Where there is little room; empty: the title."""


@dataclass(frozen=True, slots=True)
class Line:
    """Straight pieces from point to point; None in x and y leaves a gap."""

    name: str
    x: tuple[float | None, ...]
    y: tuple[float | None, ...]
    colour: Colour
    width_points: float
    dash: tuple[float, ...] = ()
    """Lengths of strokes and gaps; empty: solid."""
    is_stepped: bool = False
    """Up first, then across, instead of straight."""
    opacity_ratio: float = 1.0
    keys: tuple[Key | None, ...] = ()
    """One per point; empty: nothing to point at."""
    is_silent: bool = False
    """Its keys serve to filter it only: pointing at it says nothing."""
    medium: Medium = "any"


@dataclass(frozen=True, slots=True)
class Marks:
    """Points of one look."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    colour: Colour
    shape: Shape = "circle"
    size_points: float = 7.0
    fill: Fill = "full"
    edge: Colour | None = None
    """None: its own colour."""
    edge_width_points: float = 0.9
    opacity_ratio: float = 1.0
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    """Ends of an interval of y at each point; empty: none."""
    keys: tuple[Key, ...] = ()
    is_silent: bool = False
    medium: Medium = "any"


@dataclass(frozen=True, slots=True)
class Bars:
    """Horizontal bars at one height, each from a start over a length."""

    name: str
    y: float
    starts: tuple[float, ...]
    lengths: tuple[float, ...]
    colour: Colour
    height_value: float = 0.72
    is_hatched: bool = False
    keys: tuple[Key, ...] = ()
    is_silent: bool = False
    medium: Medium = "any"


Series = Line | Marks | Bars


@dataclass(frozen=True, slots=True)
class Strip:
    """The values of one row: each a dot, and from `LEAST_BOXED` on a box with quartiles, median and whiskers."""

    name: str
    row_index: int
    values: tuple[float, ...]
    colour: Colour
    is_filled: bool = True
    keys: tuple[Key, ...] = ()
    """One per value; empty: nothing to point at."""
    shift_value: float = 0.0
    """Rows above (negative) or below the middle of its row."""
    height_value: float = 0.5
    size_points: float = 5.5
    is_dense: bool = False
    """Of more than `MOST_DOTS` values so many are dots, extremes kept, instead of those beyond the whiskers alone."""


@dataclass(frozen=True, slots=True)
class Part:
    """What each row has of one kind, in seconds; parts are stacked, negative ones to the left.

    None: the row has none.
    """

    name: str
    description: str
    colour: Colour
    times_s: tuple[float | None, ...]
    is_hatched: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """A row's name in two lines, the same where there is little room, and the cases it stands for."""

    name: tuple[str, str]
    brief_name: tuple[str, str]
    keys: tuple[Key, ...] = ()
    """A row of which none passes a filter is left out; one alone can be pressed."""


@dataclass(frozen=True, slots=True)
class RowFact:
    """What is told of a row beside its parts: a time and its interval."""

    name: str
    times_s: tuple[float | None, ...]
    low_s: tuple[float | None, ...] = ()
    high_s: tuple[float | None, ...] = ()


@dataclass(frozen=True, slots=True)
class RowOrder:
    """One way to order rows: their numbers, and what it is called."""

    text: str
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Label:
    """A text that is placed where it covers nothing: beside its point, along a line, in the right margin, or over the
    top of the plane; where no such place is free, it is left out.
    """

    lines: tuple[str, ...]
    x: float
    y: float
    colour: Colour
    place: Literal["beside", "around", "along", "margin", "top"]
    """Beside a point is left of it where that is free; around it the nearest free place on any side."""
    toward: tuple[float, float] | None = None
    """Of a label along a line, another point of that line."""
    is_bold: bool = False
    """Of a label of several lines, its first."""
    medium: Medium = "any"


@dataclass(frozen=True, slots=True)
class LegendEntry:
    """A look and what it means."""

    text: str
    colour: Colour
    kind: Literal["mark", "line", "swatch"] = "mark"
    shape: Shape = "circle"
    fill: Fill = "full"
    sign: Shape | None = None
    """A small sign on the mark."""
    dash: tuple[float, ...] = ()
    opacity_ratio: float = 1.0
    is_hatched: bool = False
    is_large: bool = False
    is_on_demand: bool = False
    """Whether a page folds it away: a format that no answer names."""
    medium: Medium = "any"


@dataclass(frozen=True, slots=True)
class Card:
    """What is told of a thing that is pointed at."""

    title: str
    facts: tuple[tuple[str, str], ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Figure:
    """One plane with everything on it."""

    title: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    labels: tuple[Label, ...] = ()
    legend: tuple[LegendEntry, ...] = ()
    subtitle: str = ""
    notes: tuple[str, ...] = ()
    """What it cannot show."""
    cards: Mapping[str, Card] = field(default_factory=dict)

    def of(self, medium: Medium) -> tuple[Series, ...]:
        """Return the series that a medium draws."""
        return tuple(series for series in self.series if series.medium in ("any", medium))


@dataclass(frozen=True, slots=True)
class Panel:
    """One plane of a stack."""

    y: Axis
    series: tuple[Series, ...]
    height_inches: float


@dataclass(frozen=True, slots=True)
class Stack:
    """Planes over each other on one axis."""

    title: str
    x: Axis
    panels: tuple[Panel, ...]
    """From the top."""
    shades: tuple[tuple[float, float], ...] = ()
    """Stretches of x that are shaded in every plane."""
    legend: tuple[LegendEntry, ...] = ()
    subtitle: str = ""
    cards: Mapping[str, Card] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plane:
    """One plane of planes side by side."""

    x: Axis
    series: tuple[Series, ...]
    share_ratio: float = 1.0
    """Of the width that the planes have together."""


@dataclass(frozen=True, slots=True)
class Beside:
    """Planes side by side on one y axis: a small figure among text."""

    title: str
    y: Axis
    planes: tuple[Plane, ...]
    """From the left."""
    size_inches: tuple[float, float]
    bands: tuple[tuple[float, float], ...] = ()
    """Stretches of y that are shaded in every plane."""
    legend: tuple[LegendEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class RowFigure:
    """A figure with a row per name: strips of values on one axis, or times that are split into parts."""

    title: str
    x: Axis
    """With parts: of their shares in percent of the row's total. It goes as far as they do, to its ends at most."""
    rows: tuple[Row, ...]
    strips: tuple[Strip, ...] = ()
    parts: tuple[Part, ...] = ()
    totals_s: tuple[float, ...] = ()
    """Of a figure of parts what each row's parts add up to."""
    total_name: str = ""
    count_name: str = ""
    """Of a figure whose rows sum up cases: what the cases behind a bar are called. A filter shrinks the bar to those
    that pass.
    """
    facts: tuple[RowFact, ...] = ()
    orders: tuple[RowOrder, ...] = ()
    """The first is the one that is drawn; empty: as the rows stand."""
    max_rows_count: int = 40
    levels: tuple[tuple[float, bool], ...] = ()
    """Where on x a line goes through all rows, and whether it is dashed."""
    legend: tuple[LegendEntry, ...] = ()
    subtitle: str = ""
    notes: tuple[str, ...] = ()
    cards: Mapping[str, Card] = field(default_factory=dict)
    """More about a row, by its key."""


@dataclass(frozen=True, slots=True)
class SheetTable:
    """A sentence with a small table under it."""

    title: str
    text: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    """The first row is in bold."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """A picture to share: what was found on the left, a figure on the right."""

    title: str
    subtitle: str
    tables: tuple[SheetTable, ...]
    notes: tuple[str, ...]
    caption: str
    """What the marks of the figure mean."""
    footer: str
    figure: Figure
    legend_title: str
    """Over the colours of the figure's formats."""
    size_inches: tuple[float, float] = (12.0, 6.3)


Drawable = Figure | Stack | Beside | RowFigure
"""What a drawer draws."""
