"""Every plan worth choosing: those that no other plan beats in loss, time and memory together.

Small problems: all of them, by adding group after group and dropping what is dominated (Nemhauser and Ullmann,
Management Science 15, 1969). Large ones: the supported ones, plans that are best for some prices of a second and a
byte. Each of these is exactly optimal for the time and the memory it takes itself; between two of them a plan off the
convex hull may lie.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from roofline_model.core.errors import InvalidValueError
from roofline_model.recommend.search.least_cost import ROUNDING_RATIO, total
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
    """Sum of the layers' losses, in their unit."""
    time_s: float
    """Of a pass, what no choice changes included, seconds."""
    memory_bytes: float
    """Altogether, what no choice changes included, bytes."""


@dataclass(frozen=True, slots=True)
class ParetoFront:
    """Plans that no other beats, least loss first."""

    points: tuple[FormatAssignment, ...]
    is_complete: bool
    """Whether these are all; False: the supported ones (see the module)."""


def undominated(points: Array) -> Array:
    """Return the positions of the rows (three columns) that no other row is at most equal to in all; equal rows
    once, rows in rising order.
    """
    import numpy as np

    order = np.lexsort(points.T[::-1])
    positions: list[int] = []
    # A staircase over the rows kept so far: second column rising, third falling.
    steps: list[float] = []
    heights: list[float] = []
    for position, (_, along, height) in zip(order.tolist(), points[order].tolist(), strict=True):
        end = bisect_right(steps, along)
        if end and heights[end - 1] <= height:
            continue
        positions.append(position)
        while end < len(steps) and heights[end] >= height:
            end += 1
        start = bisect_left(steps, along)
        steps[start:end], heights[start:end] = [along], [height]
    return np.array(positions, dtype=np.intp)


def ordered_choices(group: LayerGroup) -> list[FormatChoice]:
    """Return a group's choices without those that another beats or equals in everything: least loss first.

    Of choices equal in everything the first stays.
    """
    return [group.choices[at] for at in undominated(_numbers(group.choices))]


def pareto_front(problem: ParetoProblem) -> ParetoFront:
    """Return the front of a problem: complete where it has at most `COMPLETE_LIMIT` plans, else its supported plans."""
    import numpy as np

    rows = [ordered_choices(group) for group in problem.groups]
    # Shorter rows repeat their first choice: of equals the first is taken.
    width = max(len(row) for row in rows)
    values = np.array([_numbers(row + row[:1] * (width - len(row))) for row in rows])
    complete = _all_plans(values)
    picks = _supported(values) if complete is None else complete
    points = [
        assignment(problem, [row[column] for row, column in zip(rows, pick, strict=True)]) for pick in picks.tolist()
    ]
    sums = _numbers(points)
    index = undominated(np.rint(sums / _grain(np.abs(sums).max(axis=0))))
    return ParetoFront(tuple(points[at] for at in index), complete is not None)


def assess(problem: ParetoProblem, choices: Mapping[str, str]) -> FormatAssignment:
    """Return what a plan of one's own costs: group → format, for every group of the problem.

    Raises `UnknownNameError` for a format that its group does not have, `InvalidValueError` for a group that is
    missing.
    """
    missing = [group.name for group in problem.groups if group.name not in choices]
    if missing:
        raise InvalidValueError(f"no format is given for {', '.join(missing[:4])}{' …' if len(missing) > 4 else ''}")
    return assignment(problem, [group.choice(choices[group.name]) for group in problem.groups])


def assignment(problem: ParetoProblem, chosen: Sequence[FormatChoice]) -> FormatAssignment:
    """Return the plan of one choice for every group, with its totals."""
    return FormatAssignment(
        tuple(choice.label for choice in chosen),
        total(chosen, "loss_value"),
        math.fsum([problem.fixed_time_s, *(choice.time_s for choice in chosen)]),
        math.fsum([problem.fixed_bytes, *(choice.memory_bytes for choice in chosen)]),
    )


def _numbers(items: Sequence[FormatChoice] | Sequence[FormatAssignment]) -> Array:
    """Return loss, time and bytes, a row for each."""
    import numpy as np

    return np.array([(item.loss_value, item.time_s, item.memory_bytes) for item in items], dtype=float)


def _grain(largest: Array) -> Array:
    """Return the size below which differences of sums are rounding."""
    import numpy as np

    return np.asarray(np.where(largest, largest * ROUNDING_RATIO, 1.0))


def _all_plans(values: Array) -> Array | None:
    """Return the picks of all undominated plans, plans × groups, or None when there are too many."""
    import numpy as np

    grain = _grain(np.abs(values).max(axis=(0, 1)) * len(values))
    sums, picks = np.zeros((1, 3)), np.zeros((1, 0), dtype=np.intp)
    for steps in values:
        grown = (sums[:, np.newaxis] + steps).reshape(-1, 3)
        index = undominated(np.rint(grown / grain))
        if len(index) > COMPLETE_LIMIT:
            return None
        sums, picks = grown[index], np.column_stack([picks[index // len(steps)], index % len(steps)])
    return picks


def _supported(values: Array) -> Array:
    """Return the picks of plans that minimise loss + price · (a mix of time and memory), plans × groups, each once."""
    import numpy as np

    loss, time_s, memory_bytes = np.moveaxis(values, -1, 0)
    # The least of each, with the others as tie-breaks.
    orders = ((memory_bytes, loss, time_s), (time_s, loss, memory_bytes), (memory_bytes, time_s, loss))
    picks = [np.lexsort(keys)[:, 0] for keys in orders]
    time_unit, byte_unit = (float(np.ptp(column, axis=1).sum()) or 1.0 for column in (time_s, memory_bytes))
    mixes = [
        math.cos(angle) * time_s / time_unit + math.sin(angle) * memory_bytes / byte_unit
        for angle in np.linspace(0.0, math.pi / 2, DIRECTIONS + 2)[1:-1]
    ]
    # Along one resource alone, the other decides between equals only.
    mixes += [
        time_s / time_unit + 1e-6 * memory_bytes / byte_unit,
        memory_bytes / byte_unit + 1e-6 * time_s / time_unit,
    ]
    picks += [(loss + price * mix).argmin(axis=1) for mix in mixes for price in _prices(loss, mix)]
    return np.unique(np.stack(picks), axis=0)


def _prices(loss: Array, mix: Array) -> Array:
    """Return prices between those at which some group changes its mind, spread over all of them."""
    import numpy as np

    rise, saved = loss[:, np.newaxis] - loss[:, :, np.newaxis], mix[:, :, np.newaxis] - mix[:, np.newaxis]
    prices: Array = np.unique(rise[saved > 0] / saved[saved > 0])
    prices = prices[(prices > 0) & np.isfinite(prices)]
    if not len(prices):
        return prices
    between = np.concatenate([prices[:1] / 2, np.sqrt(prices[:-1] * prices[1:]), prices[-1:] * 2])
    count = min(len(between), PRICES)
    return np.asarray(between[np.linspace(0, len(between) - 1, count).round().astype(int)])
