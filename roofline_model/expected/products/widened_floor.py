"""A product that widens its weights does the arithmetic of the 16-bit product, so that it saves memory traffic and no more.

Kernels of narrow weights were timed on two chips only. Lent to another, they would outrun its 16-bit kernels where arithmetic
binds: their lender's board was not throttled (L40S to L4), or its launch and supply were scaled and its tensor rate was not
(B200, H100). The limit is the time of the chip's own 16-bit product with the DRAM traffic of the narrow operands:

    limit = T_16 with T_d · (narrow traffic / 16-bit traffic) in its norm
    T     = T + share · max(0, limit - T)

The share is 1 from the ridge point of the 16-bit product's roofline on and falls to 0 at half of it: where memory binds, a
lean kernel for few rows may well beat what the 16-bit one takes beyond DRAM (A100, INT4 weights, up to 16 rows: measured at
0.76 of the limit in one row of ten). Beyond, A100's timed kernels keep it: median 1.03 of it for INT8 weights, 1.07 for INT4.
A chip whose weight-only kernels were timed keeps their times: on L40S, whose 16-bit kernels throttle at 350 W, long products
of narrow weights were measured at 0.7 to 0.9 of the 16-bit ones. Two widened operands were never timed together: share 1.
"""

from __future__ import annotations

from functools import reduce
from operator import add

from roofline_model.core.elementwise import Numbers, larger, smaller
from roofline_model.expected.batch import NORM_PARTS, ExpectedBatch
from roofline_model.expected.products.norm import powered, rooted
from roofline_model.expected.products.parameters import ProductParameters


def widening_share(
    wide: ProductParameters, m: Numbers, n: Numbers, k: Numbers, *, computes_wide: bool = False
) -> Numbers:
    """Return from 0 to 1 how much of the limit holds for each shape. `computes_wide`: both operands are widened."""
    if computes_wide:
        return m * 0.0 + 1.0
    moved = (
        m * k * wide.activation_bytes_per_element
        + n * k * wide.weight_bytes_per_element
        + m * n * wide.output_bytes_per_element
    )
    # The compute side of the 16-bit product's roofline over its memory side.
    over = 2.0 * m * n * k / wide.peak_flops_per_s / (moved / wide.bandwidth_bytes_per_s)
    return smaller(larger(2.0 * over - 1.0, 0.0), 1.0)


def narrow_limit(wide: ExpectedBatch, wide_dram_s: Numbers, narrow_dram_s: Numbers) -> Numbers:
    """Return the time of the 16-bit product with the DRAM traffic of the narrow operands in its norm.

    Both DRAM terms are those of the 16-bit kernel, with its own operands and with the narrow ones.
    """
    parts, order, before = wide.parts, wide.norm_order, wide.parts["dram"]
    powers = reduce(add, (powered(value, order) for name, value in parts.items() if name in NORM_PARTS), 0.0)
    beside = reduce(add, (value for name, value in parts.items() if name not in NORM_PARTS), 0.0)
    narrowed = before * smaller(narrow_dram_s / larger(wide_dram_s, 1e-30), 1.0)
    # Nothing is left of a body that the library is expected to save whole: its launch is all of it.
    left = larger(powers - powered(before, order) + powered(narrowed, order), 0.0) / larger(powers, 1e-300)
    return beside + (wide.time_s - beside) * rooted(left, order)


def raised(time_s: Numbers, limit_s: Numbers, share: Numbers) -> Numbers:
    """Return each time with its share of what is missing to the limit."""
    return time_s + share * larger(limit_s - time_s, 0.0)
