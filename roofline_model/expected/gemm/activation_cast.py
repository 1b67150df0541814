"""The kernels that quantise a 16-bit activation on the fly: a time of their own, after the product they feed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofline_model.expected.chip import ChipSpec
from roofline_model.expected.gemm.constants import GemmConstants
from roofline_model.expected.gemm.formats import CAST_READ_BYTES, GemmFormats
from roofline_model.expected.gemm.norm import powered, rooted
from roofline_model.expected.gemm.work import GemmWork

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


def cast_seconds(chip: ChipSpec, formats: GemmFormats, c: GemmConstants, rows: GemmWork) -> Floats:
    """Return the seconds of the kernels that quantise a 16-bit activation (their launch is inside `launch_s`)."""
    elements = rows.m * rows.k
    narrow = formats.activation_bytes_per_element
    touched = CAST_READ_BYTES[formats.family] + narrow
    on_chip = elements * touched / ((c.cast_ratio or 1.0) * chip.load_bytes_per_s)
    dram = elements * (2.0 + narrow) * rows.activation_miss / (c.dram_ratio * chip.bandwidth_bytes_per_s)
    joint = rooted(powered(on_chip, c.norm_order) + powered(dram, c.norm_order), c.norm_order)
    return joint + (c.cast_element_s or 0.0) * rows.k
