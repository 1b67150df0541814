"""The data that kernels multiply: seeded, uniform in [-1, 1), and copied for rotation (equal data, distinct memory).

Beside it small operands with a structure (`structured_operands`), whose last tiles are not full: what a sum of random
numbers may hide, a wrong index or scale shows on these at once.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from functools import lru_cache

import torch
from torch import Tensor

from bench_cases.kernels.spec import SEED

_N, _K = 144, 384
"""Rows and columns of structured weights: multiples of 16 and of 128, as kernels ask for; 144 rows are a tile of 128
and a piece of one.
"""
MOST_ROWS = 20
"""Kernels for up to 16 rows are kernels of their own in most libraries."""

_GOLDEN = 0.6180339887498949
_EDGES = (_K - 1, 0, 127, 128, 16, 15, 31, 32, 63, 64, 255, 256, 1, 2, 3, 4, 5, 6, 7, 8)
"""Where the rows of one-hot operands have their 1: the last and first of K, and both sides of the edges of blocks."""


def activation_source(M: int, K: int, device: str) -> Tensor:
    """Return the activation before quantisation: (M, K) FP32."""
    return uniform("activation", M, K, device)


@lru_cache(maxsize=1)
def weight_source(N: int, K: int, device: str) -> Tensor:
    """Return the weight before quantisation: (N, K) FP32, one row per output feature. Callers must not write to it.

    The last one is kept: successive cases of a run share a weight shape.
    """
    return uniform("weight", N, K, device)


def copy_of(tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Return tensors of equal content and strides in memory of their own."""
    return tuple(_copy(tensor) for tensor in tensors)


def _copy(tensor: Tensor) -> Tensor:
    if tensor.element_size() == 1:  # torch copies few of the one-byte floats: copy their bytes
        return tensor.view(torch.uint8).clone(memory_format=torch.preserve_format).view(tensor.dtype)
    return tensor.clone(memory_format=torch.preserve_format)


def uniform(role: str, rows: int, columns: int, device: str) -> Tensor:
    """Return the data of one operand, (rows, columns) FP32. `role` tells operands of one size apart."""
    # The seed depends on the role and size, so that a case has the same data whatever ran before it.
    generator = torch.Generator(device=device).manual_seed(SEED + zlib.crc32(f"{role} {rows} {columns}".encode()))
    matrix = torch.empty(rows, columns, dtype=torch.float32, device=device)
    return matrix.uniform_(-1, 1, generator=generator)


def _ids(rows: int, columns: int) -> Tensor:
    """Return numbers in [-1, 1) that are all different, neighbours far apart."""
    index = torch.arange(rows * columns, dtype=torch.float64)
    return ((index * _GOLDEN) % 1 * 2 - 1).to(torch.float32).view(rows, columns)


def ascending(rows: int, columns: int) -> Tensor:
    """Return numbers from 0 to 1, each larger than the one before."""
    return (torch.arange(1, rows * columns + 1, dtype=torch.float32) / (rows * columns)).view(rows, columns)


def _one_hot(rows: int) -> Tensor:
    matrix = torch.zeros(rows, _K)
    matrix[torch.arange(rows), torch.tensor(_EDGES)[torch.arange(rows) % len(_EDGES)]] = 1
    return matrix


def _uneven() -> Tensor:
    """Return weights whose magnitude changes from row to row and from block to block, in blocks of 16, 64 and 128."""
    n, k = torch.arange(_N).unsqueeze(1), torch.arange(_K).unsqueeze(0)
    power = (n + k // 16) % 2 + 2 * ((n + k // 64) % 3) + 2 * ((n + k // 128) % 2)
    return _ids(_N, _K) * torch.exp2(power - 4.0)


def structured_operands(rows: int, result_format: str) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Yield a name, an activation (rows, K) and a weight (N, K), FP32; `rows` are at most `MOST_ROWS`.

    Large ones have results beyond FP16's range, unless the result itself is FP16.
    """
    rows = min(rows, MOST_ROWS)
    large = 2.0 ** (6 if result_format == "FP16" else 14)
    yield "ones", torch.ones(rows, _K), _ids(_N, _K)
    yield "one-hot", _one_hot(rows), _uneven()
    yield "ascending", ascending(rows, _K), ascending(_N, _K)
    yield "uneven", _ids(rows, _K), _uneven()
    yield "large", _ids(rows, _K) * large, _ids(_N, _K)
    yield "tiny", _ids(rows, _K) * 2.0**-10, _uneven() * 2.0**-4
