"""Fitting the constants of the attention model: sets of rows, residuals, what a fit becomes, chips left out.

One set is one chip and phase, all formats together: the constants of a width see only the rows of that width.
Constants, ranges and the priors of few rows are those of `constants.py`. A constant that no row depends on is not
fitted: it keeps the value it begins at, or shares that of its nearest relative (another head size, the other width).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from roofline_model.core.errors import InvalidValueError, RooflineError
from roofline_model.expected.attention.chip import AttentionChip
from roofline_model.expected.attention.decode import DecodeWork
from roofline_model.expected.attention.fitted.constants import (
    FLOOR_RATIO,
    MID_RATIO,
    MIXES,
    REGIMES,
    SHARED,
    WIDTHS,
    AttentionCorrection,
    FittedAttention,
    constant_ranges,
    fit_surface,
)
from roofline_model.expected.attention.fitted.library import DRIFT, GENERIC_INTERVAL, nearest
from roofline_model.expected.attention.fitted.rows import AttentionRows, JoinedRows
from roofline_model.expected.attention.prefill import PrefillWork, fitted_size
from roofline_model.expected.constants_file import Evidence
from roofline_model.expected.fitting.cross_validation import CrossValidated, factors_of
from roofline_model.expected.fitting.fit_set import FitSet, FittedSet
from roofline_model.expected.fitting.robust_fit import FreeConstant
from roofline_model.expected.fitting.table import KernelTable
from roofline_model.expected.intervals import outwards

Floats = NDArray[np.float64]
Positions = NDArray[np.intp]

Work = PrefillWork | DecodeWork
HEAD = "head_"


def told_constants(works: Sequence[Work]) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the constants that some row depends on, and each other one with the constant whose value it takes.

    `works`: counted work of one chip and phase, one for each set of formats. Raises `InvalidValueError` without any.
    """
    if not works:
        raise InvalidValueError("a fit of attention needs at least one measured row")
    used: set[str] = set()
    for work in works:
        used |= _prefill(work) if isinstance(work, PrefillWork) else _decode(work)
    phase = "prefill" if isinstance(works[0], PrefillWork) else "decode"
    used |= set(SHARED[phase])
    widths = tuple(width for width in WIDTHS if any(name.endswith(width) for name in used))
    ranges = constant_ranges(phase, widths)
    return (
        tuple(name for name in ranges if name in used),
        {name: _stand_in(name, used) for name in ranges if name not in used},
    )


def _prefill(work: PrefillWork) -> set[str]:
    width = WIDTHS[work.is_8bit]
    used = {f"launch_us_{width}"}
    for dim in set(work.head_dim.tolist()):
        rate = fitted_size(dim, is_8bit=work.is_8bit, is_sync=work.chip.rules.is_sync)
        size = 64 if dim <= 64 else 128 if dim <= 128 else 256
        used |= {f"efficiency_{rate}_{width}", f"cta_us_{size}_{width}", f"latency_ratio_{size}_{width}"}
    return used


def _decode(work: DecodeWork) -> set[str]:
    width = WIDTHS[work.is_8bit]
    stems: set[str] = set()
    is_split = work.splits > 1
    if work.per_head.any():
        stems |= {"head_launch_us", "head_cta_us", "head_token_ns", "head_fill_us"}
        stems |= {"head_split_us"} if (work.per_head & is_split).any() else set()
    if not work.per_head.all():
        stems |= {"launch_us", "cta_us", "tile_growth", "token_ns"}
        stems |= {"combine_us", "combine_split_us"} if (~work.per_head & is_split).any() else set()
    if work.chip.rules.is_datacentre_blackwell:
        # Only groups above 32 take the per-head kernel there: too few rows to tell the widths of the cache apart.
        return {f"{stem}_{WIDTHS[0] if stem.startswith(HEAD) else width}" for stem in stems}
    return {f"{stem}_{width}" for stem in stems}


def _stand_in(name: str, allowed: set[str]) -> str:
    """Return the constant nearest to one without rows: another head size of the same width, or the other width."""
    stem, width = name.rsplit("_", 1)
    other = WIDTHS[1 - WIDTHS.index(width)] if width in WIDTHS else ""
    base = stem.rsplit("_", 1)[0]
    candidates = [f"{base}_{size}_{width}" for size in (128, 256, 64)] + [f"{stem}_{other}"]
    return next((candidate for candidate in candidates if candidate in allowed), name)


MANY_SITES = 30
"""From this many head counts and sizes on, the priors are weak: rows of one site are alike and count as few. (A100
decode, 350 rows of 14 sites: 8.4 % on unseen sites with the priors, 9.3 % without.)
"""
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
    free, rest = _free_constants(joined, None if start is None else start.values)
    learns = len(joined.rows) >= MANY_ROWS
    surface = LibrarySurface(joined, joined.chip if learns or start is None else start.correction_chip or start.chip)
    begun = None if learns or start is None else start.correction
    begun_logs = None if begun is None else surface.log_factor(begun, np.arange(len(joined.rows)))

    def predict_s(values: Mapping[str, float], positions: Positions) -> Floats:
        time_s = joined.times(complete(values, rest), positions)
        return time_s if begun_logs is None else time_s * np.exp(begun_logs[positions])

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
    """What the formulas leave over on a chip (`AttentionCorrection`): a surface per width, by the rows' trust in it."""

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
        result = np.zeros(len(positions))
        for width in learnt.log_ratio:
            here = self._widths[positions] == width
            sizes = tuple(column[positions[here]] for column in self._sizes)
            result[here] = learnt.logs(width, sizes)
        return result * self._trusted[positions]


def complete(values: Mapping[str, float], rest: Mapping[str, float | str]) -> dict[str, float]:
    """Return fitted values with those that no row could tell: fixed numbers, or the name whose value they share."""
    return {**{name: values[other] if isinstance(other, str) else other for name, other in rest.items()}, **values}


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
    names, stand_ins = told_constants(joined.works)
    is_weak = len(set(joined.sites)) >= MANY_SITES
    ranges = constant_ranges(joined.phase)
    begin = start or {}
    free = []
    for name in names:
        bounds = ranges[name]
        value, prior = begin.get(name, bounds.start_value), WEAK_PRIOR if is_weak else bounds.prior_scale
        free.append(FreeConstant(name, value, bounds.low_value, bounds.high_value, prior))
    rest: dict[str, float | str] = {
        name: begin.get(name, other if other in names else ranges[name].start_value)
        for name, other in stand_ins.items()
    }
    # A width without rows keeps what it has.
    rest |= {name: begin[name] for name in ranges if name not in rest and name not in names and name in begin}
    return tuple(free), rest


@dataclass(frozen=True, slots=True, eq=False)
class ExpectedTimes:
    """Expected times of rows with their 80 % interval."""

    time_s: Floats
    low_s: Floats
    high_s: Floats


@dataclass(frozen=True, slots=True, eq=False)
class AttentionStart:
    """A set of attention rows of one chip and phase, joined, and the constants it begins at."""

    joined: JoinedRows
    rows: FitSet
    library: FittedAttention | None
    """None: it begins at plausible values of no chip in particular."""

    @property
    def values(self) -> Mapping[str, float] | None:
        """The constants to begin at."""
        return None if self.library is None else self.library.values

    @property
    def provenance(self) -> str:
        """Of the constants to begin at."""
        return "generic" if self.library is None else self.library.provenance


def attention_start(
    table: KernelTable,
    groups: Sequence[AttentionRows],
    row_weights: Floats | None,
    *,
    is_generic: bool,
    lenders: tuple[FittedAttention, ...] | None = None,
) -> AttentionStart:
    """Return the set of one chip and phase, ready to fit; `is_generic` leaves the library aside, `lenders` replace
    it.
    """
    joined = JoinedRows(groups)
    library = None
    if not is_generic:
        try:
            library = groups[0].constants(lenders)
        except RooflineError:
            library = None  # no relative was ever measured: plausible values are all there is
    rows = attention_fit_set(joined, table.numbers["time_s"], row_weights, library)
    return AttentionStart(joined, rows, library)


def fitted_attention(
    start: AttentionStart, fitted: FittedSet, folds: CrossValidated | None, evidence: Evidence
) -> FittedAttention:
    """Return the constants as the library keeps them: five digits, those that no row could tell filled in.

    The interval is that of the folds; without folds that of the constants it began at.
    """
    _, rest = _free_constants(start.joined, start.values)
    values = complete(fitted.values, rest)
    rounded = {name: float(f"{value:.5g}") for name, value in values.items()}
    if folds is not None:
        intervals = {name: outwards(factors_of(folds.factors, name)) for name in REGIMES}
        parts = (f"{name}/{mix}" for name in REGIMES for mix in MIXES)
        intervals |= {name.replace("/", "-"): outwards(folds.factors[name]) for name in parts if name in folds.factors}
    elif start.library is not None:
        intervals = dict(start.library.intervals)
    else:
        intervals = dict.fromkeys(REGIMES, GENERIC_INTERVAL)
    begun = None if start.library is None else start.library
    shipped = (None, None) if begun is None else (begun.correction, begun.correction_chip or begun.chip)
    correction, learnt_on = (fitted.learnt, None) if fitted.learnt is not None else shipped
    return FittedAttention(
        start.joined.chip,
        start.joined.phase,
        rounded,
        intervals,
        evidence,
        correction=correction,
        correction_chip=learnt_on,
    )


def attention_left_out(
    start: AttentionStart, library: Sequence[FittedAttention], drift: Mapping[str, float] = DRIFT
) -> tuple[FittedAttention, Positions, ExpectedTimes] | None:
    """Return (constants, positions, times with interval) of a chip predicted by those of others; None where none may
    lend.

    Positions are those of the rows whose width the lenders have.
    """
    chip, phase = start.joined.chip, start.joined.phase
    lent = nearest(chip, phase, [other for other in library if other.chip.key != chip.key], drift)
    usable = np.zeros(0, dtype=np.intp) if lent is None else start.joined.positions_of(lent.widths)
    if lent is None or not len(usable):
        return None
    predicted = start.joined.times(lent.values, usable)
    if lent.correction is not None:
        surface = LibrarySurface(start.joined, lent.correction_chip or chip)
        predicted = predicted * np.exp(surface.log_factor(lent.correction, usable))
    regimes = [REGIMES.index(name) for name in regime_names(lent.values, predicted)]
    mixes = start.joined.mixes(usable)
    factors = np.array([lent.factors(mix)[regime] for mix, regime in zip(mixes, regimes, strict=True)])
    return lent, usable, ExpectedTimes(predicted, predicted * factors[:, 0], predicted * factors[:, 1])
