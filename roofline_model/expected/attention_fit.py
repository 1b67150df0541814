"""The attention rows of a table as sets to fit: one per chip and phase, all formats together.

Constants, ranges and the priors of few rows are those of `attention_constants.py`. A constant that no row depends on is not
fitted: it keeps the value it begins at, or shares that of its nearest relative (another head size, the other width).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from roofline_model.expected.attention_constants import (
    FLOOR_RATIO,
    MID_RATIO,
    SHARED,
    WIDTHS,
    ConstantRange,
    constant_ranges,
)
from roofline_model.expected.attention_decode import DecodeWork
from roofline_model.expected.attention_prefill import fitted_size
from roofline_model.expected.attention_work import JoinedRows, is_8bit
from roofline_model.expected.fit_set import FitSet
from roofline_model.expected.robust_fit import FreeConstant

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
    phase = joined.phase
    told = _told(joined)
    widths = tuple(width for width in WIDTHS if any(WIDTHS[is_8bit(group)] == width for group in joined.groups))
    is_weak = len(set(joined.sites)) >= MANY_SITES
    begin = start or {}
    free, rest = [], dict[str, float | str]()
    for name, one in constant_ranges(phase, widths).items():
        if name in told:
            free.append(_free(name, one, begin.get(name, one.start_value), is_weak))
        elif name in begin:
            rest[name] = begin[name]
        else:
            rest[name] = _stand_in(name, told) or one.start_value
    for name in constant_ranges(phase):
        if name not in rest and name not in told and name in begin:
            rest[name] = begin[name]  # a width without rows keeps what it has
    return tuple(free), rest


def _free(name: str, one: ConstantRange, value: float, is_weak: bool) -> FreeConstant:
    return FreeConstant(name, value, one.low_value, one.high_value, WEAK_PRIOR if is_weak else one.prior_scale)


def _stand_in(name: str, told: set[str]) -> str | None:
    """Return the constant that is nearest to one without rows: another head size, or the other width."""
    stem, _, width = name.rpartition("_")
    other = WIDTHS[1 - WIDTHS.index(width)]
    candidates = []
    for prefix in _BY_SIZE:
        if stem.startswith(prefix) and stem.removeprefix(prefix).isdecimal():
            size = int(stem.removeprefix(prefix))
            nearest = sorted(_SIZES, key=lambda known: abs(known.bit_length() - size.bit_length()))
            candidates += [f"{prefix}{known}_{width}" for known in nearest]
    return next((one for one in (*candidates, f"{stem}_{other}") if one in told), None)


def _told(joined: JoinedRows) -> set[str]:
    """Return the names of the constants that some row depends on."""
    told = set(SHARED[joined.phase])
    for group, work in zip(joined.groups, joined.works, strict=True):
        width = WIDTHS[is_8bit(group)]
        names = {name for name in constant_ranges(joined.phase, (width,)) if name.endswith(width)}
        if isinstance(work, DecodeWork):
            head = {name for name in names if name.startswith("head_")}
            if not work.per_head.any():
                names -= head
            if work.per_head.all():
                names &= head
        else:
            sizes = {
                fitted_size(int(size), is_8bit=width == "8bit", is_sync=joined.chip.rules.is_sync)
                for size in group.head_dim.tolist()
            }
            absent = [f"{prefix}{size}_{width}" for prefix in _BY_SIZE for size in _SIZES if size not in sizes]
            names -= set(absent)
        told |= names
    return told
