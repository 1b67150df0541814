"""How many copies of the weights a benchmark rotates over, so that a measured row is predicted as it was measured.

In a model the weights of a layer come back only after all other layers: use infinitely many copies (cold). A benchmark
rotates over a few, and up to five copies can fit in a large L2: many published "cold" rows are L2-hot by construction.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from roofline_model.core.elementwise import Numbers, ceiling, larger, smaller
from roofline_model.expected.chip import ChipSpec

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

COLD = math.inf
"""Copies of a real model: never the same weights twice before the cache has forgotten them."""
HOT = 1.0
"""Copies when calls follow each other on the same operands."""
MOST_COPIES = 5
_COLD_TABLES = ("a100-sxm-80gb", "a100-sxm-40gb")
"""Chips whose published 16-bit table behaves cold at every size (the older collector, TensorRT-LLM 1.0.0)."""
_ROTATION_BYTES = {"BF16": 2.0, "FP8": 1.0}


def rotated_copies(chip: ChipSpec, kernel_family: str, N: ArrayLike, K: ArrayLike) -> Numbers:
    """Return the copies of an N×K weight between two uses of one in aiconfigurator's published table of this chip: a `float` of floats.

    BF16 and FP8: enough copies to pass the L2 once, at most five (collector/trtllm/collect_gemm.py of that project), so
    that up to five copies can be L2-hot. NVFP4 and weight-only tables, and the A100's: infinite. Their collectors name
    five copies too, but the measured times are those of cold weights: with infinitely many, the cross-validated error
    falls from 9.6 to 7.4 % (NVFP4, RTX PRO 6000), 4.4 to 3.5 % (NVFP4, B200), 10.7 to 7.2 % (INT8, L40S), 10.7 to 7.7 %
    (INT4, L40S) and 8.3 to 8.0 % (BF16, A100). `kernel_family` is BF16, FP8, NVFP4, INT8 or INT4.
    """
    element_bytes = rotation_element_bytes(chip, kernel_family)
    if isinstance(N, float) and isinstance(K, float):
        return COLD if element_bytes is None else copies_to_pass(chip.l2_bytes, N * K * element_bytes)
    import numpy as np

    elements = np.asarray(N, dtype=np.float64) * np.asarray(K, dtype=np.float64)
    if element_bytes is None:
        return np.full_like(elements, COLD)
    return np.asarray(copies_to_pass(chip.l2_bytes, elements * element_bytes), dtype=np.float64)


def copies_to_pass(l2_bytes: Numbers, weight_bytes: Numbers) -> Numbers:
    """Return the copies of a weight that pass an L2 once, at most `MOST_COPIES`."""
    return smaller(larger(ceiling(l2_bytes / weight_bytes), 1.0), MOST_COPIES)


def rotation_element_bytes(chip: ChipSpec, kernel_family: str) -> float | None:
    """Return the bytes per element by which that table's collector counted copies; None: its rows are always cold."""
    return None if chip.key in _COLD_TABLES else _ROTATION_BYTES.get(kernel_family)


def copies_of(cache: str) -> float:
    """Return the copies of a weight that are touched between two uses of one, in a state of the cache."""
    return HOT if cache == "warm" else COLD
