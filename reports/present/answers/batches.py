"""Batch against latency as an answer: the curves, the best batch in a sentence, and the steps of the two limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reports.present.predicted.words import IDEAL_TIMES, good_kernels_sentence, ideal_words
from roofline_model.core.answer import Source
from roofline_model.core.units import format_memory, format_rate, format_time
from roofline_model.predictions.batches import BatchCurve, BatchCurves

TOKEN_STEPS_S = (0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5)
FIRST_TOKEN_STEPS_S = (0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0)
"""Limits that a slider offers, seconds; behind the last one there is none."""
_MARKS: Mapping[Source, str] = {"expected": "", "measured": "", "ideal": "ideal ", "ceilings": "at best "}
"""Source of a time → what stands before it."""
COLUMNS = ("Format", "Batch", "Time per token", "First token on arrival", "Tokens/s", "Memory", "Loss")


@dataclass(frozen=True, slots=True)
class LimitStep:
    """One place of a slider."""

    value_s: float | None
    """Seconds; null: no limit."""
    text: str
    """What stands beside the slider."""


@dataclass(frozen=True, slots=True)
class BatchRow:
    """The best batch of one format within both limits."""

    name: str
    """What people call its formats."""
    cells: tuple[str, ...]
    """One text per column."""
    is_choice: bool
    """Whether it is the best of all."""


@dataclass(frozen=True, slots=True)
class BatchAnswer:
    """What a chip serves of a model within two limits of time."""

    curves: BatchCurves
    """Every format and batch, in numbers."""
    sentence: str
    """The format and batch with the most tokens per second, or that nothing keeps the limits."""
    basis: str
    """What the times are, and what they leave out."""
    columns: tuple[str, ...]
    """Heads of the table."""
    rows: tuple[BatchRow, ...]
    """A row per format with any batch within the limits, the most tokens per second first."""
    token_steps: tuple[LimitStep, ...]
    """Limits of the time per token that a slider offers."""
    first_token_steps: tuple[LimitStep, ...]
    """Limits of the time to the first token that a slider offers."""
    figure: Mapping[str, Any]
    """Tokens per second over the time per token, a line per format: for Plotly, as of `/api/figures/roofline`."""


def batch_answer(curves: BatchCurves, figure: Mapping[str, Any]) -> BatchAnswer:
    """Return the curves as an answer, with their figure as JSON."""
    return BatchAnswer(
        curves=curves,
        sentence=_sentence(curves),
        basis=_basis(curves),
        columns=COLUMNS,
        rows=tuple(_rows(curves)),
        token_steps=_steps(TOKEN_STEPS_S, "a token"),
        first_token_steps=_steps(FIRST_TOKEN_STEPS_S, "to the first token"),
        figure=figure,
    )


def limits_text(curves: BatchCurves) -> str:
    """Return the limits of time in words; empty without any."""
    token_s, first_s = curves.max_token_s, curves.max_first_token_s
    token = "" if token_s is None else f"{format_time(token_s)} a token"
    first = "" if first_s is None else f"{format_time(first_s)} to the first token"
    return " and ".join(filter(None, (token, first)))


def _sentence(curves: BatchCurves) -> str:
    limits = limits_text(curves)
    within = f"Within {limits}" if limits else "Without a limit of time"
    choice = curves.choice
    if choice is None:
        return f"{within}, nothing keeps a loss of {curves.max_loss_pct:g} % and the chip's memory. Allow more time."
    point = choice.point
    kind = f"ideal ({ideal_words()}) " if point.time_source == "ideal" else ""
    return (
        f"{within}: {choice.name} at batch {point.batch_count} serves {kind}{format_rate(point.tokens_per_s)} "
        "tokens/s, "
        f"{format_time(point.token_s, 3)} a token, {format_time(point.arriving_first_token_s, 3)} to the first token of a "
        "request that arrives."
    )


def _basis(curves: BatchCurves) -> str:
    count = f"{curves.context_count:,}"
    counted = (
        f"Each sequence holds {count} tokens. A new prompt as long waits for the step in flight and is "
        "computed "
        "alone; queueing is not counted."
    )
    sources = {point.time_source for curve in curves.curves for point in curve.points}
    return f"{IDEAL_TIMES if sources == {'ideal'} else good_kernels_sentence()} {counted}"


def _rows(curves: BatchCurves) -> list[BatchRow]:
    best = []
    for curve in curves.curves:
        within = [point for point in curve.points if point.is_within_limits]
        if within:
            best.append((curve, max(within, key=lambda point: point.tokens_per_s)))
    best.sort(key=lambda pair: -pair[1].tokens_per_s)
    return [
        BatchRow(
            name=curve.name,
            cells=(
                curve.name,
                str(point.batch_count),
                f"{_MARKS[point.time_source]}{format_time(point.token_s, 3)}",
                format_time(point.arriving_first_token_s, 3),
                f"{_MARKS[point.time_source]}{format_rate(point.tokens_per_s)}",
                format_memory(point.memory_bytes, 3),
                _loss(curve, curves.max_loss_pct),
            ),
            is_choice=curves.choice is not None and curves.choice.plan == curve.plan,
        )
        for curve, point in best
    ]


def _loss(curve: BatchCurve, limit_pct: float) -> str:
    """Return what a format loses at most, and whether that is over the limit."""
    if curve.loss_pct is None:
        return "unknown"
    if curve.loss_pct == 0:
        return "0"
    beyond = "" if curve.is_within_loss else f", over {limit_pct:g} %"
    return f"{'≤ ' if curve.is_loss_claimed else ''}{curve.loss_pct:.3g} %{beyond}"


def _steps(values_s: tuple[float, ...], what: str) -> tuple[LimitStep, ...]:
    return (
        *(LimitStep(value_s, f"{format_time(value_s)} {what}") for value_s in values_s),
        LimitStep(None, "no limit"),
    )
