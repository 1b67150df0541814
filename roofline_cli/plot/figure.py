"""The dual roofline that a screen of characters can show, as a figure: its series are keyed by letters.

A small letter stands at an ideal rate, its capital where the case is: at the measured rate, or in a plot of
predictions at the expected one. Rates are in FLOP/s, intensities in FLOP/byte. Pure; printing is elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from reports.figures.drawing.palette import INK, MUTED
from reports.figures.drawing.spec import Axis, Figure, Label, Line, Marks, Series
from reports.view.roofline_view import CacheRoof, Roof
from roofline_cli.plot.canvas import DASHED, DOTTED
from roofline_model.core.units import format_bandwidth, format_flops

OTHER_LETTER = "*"
"""Stands for every series beyond the alphabet."""


class LetterPoint(NamedTuple):
    """One case; several may share a letter."""

    letter: str
    """A capital."""
    intensity_flop_per_byte: float
    ideal_flops_per_s: float | None
    reached_flops_per_s: float | None
    """Where the capital stands."""
    expected_flops_per_s: float | None = None
    """Where a mark stands."""


def letter_of(index: int) -> str:
    """Return A to Z for the first 26, `*` for the rest."""
    return chr(ord("A") + index) if index < 26 else OTHER_LETTER


def letter_figure(
    roofs: Sequence[Roof],
    memory: CacheRoof | None,
    caches: Sequence[CacheRoof] = (),
    points: Sequence[LetterPoint] = (),
    expected_roof: Sequence[tuple[float, float]] = (),
) -> Figure:
    """Return the figure; one with neither a roof nor a point has no series.

    `memory` is the slope that the roofs share, `expected_roof` (intensity, rate) of what is expected, ascending.
    """
    if not roofs and not points:
        return Figure("", Axis(""), Axis(""), ())
    x, y = _axes(roofs, points)
    low, high = x.low_value or 0.0, x.high_value or 0.0
    top = max((roof.peak_flops_per_s for roof in roofs), default=y.high_value or 0.0)
    slopes = [*([memory] if memory else []), *caches]
    labels = [
        Label((slope_text(slope),), low, low * slope.bandwidth_bytes_per_s, INK, "along", toward=(high, top))
        for slope in slopes
    ]
    labels += [Label((roof.precision,), high, roof.peak_flops_per_s, INK, "margin") for roof in roofs]
    ridges = [(roof.critical_intensity_flop_per_byte, roof.peak_flops_per_s) for roof in roofs]
    series: list[Series] = [
        *(_slope(cache, low, high, top, DASHED) for cache in caches),
        Line("expected roof", *_columns(expected_roof), MUTED, 1.1, DOTTED),
        *([_slope(memory, low, high, top)] if memory else []),
        *(
            Line(
                roof.precision, *_columns([(low, low * roof.bandwidth_bytes_per_s), ridge, (high, ridge[1])]), INK, 1.8
            )
            for roof, ridge in zip(roofs, ridges, strict=True)
        ),
        Marks("ridges", *_columns(ridges), INK, "diamond"),
        *_points(points),
    ]
    return Figure("", x, y, tuple(series), tuple(labels))


def _axes(roofs: Sequence[Roof], points: Sequence[LetterPoint]) -> tuple[Axis, Axis]:
    """Return the two axes: every point and every ridge is inside, with room beyond."""
    xs = [point.intensity_flop_per_byte for point in points]
    ridges = [roof.critical_intensity_flop_per_byte for roof in roofs]
    rates = [rate for point in points for rate in point[2:] if rate]
    low, high = min([*xs, *ridges] if xs else [ridge / 100 for ridge in ridges]) / 2, max([*xs, *ridges]) * 4
    lowest = min(rates or [roof.rate_flops_per_s(low) for roof in roofs])
    highest = max([*(roof.peak_flops_per_s for roof in roofs), *rates])
    room = max(highest / lowest, 2.0) ** 0.07
    return (
        Axis("FLOP/byte", low, high, is_log=True),
        Axis("FLOP/s", lowest / room, highest * room, is_log=True),
    )


def _slope(slope: CacheRoof, low: float, high: float, top: float, dash: tuple[float, ...] = ()) -> Line:
    """Return a slope as far as the highest roof."""
    ends = [(x, x * slope.bandwidth_bytes_per_s) for x in (low, min(top / slope.bandwidth_bytes_per_s, high))]
    return Line(slope.name, *_columns(ends), INK, 1.1, dash)


def _columns(corners: Sequence[tuple[float, float]]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    return tuple(x for x, _ in corners), tuple(y for _, y in corners)


def _points(points: Sequence[LetterPoint]) -> Iterator[Series]:
    """Yield capitals, small letters, marks, and the gaps between them: what comes first is not covered."""
    for fill, name in (("full", "reached_flops_per_s"), ("hollow", "ideal_flops_per_s")):
        placed = [(point, rate) for point in points if (rate := getattr(point, name))]
        spots = _columns([(point.intensity_flop_per_byte, rate) for point, rate in placed])
        yield Marks(name, *spots, INK, fill=fill, keys=tuple(point.letter for point, _ in placed))  # type: ignore[arg-type,misc]
    expected = [(point.intensity_flop_per_byte, rate) for point in points if (rate := point.expected_flops_per_s)]
    yield Marks("expected", *_columns(expected), INK, "dash")
    for point in points:
        if point.ideal_flops_per_s and point.reached_flops_per_s:
            ends = (point.ideal_flops_per_s, point.reached_flops_per_s)
            yield Line("gap", (point.intensity_flop_per_byte,) * 2, ends, MUTED, 0.9)


# --- words


def slope_text(slope: CacheRoof) -> str:
    """Return `DRAM 4.8 TB/s`."""
    return f"{slope.name} {format_bandwidth(slope.bandwidth_bytes_per_s, 3)}"


def highest_first(roofs: Sequence[Roof]) -> tuple[Roof, ...]:
    """Return the distinct roofs by their peaks."""
    return tuple(sorted(dict.fromkeys(roofs), key=lambda roof: -roof.peak_flops_per_s))


def ridge_texts(roofs: Sequence[Roof], at_most: int = 12) -> list[str]:
    """Return `FP16, BF16: 989 TFLOP/s from 295 FLOP/byte` for every distinct roof, the highest first."""
    # Roofs that read alike are one: the peaks of a model's operators differ in their last digits.
    groups: dict[str, list[str]] = {}
    for roof in roofs:
        ridge = roof.critical_intensity_flop_per_byte
        where = f"{ridge:,.0f}" if ridge >= 99.5 else f"{ridge:.3g}"
        names = groups.setdefault(f"{format_flops(roof.peak_flops_per_s, 3)} from {where} FLOP/byte", [])
        if roof.precision not in names:
            names.append(roof.precision)
    return [
        f"{', '.join(names[:at_most])}{f' and {len(names) - at_most} more' if len(names) > at_most else ''}: {where}"
        for where, names in groups.items()
    ]


def hidden_texts(hidden: Mapping[str, str]) -> list[str]:
    """Return `B, C under A` for the letters that have no place of their own."""
    groups: dict[str, list[str]] = {}
    for letter, other in hidden.items():
        groups.setdefault(other, []).append(letter)
    return [f"{', '.join(sorted(letters))} under {other}" for other, letters in groups.items()]
