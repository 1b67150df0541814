"""Speed against measured quality against memory for the precisions of a whole model: what no other beats, and what to
take.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, floor, log10

from reports.advice.trade_offs import on_front
from reports.figures.drawing.palette import ACCENT, GRID, INK, MUTED, SURFACE, format_colours
from reports.figures.drawing.spec import Axis, Figure, Label, LegendEntry, Line, Marks, Series
from reports.present.display_text import prefixed, shown
from reports.present.words.model_text import NOT_LANGUAGE, OF_DEVICE, text_source
from reports.present.words.verdict_text import tokens_text
from results.cases.model_results import PassResult, PhaseResult
from results.records.model_figures import Interval

_MOST_POINTS, _LEAST_POINTS = 20.0, 6.5
"""Diameters of the marks."""
_DASH = (4.4, 3.3)


@dataclass(frozen=True, slots=True)
class ParetoPoint:
    """One precision of a model in one phase, with its loss measured."""

    label: str
    loss: Interval
    """KL in nats per token, or one minus the mean cosine of embeddings; 0 for the reference."""
    tokens_per_s: float
    held_bytes: int | None
    is_reference: bool
    is_chosen: bool
    is_doubtful: bool
    """Whether its time, and so its speed, is in doubt."""
    is_on_front: bool
    """No other is at least as fast, as close and as small, and better in one of them."""


def pareto_points(phase: PhaseResult) -> tuple[ParetoPoint, ...]:
    """Return the measured precisions whose loss is measured too, and the 16-bit reference; empty without any such
    loss.
    """
    chosen = phase.of(phase.judged.best)
    points = [(result, loss) for result in phase.passes if result.tokens_per_s and (loss := _loss(result)) is not None]
    if not any(result.figures.quality_source == "measured" for result, _ in points):
        return ()
    fronts = on_front(
        [(-(result.tokens_per_s or 0.0), loss.value, float(result.figures.held_bytes or 0)) for result, loss in points]
    )
    return tuple(
        ParetoPoint(
            shown(result.label, 40),
            loss,
            result.tokens_per_s or 0.0,
            result.figures.held_bytes,
            result.figures.quality_source == "reference",
            result is chosen,
            result.is_doubtful,
            is_front,
        )
        for (result, loss), is_front in zip(points, fronts, strict=True)
    )


def pareto_figure(phase: PhaseResult, *, title: str, subtitle: str) -> Figure | None:
    """Return the figure of a phase: tokens per second over loss; None where nobody measured quality."""
    points = pareto_points(phase)
    if not points:
        return None
    fastest = _fastest_at_each_loss(points)
    return Figure(
        title,
        _loss_axis(phase, [point.loss.value for point in points if point.loss.value > 0]),
        Axis(
            f"Tokens per second{OF_DEVICE if phase.is_of_device else ''}; more is better",
            0.0,
            1.18 * max(point.tokens_per_s for point in points),
        ),
        (_front(fastest), *(series for point in points for series in _series(point, points))),
        tuple(_label(point) for point in points),
        tuple(_legend(points, has_front=len(fastest) > 1)),
        subtitle,
        (_source_note(phase),),
    )


def _source_note(phase: PhaseResult) -> str:
    measured = next(result for result in phase.passes if result.figures.quality_source == "measured")
    source = text_source(measured.figures)
    language = "" if measured.figures.is_language else f" ({NOT_LANGUAGE})"
    return (
        f"{shown(f'Quality over {source}{language}' if source else 'Quality measured', 160)}; horizontal lines: 95 % "
        "intervals"
    )


def _loss(result: PassResult) -> Interval | None:
    figures = result.figures
    if figures.quality_source == "reference":
        return Interval(0.0, None, None)
    if figures.quality_source != "measured":
        return None
    cosine = figures.embedding_cosine_ratio
    if cosine is None:
        return figures.kl_nats_per_token
    low, high = (None if end is None else 1 - end for end in (cosine.high_value, cosine.low_value))
    return Interval(1 - cosine.value, low, high)


def _fastest_at_each_loss(points: tuple[ParetoPoint, ...]) -> list[tuple[float, float]]:
    """Return (loss, tokens/s) of the points that are faster than every one of less loss."""
    fastest: list[tuple[float, float]] = []
    for point in sorted(points, key=lambda placed: (placed.loss.value, -placed.tokens_per_s)):
        if not fastest or point.tokens_per_s > fastest[-1][1]:
            fastest.append((point.loss.value, point.tokens_per_s))
    return fastest


def _front(fastest: list[tuple[float, float]]) -> Line:
    x, y = zip(*fastest, strict=True)
    return Line("fastest at its loss", x, y, MUTED, 1.1, _DASH)


def _loss_axis(phase: PhaseResult, losses: list[float]) -> Axis:
    """Return the axis of losses: logarithmic where they lie far apart, with a place for zero."""
    is_encoder = any(result.figures.embedding_cosine_ratio is not None for result in phase.passes)
    name = "1 − mean cosine of the embeddings" if is_encoder else "KL divergence from the 16-bit model (nats per token)"
    title = f"Loss: {name}; less is better"
    least, most = min(losses, default=1.0), max(losses, default=1.0)
    if most <= 30 * least:
        return Axis(title, -0.06 * most, 1.25 * most)
    powers = (10.0**power for power in range(ceil(log10(least)), floor(log10(most)) + 2))
    ticks = tuple((value, f"{value:g}") for value in (0.0, *powers))
    return Axis(title, -0.5 * least, 3.0 * most, is_log=True, linear_below_value=least, ticks=ticks)


def _size(point: ParetoPoint, points: tuple[ParetoPoint, ...]) -> float:
    """Return a diameter whose square is as what the model holds."""
    largest = max((other.held_bytes or 0 for other in points), default=0)
    return (
        max(_MOST_POINTS * (point.held_bytes / largest) ** 0.5, _LEAST_POINTS) if largest and point.held_bytes else 8.4
    )


def _series(point: ParetoPoint, points: tuple[ParetoPoint, ...]) -> Iterator[Series]:
    precisions = [other.label.split(",")[0] for other in points]
    colour = format_colours(precisions)[point.label.split(",")[0]]
    x, y, size = (point.loss.value,), (point.tokens_per_s,), _size(point, points)
    if point.loss.low_value is not None and point.loss.high_value is not None:
        yield Line("interval", (point.loss.low_value, point.loss.high_value), y * 2, colour, 1.3, opacity_ratio=0.7)
    yield Marks(
        point.label, x, y, colour, size_points=size, edge=SURFACE, opacity_ratio=1.0 if point.is_on_front else 0.35
    )
    if point.is_chosen:
        yield Marks("recommended", x, y, ACCENT, size_points=size + 6, fill="ring", edge_width_points=1.8)


def _label(point: ParetoPoint) -> Label:
    held = f" · {prefixed(float(point.held_bytes), 'B')}" if point.held_bytes else ""
    text = f"{point.label} · {tokens_text(point.tokens_per_s)}/s{' !' if point.is_doubtful else ''}{held}"
    return Label((text,), point.loss.value, point.tokens_per_s, ACCENT if point.is_chosen else INK, "around")


def _legend(points: tuple[ParetoPoint, ...], *, has_front: bool) -> Iterator[LegendEntry]:
    area = "; area: bytes the model holds" if any(point.held_bytes for point in points) else ""
    yield LegendEntry(f"a precision{area}", MUTED)
    yield LegendEntry("the recommendation", ACCENT, fill="ring")
    if has_front:
        yield LegendEntry("the fastest at its loss", MUTED, "line", dash=_DASH)
    if not all(point.is_on_front for point in points):
        yield LegendEntry("pale: another is as good in speed, loss and memory", GRID)
    if any(point.is_doubtful for point in points):
        yield LegendEntry("! the time is in doubt", SURFACE)
