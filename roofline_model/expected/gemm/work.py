"""What a GEMM moves and computes before any kernel is chosen: bytes that miss the L2, DRAM time, clock loss, latency of a k step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from roofline_model.expected.chip import ChipSpec
from roofline_model.expected.gemm.candidates import K_STEP
from roofline_model.expected.gemm.constants import GemmConstants
from roofline_model.expected.gemm.elementwise import larger, smaller, to_power
from roofline_model.expected.gemm.formats import GemmFormats

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from roofline_model.expected.gemm.columns import ChipColumns, ConstantColumns, FormatColumns

    Floats = NDArray[np.float64]

CLOCK_LOSS_ONSET_S = 5e-5
"""Ideal length of a kernel from which power and clock limits begin to show."""
COLD_LATENCY_RATIO = 0.3
"""A k step takes this much longer when its weights come from DRAM."""


@dataclass(frozen=True, slots=True)
class GemmWork:
    """What a row needs before any candidate is chosen; arrays of shape (rows,), or numbers for one row (`elementwise.py`)."""

    m: Floats
    n: Floats
    k: Floats
    weight_bytes: Floats
    cold_weight_bytes: Floats
    """Weight bytes that come from DRAM."""
    output_bytes: Floats
    activation_miss: Floats
    """Share of the activation that comes from DRAM."""
    dram_s: Floats
    tensor_ratio: Floats
    """e_c after the clock loss of long kernels."""
    k_element_s: Floats
    """T_k per wave and element of k."""

    def at(self, index: NDArray[np.intp]) -> GemmWork:
        """Return the rows at `index`."""
        return GemmWork(*(getattr(self, name)[index] for name in self.__slots__))


def hit_share(touched: Floats, capacity_bytes: float | Floats, edge: float | Floats) -> Floats:
    """Return the share the L2 serves when `touched` bytes pass between two uses of a line; nothing of infinitely many."""
    share: Floats = 1.0 / (1.0 + to_power(smaller(touched / capacity_bytes, 4.0), edge))
    if isinstance(touched, float):
        return share * (touched < math.inf)
    import numpy as np

    return np.where(np.isinf(touched), 0.0, share)


def are_cold(copies: Floats) -> bool:
    """Return whether no weight is ever touched again before the cache has forgotten it."""
    if isinstance(copies, float):
        return copies == math.inf
    import numpy as np

    return bool(np.isinf(copies).all())


def work_of(
    chip: ChipSpec | ChipColumns,
    formats: GemmFormats | FormatColumns,
    c: GemmConstants | ConstantColumns,
    m: Floats,
    n: Floats,
    k: Floats,
    copies: Floats,
) -> GemmWork:
    """Return the work of each row; `copies` weights are touched between two uses of one (infinite: always cold).

    Weights are kept in L2 if all copies, A and C fit into its usable share; A if one W, A and C do; C if A and C do.
    """
    import numpy as np

    weight = n * k * formats.weight_bytes_per_element
    activation = m * k * formats.activation_bytes_per_element
    output = m * n * formats.output_bytes_per_element
    kept = c.l2_share_ratio * chip.l2_bytes
    moved = activation + output
    # Cold weights hit nothing: an infinity that is known beforehand need not be worked out.
    weight_hit = weight * 0.0 if are_cold(copies) else hit_share(copies * weight + moved, kept, c.l2_edge_factor)
    weight_miss = 1.0 - weight_hit
    activation_miss = 1.0 - hit_share(weight + moved, kept, c.l2_edge_factor)
    output_miss = 1.0 - hit_share(moved, c.output_l2_share_ratio * chip.l2_bytes, c.l2_edge_factor)
    traffic = weight * weight_miss + activation * activation_miss + output * output_miss
    doublings = np.log2(larger(2.0 * m * n * k / (chip.peak_flops_per_s * CLOCK_LOSS_ONSET_S), 1.0))
    # The loss is a fit over kernels of up to a second; a quarter is where it ends for products beyond any of them.
    clock = larger(1.0 - c.clock_loss_ratio * doublings, 0.25)
    return GemmWork(
        m,
        n,
        k,
        weight,
        weight * weight_miss,
        output,
        activation_miss,
        dram_s=traffic / (c.dram_ratio * chip.bandwidth_bytes_per_s),
        tensor_ratio=c.tensor_ratio * clock,
        k_element_s=c.k_step_s / K_STEP * (1.0 + COLD_LATENCY_RATIO * weight_miss),
    )
