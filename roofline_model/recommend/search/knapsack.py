"""Least cost of one choice per group under two limits: the multiple-choice knapsack, exact where it can be.

Bound: the Lagrangian dual. For multipliers λ ≥ 0, Σ over groups of min(cost + λ₁·first + λ₂·second) − λ₁·limit₁ −
λ₂·limit₂ is never above the optimum, and every group decides for itself. The best multipliers give the bound of the
linear relaxation. Source: Kellerer, Pferschy and Pisinger, Knapsack Problems (2004), chapter 11. Search: groups one
after the other, keeping partial plans that no other one dominates and whose bound (dual + what their choices lose
against it) is below the best plan known. Partial plans beyond `STATE_LIMIT` are dropped, worst bound first; what was
dropped lowers the proven bound and is told as a gap, never hidden.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

STATE_LIMIT = 20_000
"""Most partial plans kept on small problems; larger ones keep `STATE_BUDGET` divided by their groups."""
STATE_BUDGET = 100_000
MIN_STATES = 200
ROUNDING_RATIO = 1e-12
"""Sums of the same numbers in another order differ by less: a plan this little above a limit is inside it."""
_OUTER_STEPS, _INNER_STEPS = 36, 34


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Costs and two resources of every choice, groups × choices.

    Rows that have fewer choices are filled with an infinite cost and the resources of their first choice.
    """

    cost: Array
    first: Array
    second: Array

    @property
    def group_count(self) -> int:
        """Rows."""
        return int(self.cost.shape[0])

    def costing_first(self) -> Table:
        """Return the same choices with the first resource as their cost, and the cost as first resource."""
        import numpy as np

        is_choice = np.isfinite(self.cost)
        cost = np.where(is_choice, self.first, math.inf)
        return Table(cost, np.where(is_choice, self.cost, self.cost[:, :1]), self.second)

    def grain(self) -> Array:
        """Return for cost and both resources the size below which differences of sums are rounding."""
        import numpy as np

        largest = [np.abs(values[np.isfinite(values)]).max() for values in (self.cost, self.first, self.second)]
        return np.array([float(value) * self.group_count * ROUNDING_RATIO or 1.0 for value in largest])

    def totals(self, picks: Array) -> tuple[float, float, float]:
        """Return cost and both resources of a plan: one column for every row."""
        import numpy as np

        rows = np.arange(self.group_count)
        cost, first, second = (
            math.fsum(values[rows, picks].tolist()) for values in (self.cost, self.first, self.second)
        )
        return cost, first, second


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """The best plan found and what is proven about it."""

    picks: Array | None
    """Column of every row; None when no plan inside the limits was found."""
    cost_value: float
    """Infinite without a plan."""
    bound_value: float
    """No plan inside the limits costs less; infinite when none exists."""

    @property
    def is_optimal(self) -> bool:
        """Whether no plan is better (or none exists, and that is proven)."""
        return self.bound_value >= self.cost_value


def minimise(table: Table, first_limit: float, second_limit: float) -> Solution:
    """Return the plan of least cost whose resources stay within both limits; infinity is no limit."""
    limits = (_with_rounding(first_limit), _with_rounding(second_limit))
    if _least(table.first) > limits[0] or _least(table.second) > limits[1]:
        return Solution(None, math.inf, math.inf)
    search = _Dual(table, *limits)
    search.run()
    best, cost = search.best_picks, search.best_cost
    if best is None:
        least = _least_first(table, limits)
        if least.picks is None:
            return Solution(None, math.inf, math.inf if least.bound_value > limits[0] else search.bound)
        best = least.picks
    best = _improved(table, best, limits)
    cost = table.totals(best)[0]
    if cost <= search.bound:
        return Solution(best, cost, cost)
    picks, floor = _by_states(table, limits, search, cost)
    if picks is not None:
        best = _improved(table, picks, limits)
        cost = table.totals(best)[0]
    return Solution(best, cost, min(cost, floor))


class _Dual:
    """The best multipliers, and the best plan inside the limits met on the way."""

    def __init__(self, table: Table, first_limit: float, second_limit: float) -> None:
        self.table, self.limits = table, (first_limit, second_limit)
        self.bound = -math.inf
        self.multipliers = (0.0, 0.0)
        self.best_picks: Array | None = None
        self.best_cost = math.inf

    def run(self) -> None:
        """Maximise the dual: golden section over the second multiplier, bisection over the first inside."""
        self._inner(0.0)
        top = _steepest(self.table.cost, self.table.second) if self.limits[1] < math.inf else 0.0
        if not top or self.best_cost <= self.bound:
            return
        low, high = 0.0, top
        self._inner(top)
        golden = (math.sqrt(5) - 1) / 2
        left, right = high - golden * (high - low), low + golden * (high - low)
        at_left, at_right = self._inner(left), self._inner(right)
        for _ in range(_OUTER_STEPS):
            if at_left >= at_right:
                high, right, at_right = right, left, at_left
                left = high - golden * (high - low)
                at_left = self._inner(left)
            else:
                low, left, at_left = left, right, at_right
                right = low + golden * (high - low)
                at_right = self._inner(right)

    def _inner(self, second: float) -> float:
        """Return the dual's maximum over the first multiplier."""
        value, used = self._at(0.0, second)
        if self.limits[0] == math.inf or used <= self.limits[0]:
            return value  # the slope is not positive at zero, and the dual is concave
        low, high = 0.0, _steepest(self.table.cost, self.table.first, self.table.second, second)
        value = max(value, self._at(0.0, second)[0], self._at(high, second)[0])
        for _ in range(_INNER_STEPS):
            middle = (low + high) / 2
            at_middle, used = self._at(middle, second)
            value = max(value, at_middle)
            if used > self.limits[0]:
                low = middle
            else:
                high = middle
        return value

    def _at(self, first: float, second: float) -> tuple[float, float]:
        """Return the dual's value and the first resource used there; remember the best bound and the best plan."""
        import numpy as np

        table = self.table
        priced = table.cost + first * table.first + second * table.second if first or second else table.cost
        picks = priced.argmin(axis=1)
        rows = np.arange(table.group_count)
        value = float(priced[rows, picks].sum())
        value -= first * self.limits[0] if first else 0.0
        value -= second * self.limits[1] if second else 0.0
        used, other = float(table.first[rows, picks].sum()), float(table.second[rows, picks].sum())
        if value > self.bound:
            self.bound, self.multipliers = value, (first, second)
        if used <= self.limits[0] and other <= self.limits[1]:
            cost = float(table.cost[rows, picks].sum())
            if cost < self.best_cost:
                self.best_cost, self.best_picks = cost, picks
        return value, used


def _by_states(table: Table, limits: tuple[float, float], dual: _Dual, known_cost: float) -> tuple[Array | None, float]:
    """Return a plan better than `known_cost` (None: there is none) and the bound below which no plan lies."""
    import numpy as np

    first, second = dual.multipliers
    priced = table.cost + first * table.first + second * table.second if first or second else table.cost
    lost = priced - priced.min(axis=1, keepdims=True)
    # Rounding of the dual must not cut off a plan that is better by a little.
    slack = ROUNDING_RATIO * (abs(dual.bound) + float(np.abs(priced[np.isfinite(priced)]).sum()))
    room = known_cost - dual.bound + slack
    survivors = [np.flatnonzero(row <= room) for row in lost]
    # Equal groups side by side: their exchanged choices meet in one partial plan.
    order = sorted(range(table.group_count), key=lambda row: (len(survivors[row]), *table.cost[row].tolist()))
    ahead_first, ahead_second = _ahead(table.first, order), _ahead(table.second, order)
    limit = max(MIN_STATES, min(STATE_LIMIT, STATE_BUDGET // table.group_count))
    # Sums of the same numbers in another order are one plan, not two.
    grain = table.grain()
    states = np.zeros((1, 4))  # loss against the dual, cost, first, second
    trail: list[tuple[int, Array, Array]] = []
    dropped = math.inf
    for place, row in enumerate(order):
        columns = survivors[row]
        steps = np.stack([values[row, columns] for values in (lost, table.cost, table.first, table.second)], axis=1)
        grown = (states[:, None, :] + steps[None, :, :]).reshape(-1, 4)
        keep = (
            (grown[:, 0] <= room)
            & (grown[:, 2] + ahead_first[place] <= limits[0])
            & (grown[:, 3] + ahead_second[place] <= limits[1])
        )
        index = np.flatnonzero(keep)
        if not len(index):
            return None, dual.bound + dropped - slack
        if len(index) > 1:
            index = index[undominated(np.rint(grown[index, 1:] / grain))]
        if len(index) > limit:
            best_first = index[np.argsort(grown[index, 0], kind="stable")]
            dropped = min(dropped, float(grown[best_first[limit], 0]))
            index = best_first[:limit]
        states = grown[index]
        trail.append((row, index // len(columns), columns[index % len(columns)]))
    at = int(np.lexsort((states[:, 3], states[:, 2], states[:, 1]))[0])  # of equal costs, the least first resource
    cost = float(states[at, 1])
    floor = dual.bound + dropped - slack
    if cost >= known_cost:
        return None, floor
    picks = np.zeros(table.group_count, dtype=np.intp)
    for row, parents, chosen in reversed(trail):
        picks[row] = chosen[at]
        at = int(parents[at])
    return picks, floor


def undominated(points: Array) -> Array:
    """Return the positions of the rows (three columns) that no other row is at most equal to in all; equal rows
    once.
    """
    import numpy as np

    order = np.lexsort((points[:, 2], points[:, 1], points[:, 0]))
    positions: list[int] = []
    # A staircase over the rows kept so far: second column rising, third falling.
    steps: list[float] = []
    heights: list[float] = []
    for position, (_, along, height) in zip(order.tolist(), points[order].tolist(), strict=True):
        place = bisect_right(steps, along)
        if place and heights[place - 1] <= height:
            continue
        positions.append(position)
        end = place
        while end < len(steps) and heights[end] >= height:
            end += 1
        start = place - 1 if place and steps[place - 1] == along else place
        steps[start:end], heights[start:end] = [along], [height]
    return np.array(positions, dtype=np.intp)


def _least_first(table: Table, limits: tuple[float, float]) -> Solution:
    """Return the plan that spends least of the first resource within the second limit; no plan where it spends too
    much.
    """
    solution = minimise(table.costing_first(), math.inf, limits[1])
    return solution if solution.cost_value <= limits[0] else Solution(None, math.inf, solution.bound_value)


def _improved(table: Table, picks: Array, limits: tuple[float, float]) -> Array:
    """Return the plan after single changes, each the one that saves most cost inside the limits, until none is left."""
    import numpy as np

    rows = np.arange(table.group_count)
    picks = picks.copy()
    for _ in range(4 * table.group_count):
        _, first, second = table.totals(picks)
        saved = table.cost[rows, picks][:, None] - table.cost
        fits = (first - table.first[rows, picks][:, None] + table.first <= limits[0]) & (
            second - table.second[rows, picks][:, None] + table.second <= limits[1]
        )
        saved = np.where(fits & np.isfinite(saved), saved, -math.inf)
        row, column = np.unravel_index(int(saved.argmax()), saved.shape)
        if saved[row, column] <= 0:
            break
        before = picks[row]
        picks[row] = column
        _, first, second = table.totals(picks)
        if first > limits[0] or second > limits[1]:  # only by rounding
            picks[row] = before
            break
    return picks


def _ahead(values: Array, order: list[int]) -> list[float]:
    """Return for every place what the groups behind it spend at least."""
    least = [float(values[row].min()) for row in order]
    totals, total = [0.0] * len(order), 0.0
    for place in range(len(order) - 1, -1, -1):
        totals[place] = total
        total += least[place]
    return totals


def _least(values: Array) -> float:
    return math.fsum(values.min(axis=1).tolist())


def _with_rounding(limit: float) -> float:
    return limit + abs(limit) * ROUNDING_RATIO if limit < math.inf else limit


def _steepest(cost: Array, resource: Array, other: Array | None = None, price: float = 0.0) -> float:
    """Return a multiplier beyond which every group takes the choice that spends least of `resource`."""
    import numpy as np

    priced = cost + price * other if other is not None and price else cost
    finite = np.isfinite(priced)
    rise = np.where(finite, priced, -math.inf).max(axis=1) - np.where(finite, priced, math.inf).min(axis=1)
    ordered = np.sort(resource, axis=1)
    steps = np.diff(ordered, axis=1)
    steps = steps[np.isfinite(steps) & (steps > 0)]
    return float(2 * rise.max() / steps.min()) if steps.size and rise.max() > 0 else 0.0
