"""Speed against measured quality against memory for the precisions of a whole model: what no other beats, and what to take."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import ceil, floor, log10
from typing import TYPE_CHECKING

from reports.advice.trade_offs import on_front
from reports.figures.frame import FONT, PLAIN_TEXT, frame, key, plain
from reports.figures.palette import ACCENT, GRID, INK, MUTED, SURFACE, format_colours
from reports.text.display_text import prefixed, shown
from results.records.model_figures import Interval
from results.text.model_text import NOT_LANGUAGE, text_source, tokens_text
from results.verdicts.model_results import PassResult, PhaseResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIZE_INCHES = (9.6, 6.0)
_MOST_POINTS = 400.0
_LEAST_POINTS = 40.0


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
    """Return the measured precisions whose loss is measured too, and the 16-bit reference; empty without any such loss."""
    chosen = phase.of(phase.judged.best)
    points = [(one, loss) for one in phase.passes if one.tokens_per_s and (loss := _loss(one)) is not None]
    if not any(one.figures.quality_source == "measured" for one, _ in points):
        return ()
    fronts = on_front(
        [(-(one.tokens_per_s or 0.0), loss.value, float(one.figures.held_bytes or 0)) for one, loss in points]
    )
    return tuple(
        ParetoPoint(
            shown(one.label, 40),
            loss,
            one.tokens_per_s or 0.0,
            one.figures.held_bytes,
            one.figures.quality_source == "reference",
            one is chosen,
            one.is_doubtful,
            is_front,
        )
        for (one, loss), is_front in zip(points, fronts, strict=True)
    )


def draw_pareto(phase: PhaseResult, *, title: str, subtitle: str) -> Figure | None:
    """Return the figure of a phase; None where nobody measured quality."""
    points = pareto_points(phase)
    if not points:
        return None
    figure = frame(title, subtitle, SIZE_INCHES)
    axes = figure.add_axes((0.09, 0.215, 0.88, 0.645), facecolor=SURFACE.light)
    plain(axes)
    _scale(axes, points, phase)
    fastest = _fastest_at_each_loss(points)
    axes.plot(*zip(*fastest, strict=True), color=MUTED.light, linewidth=1.1, linestyle=(0, (4, 3)), zorder=2)
    inks = format_colours([point.label.split(",")[0] for point in points])
    for point in points:
        _draw_point(axes, point, inks[point.label.split(",")[0]].light, _area(point, points))
    _label(axes, points, fastest)
    measured = next(one for one in phase.passes if one.figures.quality_source == "measured")
    source = text_source(measured.figures)
    note = (
        f"Quality over {source}" + ("" if measured.figures.is_language else f" ({NOT_LANGUAGE})")
        if source
        else "Quality measured"
    )
    figure.text(
        0.02,
        0.022,
        f"{shown(note, 160)}. Horizontal lines: 95 % intervals.",
        fontsize=FONT - 1,
        color=MUTED.light,
        style="italic",
        **PLAIN_TEXT,
    )
    has_sizes = any(point.held_bytes for point in points)
    entries = [
        ("o", MUTED.light, "a precision" + ("; area: bytes the model holds" if has_sizes else "")),
        ("o hollow", ACCENT.light, "the recommendation"),
    ]
    entries += [("_", MUTED.light, "dashed: the fastest at its loss")] if len(fastest) > 1 else []
    entries += (
        [("o", GRID.light, "pale: another is as good in speed, loss and memory")]
        if not all(point.is_on_front for point in points)
        else []
    )
    entries += [("", INK.light, "! the time is in doubt")] if any(point.is_doubtful for point in points) else []
    key(figure, entries, bottom_inches=0.42)
    return figure


def _loss(one: PassResult) -> Interval | None:
    figures = one.figures
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
    found: list[tuple[float, float]] = []
    for point in sorted(points, key=lambda one: (one.loss.value, -one.tokens_per_s)):
        if not found or point.tokens_per_s > found[-1][1]:
            found.append((point.loss.value, point.tokens_per_s))
    return found


def _scale(axes: Axes, points: tuple[ParetoPoint, ...], phase: PhaseResult) -> None:
    positive = [point.loss.value for point in points if point.loss.value > 0]
    is_wide = bool(positive) and max(positive) > 30 * min(positive)
    if is_wide:
        axes.set_xscale("symlog", linthresh=min(positive), linscale=0.6)
        axes.set_xticks(
            [0.0, *(10.0**power for power in range(ceil(log10(min(positive))), floor(log10(max(positive))) + 2))]
        )
    axes.set_xlim(
        -0.06 * max(positive, default=1.0) if not is_wide else -0.5 * min(positive),
        max(positive, default=1.0) * (3.0 if is_wide else 1.25),
    )
    axes.set_ylim(0, max(point.tokens_per_s for point in points) * 1.18)
    is_encoder = any(one.figures.embedding_cosine_ratio is not None for one in phase.passes)
    name = "1 − mean cosine of the embeddings" if is_encoder else "KL divergence from the 16-bit model (nats per token)"
    axes.set_xlabel(f"Loss: {name}; less is better", fontsize=FONT, color=INK.light)
    axes.set_ylabel("Tokens per second; more is better", fontsize=FONT, color=INK.light)


def _area(one: ParetoPoint, points: tuple[ParetoPoint, ...]) -> float:
    largest = max((point.held_bytes or 0 for point in points), default=0)
    if not largest or not one.held_bytes:
        return 70.0
    return max(_MOST_POINTS * one.held_bytes / largest, _LEAST_POINTS)


def _draw_point(axes: Axes, one: ParetoPoint, colour: str, area: float) -> None:
    if one.loss.low_value is not None and one.loss.high_value is not None:
        axes.hlines(
            one.tokens_per_s, one.loss.low_value, one.loss.high_value, color=colour, linewidth=1.3, alpha=0.7, zorder=3
        )
    axes.scatter(
        [one.loss.value],
        [one.tokens_per_s],
        s=area,
        color=colour,
        edgecolors=SURFACE.light,
        linewidths=1,
        zorder=4,
        alpha=1 if one.is_on_front else 0.35,
    )
    if one.is_chosen:
        axes.scatter(
            [one.loss.value],
            [one.tokens_per_s],
            s=area + 180,
            facecolors="none",
            edgecolors=ACCENT.light,
            linewidths=1.8,
            zorder=5,
        )


def _label(axes: Axes, points: tuple[ParetoPoint, ...], fastest: list[tuple[float, float]]) -> None:
    """Write every name beside its point, moved apart where points are close."""
    from reports.figures.label_layout import rectangle
    from reports.figures.matplotlib_drawer import keep_marks, label_field, pixels, text_size, write_label

    field = label_field(axes)
    places = pixels(axes, [(point.loss.value, point.tokens_per_s) for point in points])
    dpi = axes.figure.dpi
    for start, stop in pairwise(pixels(axes, fastest)):
        field.add((start, stop), "line")
    for one, place in zip(points, places, strict=True):
        keep_marks(field, [place], _area(one, points) ** 0.5, dpi)
    for one, (x, y) in zip(points, places, strict=True):
        held = f" · {prefixed(float(one.held_bytes), 'B')}" if one.held_bytes else ""
        text = f"{one.label} · {tokens_text(one.tokens_per_s)}/s{' !' if one.is_doubtful else ''}{held}"
        width, height = size = text_size(axes, text, FONT - 0.5)
        radius = _area(one, points) ** 0.5 * dpi / 144 + (8 if one.is_chosen else 3)
        centers = [
            center
            for gap in (2, 8, 16, 26, 40, 60)
            for center in (
                (x + radius + gap + width / 2, y),
                (x, y + radius + gap + height / 2),
                (x, y - radius - gap - height / 2),
                (x - radius - gap - width / 2, y),
                (x + radius + width / 2, y + gap + height),
                (x + radius + width / 2, y - gap - height),
            )
        ]
        free = next((center for center in centers if field.is_free(rectangle(center, size))), None)
        if free is not None:
            write_label(
                axes,
                field,
                text,
                free,
                size,
                fontsize=FONT - 0.5,
                color=ACCENT.light if one.is_chosen else INK.light,
                zorder=6,
            )
