"""What a GEMM moves and computes before any kernel is chosen: bytes that miss the L2, DRAM time, clock loss, latency of a k step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from roofline_model.core.elementwise import Numbers, larger, log2, smaller, to_power
from roofline_model.expected.products.candidates import K_STEP
from roofline_model.expected.products.parameters import ProductParameters

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

CLOCK_LOSS_ONSET_S = 5e-5
"""Ideal length of a kernel from which power and clock limits begin to show."""
COLD_LATENCY_RATIO = 0.3
"""A k step takes this much longer when its weights come from DRAM."""


@dataclass(frozen=True, slots=True)
class GemmWork:
    """What a row needs before any candidate is chosen; arrays of shape (rows,) or (pairs,), or numbers of one product."""

    m: Numbers
    n: Numbers
    k: Numbers
    weight_bytes: Numbers
    cold_weight_bytes: Numbers
    """Weight bytes that come from DRAM."""
    output_bytes: Numbers
    activation_miss: Numbers
    """Share of the activation that comes from DRAM."""
    dram_s: Numbers
    tensor_ratio: Numbers
    """e_c after the clock loss of long kernels."""
    k_element_s: Numbers
    """T_k per wave and element of k."""

    def at(self, index: NDArray[np.intp]) -> GemmWork:
        """Return the rows at `index`."""
        return GemmWork(*(getattr(self, name)[index] for name in self.__slots__))


def hit_share(touched: Numbers, capacity_bytes: Numbers, edge: Numbers) -> Numbers:
    """Return the share the L2 serves when `touched` bytes pass between two uses of a line; nothing of infinitely many."""
    share = 1.0 / (1.0 + to_power(smaller(touched / capacity_bytes, 4.0), edge))
    if isinstance(touched, float):
        return share * (touched < math.inf)
    import numpy as np

    return np.where(np.isinf(touched), 0.0, share)


def are_cold(copies: Numbers) -> bool:
    """Return whether no weight is ever touched again before the cache has forgotten it."""
    if isinstance(copies, float):
        return copies == math.inf
    import numpy as np

    return bool(np.isinf(copies).all())


def work_of(p: ProductParameters, m: Numbers, n: Numbers, k: Numbers, copies: Numbers) -> GemmWork:
    """Return the work of each row; `copies` weights are touched between two uses of one (infinite: always cold).

    Weights are kept in L2 if all copies, A and C fit into its usable share; A if one W, A and C do; C if A and C do.
    """
    weight = n * k * p.weight_bytes_per_element
    activation = m * k * p.activation_bytes_per_element
    output = m * n * p.output_bytes_per_element
    kept = p.l2_share_ratio * p.l2_bytes
    moved = activation + output
    # Cold weights hit nothing: an infinity that is known beforehand need not be worked out.
    weight_hit = weight * 0.0 if are_cold(copies) else hit_share(copies * weight + moved, kept, p.l2_edge_factor)
    weight_miss = 1.0 - weight_hit
    activation_miss = 1.0 - hit_share(weight + moved, kept, p.l2_edge_factor)
    output_miss = 1.0 - hit_share(moved, p.output_l2_share_ratio * p.l2_bytes, p.l2_edge_factor)
    traffic = weight * weight_miss + activation * activation_miss + output * output_miss
    doublings = log2(larger(2.0 * m * n * k / (p.peak_flops_per_s * CLOCK_LOSS_ONSET_S), 1.0))
    # The loss is a fit over kernels of up to a second; a quarter is where it ends for products beyond any of them.
    clock = larger(1.0 - p.clock_loss_ratio * doublings, 0.25)
    return GemmWork(
        m,
        n,
        k,
        weight,
        weight * weight_miss,
        output,
        activation_miss,
        dram_s=traffic / (p.dram_ratio * p.bandwidth_bytes_per_s),
        tensor_ratio=p.tensor_ratio * clock,
        k_element_s=p.k_step_s / K_STEP * (1.0 + COLD_LATENCY_RATIO * weight_miss),
    )
