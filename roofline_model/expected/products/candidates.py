"""The kernels a library may choose from for one GEMM: output tiles, split-K counts, and the rules that forbid some.

Source: the expected-GEMM study of 2026-11-21, section "candidates"; the no-split rules were read off measured times that
grow by exactly 3.5 to 4 ns per k (a serial k loop). bm × bn is the tile, s the number of slices k is cut into.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from roofline_model.core.elementwise import Numbers
from roofline_model.expected.families import family_rules

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Bools = NDArray[np.bool_]
    Positions = NDArray[np.intp]

TILE_ROWS = (16, 32, 64, 128, 256)
TILE_ROWS_TMA = (16, 32, 64, 128, 192, 256)
TILE_COLUMNS = (32, 64, 128, 256)
SPLITS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
SMALLEST_TILE_ELEMS, LARGEST_TILE_ELEMS = 1024, 32768
SMALLEST_WEIGHT_ONLY_COLUMNS = 64
"""Kernels that widen their weights have no narrower tile."""
LARGEST_HALF_TILE = 128
"""Products of more rows (columns) use every tile alike: none is more than twice as long."""
SMALLEST_SLICE = 128
"""A slice of split-K is at least this many k."""
K_STEP = 64
"""Elements of k that one step of the main loop takes."""


@dataclass(frozen=True, slots=True)
class Tiles:
    """The tiles of one GPU family; arrays of shape (tiles, 1), to broadcast against rows."""

    rows: Floats
    columns: Floats
    padding_ratio: Floats
    """Tensor-pipe time over that of a 128 × 128 tile: 1 % per halving."""
    resident: Floats
    """Blocks that fit on one SM together."""
    smallest_mma_elems: int
    labels: tuple[str, ...]
    """`bm x bn x s` for every (split, tile), split-major."""

    def at(self, positions: Positions) -> Tiles:
        """Return the tiles at `positions`."""
        names, count = positions.tolist(), len(self.rows)
        return Tiles(
            self.rows[positions],
            self.columns[positions],
            self.padding_ratio[positions],
            self.resident[positions],
            self.smallest_mma_elems,
            tuple(self.labels[first + name] for first in range(0, len(self.labels), count) for name in names),
        )


@cache
def tiles_of(family: str) -> Tiles:
    """Return the tiles that kernels of this GPU family have."""
    import numpy as np

    rules = family_rules(family)
    least = rules.smallest_mma_elems
    pairs = [
        (bm, bn)
        for bm in (TILE_ROWS_TMA if rules.supply_class == "tma" else TILE_ROWS)
        for bn in TILE_COLUMNS
        if SMALLEST_TILE_ELEMS <= bm * bn <= LARGEST_TILE_ELEMS and max(bm, bn) >= least
    ]
    rows = np.array([[bm] for bm, _ in pairs], dtype=np.float64)
    columns = np.array([[bn] for _, bn in pairs], dtype=np.float64)
    area = rows * columns
    return Tiles(
        rows=rows,
        columns=columns,
        padding_ratio=1 + 0.01 * np.maximum(0.0, np.log2(16384 / area)),
        resident=np.clip(LARGEST_TILE_ELEMS / area, 1, 4),
        smallest_mma_elems=least,
        labels=tuple(f"{bm}x{bn}x{s}" for s in SPLITS for bm, bn in pairs),
    )


def usable_tiles(tiles: Tiles, m: Numbers, n: Numbers, is_weight_only: bool | Bools = False) -> Bools:
    """Return which tile serves which row, shape (tiles, rows): none much larger than the output it covers.

    Every row keeps at least one tile: an output smaller than all of them runs on the smallest. `is_weight_only`: of all
    rows, or of each.
    """
    import numpy as np

    least = tiles.smallest_mma_elems
    too_tall = (tiles.rows > np.maximum(16, 2 * m)) & (tiles.rows > least)
    too_wide = (tiles.columns > np.maximum(32, 2 * n)) & (tiles.columns > least)
    too_narrow = (tiles.columns < SMALLEST_WEIGHT_ONLY_COLUMNS) & is_weight_only
    usable: Bools = ~(too_tall | too_wide | too_narrow)
    # The first of the smallest has 64 columns or more in every family: weight-only kernels have it, too.
    smallest = int((tiles.rows * tiles.columns).argmin())
    usable[smallest] |= ~usable.any(axis=0)
    return usable


def may_split(family: str, is_sixteen_bit: bool | Bools, m: Numbers, n: Numbers, k: Numbers) -> bool | Bools:
    """Return the rows that the library may cut along k at all (the slice length is checked per split).

    Only 16-bit libraries on sm89 and sm120 leave long serial k loops; elsewhere every row may be split.
    """
    if is_sixteen_bit is False or family not in ("sm89", "sm120"):
        return True
    import numpy as np

    small_batch = (m >= 2) & (m <= 8) & (n * k < 2.7e5)
    if family == "sm89":
        short = (k < 2048) & np.logical_not((n <= 256) & (k >= 1024))
        wide = (n >= 1024) & (m <= 128) & (k <= 4096)
        leaves_loop = small_batch | short | wide
    else:
        short = (k < 2048) & np.logical_not((m <= 64) & (n <= 256) & (k >= 1536))
        leaves_loop = small_batch | short
    allowed: Bools = np.logical_not(leaves_loop & is_sixteen_bit)
    return allowed
