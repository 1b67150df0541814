"""One choice per group at the least cost under limits: a multiple-choice knapsack, solved by HiGHS through scipy.

HiGHS stops at an absolute gap of 1e-6 and takes rows for kept within 1e-6, so costs and limits are given to it as about
`SCALE`: a plan is best to within 1e-9 of what the choices can change. Whether it keeps the limits is checked by its
exact sums.
"""

from __future__ import annotations

import ctypes
import math
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from roofline_model.recommend.search.problem import FormatChoice

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

NODE_LIMIT = 500
"""Most nodes of a search; one that is cut short there reports its gap."""
ROUNDING_RATIO = 1e-12
"""Sums of the same numbers in another order differ by less: a plan this little above a limit is inside it."""
SCALE = 1e3
_TOLERANCE = 1e-6
_OPTIMAL, _INFEASIBLE = 0, 2
_STDOUT = 1
_stdout_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class Solution:
    """The best plan found and what is proven about it."""

    chosen: tuple[FormatChoice, ...] | None
    """A choice of every group; None when no plan inside the limits was found."""
    cost_value: float
    """Infinite without a plan."""
    bound_value: float
    """No plan inside the limits costs less; infinite when none exists."""

    @property
    def is_optimal(self) -> bool:
        """Whether no plan is better (or none exists, and that is proven)."""
        return self.bound_value >= self.cost_value


def minimise(rows: Sequence[Sequence[FormatChoice]], cost: str, limits: Mapping[str, float]) -> Solution:
    """Return the plan, one choice of every row, of least summed `cost` whose sums stay within the limits.

    Cost and limits name fields of `FormatChoice`.
    """
    import numpy as np
    from scipy.sparse import csr_array

    choices = list(chain.from_iterable(rows))
    starts = np.cumsum([0, *(len(row) for row in rows[:-1])])
    owners = np.repeat(np.arange(len(rows)), [len(row) for row in rows])

    def above_least(name: str) -> tuple[Array, float]:
        values = np.array([getattr(choice, name) for choice in choices], dtype=float)
        least = np.minimum.reduceat(values, starts)
        return values - least[owners], math.fsum(least)

    costs, least_cost = above_least(cost)
    scale = SCALE / (math.fsum(np.maximum.reduceat(costs, starts)) or 1.0)
    is_possible = np.ones(len(choices))
    used = []
    for name, limit in limits.items():
        above, least = above_least(name)
        room = _with_rounding(limit) - least
        if room < 0:
            return Solution(None, math.inf, math.inf)
        is_possible[above > room] = 0
        used.append(above * is_possible * (SCALE / (room or 1.0)))
    one_each = csr_array((np.ones(len(choices)), (owners, np.arange(len(choices)))))
    result = _solve(costs * scale, is_possible, one_each, used, SCALE)
    if result.status == _INFEASIBLE:
        return Solution(None, math.inf, math.inf)
    bound = -math.inf if result.mip_dual_bound is None else least_cost + result.mip_dual_bound / scale
    chosen = _chosen(rows, result.x, starts)
    is_within = chosen is not None and _keeps(chosen, limits)
    if not is_within:  # above a limit by what HiGHS tolerates
        chosen = _chosen(rows, _solve(costs * scale, is_possible, one_each, used, SCALE - 2 * _TOLERANCE).x, starts)
    if chosen is None or not _keeps(chosen, limits):
        return Solution(None, math.inf, bound)
    value = total(chosen, cost)
    return Solution(chosen, value, value if is_within and result.status == _OPTIMAL else min(bound, value))


def total(chosen: Sequence[FormatChoice], name: str) -> float:
    """Return the sum of one field."""
    return math.fsum(getattr(choice, name) for choice in chosen)


def _solve(costs: Array, upper: Array, one_each: Any, used: Sequence[Array], room: float) -> Any:
    import numpy as np
    from scipy.optimize import Bounds, LinearConstraint, milp

    limits = [LinearConstraint(row[np.newaxis], -np.inf, room) for row in used]
    with _without_stdout():
        return milp(
            costs,
            integrality=np.ones(len(costs), dtype=int),
            bounds=Bounds(0, upper),
            constraints=[LinearConstraint(one_each, 1, 1), *limits],
            options={"mip_rel_gap": 0.0, "node_limit": NODE_LIMIT},
        )


def _chosen(
    rows: Sequence[Sequence[FormatChoice]], shares: Array | None, starts: Array
) -> tuple[FormatChoice, ...] | None:
    """Return the choices with share 1. Where equal rows exchange theirs, the earlier row has the earlier choice."""
    import numpy as np

    if shares is None:
        return None
    picks = [int(share.argmax()) for share in np.split(shares, starts[1:])]
    alike: dict[tuple[FormatChoice, ...], list[int]] = {}
    for at, row in enumerate(rows):
        alike.setdefault(tuple(row), []).append(at)
    for places in alike.values():
        for at, pick in zip(places, sorted(picks[place] for place in places), strict=True):
            picks[at] = pick
    return tuple(row[pick] for row, pick in zip(rows, picks, strict=True))


def _keeps(chosen: Sequence[FormatChoice], limits: Mapping[str, float]) -> bool:
    return all(total(chosen, name) <= _with_rounding(limit) for name, limit in limits.items())


def _with_rounding(limit: float) -> float:
    return limit + abs(limit) * ROUNDING_RATIO


@contextmanager
def _without_stdout() -> Iterator[None]:
    """Drop what HiGHS 1.12 prints when it repairs a plan: no option silences it, and it would spoil `--json`."""
    flush = ctypes.CDLL(None).fflush
    with _stdout_lock, open(os.devnull, "w") as nowhere:
        flush(None)
        stdout = os.dup(_STDOUT)
        os.dup2(nowhere.fileno(), _STDOUT)
        try:
            yield
        finally:
            flush(None)
            os.dup2(stdout, _STDOUT)
            os.close(stdout)
