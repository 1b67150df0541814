"""Where an expected time goes beyond the products its constants were fitted to, and what that means for it."""

from __future__ import annotations

from roofline_model.operators import Operator

LARGEST_FITTED_FLOPS = 1.879e13
"""FLOPs of the largest of the 18,000 fitted products (M up to 32,768, N and K up to 65,536; 7 to 99 ms). Source: the measured
tables of docs/validation.md; 2026-11-22."""


def extrapolation_note(work: Operator, provenance: str) -> str:
    """Return that a product is larger than any fitted one; empty where it is not, or its time was not fitted.

    The clock's loss grows with every doubling of the work, as fitted up to 50 ms; a real chip settles at some power.
    """
    flops = work.cost.total_flops
    if flops <= LARGEST_FITTED_FLOPS or provenance == "measured-here":
        return ""
    return (
        f"extrapolated: {flops / LARGEST_FITTED_FLOPS:.2g} times the FLOPs of the largest product that was fitted; the loss of "
        "clock is taken to go on, where a chip settles at its power limit"
    )
