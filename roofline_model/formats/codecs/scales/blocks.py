"""Rows cut into blocks that share a scale, and blocks into pieces that stay in the cache."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

PIECE_ELEMS = 1 << 15
"""128 KiB of float32: with its temporaries a piece stays in a core's L2 (512 KiB and more on current CPUs)."""


def block_count(axis_elems: int, block_elems: int | None) -> int:
    """Blocks of a row; the last one may be shorter. None, one block for the tensor, counts as one."""
    return 1 if block_elems is None else -(-axis_elems // block_elems)


def to_blocks(rows: Array, block_elems: int | None) -> Array:
    """Return rows (rows, n) as (blocks, block_elems); a short last block of a row is filled with zeros.

    `block_elems` None: the whole tensor is one block.
    """
    if block_elems is None or rows.shape[1] % block_elems == 0:
        return rows.reshape(-1, rows.size if block_elems is None else block_elems)
    count = block_count(rows.shape[1], block_elems)
    padded = np.zeros((rows.shape[0], count * block_elems), rows.dtype)
    padded[:, : rows.shape[1]] = rows
    return padded.reshape(-1, block_elems)


def from_blocks(blocks: Array, rows: int, axis_elems: int) -> Array:
    """Undo `to_blocks`: (rows, axis_elems), without the filling."""
    if blocks.size == rows * axis_elems:
        return blocks.reshape(rows, axis_elems)
    return np.ascontiguousarray(blocks.reshape(rows, -1)[:, :axis_elems])


def pieces(count: int, block_elems: int) -> Iterator[tuple[slice, slice]]:
    """Yield (blocks, elements of them) so that one piece holds at most `PIECE_ELEMS` elements."""
    if block_elems > PIECE_ELEMS:
        for block in range(count):
            for first in range(0, block_elems, PIECE_ELEMS):
                yield slice(block, block + 1), slice(first, min(first + PIECE_ELEMS, block_elems))
        return
    step = PIECE_ELEMS // block_elems
    for first in range(0, count, step):
        yield slice(first, min(first + step, count)), slice(0, block_elems)


def block_absmax(blocks: Array) -> Array:
    """Return the largest magnitude of every block (blocks,); NaN where one is NaN."""
    largest = np.zeros(len(blocks), np.float32)
    for some, part in pieces(*blocks.shape):
        np.maximum(largest[some], np.abs(blocks[some, part]).max(axis=1), out=largest[some])
    return largest


def block_range(blocks: Array) -> tuple[Array, Array]:
    """Return the smallest and largest value of every block, zero always between them (it must have a code)."""
    low, high = np.zeros(len(blocks), np.float32), np.zeros(len(blocks), np.float32)
    for some, part in pieces(*blocks.shape):
        np.minimum(low[some], blocks[some, part].min(axis=1), out=low[some])
        np.maximum(high[some], blocks[some, part].max(axis=1), out=high[some])
    return low, high
