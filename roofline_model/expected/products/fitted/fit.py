"""The GEMM rows of a table as sets to fit: one per chip and kernel family, both phases together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from roofline_model.expected.chip import ChipSpec
from roofline_model.expected.fitting.fit_set import FitSet
from roofline_model.expected.fitting.robust_fit import FreeConstant
from roofline_model.expected.intervals import REGIMES, IntervalTable, outwards, regimes_of
from roofline_model.expected.products.fitted.constants import (
    FITTED_BOUNDS,
    WEIGHT_ONLY,
    Correction,
    FittedGemm,
    GemmConstants,
    fit_correction,
    fitted_names,
)
from roofline_model.expected.products.fitted.rows import GemmRows
from roofline_model.expected.products.formula import gemm_times, surface_share
from roofline_model.expected.products.parameters import GemmFormats, ProductParameters

Floats = NDArray[np.float64]
Positions = NDArray[np.intp]

GEMV_SWITCHES = (1.0, 2.0, 4.0, 8.0)
"""Row counts up to which a weight-only library may use its kernel for few rows; the best one is taken."""

WEAK_PRIOR = 1.0
TRANSFER_PRIOR = 0.2
"""Constants of another chip are trusted to about 20 %; with 30 rows this is the weight of the study's prior."""
LAUNCH_PRIOR = 1.0
"""The launch floor is software, not silicon: it moves freely."""
MANY_ROWS = 200
"""From this many rows on the prior is weak: the rows say more than another chip does."""


def gemm_fit_set(
    device: str,
    kernel_family: str,
    groups: Sequence[GemmRows],
    measured_s: Floats,
    row_weights: Floats | None,
    begin: FittedGemm,
    *,
    is_generic: bool = False,
) -> FitSet:
    """Return the set of one chip and kernel family; `groups` share both and differ in formats of operands only.

    `begin` is where the fit begins: physically plausible constants (`is_generic`), or the library's, its own or of
    another chip, on the numbers that the constants will belong to. Its library surface is kept by few rows; many learn
    their own. `measured_s` and `row_weights` are whole columns of the table.
    """
    rows = np.concatenate([group.rows for group in groups])
    order = np.argsort(rows, kind="stable")
    rows = rows[order]
    joined = _Joined(begin.chip, groups, order)
    start = begin.constants
    prior = WEAK_PRIOR if is_generic or len(rows) >= MANY_ROWS else TRANSFER_PRIOR
    names = [name for name in fitted_names(start, kernel_family) if joined.can_tell(name)]
    free = tuple(
        FreeConstant(
            name, getattr(start, name), *FITTED_BOUNDS[name], prior_scale=LAUNCH_PRIOR if name == "launch_s" else prior
        )
        for name in names
    )

    learns = len(rows) >= MANY_ROWS
    surface = ResidualSurface(joined, joined.surface_share(replace(begin, correction_chip=None) if learns else begin))
    begun_logs = (
        None if learns or begin.correction is None else surface.log_factor(begin.correction, np.arange(len(rows)))
    )

    def predict_s(values: Mapping[str, float], positions: Positions) -> Floats:
        time_s = joined.times(with_values(start, values), positions)
        return time_s if begun_logs is None else time_s * np.exp(begun_logs[positions])

    def regimes(values: Mapping[str, float], predicted_s: Floats, positions: Positions) -> Sequence[str]:
        return [REGIMES[i] for i in regimes_of(joined.m[positions], predicted_s, values["launch_s"])]

    switches: tuple[Mapping[str, float], ...] = ({},)
    if kernel_family in WEIGHT_ONLY:
        first = start.gemv_rows_count or 4.0
        others = (count for count in GEMV_SWITCHES if count != first)
        switches = tuple({"gemv_rows_count": count} for count in (first, *others))
    return FitSet(
        device=device,
        op="gemm",
        part=kernel_family,
        rows=rows,
        measured_s=measured_s[rows],
        sites=tuple(f"{int(n)}x{int(k)}" for n, k in zip(joined.n, joined.k, strict=True)),
        free=free,
        predict_s=predict_s,
        regimes_of=regimes,
        row_weights=None if row_weights is None else row_weights[rows],
        choices=switches,
        surface=surface if learns else None,
    )


class ResidualSurface:
    """Return the residual correction of these rows, as far as it holds for each row."""

    def __init__(self, joined: _Joined, share: Floats) -> None:
        self._sizes = (joined.m, joined.n, joined.k)
        self._share = share

    def learn(self, log_ratio: Floats, positions: Positions) -> Correction:
        """Return the surface through what the formulas leave over."""
        m, n, k = (sizes[positions] for sizes in self._sizes)
        return fit_correction(m, n, k, log_ratio, self._share[positions])

    def log_factor(self, learnt: Correction, positions: Positions) -> Floats:
        """Return ln of the factor on the predicted time."""
        m, n, k = (sizes[positions] for sizes in self._sizes)
        return learnt.logs(m, n, k) * self._share[positions]


def with_values(constants: GemmConstants, values: Mapping[str, float]) -> GemmConstants:
    """Return the constants with fitted values in their place."""
    return replace(constants, **values)  # type: ignore[arg-type]  # names are those of FITTED_BOUNDS, all floats


class _Joined:
    """Groups of rows under one set of constants, in the order of the set."""

    def __init__(self, chip: ChipSpec, groups: Sequence[GemmRows], order: Positions) -> None:
        def column(name: str) -> Floats:
            joined: Floats = np.concatenate([getattr(group, name) for group in groups])[order]
            return joined

        self.chip = chip
        self.m, self.n, self.k, self.copies = (column(name) for name in ("m", "n", "k", "copies"))
        self.group = np.concatenate([np.full(len(group.rows), i) for i, group in enumerate(groups)])[order]
        self.kinds: list[tuple[GemmFormats, bool]] = [(group.formats, group.quantizes) for group in groups]

    def can_tell(self, name: str) -> bool:
        """Return whether the rows hold anything that this constant moves."""
        if name in ("cast_ratio", "cast_element_s"):
            return any(quantizes for _, quantizes in self.kinds)
        if name == "gemv_dram_ratio" and not any(formats.is_weight_only for formats, _ in self.kinds):
            return bool((self.m == 1).any())
        return True

    def surface_share(self, begin: FittedGemm) -> Floats:
        """Return from 0 to 1 how much of a library surface holds for each row."""
        result = np.empty(len(self.m))
        for number, (formats, _) in enumerate(self.kinds):
            here = np.flatnonzero(self.group == number)
            parameters = ProductParameters.of(begin.chip, formats, begin)
            result[here] = surface_share(parameters, self.n[here], self.k[here], self.copies[here])
        return result

    def times(self, constants: GemmConstants, positions: Positions) -> Floats:
        """Return the predicted seconds at `positions`."""
        time_s = np.empty(len(positions))
        for number, (formats, quantizes) in enumerate(self.kinds):
            here = np.flatnonzero(self.group[positions] == number)
            at = positions[here]
            if len(at):
                time_s[here] = gemm_times(
                    self.chip,
                    formats,
                    constants,
                    self.m[at],
                    self.n[at],
                    self.k[at],
                    self.copies[at],
                    dynamic_activation_quantization=quantizes,
                )
        return time_s


def gemm_intervals(factors: Mapping[str, tuple[float, float]]) -> IntervalTable:
    """Return the interval table of fitted factors; a regime without rows of its own has those of the whole set."""
    everything = factors[""]
    return IntervalTable.from_pairs({name: outwards(factors.get(name, everything)) for name in REGIMES})
