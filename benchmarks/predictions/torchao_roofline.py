"""torchao's own roofline helper, as a rival: one number from plain integers, and its formula compiled for arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

GPU = "NVIDIA H100"
"""A chip that both know."""


def torchao_roofline() -> tuple[Callable[[int, int, int], float], Callable[..., Any]] | None:
    """Return (seconds of one BF16 product, the same for arrays M, K, N), or None where torchao's helper does not run.

    It is a plain roofline with one share of the peaks for all shapes: no tiles, no interval, no kernel.
    """
    try:
        import sympy
        import torch
        from torchao.testing.training.roofline_utils import get_individual_gemm_time_sympy as product
    except ImportError:
        return None

    def single(M: int, N: int, K: int) -> float:
        return float(product(M, K, N, torch.bfloat16, None, GPU))

    symbols = sympy.symbols("M K N", positive=True)
    formula = sympy.lambdify(symbols, product(*symbols, torch.bfloat16, None, GPU), modules="numpy")
    # One array of one shape shows that the compiled formula is the same one.
    if not np.isclose(formula(8.0, 4096.0, 4096.0), single(8, 4096, 4096)):
        raise RuntimeError("torchao's compiled formula differs from its own number")
    return single, formula
