"""How many score blocks a fused causal prefill really computes: whole tiles, counted exactly and without a loop.

A CTA owns `rows` query rows of one head and walks over the key blocks of `columns` keys that its rows can see.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

    IntArray = NDArray[Any]


@dataclass(frozen=True, slots=True)
class TileCounts:
    """Counted tiles of one head of one sequence, one entry per shape."""

    query_tiles: IntArray
    """CTAs per head: ceil(Sq / rows)."""
    blocks: IntArray
    """Key blocks over all query tiles."""
    longest: IntArray
    """Key blocks of the query tile that has most of them."""


def count_tiles(
    query: IntArray, keys: IntArray, window: IntArray, causal: IntArray, *, rows: int, columns: int
) -> TileCounts:
    """Count query tiles and key blocks of `query` new tokens whose last one sees `keys` keys.

    `window` is the number of keys a token may see (`keys` where there is none); `rows` and `columns` must divide one
    another. Without a causal mask every tile ends at the last key.
    """
    import numpy as np

    prefix = keys - query
    tiles = -(-query // rows)
    # Last block of tile i: that of its last row; the last tile may be cut short.
    ends = _floor_sum(rows - 1 + prefix, tiles - 1, rows, columns) + (keys - 1) // columns
    last = np.where(causal, ends, tiles * ((keys - 1) // columns))
    # First block of tile i: that of the oldest key its first row sees; 0 before tile `sliding`.
    start = prefix - (window - 1)
    sliding = np.clip(-(start // rows), 0, tiles)
    first = _floor_sum(sliding * rows + start, tiles - sliding, rows, columns)
    # The count of blocks per tile grows up to `sliding`, then repeats with the alignment of the two tile sizes.
    period = max(1, columns // rows)
    offsets = np.arange(-1, period + 1)
    candidates = np.concatenate([sliding + offsets[:, None], tiles[None] - 1, tiles[None] - 2])
    index = np.clip(candidates, 0, tiles - 1)
    tail = np.where(causal, np.minimum((index + 1) * rows, query) - 1 + prefix, keys - 1)
    head = np.maximum(0, index * rows + start)
    longest = (tail // columns - head // columns + 1).max(axis=0)
    return TileCounts(tiles, last - first + tiles, longest)


def _floor_sum(start: IntArray, count: IntArray, step: int, divisor: int) -> IntArray:
    """Return the sum of (start + i·step) // divisor over i < count, for start ≥ 0."""
    if step % divisor == 0:
        return (step // divisor) * (count * (count - 1) // 2) + count * (start // divisor)  # type: ignore[no-any-return]
    ratio = divisor // step
    offset = start // step
    return _staircase(count + offset, ratio) - _staircase(offset, ratio)


def _staircase(count: IntArray, ratio: int) -> IntArray:
    """Return the sum of i // ratio over i < count."""
    whole = count // ratio
    return ratio * (whole * (whole - 1) // 2) + whole * (count - ratio * whole)  # type: ignore[no-any-return]
