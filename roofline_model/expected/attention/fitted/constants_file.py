"""Fits of attention rows on their way in and out of the library: where they begin, what they become, chips left out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from roofline_model.core.errors import RooflineError
from roofline_model.expected.attention.fitted.constants import MIXES, REGIMES, FittedAttention
from roofline_model.expected.attention.fitted.fit import (
    LibrarySurface,
    attention_fit_set,
    complete,
    regime_names,
    shared_constants,
)
from roofline_model.expected.attention.fitted.rows import AttentionRows
from roofline_model.expected.attention.fitted.transfer import DRIFT, GENERIC_INTERVAL, nearest
from roofline_model.expected.attention.work import JoinedRows
from roofline_model.expected.fitting.cross_validation import CrossValidated, factors_of
from roofline_model.expected.fitting.fit_set import FitSet, FittedSet
from roofline_model.expected.products.fitted.constants import Evidence
from roofline_model.expected.tables.table import KernelTable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Positions = NDArray[np.intp]


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
    known: tuple[FittedAttention, ...] | None = None,
) -> AttentionStart:
    """Return the set of one chip and phase, ready to fit; `is_generic` leaves the library aside, `known` replaces it."""
    joined = JoinedRows(groups)
    library = None
    if not is_generic:
        try:
            library = groups[0].constants(known)
        except RooflineError:
            library = None  # no relative was ever measured: plausible values are all there is
    rows = attention_fit_set(joined, table.numbers["time_s"], row_weights, library)
    return AttentionStart(joined, rows, library)


def fitted_attention(
    one: AttentionStart, fitted: FittedSet, folds: CrossValidated | None, evidence: Evidence
) -> FittedAttention:
    """Return the constants as the library keeps them: five digits, those that no row could tell filled in.

    The interval is that of the folds; without folds that of the constants it began at.
    """
    values = complete(fitted.values, shared_constants(one.joined, one.values))
    rounded = {name: float(f"{value:.5g}") for name, value in values.items()}
    if folds is not None:
        intervals = {name: _outwards(factors_of(folds.factors, name)) for name in REGIMES}
        parts = (f"{name}/{mix}" for name in REGIMES for mix in MIXES)
        intervals |= {name.replace("/", "-"): _outwards(folds.factors[name]) for name in parts if name in folds.factors}
    elif one.library is not None:
        intervals = dict(one.library.intervals)
    else:
        intervals = dict.fromkeys(REGIMES, GENERIC_INTERVAL)
    begun = None if one.library is None else one.library
    kept = (None, None) if begun is None else (begun.correction, begun.correction_chip or begun.chip)
    correction, learnt_on = (fitted.learnt, None) if fitted.learnt is not None else kept
    return FittedAttention(
        one.joined.chip,
        one.joined.phase,
        rounded,
        intervals,
        evidence,
        correction=correction,
        correction_chip=learnt_on,
    )


def attention_left_out(
    one: AttentionStart, known: Sequence[FittedAttention], drift: Mapping[str, float] = DRIFT
) -> tuple[FittedAttention, Positions, ExpectedTimes] | None:
    """Return (constants, positions, times with interval) of a chip predicted by those of others; None where none may lend.

    Positions are those of the rows whose width the lenders have.
    """
    import numpy as np

    chip, phase = one.joined.chip, one.joined.phase
    found = nearest(chip, phase, [other for other in known if other.chip.key != chip.key], drift)
    usable = np.zeros(0, dtype=np.intp) if found is None else one.joined.positions_of(found.widths)
    if found is None or not len(usable):
        return None
    predicted = one.joined.times(found.values, usable)
    if found.correction is not None:
        surface = LibrarySurface(one.joined, found.correction_chip or chip)
        predicted = predicted * np.exp(surface.log_factor(found.correction, usable))
    regimes = [REGIMES.index(name) for name in regime_names(found.values, predicted)]
    mixes = one.joined.mixes(usable)
    factors = np.array([found.factors(mix)[regime] for mix, regime in zip(mixes, regimes, strict=True)])
    return found, usable, ExpectedTimes(predicted, predicted * factors[:, 0], predicted * factors[:, 1])


def _outwards(pair: tuple[float, float]) -> tuple[float, float]:
    # Rounding never makes an interval narrower.
    return math.floor(pair[0] * 1e4) / 1e4, math.ceil(pair[1] * 1e4) / 1e4
