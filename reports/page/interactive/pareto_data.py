"""Speed against loss, memory and energy for the page: one entry per shape or model, every number as it is stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from reports.advice.trade_offs import TradeGroup, TradePoint
from reports.figures.palette import Colour, format_colours

_STORED = tuple(field.name for field in fields(TradePoint) if field.name != "record_ids")
POINT_COLUMNS = (*_STORED, "ink", "number")
"""What the page knows of a point, in the order of its cells."""


def pareto_data(groups: Sequence[TradeGroup], numbers: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return the groups as plain values; every point has all of `POINT_COLUMNS`.

    `numbers`: record → the number of its case on the page.
    """
    inks = format_colours(point.precision for group in groups for point in group.points)
    return [
        {
            "title": group.title,
            "origin": group.origin,
            "per": group.per,
            "baseline": group.baseline_label,
            "barred": list(group.barred),
            "baseline_doubts": list(group.baseline_doubts),
            "points": [_point(point, numbers, inks[point.precision]) for point in group.points],
        }
        for group in groups
    ]


def _point(one: TradePoint, numbers: Mapping[str, int], ink: Colour) -> dict[str, Any]:
    values = {
        **{name: getattr(one, name) for name in _STORED},
        "ink": (ink.light, ink.dark),
        "number": next((numbers[key] for key in one.record_ids if key in numbers), None),
    }
    return {name: values[name] for name in POINT_COLUMNS}
