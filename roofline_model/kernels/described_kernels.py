"""The GPU kernels that this suite measures, and the constants that describe the time of each.

Constants describe the kernels that they were fitted to or counted from, and no others:

- *products* (`expected/products/`): 18,000 rows of TensorRT-LLM's linear layers. In 16 bit these call torch's
  `F.linear` (cuBLAS), in FP8 with one scale per tensor cuBLASLt, in NVFP4 a block-scaled product. A format without rows
  runs on the constants of its neighbour, and the provenance says so. The INT8 and INT4 rows are of kernels of its own
  that widen the weight (A100, L40S): none of torch's kernels is one of these. Source: TensorRT-LLM,
  tensorrt_llm/_torch/modules/linear.py at 00bbf71e796406ea8593a77cbfb828356182db16; 2026-11-26.
- *a key of `ATTENTION_KERNELS`* (`expected/attention/`): the FlashAttention that torch ships (2, and 3 for FP8 on
  Hopper), and cuDNN's, for which the one that is written with the same matrix instruction stands in. TensorRT-LLM's
  module, the default where no kernel is named, is none of torch's.
- *ceilings* (`expected/calibrated.py`), once the machine is calibrated: kernels that read each element once and write
  each result once, in one launch. A sum along a row needs the row twice; several launches move what lies between them.

`None`: no constants describe it, so that it has no expected time. A kernel that is not in the table is the user's own,
held against what a good library takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from roofline_model.core.finding import Finding, finding

PRODUCTS = "products"
CEILINGS = "ceilings"

_PRODUCT: Mapping[str, str | None] = {
    "matmul": PRODUCTS,
    "scaled_mm": PRODUCTS,
    "scaled_mm_fast": PRODUCTS,
    "scaled_mm_rowwise": None,  # CUTLASS, or cuBLASLt with vectors of scales
    "scaled_mm_rowwise_fast": None,
    "scaled_mm_block": PRODUCTS,
    "int_mm": None,
    "int_mm_padded": None,
    "int8pack": None,
    "tinygemm": None,
    "dequant_emulated": None,
}
_ATTENTION: Mapping[str, str | None] = {
    "sdpa_flash": "fa2",
    "sdpa_flash_padded": None,  # copies the values first
    "sdpa_flash_widened_emulated": None,  # copies the cache first
    "sdpa_cudnn": "cudnn",
    "sdpa_efficient": None,
    "sdpa_math": None,
    "fa3_fp8": "fa3",
    "flex": None,
    "latent_efficient": None,
    "latent_efficient_widened_emulated": None,
    "latent_math": None,
}

GPU_KERNELS: Final[Mapping[str, Mapping[str, str | None]]] = MappingProxyType(
    {
        "gemv": _PRODUCT,
        "gemm": _PRODUCT,
        "attention": _ATTENTION,
        "unfused_attention": {"unfused": None, "latent_unfused": None},
        "softmax": {"fused": None},
        "rmsnorm": {"fused": None, "compiled": None},
        "residual_add": {"fused": CEILINGS},
        "rope": {"eager": None, "compiled": CEILINGS},
        "silu_mul": {"eager": None, "compiled": CEILINGS},
        "ffn": {"eager": None},
        "quantize": {"eager_row": None, "eager_tensor": None, "compiled_row": None},
        "dequantize": {"eager_row": None},
    }
)
"""Operator → kernel → the constants that describe it: `PRODUCTS`, `CEILINGS`, a key of `ATTENTION_KERNELS`, or None."""


def constants_of(op: str, kernel: str) -> str | None:
    """Return the constants that describe a measured GPU kernel; None where none do, or it is the user's own.

    >>> constants_of("attention", "sdpa_flash")
    'fa2'
    """
    return GPU_KERNELS.get(op, {}).get(kernel)


def why_not_described(op: str, kernel: str) -> Finding | None:
    """Return that no constants describe a measured GPU kernel; None where some do, or it is the user's own."""
    kernels = GPU_KERNELS.get(op, {})
    return finding("no-expected-time", kernel, kind="kernel") if kernel in kernels and kernels[kernel] is None else None
