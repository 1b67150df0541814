"""Formats that a chip's numbers allow and no kernel is known to run there: what nobody should be told to try.

A ceiling in a chip's description says how fast its unit is, not that a library uses it. Two facts are told here, both of
torch (the kernels of `bench_cases`; a test holds the two tables together): block-scaled products need a compute capability,
and a CPU has kernels for a handful of formats. Whatever is not known to be missing has no gap: a chip of another vendor, an
invented one, one without a stated capability, a format of the user's own, and weight-only formats on a GPU, whose weights
any framework can decode before it multiplies.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from roofline_model.chips.hardware import Device
from roofline_model.formats.catalog import FORMATS

Capability = tuple[int, int]

BOTH_OPERANDS_CAPABILITY: Final[Mapping[str, tuple[Capability, Capability | None]]] = {
    "FP8_E4M3": ((8, 9), None),
    "MXFP8_E4M3": ((10, 0), None),
    "NVFP4": ((10, 0), None),
    "MXFP4": ((10, 0), (10, 9)),
}
"""Weights and activations in this format → lowest and highest compute capability of torch's kernel. Source: torch 2.13,
`torch.nn.functional.scaled_mm` and its checks, as in `bench_cases/kernels/products/catalog.py`; 2026-11-22."""

CPU_PAIRS: Final = frozenset(
    {
        ("FP32", "FP32"),
        ("BF16", "BF16"),
        ("FP16", "FP16"),
        ("INT8", "INT8"),
        ("INT8", "BF16"),
        ("INT4", "BF16"),
        ("FP8_E4M3", "FP8_E4M3"),
    }
)
"""(weight, activation) with a CPU kernel in torch 2.13; FP8 is decoded in software. 16-bit activations count as one format."""

NO_LIBRARY: Final = frozenset({"INT4"})
"""Weights and activations in this format: some chips have the unit (A100, Ada), and neither cuBLAS nor torch multiplies
them. Source: the data types of cublasLtMatmul (CUDA 13) and torch 2.13; 2026-11-22."""

_SIXTEEN = ("BF16", "FP16")


def kernel_gap(device: Device, weight_format: str, activation_format: str) -> str:
    """Return why no kernel is known to run these operands on a chip, in words; empty where none is known to be missing.

    >>> from roofline_model.chips.hardware import get_hardware
    >>> kernel_gap(get_hardware("gb10"), "MXFP4", "MXFP4")
    'torch multiplies MXFP4 by MXFP4 on compute capability 10.x only, gb10 has 12.1'
    """
    if weight_format not in FORMATS or activation_format not in FORMATS:
        return ""
    if device.kind == "cpu":
        return _cpu_gap(weight_format, activation_format)
    is_both = weight_format == activation_format
    needed = BOTH_OPERANDS_CAPABILITY.get(weight_format) if is_both else None
    here = device.match.capability
    if is_both and weight_format in NO_LIBRARY and not device.is_placeholder and (here or device.vendor == "amd"):
        return f"neither cuBLAS nor torch multiplies {weight_format} by {weight_format}"
    if needed is None or here is None:
        return ""
    lowest, highest = needed
    if lowest <= here and (highest is None or here <= highest):
        return ""
    where = f"{lowest[0]}.x only" if highest is not None else f"{lowest[0]}.{lowest[1]} or newer"
    return f"torch multiplies {weight_format} by {weight_format} on compute capability {where}, {device.key} has {here[0]}.{here[1]}"


def _cpu_gap(weight: str, activation: str) -> str:
    pair = weight, "BF16" if activation in _SIXTEEN and weight not in _SIXTEEN else activation
    if pair in CPU_PAIRS or pair[0] in _SIXTEEN:
        return ""
    return (
        f"torch has no CPU kernel for {'weights in this format' if weight != activation else 'products in this format'}"
    )
