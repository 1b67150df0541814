"""The attention rows of a table as sets to fit: one per chip and phase, all formats together.

Constants, ranges and the priors of few rows are those of `constants.py`. A constant that no row depends on is not
fitted: it keeps the value it begins at, or shares that of its nearest relative (another head size, the other width).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from roofline_model.expected.attention.chip import AttentionChip
from roofline_model.expected.attention.correction import AttentionCorrection, fit_surface
from roofline_model.expected.attention.fitted.constants import (
    FLOOR_RATIO,
    MID_RATIO,
    WIDTHS,
    ConstantRange,
    FittedAttention,
    constant_ranges,
)
from roofline_model.expected.attention.fitted.residuals import AttentionProblem
from roofline_model.expected.attention.work import JoinedRows
from roofline_model.expected.fitting.fit_set import FitSet
from roofline_model.expected.fitting.robust_fit import FreeConstant

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Positions = NDArray[np.intp]

MANY_SITES = 30
"""From this many head counts and sizes on, the priors are weak: rows of one site are alike and count as few. (A100 decode, 350
rows of 14 sites: 8.4 % on unseen sites with the priors, 9.3 % without.)"""
WEAK_PRIOR = 1.0
MANY_ROWS = 200
"""From this many rows on a set learns a library surface of its own; with fewer it keeps the one it begins at."""


def attention_fit_set(
    joined: JoinedRows, measured_s: Floats, row_weights: Floats | None, start: FittedAttention | None
) -> FitSet:
    """Return the set of one chip and phase.

    `start` holds the constants to begin at; None: plausible ones of no chip in particular. `measured_s` and
    `row_weights` are whole columns of the table.
    """
    import numpy as np

    free, rest = _free_constants(joined, None if start is None else start.values)
    learns = len(joined.rows) >= MANY_ROWS
    surface = LibrarySurface(joined, joined.chip if learns or start is None else start.correction_chip or start.chip)
    begun = None if learns or start is None else start.correction
    kept = None if begun is None else surface.log_factor(begun, np.arange(len(joined.rows)))

    def predict_s(values: Mapping[str, float], positions: Positions) -> Floats:
        time_s = joined.times(complete(values, rest), positions)
        return time_s if kept is None else time_s * np.exp(kept[positions])

    def regimes(values: Mapping[str, float], predicted_s: Floats, positions: Positions) -> Sequence[str]:
        names = regime_names(complete(values, rest), predicted_s)
        return [f"{name}/{mix}" for name, mix in zip(names, joined.mixes(positions), strict=True)]

    rows = joined.rows
    return FitSet(
        device=joined.chip.key,
        op="attention",
        part=joined.phase,
        rows=rows,
        measured_s=measured_s[rows],
        sites=joined.sites,
        free=free,
        predict_s=predict_s,
        regimes_of=regimes,
        row_weights=None if row_weights is None else row_weights[rows],
        surface=surface if learns else None,
    )


class LibrarySurface:
    """What the formulas leave over on a chip (`correction.py`): a surface per width, as far as each row trusts it."""

    def __init__(self, joined: JoinedRows, learnt_on: AttentionChip) -> None:
        self._phase = joined.phase
        self._sizes = joined.surface_sizes()
        self._widths = joined.row_widths
        self._trusted = joined.surface_trust(learnt_on)

    def learn(self, log_ratio: Floats, positions: Positions) -> AttentionCorrection:
        """Return the surfaces through what the formulas leave over."""
        surfaces = {}
        for width in WIDTHS:
            here = self._widths[positions] == width
            if here.any():
                sizes = tuple(column[positions[here]] for column in self._sizes)
                surfaces[width] = fit_surface(self._phase, sizes, log_ratio[here])
        return AttentionCorrection(self._phase, surfaces)

    def log_factor(self, learnt: AttentionCorrection, positions: Positions) -> Floats:
        """Return ln of the factor on the predicted time."""
        import numpy as np

        result = np.zeros(len(positions))
        for width in learnt.log_ratio:
            here = self._widths[positions] == width
            sizes = tuple(column[positions[here]] for column in self._sizes)
            result[here] = learnt.logs(width, sizes)
        return result * self._trusted[positions]


def complete(values: Mapping[str, float], rest: Mapping[str, float | str]) -> dict[str, float]:
    """Return fitted values with those that no row could tell: fixed numbers, or the name whose value they share."""
    return {**{name: values[other] if isinstance(other, str) else other for name, other in rest.items()}, **values}


def shared_constants(joined: JoinedRows, start: Mapping[str, float] | None) -> dict[str, float | str]:
    """Return what a fit of these rows leaves alone: a number from `start`, or the constant that stands in for it."""
    return _free_constants(joined, start)[1]


def regime_names(values: Mapping[str, float], predicted_s: Floats) -> list[str]:
    """Return floor, mid or bulk of each predicted time."""
    floor_s = min(values[name] for name in values if name.startswith("launch_us_")) * 1e-6
    return [
        "floor" if t < FLOOR_RATIO * floor_s else "mid" if t < MID_RATIO * floor_s else "bulk"
        for t in predicted_s.tolist()
    ]


def _free_constants(
    joined: JoinedRows, start: Mapping[str, float] | None
) -> tuple[tuple[FreeConstant, ...], dict[str, float | str]]:
    """Return the constants that the rows can tell, and for each other one a number or the name it shares."""
    problem = AttentionProblem.of(joined.works)
    is_weak = len(set(joined.sites)) >= MANY_SITES
    known = constant_ranges(joined.phase)
    begin = start or {}
    free = tuple(
        _free(name, one, begin.get(name, one.start_value), is_weak)
        for name, one in zip(problem.names, problem.ranges, strict=True)
    )
    rest: dict[str, float | str] = {}
    for name, other in problem.stand_ins.items():
        fallback = other if other in problem.names else known[name].start_value
        rest[name] = begin.get(name, fallback)
    for name in known:
        if name not in rest and name not in problem.names and name in begin:
            rest[name] = begin[name]  # a width without rows keeps what it has
    return free, rest


def _free(name: str, one: ConstantRange, value: float, is_weak: bool) -> FreeConstant:
    return FreeConstant(name, value, one.low_value, one.high_value, WEAK_PRIOR if is_weak else one.prior_scale)
