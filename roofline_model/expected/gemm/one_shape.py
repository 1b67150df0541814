"""The expected times of one shape in many pairs of formats at once: what a recommendation asks for.

The same numbers as `ProductModel.expected` pair by pair, to the bit (tested); times and intervals only, weights cold.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import TYPE_CHECKING

from roofline_model.expected.gemm.candidates import SMALLEST_SLICE, SPLITS, may_split
from roofline_model.expected.gemm.columns import PairColumns
from roofline_model.expected.gemm.correction import GRID
from roofline_model.expected.gemm.gemv_kernel import gemv_terms
from roofline_model.expected.gemm.model import candidate_seconds, corrected_seconds, unit_roofs
from roofline_model.expected.gemm.norm import powered
from roofline_model.expected.gemm.rotation import MOST_COPIES
from roofline_model.expected.gemm.widened_floor import raised_one
from roofline_model.expected.gemm.work import GemmWork, hit_share, work_of
from roofline_model.expected.intervals import FLOOR_RATIO, row_regime

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


def times_of_shape(pairs: PairColumns, M: int, N: int, K: int) -> tuple[list[float], list[float], list[float]]:
    """Return (expected, low, high) seconds of C(M×N) = A(M×K)·B(K×N) in each pair; sizes are whole numbers from 1."""
    import numpy as np

    chip, c, belief = pairs.chip, pairs.constants, pairs.belief
    m, n, k = np.array([float(M)]), np.array([float(N)]), np.array([float(K)])
    rows = work_of(chip, pairs.formats, c, m, n, k, np.array([math.inf]))
    body, dram_s = _cheapest(pairs, rows, M, N, K), rows.dram_s
    if M == 1 or c.gemv_rows_count.max() >= M:
        gemv_dram_s, _, gemv_s, _ = gemv_terms(chip, c, rows, c.gemv_dram_ratio, c.gemv_element_s)
        few = c.gemv_rows_count >= M
        uses = c.has_gemv & np.where(pairs.formats.is_weight_only, few, (gemv_s < body) if M == 1 else False)
        body, dram_s = np.where(uses, gemv_s, body), np.where(uses, gemv_dram_s, dram_s)
    time_s = c.launch_s + body
    factor = np.exp(_trust(pairs, n, k) * _surface(pairs, m, n, k))
    time_s = corrected_seconds(time_s, factor, unit_roofs(chip, c, m, n, k, dram_s))
    regime = 2 * row_regime(M) + (time_s > FLOOR_RATIO * c.launch_s)
    each = np.arange(len(time_s))
    low_s, high_s = time_s * belief.low_ratio[each, regime], time_s * belief.high_ratio[each, regime]
    found = time_s.tolist(), low_s.tolist(), high_s.tolist()
    for place, model in pairs.limited:
        before = found[0][place]
        raised = raised_one(model, before, M, N, K)
        if raised > before:
            found[0][place], found[1][place], found[2][place] = (
                raised,
                *(ends[place] * (raised / before) for ends in found[1:]),
            )
    return found


def _cheapest(pairs: PairColumns, rows: GemmWork, M: int, N: int, K: int) -> Floats:
    """Return the seconds of each pair's cheapest tile and split, without launch."""
    import numpy as np

    chip, c, found = pairs.chip, pairs.constants, pairs.candidates(M, N)
    tiles = found.tiles
    blocks = np.ceil(M / tiles.rows) * np.ceil(N / tiles.columns)
    power = powered(found.tensor / rows.tensor_ratio, c.norm_order) + found.load_power
    split_count = bisect_right(SPLITS, K // SMALLEST_SLICE)
    narrow = found.usable & (blocks < chip.sm_count) & _may_split(pairs, M, N, K)
    if split_count < 2 or not narrow.any():
        time_s = candidate_seconds(chip, c, rows, tiles.resident, 1.0, blocks, power, found.supply_s)
        time_s[~found.usable] = np.inf
        return np.asarray(time_s.min(axis=0))
    split = np.array(SPLITS[:split_count], dtype=np.float64)[:, None, None]
    every_block = np.broadcast_to(blocks, (split_count, *blocks.shape))
    time_s = candidate_seconds(chip, c, rows, tiles.resident, split, every_block, power, found.supply_s)
    time_s[0, ~found.usable] = np.inf
    time_s[1:, ~narrow] = np.inf
    return np.asarray(time_s.min(axis=(0, 1)))


def _may_split(pairs: PairColumns, M: int, N: int, K: int) -> NDArray[np.bool_]:
    """Return the pairs whose library may cut this shape along k at all."""
    import numpy as np

    sizes = (np.array([float(size)]) for size in (M, N, K))
    allowed: NDArray[np.bool_] = pairs.constants.has_split & (
        may_split(pairs.chip.family, "BF16", *sizes) | ~pairs.formats.is_sixteen_bit
    )
    return allowed


def _surface(pairs: PairColumns, m: Floats, n: Floats, k: Floats) -> Floats:
    """Return each pair's library surface at one shape: ln of a factor."""
    import numpy as np

    index, weight = GRID.corners((m, n, k))
    # Summed row by row along the corners, as the sum of a single shape is: the order of a sum is part of its value.
    values = np.ascontiguousarray((weight * pairs.belief.surface[index[:, 0]]).T)
    return np.asarray(values.sum(axis=1))


def _trust(pairs: PairColumns, n: Floats, k: Floats) -> Floats:
    """Return how much of the surface holds for cold weights; see `belief.trust`."""
    import numpy as np

    belief = pairs.belief
    weight = n * k * pairs.formats.weight_bytes_per_element
    is_rotated = belief.rotated_element_bytes > 0
    element_bytes = np.where(is_rotated, belief.rotated_element_bytes, 1.0)
    fill = np.ceil(belief.learnt_l2_bytes / (n * k * element_bytes))
    copies = np.minimum(np.maximum(fill, 1.0), MOST_COPIES)
    learnt = hit_share(copies * weight, belief.learnt_kept_bytes, belief.learnt_edge_factor)
    return np.asarray(np.square(1.0 - np.abs(np.where(is_rotated, learnt, 0.0))))
