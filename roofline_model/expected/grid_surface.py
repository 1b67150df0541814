"""Smooth surfaces over sizes: what formulas leave over, on a coarse grid that is linear between its knots in log2.

Certain shapes run on kernels that a library chose badly; such choices run in ridges over the sizes. The logarithm of
measured over predicted is therefore described by grid values, fitted with a penalty on their size and slope: without rows
nearby it is 0, and one row moves little. A grid value is a mean over many rows; no row can be read back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from roofline_model.errors import InvalidValueError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

SIZE_PENALTY = 0.1
SLOPE_PENALTY = 0.1
"""Weight of a squared grid value and of a squared difference of neighbours, in rows; chosen under cross-validation by site
(343, 729 and 1,452 knots and penalties from 0.03 to 1 differ by less than 0.1 points on products)."""
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

    def logs(self, log_ratio: Sequence[float], sizes: Sequence[Floats]) -> Floats:
        """Return the surface at each row; `sizes` has one column per axis."""
        import numpy as np

        index, weight = self.corners(sizes)
        if index.size <= FEW_VALUES:
            # A few look-ups cost less than an array of the whole grid.
            values = np.array([log_ratio[i] for i in index.ravel().tolist()]).reshape(index.shape)
        else:
            values = np.asarray(log_ratio)[index]
        total: Floats = (weight * values).sum(axis=0)
        return total

    def log_at(self, log_ratio: Sequence[float], sizes: Sequence[float]) -> float:
        """Return the surface at one row: the number that `logs` gives, to the bit."""
        import numpy as np

        index, weight = [0], [1.0]
        for exponent, (knots, places) in zip(np.log2(sizes).tolist(), _knots(self.axes), strict=True):
            place = float(np.interp(exponent, knots, places))
            below = min(int(place), len(knots) - 2)
            share = place - below
            index = [one * len(knots) + below for one in index]
            index += [one + 1 for one in index]
            weight = [one * (1.0 - share) for one in weight] + [one * share for one in weight]
        # numpy's sum, for the order of a sum is part of its value.
        return float(np.add.reduce(np.array([part * log_ratio[at] for part, at in zip(weight, index, strict=True)])))

    def fit(self, sizes: Sequence[Floats], log_ratio: Floats, row_weights: Floats | None = None) -> tuple[float, ...]:
        """Return the surface through ln(measured / predicted) of some rows, three digits; robust and deterministic."""
        import numpy as np

        count = len(log_ratio)
        design = np.zeros((count, self.knot_count))
        rows = np.arange(count)
        for index, weight in zip(*self.corners(sizes), strict=True):
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
        kept = np.clip(surface, -LARGEST_LOG, LARGEST_LOG)
        return tuple(float(f"{value:.3f}") + 0.0 for value in kept)

    def corners(self, sizes: Sequence[Floats]) -> tuple[NDArray[np.intp], Floats]:
        """Return (grid index, weight) of the knots around each row; both of shape (2^axes, rows)."""
        import numpy as np

        count = len(sizes[0])
        index, weight = np.zeros((1, count), dtype=np.intp), np.ones((1, count))
        for values, (knots, places) in zip(sizes, _knots(self.axes), strict=True):
            place = np.interp(np.log2(values), knots, places)
            below = np.minimum(place.astype(np.intp), len(knots) - 2)
            share = place - below
            index = index * len(knots) + below
            index, weight = np.concatenate([index, index + 1]), np.concatenate([weight * (1.0 - share), weight * share])
        return index, weight

    def _penalty(self) -> Floats:
        """Return the quadratic form that keeps the surface small and flat; slopes count per doubling of a size."""
        import numpy as np

        shape = tuple(len(knots) for knots in self.axes)
        number = np.arange(self.knot_count).reshape(shape)
        form = SIZE_PENALTY * np.eye(self.knot_count)
        for axis, knots in enumerate(self.axes):
            lower = np.take(number, range(len(knots) - 1), axis)
            upper = np.take(number, range(1, len(knots)), axis)
            gaps = np.diff(knots).reshape([-1 if one == axis else 1 for one in range(len(shape))])
            weight = np.broadcast_to(SLOPE_PENALTY / gaps, lower.shape).ravel()
            a, b = lower.ravel(), upper.ravel()
            for first, second, sign in ((a, a, 1), (b, b, 1), (a, b, -1), (b, a, -1)):
                np.add.at(form, (first, second), sign * weight)
        result: Floats = form
        return result


@cache
def _knots(axes: tuple[tuple[float, ...], ...]) -> tuple[tuple[Floats, Floats], ...]:
    """Return the knots of each axis and their places as arrays."""
    import numpy as np

    return tuple((np.array(knots), np.arange(len(knots), dtype=np.float64)) for knots in axes)
