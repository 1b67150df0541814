"""Speed against loss, memory and energy for the page: one entry per shape or model, every number as it is stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from reports.plot_style import Ink, format_inks
from reports.trade_offs import TradeGroup, TradePoint


def pareto_data(groups: Sequence[TradeGroup], numbers: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return the groups as plain values; of a point what is None, False or empty has no key, the page knows what it lacks.

    `numbers`: record → the number of its case on the page.
    """
    inks = format_inks(point.precision for one in groups for point in one.points)
    return [
        {
            "title": one.title,
            "origin": one.origin,
            "per": one.per,
            "baseline": one.baseline_label,
            "barred": list(one.barred),
            "points": [_point(point, numbers, inks[point.precision]) for point in one.points],
        }
        for one in groups
    ]


def _point(one: TradePoint, numbers: Mapping[str, int], ink: Ink) -> dict[str, Any]:
    values = {
        **asdict(one),
        "fronts": list(one.fronts),
        "ink": [ink.light, ink.dark],
        "number": next((numbers[key] for key in one.record_ids if key in numbers), None),
    }
    del values["record_ids"]
    return {name: value for name, value in values.items() if value is not None and value is not False and value != []}
