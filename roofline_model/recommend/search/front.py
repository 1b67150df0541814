"""Every plan worth choosing: those that no other plan beats in loss, time and memory together.

Small problems: all of them, by adding group after group and dropping what is dominated (Nemhauser and Ullmann,
Management Science 15, 1969). Large ones: the supported ones, plans that are best for some prices of a second and a
byte. Each of these is exactly optimal for the time and the memory it takes itself; between two of them a plan off the
convex hull may lie.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from roofline_model.core.errors import InvalidValueError
from roofline_model.recommend.search.knapsack import ROUNDING_RATIO, Table, undominated
from roofline_model.recommend.search.problem import FormatChoice, LayerGroup, ParetoProblem

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

COMPLETE_LIMIT = 2_000
"""Most plans of a complete front; a longer one is replaced by its supported plans."""
DIRECTIONS = 13
"""Mixes of time and memory along which prices are swept."""
PRICES = 48
"""Prices per direction."""


@dataclass(frozen=True, slots=True)
class FormatAssignment:
    """One plan: a format for every group, with total loss, seconds and bytes."""

    labels: tuple[str, ...]
    """Format of every group, in the problem's order."""
    loss_value: float
    time_s: float
    """Of a pass, what no choice changes included."""
    memory_bytes: float
    """Altogether, what no choice changes included."""


@dataclass(frozen=True, slots=True)
class ParetoFront:
    """Plans that no other beats, least loss first."""

    points: tuple[FormatAssignment, ...]
    is_complete: bool
    """Whether these are all; False: the supported ones (see the module)."""

    def within(self, *, time_s: float | None = None, memory_bytes: float | None = None) -> FormatAssignment | None:
        """Return the point of least loss that takes at most this much, or None when no point does."""
        for point in self.points:
            if (time_s is None or point.time_s <= time_s) and (
                memory_bytes is None or point.memory_bytes <= memory_bytes
            ):
                return point
        return None


def ordered_choices(group: LayerGroup) -> list[FormatChoice]:
    """Return a group's choices without those that another beats or equals in everything: least loss first.

    Of choices equal in everything the first stays.
    """
    choices: list[FormatChoice] = []
    for candidate in sorted(group.choices, key=lambda choice: (choice.loss_value, choice.time_s, choice.memory_bytes)):
        if not any(
            other.time_s <= candidate.time_s and other.memory_bytes <= candidate.memory_bytes for other in choices
        ):
            choices.append(candidate)
    return choices


def choice_table(rows: list[list[FormatChoice]]) -> Table:
    """Return losses, times and bytes as arrays, groups × choices."""
    import numpy as np

    width = max(len(row) for row in rows)
    cost = np.full((len(rows), width), math.inf)
    first, second = np.empty_like(cost), np.empty_like(cost)
    for at, row in enumerate(rows):
        cost[at, : len(row)] = [choice.loss_value for choice in row]
        first[at] = [choice.time_s for choice in row] + [row[0].time_s] * (width - len(row))
        second[at] = [choice.memory_bytes for choice in row] + [row[0].memory_bytes] * (width - len(row))
    return Table(cost, first, second)


def pareto_front(problem: ParetoProblem) -> ParetoFront:
    """Return the front of a problem: complete where it has at most `COMPLETE_LIMIT` plans, else its supported plans."""
    rows = [ordered_choices(group) for group in problem.groups]
    table = choice_table(rows)
    picks = _all_plans(table)
    is_complete = picks is not None
    if picks is None:
        picks = _supported(table)
    points = [assignment(problem, rows, pick) for pick in picks]
    return ParetoFront(tuple(_beaten_out(points)), is_complete)


def assess(problem: ParetoProblem, choices: Mapping[str, str]) -> FormatAssignment:
    """Return what a plan of one's own costs: group → format, for every group of the problem.

    Raises `UnknownNameError` for a format that its group does not have, `InvalidValueError` for a group that is
    missing.
    """
    missing = [group.name for group in problem.groups if group.name not in choices]
    if missing:
        raise InvalidValueError(f"no format is given for {', '.join(missing[:4])}{' …' if len(missing) > 4 else ''}")
    rows = [[group.choice(choices[group.name])] for group in problem.groups]
    return assignment(problem, rows, [0] * len(rows))


def assignment(problem: ParetoProblem, rows: list[list[FormatChoice]], picks: Any) -> FormatAssignment:
    """Return the plan that takes one column of every row, with its totals."""
    chosen = [row[int(column)] for row, column in zip(rows, picks, strict=True)]
    return FormatAssignment(
        tuple(choice.label for choice in chosen),
        math.fsum(choice.loss_value for choice in chosen),
        math.fsum([problem.fixed_time_s, *(choice.time_s for choice in chosen)]),
        math.fsum([problem.fixed_bytes, *(choice.memory_bytes for choice in chosen)]),
    )


def _all_plans(table: Table) -> Array | None:
    """Return the picks of all undominated plans, plans × groups, or None when there are too many."""
    import numpy as np

    states, grain = np.zeros((1, 3)), table.grain()
    plans = np.zeros((1, 0), dtype=np.intp)
    for row in range(table.group_count):
        columns = np.flatnonzero(np.isfinite(table.cost[row]))
        steps = np.stack([values[row, columns] for values in (table.cost, table.first, table.second)], axis=1)
        grown = (states[:, None, :] + steps[None, :, :]).reshape(-1, 3)
        index = undominated(np.rint(grown / grain))
        if len(index) > COMPLETE_LIMIT:
            return None
        states = grown[index]
        chosen = columns[index % len(columns)]
        plans = np.concatenate([plans[index // len(columns)], chosen[:, None]], axis=1)
    return plans


def _supported(table: Table) -> Array:
    """Return the picks of plans that minimise loss + price · (a mix of time and memory), plans × groups, each once."""
    import numpy as np

    time_unit, byte_unit = _span(table.first), _span(table.second)
    picks = [_least(table.first, table.cost, table.second), _least(table.second, table.cost, table.first)]
    picks.append(_least(table.cost, table.first, table.second))
    for angle in np.linspace(0.0, math.pi / 2, DIRECTIONS + 2)[1:-1]:
        mix = math.cos(angle) * table.first / time_unit + math.sin(angle) * table.second / byte_unit
        picks += [(table.cost + price * mix).argmin(axis=1) for price in _prices(table.cost, mix)]
    # Along one resource alone, the other decides between equals only.
    for own_sum, other in (
        (table.first / time_unit, table.second / byte_unit),
        (table.second / byte_unit, table.first / time_unit),
    ):
        mix = own_sum + 1e-6 * other
        picks += [(table.cost + price * mix).argmin(axis=1) for price in _prices(table.cost, mix)]
    return np.unique(np.stack(picks), axis=0)


def _prices(cost: Array, mix: Array) -> Array:
    """Return prices between those at which some group changes its mind, spread over all of them."""
    import numpy as np

    slopes = []
    for left in range(cost.shape[1]):
        for right in range(left + 1, cost.shape[1]):
            saved = mix[:, left] - mix[:, right]
            with np.errstate(divide="ignore", invalid="ignore"):  # rows with fewer choices give inf and nan
                rise = cost[:, right] - cost[:, left]
                slopes.append(np.where(saved > 0, rise / saved, np.nan))
    if not slopes:
        return np.zeros(0)
    prices = np.concatenate(slopes)
    prices = np.unique(prices[np.isfinite(prices) & (prices > 0)])
    if not len(prices):
        return np.zeros(0)
    between = np.sqrt(prices[:-1] * prices[1:])
    every = np.concatenate([[prices[0] / 2], between, [prices[-1] * 2]])
    if len(every) <= PRICES:
        return every
    spread = np.unique(np.linspace(0, len(every) - 1, PRICES).round().astype(int))
    return np.asarray(every[spread])


def _least(values: Array, second: Array, third: Array) -> Array:
    """Return the pick of least `values` in every row; of equals the least `second`, then `third`."""
    import numpy as np

    picks = [int(np.lexsort((c, b, a))[0]) for a, b, c in zip(values, second, third, strict=True)]
    return np.array(picks, dtype=np.intp)


def _span(values: Array) -> float:
    """Return how much the choices can change a resource, over all groups; 1 when they cannot."""
    return float((values.max(axis=1) - values.min(axis=1)).sum()) or 1.0


def _beaten_out(points: list[FormatAssignment]) -> list[FormatAssignment]:
    """Return the points that no other beats, least loss first; of plans with equal totals the first."""
    import numpy as np

    totals = np.array([(point.loss_value, point.time_s, point.memory_bytes) for point in points])
    grain = np.where(totals.any(axis=0), np.abs(totals).max(axis=0) * ROUNDING_RATIO, 1.0)
    return [points[at] for at in undominated(np.rint(totals / grain)).tolist()]
