"""The kernel for few rows: one pass over the weights, limited by DRAM, by L2 or by its own serial loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofline_model.expected.chip import ChipSpec
from roofline_model.expected.gemm.constants import GemmConstants
from roofline_model.expected.gemm.formats import GemmFormats
from roofline_model.expected.gemm.norm import powered, rooted
from roofline_model.expected.gemm.work import GemmWork

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from roofline_model.expected.gemm.columns import ChipColumns, ConstantColumns

    Floats = NDArray[np.float64]

GEMV_ELEMENT_S = 2e-11
"""Serial time per k of the 16-bit kernel."""


def gemv_seconds(
    chip: ChipSpec, formats: GemmFormats, c: GemmConstants, rows: GemmWork
) -> tuple[Floats, Floats, Floats, Floats] | None:
    """Return (DRAM, L2, whole without launch, serial) seconds of the kernel for few rows, or None when there is none."""
    if c.gemv_dram_ratio is None or not has_gemv(formats, c):
        return None
    return gemv_terms(chip, c, rows, c.gemv_dram_ratio, gemv_element_s(c))


def has_gemv(formats: GemmFormats, c: GemmConstants) -> bool:
    """Return whether the library has that kernel for these formats."""
    return c.gemv_dram_ratio is not None and formats.family in ("BF16", "INT8", "INT4")


def gemv_element_s(c: GemmConstants) -> float:
    """Return its serial time per element of k."""
    return GEMV_ELEMENT_S if c.gemv_element_s is None else c.gemv_element_s


def gemv_terms(
    chip: ChipSpec | ChipColumns,
    c: GemmConstants | ConstantColumns,
    rows: GemmWork,
    dram_ratio: float | Floats,
    element_s: float | Floats,
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return what `gemv_seconds` does, of constants that are known to be there."""
    dram_s = rows.cold_weight_bytes / (dram_ratio * chip.bandwidth_bytes_per_s)
    l2_s = rows.weight_bytes / (c.l2_ratio * chip.load_bytes_per_s)
    joint = rooted(powered(dram_s, c.norm_order) + powered(l2_s, c.norm_order), c.norm_order)
    serial_s = element_s * rows.k
    return dram_s, l2_s, joint + serial_s, serial_s


def uses_gemv(formats: GemmFormats, c: GemmConstants, m: Floats, gemm_s: Floats, gemv_s: Floats) -> NDArray[np.bool_]:
    """Return where the kernel for few rows runs: a weight-only library switches by m, a 16-bit one where it is faster."""
    few: NDArray[np.bool_] = m <= (c.gemv_rows_count or 0.0)
    faster: NDArray[np.bool_] = (m == 1) & (gemv_s < gemm_s)
    return few if formats.is_weight_only else faster
