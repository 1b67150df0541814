"""Products in the formats that torch multiplies directly: FP32, TF32, BF16, FP16."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from bench_cases.kernels.held import HeldMatrix
from bench_cases.kernels.products.prepare import Built, fp32_matmul_precision
from bench_cases.kernels.spec import KernelSpec

_DTYPES = {"FP32": torch.float32, "TF32": torch.float32, "BF16": torch.bfloat16, "FP16": torch.float16}


def matmul(kernel: KernelSpec, activation: Tensor, weight: Tensor) -> Built:
    """Build `torch.mm(A, Wᵀ)` with the weight stored (N, K), as a linear layer holds it.

    A (K, N) copy would be slower on CPUs: FP16 then leaves oneDNN and takes 150 times as long (torch 2.13).
    """
    dtype = _DTYPES[kernel.activation]
    a, w = _copied(activation, dtype), _copied(weight, dtype)
    precision = "high" if kernel.activation == "TF32" else "highest"
    settings = partial(fp32_matmul_precision, precision)
    return Built(torch.mm, (a, w.t()), HeldMatrix(a), HeldMatrix(w), settings)


def _copied(source: Tensor, dtype: torch.dtype) -> Tensor:
    return source.to(dtype, copy=True)  # never the shared source itself
