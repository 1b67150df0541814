"""How far a prediction is believed: the interval and provenance of its constants, and where the library surface applies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofline_model.expected.chip import ChipSpec
from roofline_model.expected.gemm.constants import FittedGemm
from roofline_model.expected.gemm.formats import GemmFormats
from roofline_model.expected.gemm.rotation import rotated_copies
from roofline_model.expected.gemm.work import are_cold, hit_share
from roofline_model.expected.intervals import IntervalTable, across_families

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

GIVEN = "given"
"""Provenance of a time from constants that the caller brought, of which nothing else is known."""
OTHER_FORMAT = "transferred-format"
"""Provenance of a pair of formats that runs on the constants of its measured neighbour, on the same chip."""
OTHER_FORMAT_SHARE = 0.7
"""Share of a change of family (in logs, in quadrature) that a change of format adds to the interval. A judgement."""


def believed(fitted: FittedGemm | None, formats: GemmFormats) -> tuple[IntervalTable, str]:
    """Return the interval and the provenance of a prediction with these constants for these formats."""
    across = across_families(formats.family)
    if fitted is None:
        return across, GIVEN
    if formats.is_measured_pair:
        return fitted.intervals, fitted.provenance
    provenance = OTHER_FORMAT if fitted.provenance == "fitted" else fitted.provenance
    return fitted.intervals.widened(across, OTHER_FORMAT_SHARE), provenance


def trust(fitted: FittedGemm, formats: GemmFormats, n: Floats, k: Floats, copies: Floats) -> Floats:
    """Return from 0 to 1 how much of the library surface holds for each row.

    The surface was learnt where a benchmark's rotation kept small weights in the L2 of the chip it was measured on.
    Cold, the same shape is another case (DRAM hides a slow kernel), so it fades with the difference of the hit shares.
    """
    weight = n * k * formats.weight_bytes_per_element

    def hit(chip: ChipSpec, touched: Floats) -> Floats:
        rules = chip.rules
        return hit_share(touched, rules.l2_share_ratio * chip.l2_bytes, rules.l2_edge_factor)

    learnt_on = fitted.correction_chip or fitted.chip
    learnt = hit(learnt_on, rotated_copies(learnt_on, formats.family, n, k) * weight)
    here = weight * 0.0 if are_cold(copies) else hit(fitted.chip, copies * weight)
    kept: Floats = 1.0 - abs(learnt - here)
    return kept * kept
