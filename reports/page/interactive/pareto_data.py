"""Speed against loss, memory and energy for the page: one entry per shape or model, every number as it is stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from reports.advice.trade_offs import TradeGroup, TradePoint
from reports.figures.palette import Colour, format_colours

_STORED = tuple(one.name for one in fields(TradePoint) if one.name != "record_ids")
POINT_COLUMNS = (*_STORED, "ink", "number")
"""What the page knows of a point, in the order of its cells."""


def pareto_data(groups: Sequence[TradeGroup], numbers: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return the groups as plain values; every point has all of `POINT_COLUMNS`.

    `numbers`: record → the number of its case on the page.
    """
    inks = format_colours(point.precision for one in groups for point in one.points)
    return [
        {
            "title": one.title,
            "origin": one.origin,
            "per": one.per,
            "baseline": one.baseline_label,
            "barred": list(one.barred),
            "baseline_doubts": list(one.baseline_doubts),
            "points": [_point(point, numbers, inks[point.precision]) for point in one.points],
        }
        for one in groups
    ]


def _point(one: TradePoint, numbers: Mapping[str, int], ink: Colour) -> dict[str, Any]:
    values = {
        **{name: getattr(one, name) for name in _STORED},
        "ink": (ink.light, ink.dark),
        "number": next((numbers[key] for key in one.record_ids if key in numbers), None),
    }
    return {name: values[name] for name in POINT_COLUMNS}
