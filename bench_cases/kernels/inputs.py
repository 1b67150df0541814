"""The data that kernels multiply: seeded, uniform in [-1, 1), and copied for rotation (equal data, distinct memory)."""

from __future__ import annotations

import zlib
from functools import lru_cache

import torch
from torch import Tensor

from bench_cases.kernels.spec import SEED


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
