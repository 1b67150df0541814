"""Smooth surfaces over sizes: what formulas leave over, on a coarse grid that is linear between its knots in log2.

Certain shapes run on kernels that a library chose badly; such choices run in ridges over the sizes. The logarithm of
measured over predicted is therefore described by grid values, fitted with a penalty on their size and slope: without
rows nearby it is 0, and one row moves little. A grid value is a mean over many rows; no row can be read back.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, reduce
from operator import add
from typing import TYPE_CHECKING, Any

from roofline_model.core.elementwise import Numbers, log2
from roofline_model.core.errors import InvalidValueError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

SIZE_PENALTY = 0.1
SLOPE_PENALTY = 0.1
"""Weight of a squared grid value and of a squared difference of neighbours, in rows; chosen under cross-validation by
site (343, 729 and 1,452 knots and penalties from 0.03 to 1 differ by less than 0.1 points on products).
"""
ROBUST_LOG = 0.1
"""Residuals beyond this count in proportion to their size, not its square."""
LARGEST_LOG = 0.7
"""No correction beyond a factor of two."""
FEW_VALUES = 64
_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Grid:
    """Knots along each axis, in log2 of its size; outside them a surface goes on level."""

    axes: tuple[tuple[float, ...], ...]

    @property
    def knot_count(self) -> int:
        """Values of a surface on this grid."""
        count = 1
        for knots in self.axes:
            count *= len(knots)
        return count

    def check(self, log_ratio: Sequence[float]) -> None:
        """Raise `InvalidValueError` when a surface has another number of values than knots, or one out of range."""
        if len(log_ratio) != self.knot_count:
            raise InvalidValueError(f"a correction has {self.knot_count} grid values, got {len(log_ratio)}")
        if not all(abs(value) <= LARGEST_LOG for value in log_ratio):
            raise InvalidValueError(f"a correction's grid values lie within ±{LARGEST_LOG}, one does not")

    def logs(self, log_ratio: Any, sizes: Sequence[Numbers]) -> Numbers:
        """Return the surface at each row; `sizes` has one column per axis, or one number.

        `log_ratio`: the values at the knots, or, for one row on several surfaces, an array of shape (knots, surfaces).
        """
        corners = self.corners(sizes)
        if len(corners) * _row_count(sizes) > FEW_VALUES:
            import numpy as np

            # A few look-ups cost less than an array of the whole grid.
            log_ratio = np.asarray(log_ratio)
        # One corner after the other: the order of a sum is part of its value.
        return reduce(add, (weight * _looked_up(log_ratio, index) for index, weight in corners))

    def fit(self, sizes: Sequence[Floats], log_ratio: Floats, row_weights: Floats | None = None) -> tuple[float, ...]:
        """Return the surface through ln(measured / predicted) of some rows, three digits; robust and deterministic."""
        import numpy as np

        count = len(log_ratio)
        design = np.zeros((count, self.knot_count))
        rows = np.arange(count)
        for index, weight in self.corners(sizes):
            design[rows, index] += weight
        given = np.ones(count) if row_weights is None else np.asarray(row_weights, dtype=np.float64)
        penalty = self._penalty()
        weights = given
        surface = np.zeros(self.knot_count)
        for _ in range(_ROUNDS):
            weighted = design * weights[:, None]
            solved = np.linalg.solve(design.T @ weighted + penalty, weighted.T @ log_ratio)
            surface = np.asarray(solved, dtype=np.float64)
            residual = (log_ratio - design @ surface) / ROBUST_LOG
            weights = np.asarray(given / np.sqrt(1 + residual * residual), dtype=np.float64)
        limited = np.clip(surface, -LARGEST_LOG, LARGEST_LOG)
        return tuple(float(f"{value:.3f}") + 0.0 for value in limited)

    def corners(self, sizes: Sequence[Numbers]) -> list[tuple[Any, Numbers]]:
        """Return the (grid index, weight) of the 2^axes knots around each row, each an array; numbers of a single
        row.
        """
        corners: list[tuple[Any, Numbers]] = [(0, 1.0)]
        for size, knots in zip(sizes, self.axes, strict=True):
            below, share = _place_of(size, knots) if isinstance(size, float) else _places_of(size, knots)
            # The lower knots of this axis first, as `_penalty` and the files count them.
            corners = [
                (index * len(knots) + below + step, weight * (share if step else 1.0 - share))
                for step in (0, 1)
                for index, weight in corners
            ]
        return corners

    def _penalty(self) -> Floats:
        """Return the quadratic form that keeps the surface small and flat; slopes count per doubling of a size."""
        import numpy as np

        shape = tuple(len(knots) for knots in self.axes)
        number = np.arange(self.knot_count).reshape(shape)
        form = SIZE_PENALTY * np.eye(self.knot_count)
        for axis, knots in enumerate(self.axes):
            lower = np.take(number, range(len(knots) - 1), axis)
            upper = np.take(number, range(1, len(knots)), axis)
            gaps = np.diff(knots).reshape([-1 if place == axis else 1 for place in range(len(shape))])
            weight = np.broadcast_to(SLOPE_PENALTY / gaps, lower.shape).ravel()
            a, b = lower.ravel(), upper.ravel()
            for first, second, sign in ((a, a, 1), (b, b, 1), (a, b, -1), (b, a, -1)):
                np.add.at(form, (first, second), sign * weight)
        result: Floats = form
        return result


def _row_count(sizes: Sequence[Numbers]) -> int:
    return 1 if isinstance(sizes[0], float) else len(sizes[0])


def _looked_up(log_ratio: Any, index: Any) -> Numbers:
    """Return the values of the knots at `index`: of a plain sequence one by one."""
    if isinstance(index, int) or not isinstance(log_ratio, tuple):
        return log_ratio[index]
    import numpy as np

    return np.array([log_ratio[place] for place in index.tolist()])


@cache
def _knots(knots: tuple[float, ...]) -> tuple[Floats, Floats]:
    """Return the knots of an axis and their places as arrays."""
    import numpy as np

    return np.array(knots), np.arange(len(knots), dtype=np.float64)


def _places_of(sizes: Floats, knots: tuple[float, ...]) -> tuple[NDArray[np.intp], Floats]:
    """Return the knot below each size, and the share of the way from there to the next."""
    import numpy as np

    place = np.interp(np.log2(sizes), *_knots(knots))
    below = np.minimum(place.astype(np.intp), len(knots) - 2)
    return below, place - below


def _place_of(size: float, knots: tuple[float, ...]) -> tuple[int, float]:
    """Return the same of one size, operation by operation: numpy takes ten times as long for it."""
    log = min(max(log2(size), knots[0]), knots[-1])
    below = min(bisect_right(knots, log), len(knots) - 1) - 1
    place = 1.0 / (knots[below + 1] - knots[below]) * (log - knots[below]) + below
    return below, place - below
