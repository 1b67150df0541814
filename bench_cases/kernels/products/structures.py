"""Operands with a structure: what a sum of random numbers may hide, a wrong index or scale shows on these at once.

They are small, and their last tiles are not full.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

N, K = 144, 384
"""Multiples of 16 and of 128, as kernels ask for; 144 rows are a tile of 128 and a piece of one."""
MOST_ROWS = 20
"""Kernels for up to 16 rows are kernels of their own in most libraries."""

GOLDEN = 0.6180339887498949
EDGES = (K - 1, 0, 127, 128, 16, 15, 31, 32, 63, 64, 255, 256, 1, 2, 3, 4, 5, 6, 7, 8)
"""Where the rows of one-hot operands have their 1: the last and first of K, and both sides of the edges of blocks."""


def _ids(rows: int, columns: int) -> Tensor:
    """Return numbers in [-1, 1) that are all different, neighbours far apart."""
    index = torch.arange(rows * columns, dtype=torch.float64)
    return ((index * GOLDEN) % 1 * 2 - 1).to(torch.float32).view(rows, columns)


def _ascending(rows: int, columns: int) -> Tensor:
    return (torch.arange(1, rows * columns + 1, dtype=torch.float32) / (rows * columns)).view(rows, columns)


def _one_hot(rows: int) -> Tensor:
    matrix = torch.zeros(rows, K)
    matrix[torch.arange(rows), torch.tensor(EDGES)[torch.arange(rows) % len(EDGES)]] = 1
    return matrix


def _uneven() -> Tensor:
    """Return weights whose magnitude changes from row to row and from block to block, in blocks of 16, 64 and 128."""
    n, k = torch.arange(N).unsqueeze(1), torch.arange(K).unsqueeze(0)
    power = (n + k // 16) % 2 + 2 * ((n + k // 64) % 3) + 2 * ((n + k // 128) % 2)
    return _ids(N, K) * torch.exp2(power - 4.0)


def structured_operands(rows: int, result_format: str) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Yield a name, an activation (rows, K) and a weight (N, K), FP32; `rows` are at most `MOST_ROWS`.

    Large ones have results beyond FP16's range, unless the result itself is FP16.
    """
    rows = min(rows, MOST_ROWS)
    large = 2.0 ** (6 if result_format == "FP16" else 14)
    yield "ones", torch.ones(rows, K), _ids(N, K)
    yield "one-hot", _one_hot(rows), _uneven()
    yield "ascending", _ascending(rows, K), _ascending(N, K)
    yield "uneven", _ids(rows, K), _uneven()
    yield "large", _ids(rows, K) * large, _ids(N, K)
    yield "tiny", _ids(rows, K) * 2.0**-10, _uneven() * 2.0**-4
