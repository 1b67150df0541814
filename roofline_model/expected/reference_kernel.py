"""Which library's kernel an expected time of the fitted models stands for, where another one may well be faster."""

from __future__ import annotations

from roofline_model.formats.catalog import get_format

WEIGHT_ONLY_KERNEL = "TensorRT-LLM 1.0 weight-only"
"""W8A16 and W4A16 rows: 4,800 of 26,900 measured ones, of these two chips; docs/validation.md. Source: aiconfigurator."""


def reference_kernel(weight: str, activation: str, provenance: str) -> str:
    """Return the kernel that an expected time of a product stands for; empty where there is nothing to say.

    Weights narrower than their 16-bit activation: at few rows the measured kernel takes a step from its GEMV to its GEMM,
    and on chips with a newer tensor unit than the measured ones (`transferred-…`) libraries have had better ones since.
    """
    is_weight_only = get_format(weight).element_bits < 16 <= get_format(activation).element_bits
    # What a machine measured itself is of its own kernels.
    return WEIGHT_ONLY_KERNEL if is_weight_only and provenance != "measured-here" else ""
