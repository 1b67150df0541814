"""The residual correction of products: what the formulas leave over, a smooth surface over m, n and k (`../grid_surface.py`).

The worst tenth of the rows carries a third of the error: certain shapes for which a library picks a slow kernel. The surface
says how a library's choices on one chip differ from the cheapest candidate. Errors under cross-validation: docs/validation.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from roofline_model.expected.grid_surface import LARGEST_LOG, Grid

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = ["AXES", "KNOTS_K", "KNOTS_M", "KNOTS_N", "KNOT_COUNT", "LARGEST_LOG", "Correction", "fit_correction"]

KNOTS_M = (0.0, 1.0, 4.0, 6.0, 8.0, 10.0, 13.0)
KNOTS_N = (5.0, 7.0, 9.0, 11.0, 13.0, 15.0, 17.0)
KNOTS_K = (5.0, 7.0, 9.0, 11.0, 13.0, 15.0, 17.0)
"""log2 of the sizes at the knots; outside, the surface goes on level."""
AXES = (KNOTS_M, KNOTS_N, KNOTS_K)
GRID = Grid(AXES)
KNOT_COUNT = GRID.knot_count


@dataclass(frozen=True, slots=True)
class Correction:
    """The surface of one kernel family on one chip."""

    log_ratio: tuple[float, ...]
    """ln(measured / predicted) at the knots, m-major, then n, then k."""

    def __post_init__(self) -> None:
        GRID.check(self.log_ratio)

    def logs(self, m: Floats, n: Floats, k: Floats) -> Floats:
        """Return ln of the factor on the predicted time of each row."""
        logs: Floats = GRID.logs(self.log_ratio, (m, n, k))
        return logs


def fit_correction(m: Floats, n: Floats, k: Floats, log_ratio: Floats, row_weights: Floats | None = None) -> Correction:
    """Return the surface through ln(measured / predicted) of some rows; robust and deterministic."""
    return Correction(GRID.fit((m, n, k), log_ratio, row_weights))
