"""The kernels that quantise a 16-bit activation on the fly: a time of their own, after the product they feed."""

from __future__ import annotations

from roofline_model.core.elementwise import Numbers
from roofline_model.expected.products.norm import powered, rooted
from roofline_model.expected.products.parameters import ProductParameters
from roofline_model.expected.products.work import GemmWork


def cast_seconds(p: ProductParameters, rows: GemmWork) -> Numbers:
    """Return the seconds of the kernels that quantise a 16-bit activation (their launch is inside `launch_s`)."""
    elements = rows.m * rows.k
    on_chip = elements * p.cast_touched_bytes / (p.cast_ratio * p.load_bytes_per_s)
    moved_bytes = elements * (2.0 + p.activation_bytes_per_element) * rows.activation_miss
    dram = moved_bytes / (p.dram_ratio * p.bandwidth_bytes_per_s)
    return (
        rooted(powered(on_chip, p.norm_order) + powered(dram, p.norm_order), p.norm_order) + p.cast_element_s * rows.k
    )
