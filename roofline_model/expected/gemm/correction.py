"""What the formulas leave over, as a smooth surface: how a library's choices on one chip differ from the cheapest candidate.

The worst tenth of the rows carries a third of the error: certain shapes for which a library picks a slow kernel. Such choices
run in ridges over (m, n, k), so the logarithm of measured over predicted is described by a coarse grid, linear between its
knots in log2 of each size, fitted with a penalty on size and slope: without rows nearby it is 1, and one row moves little.
A grid value is a mean over many rows; no row can be read back. Errors under cross-validation are in docs/validation.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from roofline_model.errors import InvalidValueError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

KNOTS_M = (0.0, 1.0, 4.0, 6.0, 8.0, 10.0, 13.0)
KNOTS_N = (5.0, 7.0, 9.0, 11.0, 13.0, 15.0, 17.0)
KNOTS_K = (5.0, 7.0, 9.0, 11.0, 13.0, 15.0, 17.0)
"""log2 of the sizes at the knots; outside, the surface goes on level."""
AXES = (KNOTS_M, KNOTS_N, KNOTS_K)
KNOT_COUNT = len(KNOTS_M) * len(KNOTS_N) * len(KNOTS_K)

SIZE_PENALTY = 0.1
SLOPE_PENALTY = 0.1
"""Weight of a squared grid value and of a squared difference of neighbours, in rows; chosen under cross-validation by site
(343, 729 and 1,452 knots and penalties from 0.03 to 1 differ by less than 0.1 points)."""
ROBUST_LOG = 0.1
"""Residuals beyond this count in proportion to their size, not its square."""
LARGEST_LOG = 0.7
"""No correction beyond a factor of two."""
FEW_VALUES = 64
_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Correction:
    """The surface of one kernel family on one chip."""

    log_ratio: tuple[float, ...]
    """ln(measured / predicted) at the knots, m-major, then n, then k."""

    def __post_init__(self) -> None:
        if len(self.log_ratio) != KNOT_COUNT:
            raise InvalidValueError(f"a correction has {KNOT_COUNT} grid values, got {len(self.log_ratio)}")
        if not all(abs(value) <= LARGEST_LOG for value in self.log_ratio):
            raise InvalidValueError(f"a correction's grid values lie within ±{LARGEST_LOG}, one does not")

    def logs(self, m: Floats, n: Floats, k: Floats) -> Floats:
        """Return ln of the factor on the predicted time of each row."""
        import numpy as np

        index, weight = _corners(m, n, k)
        if index.size <= FEW_VALUES:
            # Eight look-ups cost less than an array of the whole grid.
            values = np.array([self.log_ratio[i] for i in index.ravel().tolist()]).reshape(index.shape)
        else:
            values = np.asarray(self.log_ratio)[index]
        total: Floats = (weight * values).sum(axis=0)
        return total


def fit_correction(m: Floats, n: Floats, k: Floats, log_ratio: Floats, row_weights: Floats | None = None) -> Correction:
    """Return the surface through ln(measured / predicted) of some rows; robust and deterministic."""
    import numpy as np

    design = np.zeros((len(m), KNOT_COUNT))
    rows = np.arange(len(m))
    for index, weight in zip(*_corners(m, n, k), strict=True):
        design[rows, index] += weight
    given = np.ones(len(m)) if row_weights is None else np.asarray(row_weights, dtype=np.float64)
    penalty = _penalty()
    weights = given
    surface = np.zeros(KNOT_COUNT)
    for _ in range(_ROUNDS):
        weighted = design * weights[:, None]
        solved = np.linalg.solve(design.T @ weighted + penalty, weighted.T @ log_ratio)
        surface = np.asarray(solved, dtype=np.float64)
        residual = (log_ratio - design @ surface) / ROBUST_LOG
        weights = np.asarray(given / np.sqrt(1 + residual * residual), dtype=np.float64)
    kept = np.clip(surface, -LARGEST_LOG, LARGEST_LOG)
    return Correction(tuple(float(f"{value:.3f}") + 0.0 for value in kept))


def _corners(m: Floats, n: Floats, k: Floats) -> tuple[NDArray[np.intp], Floats]:
    """Return (grid index, weight) of the eight knots around each row; both of shape (8, rows)."""
    import numpy as np

    index, weight = np.zeros((1, len(m)), dtype=np.intp), np.ones((1, len(m)))
    for sizes, knots in zip((m, n, k), AXES, strict=True):
        place = np.interp(np.log2(sizes), knots, np.arange(len(knots)))
        below = np.minimum(place.astype(np.intp), len(knots) - 2)
        share = place - below
        index = index * len(knots) + below
        index, weight = np.concatenate([index, index + 1]), np.concatenate([weight * (1.0 - share), weight * share])
    return index, weight


def _penalty() -> Floats:
    """Return the quadratic form that keeps the surface small and flat; slopes count per doubling of a size."""
    import numpy as np

    shape = tuple(len(knots) for knots in AXES)
    number = np.arange(KNOT_COUNT).reshape(shape)
    form = SIZE_PENALTY * np.eye(KNOT_COUNT)
    for axis, knots in enumerate(AXES):
        lower = np.take(number, range(len(knots) - 1), axis)
        upper = np.take(number, range(1, len(knots)), axis)
        gaps = np.diff(knots).reshape([-1 if one == axis else 1 for one in range(3)])
        weight = np.broadcast_to(SLOPE_PENALTY / gaps, lower.shape).ravel()
        a, b = lower.ravel(), upper.ravel()
        for first, second, sign in ((a, a, 1), (b, b, 1), (a, b, -1), (b, a, -1)):
            np.add.at(form, (first, second), sign * weight)
    result: Floats = form
    return result
