"""Rows that share constants: what one fit varies, how it predicts, and which rows must not be split between folds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from roofline_model.expected.fitting.robust_fit import FittedConstants, FreeConstant, fit_constants

Floats = NDArray[np.float64]
Positions = NDArray[np.intp]

COARSE_ROWS = 250
"""A long set is fitted to this many of its rows first: the search is as good there and several times as fast."""


class Surface(Protocol):
    """A description of what the constants leave over, learnt from rows after the constants are fitted to them."""

    def learn(self, log_ratio: Floats, positions: Positions) -> Any:
        """Return what ln(measured / predicted) at `positions` says."""

    def log_factor(self, learnt: Any, positions: Positions) -> Floats:
        """Return ln of the factor on the predicted time at `positions`."""


@dataclass(frozen=True, slots=True, eq=False)
class FittedSet:
    """What a fit of a set found."""

    constants: FittedConstants
    learnt: Any = None
    """Of the set's surface; None where it has none."""

    @property
    def values(self) -> Mapping[str, float]:
        """Constants by name, the chosen alternative included."""
        return self.constants.values


@dataclass(frozen=True, slots=True, eq=False)
class FitSet:
    """The measured rows of one chip and kernel family, and the model whose constants they fix."""

    device: str
    op: str
    part: str
    """Kernel family of a GEMM, phase of attention."""
    rows: Positions
    """Positions in the table."""
    measured_s: Floats
    sites: tuple[str, ...]
    """What a row shares with those that must stay in its fold: (n, k), or (heads, kv_heads, head_dim)."""
    free: tuple[FreeConstant, ...]
    predict_s: Callable[[Mapping[str, float], Positions], Floats]
    """Constants by name and positions within the set → seconds."""
    regimes_of: Callable[[Mapping[str, float], Floats, Positions], Sequence[str]]
    """Constants, predicted seconds and positions → the interval's regime of each row."""
    row_weights: Floats | None = None
    choices: tuple[Mapping[str, float], ...] = field(default=({},))
    """Constants that only take certain values, as alternatives: the one that fits best is taken."""
    surface: Surface | None = None
    """What describes the rest once the constants are fitted; None: nothing does."""

    def __len__(self) -> int:
        return len(self.rows)

    def times(self, fitted: FittedSet, positions: Positions) -> Floats:
        """Return the predicted seconds at `positions`, the surface included."""
        time_s = self.predict_s(fitted.values, positions)
        if self.surface is None or fitted.learnt is None:
            return time_s
        result: Floats = time_s * np.exp(self.surface.log_factor(fitted.learnt, positions))
        return result

    @property
    def name(self) -> str:
        """For people: `h100-sxm gemm FP8`."""
        return f"{self.device} {self.op} {self.part}"


def fit_rows(fit_set: FitSet, positions: Positions | None = None) -> FittedSet:
    """Fit a set to all of its rows, or to those at `positions`: constants, the best alternative, then the surface.

    Deterministic: the coarse rows are evenly spaced.
    """
    rows = np.arange(len(fit_set)) if positions is None else positions
    coarse = rows if len(rows) <= 2 * COARSE_ROWS else rows[np.linspace(0, len(rows) - 1, COARSE_ROWS).astype(np.intp)]
    first = _fit(fit_set, coarse, fit_set.choices[0], None)

    def error(choice: Mapping[str, float]) -> float:
        predicted = fit_set.predict_s({**first.values, **choice}, coarse)
        return float(np.mean(np.abs(np.log(predicted / fit_set.measured_s[coarse]))))

    choice = min(fit_set.choices, key=error)
    if choice is not fit_set.choices[0] or coarse is not rows:
        first = _fit(fit_set, rows, choice, first.values)
    fitted = FittedSet(replace(first, values={**first.values, **choice}))
    if fit_set.surface is None:
        return fitted
    left = np.log(fit_set.measured_s[rows] / fit_set.predict_s(fitted.values, rows))
    return replace(fitted, learnt=fit_set.surface.learn(left, rows))


def _fit(
    fit_set: FitSet, rows: Positions, choice: Mapping[str, float], first: Mapping[str, float] | None
) -> FittedConstants:
    return fit_constants(
        fit_set.free,
        lambda values: fit_set.predict_s({**values, **choice}, rows),
        fit_set.measured_s[rows],
        row_weights=None if fit_set.row_weights is None else fit_set.row_weights[rows],
        first_values=first,
    )
