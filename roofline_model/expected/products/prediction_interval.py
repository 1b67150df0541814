"""The 80 % interval and the provenance of a predicted product: those of its constants, wider where its formats were not measured."""

from __future__ import annotations

from roofline_model.expected.intervals import IntervalTable, across_families
from roofline_model.expected.products.fitted.constants import FittedGemm
from roofline_model.expected.products.formats import GemmFormats

GIVEN = "given"
"""Provenance of a time from constants that the caller brought, of which nothing else is known."""
OTHER_FORMAT = "transferred-format"
"""Provenance of a pair of formats that runs on the constants of its measured neighbour, on the same chip."""
OTHER_FORMAT_SHARE = 0.7
"""Share of a change of family (in logs, in quadrature) that a change of format adds to the interval. A judgement."""


def prediction_interval(fitted: FittedGemm | None, formats: GemmFormats) -> tuple[IntervalTable, str]:
    """Return (interval factors, provenance) of predictions with these constants for these formats."""
    across = across_families(formats.family)
    if fitted is None:
        return across, GIVEN
    if formats.is_measured_pair:
        return fitted.intervals, fitted.provenance
    provenance = OTHER_FORMAT if fitted.provenance == "fitted" else fitted.provenance
    return fitted.intervals.widened(across, OTHER_FORMAT_SHARE), provenance
