"""The attention rows of a table as sets to fit: one per chip and phase, all formats together.

Constants, ranges and the priors of few rows are those of `constants.py`. A constant that no row depends on is not
fitted: it keeps the value it begins at, or shares that of its nearest relative (another head size, the other width).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from roofline_model.expected.attention.constants import FLOOR_RATIO, MID_RATIO, ConstantRange, constant_ranges
from roofline_model.expected.attention.residuals import AttentionProblem
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
_SIZES = (64, 128, 256)
_BY_SIZE = ("efficiency_", "cta_us_", "latency_ratio_")


def attention_fit_set(
    joined: JoinedRows, measured_s: Floats, row_weights: Floats | None, start: Mapping[str, float] | None
) -> FitSet:
    """Return the set of one chip and phase.

    `start` holds the constants to begin at by name; None: plausible ones of no chip in particular. `measured_s` and
    `row_weights` are whole columns of the table.
    """
    free, rest = _free_constants(joined, start)

    def predict_s(values: Mapping[str, float], positions: Positions) -> Floats:
        return joined.times(complete(values, rest), positions)

    def regimes(values: Mapping[str, float], predicted_s: Floats, positions: Positions) -> Sequence[str]:
        names = regime_names(complete(values, rest), predicted_s)
        return [f"{name}/{mix}" for name, mix in zip(names, joined.mixes(positions), strict=True)]

    rows = joined.rows
    return FitSet(
        device=joined.chip.key, op="attention", part=joined.phase, rows=rows, measured_s=measured_s[rows],
        sites=joined.sites, free=free, predict_s=predict_s, regimes_of=regimes,
        row_weights=None if row_weights is None else row_weights[rows],
    )  # fmt: skip


def complete(values: Mapping[str, float], rest: Mapping[str, float | str]) -> dict[str, float]:
    """Return fitted values with those that no row could tell: fixed numbers, or the name whose value they share."""
    return {
        **{name: values[other] if isinstance(other, str) else other for name, other in rest.items()}, **values
    }  # fmt: skip


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
