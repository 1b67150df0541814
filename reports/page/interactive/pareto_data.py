"""Speed against loss, memory and energy for the page: one entry per shape or model, with every number as it is stored and every word."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from reports.advice.trade_offs import TradeGroup, TradePoint
from reports.figures.palette import Colour, format_colours
from roofline_model.core.units import DECIMAL_PREFIXES

_STORED = tuple(field.name for field in fields(TradePoint) if field.name != "record_ids")
POINT_COLUMNS = (*_STORED, "speedup_text", "loss_shown", "is_over_doubt", "ink", "number")
"""What the page knows of a point, in the order of its cells."""
X_AXES = {"speedup_ratio": "Speed-up", "time_s": "Time"}
Y_AXES = {"loss_pct": "Loss of quality", "memory_bytes": "Memory", "energy_j": "Energy"}
"""Coordinate of a point → what the button of its axis says."""
LEGEND = (
    ("●", "loss measured"),
    ("◆", "loss claimed"),
    ("■", "16-bit reference"),
    ("○", "time predicted, nobody measured it"),
    ("best", "recommended"),
    ("", "pale: beaten in the two axes drawn"),
    ("", "area: memory (of a model weights and cache, of a product the operands of a call)"),
)
"""Mark → what it means."""


def pareto_data(groups: Sequence[TradeGroup], numbers: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return the groups as plain values; every point has all of `POINT_COLUMNS`.

    `numbers`: record → the number of its case on the page.
    """
    inks = format_colours(point.precision for group in groups for point in group.points)
    return [
        {
            "title": group.title,
            "choice": group.title if group.origin == "this run" else f"{group.title} ({group.origin})",
            "origin": group.origin,
            "per": group.per,
            "baseline": group.baseline_label,
            "baseline_doubts": list(group.baseline_doubts),
            "labels": _labels(group),
            "x_axes": _axes(group, X_AXES),
            "y_axes": _axes(group, Y_AXES),
            "notes": {x: {y: list(_notes(group, x, y)) for y in Y_AXES} for x in X_AXES},
            "points": [_point(point, group, numbers, inks[point.precision]) for point in group.points],
        }
        for group in groups
    ]


def _labels(group: TradeGroup) -> dict[str, str]:
    """Return what the numbers of a point are called, in its card and in the table."""
    return {
        "label": "Configuration",
        "time_s": "Time",
        "time_source": "Known by",
        "speedup_ratio": "Speed-up",
        "loss_pct": "Loss",
        "memory_bytes": f"Memory: {'weights and cache' if group.per == 'token' else 'operands of a call'}",
        "energy_j": f"Energy per {group.per}",
        "is_on_front": "Not beaten in speed, loss and memory together",
        "is_doubtful": "the time is in doubt",
        "is_over_doubt": "the baseline's time is in doubt",
        "is_best": "recommended",
        "unknown": "not known",
    }


def _axes(group: TradeGroup, texts: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the axes on which any point of a group has a place, else the first of all: the first is drawn first."""
    values = {key: [value for point in group.points if (value := getattr(point, key)) is not None] for key in texts}
    axes = []
    for key, text in texts.items():
        if values[key] or (key == next(iter(texts)) and not any(values.values())):
            scale, title, brief_title = _title(group, key, max(values[key], default=1.0))
            front = f"Not beaten in speed and {text.lower()} (as drawn)"
            axes.append(
                {"key": key, "text": text, "scale": scale, "title": title, "brief_title": brief_title, "front": front}
            )
    return axes


def _title(group: TradeGroup, key: str, most: float) -> tuple[float, str, str]:
    """Return the unit of an axis as a factor of SI, its title, and its title where there is little room."""
    if key == "speedup_ratio":
        return 1.0, f"Speed-up over {group.baseline_label or 'the baseline'}: more is better →", "Speed-up"
    if key == "loss_pct":
        return 1.0, "Loss (%), less is better", "Loss (%)"
    largest = 1.0 if key == "time_s" else DECIMAL_PREFIXES["P"]
    fitting = [name for name, size in DECIMAL_PREFIXES.items() if 1e-9 <= size <= min(most, largest)]
    prefix = fitting[-1] if fitting else ""
    scale = DECIMAL_PREFIXES[prefix]
    if key == "time_s":
        name = f"Time per {'pass' if group.per == 'token' else 'call'} ({prefix}s)"
        return scale, f"{name}: ← less is better", f"{name}: less is better"
    if key == "memory_bytes":
        return scale, f"{_labels(group)[key]} ({prefix}B), less is better", f"Memory ({prefix}B)"
    name = f"Energy per {group.per} ({prefix}J)"
    return scale, f"{name}, less is better", name


def _notes(group: TradeGroup, x: str, y: str) -> Iterator[str]:
    """Yield what the figure of two axes does not say itself."""
    points = [point for point in group.points if getattr(point, x) is not None]
    is_measured = any(point.loss_source == "measured" for point in points)
    if any(_is_over_doubt(point, group) for point in points):
        doubts = ", ".join(group.baseline_doubts)
        yield f"Speed-ups are over {group.baseline_label}, whose time is in doubt ({doubts}): measure it again."
    if y == "loss_pct" and not is_measured:
        yield "Nobody measured a loss here: what is drawn is what documents claim, its upper end."
    if y == "loss_pct" and is_measured:
        yield "Measured loss: e^KL − 1 against the 16-bit model, the rise of perplexity on text that model writes."
    unknown = [point.label for point in points if getattr(point, y) is None]
    if unknown:
        yield f"{Y_AXES[y]} not known, drawn apart below the line: {', '.join(unknown)}."
    if any(point.is_on_front and y not in point.fronts for point in group.points):
        yield (
            "The line joins what nothing beats in the two axes drawn; the table says, too, what nothing beats in speed, loss and "
            "memory together."
        )
    missing = [text.lower() for key, text in Y_AXES.items() if all(getattr(one, key) is None for one in group.points)]
    if missing:
        yield f"Of no configuration known: {', '.join(missing)}."
    if group.barred:
        yield f"Left out, no kernel is known to run them here: {', '.join(group.barred)}."


def _is_over_doubt(point: TradePoint, group: TradeGroup) -> bool:
    return bool(group.baseline_doubts) and point.time_source == "measured" and point.label != group.baseline_label


def _point(one: TradePoint, group: TradeGroup, numbers: Mapping[str, int], ink: Colour) -> dict[str, Any]:
    values = {
        **{name: getattr(one, name) for name in _STORED},
        "speedup_text": _speedup_text(one, group),
        "loss_shown": _loss_text(one),
        "is_over_doubt": _is_over_doubt(one, group),
        "ink": (ink.light, ink.dark),
        "number": next((numbers[key] for key in one.record_ids if key in numbers), None),
    }
    return {name: values[name] for name in POINT_COLUMNS}


def _speedup_text(one: TradePoint, group: TradeGroup) -> str:
    """Return a speed-up with what it is of, where its two times are of different nights, and whether the baseline is in doubt."""
    if one.speedup_ratio is None:
        return "not known"
    basis = f" ({one.speedup_basis})" if one.speedup_basis else ""
    return f"{one.speedup_ratio:.3g}×{' !' if _is_over_doubt(one, group) else ''}{basis}"


def _loss_text(one: TradePoint) -> str:
    if one.loss_source == "reference":
        return "none: the reference"
    if one.loss_pct is None:
        return "not known"
    ends = (one.loss_low_pct, one.loss_high_pct)
    span = "" if None in ends else f" [{one.loss_low_pct:.3g}, {one.loss_high_pct:.3g}]"
    return f"{one.loss_pct:.3g} %{span}, {one.loss_source}"
