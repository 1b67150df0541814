"""Batch against latency as a figure: a line per format from one sequence to many, tokens per second over the time per
token.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from reports.figures.drawing.palette import ACCENT, INK, MUTED, Colour, format_colours
from reports.figures.drawing.spec import Axis, Card, Figure, Label, LegendEntry, Line, Marks, Series
from roofline_model.core.units import format_memory, format_rate, format_time
from roofline_model.predictions.batches import BatchCurve, BatchCurves, BatchPoint

_PALE_RATIO = 0.35
"""Opacity of a batch beyond a limit."""
_DASH = (4.0, 3.0)
_ROOM_RATIO = 1.25
"""Between the data and the ends of the axes."""


def batch_colours(curves: BatchCurves) -> dict[str, Colour]:
    """Return the colour of every format's name."""
    return format_colours(curve.name for curve in curves.curves)


def batch_figure(curves: BatchCurves) -> Figure:
    """Return the figure. Batches beyond a limit of time are pale, formats beyond the limit of loss dashed, the best is
    ringed.
    """
    points = [point for curve in curves.curves for point in curve.points]
    if not points:
        return Figure("", Axis(""), Axis(""), ())
    colours = batch_colours(curves)
    times = [point.token_s * 1e3 for point in points]
    rates = [point.tokens_per_s for point in points]
    low, high = min(rates) / _ROOM_RATIO, max(rates) * _ROOM_RATIO
    series = [each for curve in curves.curves for each in _curve_series(curve, colours[curve.name])]
    return Figure(
        "",
        Axis("Time per token (ms)", min(times) / _ROOM_RATIO, max(times) * _ROOM_RATIO, is_log=True),
        Axis("Tokens per second, all sequences", low, high, is_log=True, brief_title="Tokens/s"),
        (*_limit(curves, low, high), *series, *_best(curves)),
        tuple(_labels(curves, colours)),
        tuple(_legend(curves, colours)),
        cards=dict(_cards(curves)),
    )


def _curve_series(curve: BatchCurve, colour: Colour) -> Iterator[Series]:
    x = tuple(point.token_s * 1e3 for point in curve.points)
    y = tuple(point.tokens_per_s for point in curve.points)
    yield Line(curve.name, x, y, colour, 1.4, dash=() if curve.is_within_loss else _DASH, opacity_ratio=0.7)
    for is_within in (False, True):
        places = [at for at, point in enumerate(curve.points) if point.is_within_limits == is_within]
        yield Marks(
            curve.name,
            tuple(x[at] for at in places),
            tuple(y[at] for at in places),
            colour,
            size_points=8.0 if is_within else 6.0,
            fill="full" if is_within else "ring",
            opacity_ratio=1.0 if is_within else _PALE_RATIO,
            keys=tuple(_key(curve, at) for at in places),
        )


def _best(curves: BatchCurves) -> Iterator[Marks]:
    choice = curves.choice
    if choice is not None:
        x, y = (choice.point.token_s * 1e3,), (choice.point.tokens_per_s,)
        yield Marks("best", x, y, ACCENT, size_points=15.0, fill="ring", edge_width_points=2.0)


def _limit(curves: BatchCurves, low: float, high: float) -> Iterator[Line]:
    if curves.max_token_s is not None:
        x = curves.max_token_s * 1e3
        yield Line("limit", (x, x), (low, high), INK, 1.2, dash=(2.0, 2.0))


def _labels(curves: BatchCurves, colours: Mapping[str, Colour]) -> Iterator[Label]:
    choice = curves.choice
    for curve in curves.curves:
        if choice is not None and curve.plan == choice.plan:
            for point in curve.points:
                text = f"batch {point.batch_count}" if point == choice.point else str(point.batch_count)
                yield Label((text,), point.token_s * 1e3, point.tokens_per_s, colours[curve.name], "around")


def _legend(curves: BatchCurves, colours: Mapping[str, Colour]) -> Iterator[LegendEntry]:
    for curve in curves.curves:
        beyond = "" if curve.is_within_loss else f", beyond the {curves.max_loss_pct:g} % of loss"
        dash = () if curve.is_within_loss else _DASH
        yield LegendEntry(f"{curve.name}{beyond}", colours[curve.name], "line", dash=dash)
    if curves.max_token_s is not None or curves.max_first_token_s is not None:
        yield LegendEntry("within both limits", MUTED)
        yield LegendEntry("beyond a limit", MUTED, fill="ring", opacity_ratio=_PALE_RATIO)
    if curves.choice is not None:
        yield LegendEntry("most tokens/s within them", ACCENT, fill="ring", is_large=True)


def _cards(curves: BatchCurves) -> Iterator[tuple[str, Card]]:
    for curve in curves.curves:
        for at, point in enumerate(curve.points):
            facts = tuple(("", f"{name} {text}") for name, text in _facts(point))
            yield _key(curve, at), Card(curve.name, facts)


def _facts(point: BatchPoint) -> tuple[tuple[str, str], ...]:
    """Return what is told of a batch: name and text; a rate that is no kernel's says so."""
    source = "" if point.time_source == "expected" else f"{point.time_source} "
    return (
        ("batch", str(point.batch_count)),
        ("time per token", f"{source}{format_time(point.token_s, 3)}"),
        ("first token alone", format_time(point.first_token_s, 3)),
        ("first token on arrival", format_time(point.arriving_first_token_s, 3)),
        ("tokens/s", f"{source}{format_rate(point.tokens_per_s)}"),
        ("memory", format_memory(point.memory_bytes, 3)),
    )


def _key(curve: BatchCurve, at: int) -> str:
    return f"{curve.plan}:{at}"
