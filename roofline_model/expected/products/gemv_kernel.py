"""The kernel for few rows: one pass over the weights, limited by DRAM, by L2 or by its own serial loop."""

from __future__ import annotations

from dataclasses import dataclass

from roofline_model.core.elementwise import Numbers, choose
from roofline_model.expected.products.norm import powered, rooted
from roofline_model.expected.products.parameters import ProductParameters
from roofline_model.expected.products.work import GemmWork


@dataclass(frozen=True, slots=True)
class GemvTimes:
    """Seconds of the kernel for few rows, without its launch."""

    time_s: Numbers
    dram_s: Numbers
    l2_s: Numbers
    serial_s: Numbers


def gemv_times(p: ProductParameters, rows: GemmWork) -> GemvTimes:
    """Return the times of that kernel, which each pair must have."""
    dram_s = rows.cold_weight_bytes / (p.gemv_dram_ratio * p.bandwidth_bytes_per_s)
    l2_s = rows.weight_bytes / (p.l2_ratio * p.load_bytes_per_s)
    joint_s = rooted(powered(dram_s, p.norm_order) + powered(l2_s, p.norm_order), p.norm_order)
    serial_s = p.gemv_element_s * rows.k
    return GemvTimes(joint_s + serial_s, dram_s, l2_s, serial_s)


def uses_gemv(p: ProductParameters, m: Numbers, gemm_s: Numbers, gemv_s: Numbers) -> Numbers:
    """Return where that kernel runs: a weight-only library switches by m, a 16-bit one where it is faster."""
    is_faster = (m == 1) & (gemv_s < gemm_s)
    return choose(p.is_weight_only, m <= p.gemv_rows_count, is_faster) & p.has_gemv
