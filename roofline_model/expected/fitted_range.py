"""Where an expected time goes beyond the products its constants were fitted to, and what that means for it."""

from __future__ import annotations

from roofline_model.core.finding import Finding, finding
from roofline_model.operators.product import Operator

LARGEST_FITTED_FLOPS = 1.879e13
"""FLOPs of the largest of the 18,000 fitted products (M up to 32,768, N and K up to 65,536; 7 to 99 ms). Source: the measured
tables of docs/validation.md; 2026-11-22."""


def extrapolation(work: Operator, provenance: str) -> Finding | None:
    """Return that a product is larger than any fitted one; None where it is not, or its time was not fitted.

    The clock's loss grows with every doubling of the work, as fitted up to 50 ms; a real chip settles at some power.
    """
    flops = work.cost.total_flops
    if flops <= LARGEST_FITTED_FLOPS or provenance == "measured-here":
        return None
    return finding("extrapolated", flops_factor=flops / LARGEST_FITTED_FLOPS)
