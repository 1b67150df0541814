"""Kernel gaps: formats that a chip's numbers allow and no kernel is known to run there, so that nobody is advised to try them.

A ceiling in a chip's description says how fast its unit is, not that a library uses it. Two facts of torch are kept here (the
kernels of `bench_cases`; a test holds the two tables together): block-scaled products need a compute capability, and a CPU
has kernels for a handful of formats. Whatever is not known to be missing has no gap: a chip of another vendor, an invented
one, one without a stated capability, a format of the user's own, and weight-only formats on a GPU, whose weights any
framework can decode before it multiplies.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from roofline_model.chips.hardware import Device
from roofline_model.core.finding import Finding, finding
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


def kernel_gap(device: Device, weight_format: str, activation_format: str) -> Finding | None:
    """Return that no kernel is known to run these operands on a chip (`kernel-gap`); None where none is known to be missing.

    Values: `hardware`; where torch has a kernel for other chips, `capability` of this one, `kernel` and its `capabilities`.

    >>> from roofline_model.chips.hardware import get_hardware
    >>> gap = kernel_gap(get_hardware("gb10"), "MXFP4", "MXFP4")
    >>> gap.value("capability"), gap.value("capabilities")
    ('12.1', '10.x')
    """
    if weight_format not in FORMATS or activation_format not in FORMATS:
        return None
    gap = finding("kernel-gap", pair_label(weight_format, activation_format), hardware=device.key)
    if device.kind == "cpu":
        return None if _has_cpu_kernel(weight_format, activation_format) else gap
    is_both = weight_format == activation_format
    needed = BOTH_OPERANDS_CAPABILITY.get(weight_format) if is_both else None
    here = device.match.capability
    if is_both and weight_format in NO_LIBRARY and not device.is_placeholder and (here or device.vendor == "amd"):
        return gap
    if needed is None or here is None:
        return None
    lowest, highest = needed
    if lowest <= here and (highest is None or here <= highest):
        return None
    return finding(
        "kernel-gap",
        gap.subject,
        hardware=device.key,
        capability=capability_text(here),
        kernel="torch scaled_mm",
        capabilities=capabilities_text(lowest, highest),
    )


def pair_label(weights: str, activations: str) -> str:
    """Return the label of a product's formats: `INT4.BF16`, or `FP8_E4M3` where both operands have it."""
    return weights if weights == activations else f"{weights}.{activations}"


def capability_text(capability: Capability) -> str:
    """Return a compute capability as NVIDIA writes it: `12.1`."""
    return f"{capability[0]}.{capability[1]}"


def capabilities_text(lowest: Capability, highest: Capability | None) -> str:
    """Return a range of compute capabilities.

    >>> capabilities_text((8, 9), None), capabilities_text((10, 0), (10, 9)), capabilities_text((7, 5), (9, 9))
    ('8.9+', '10.x', '7.5-9.x')
    """
    if highest is None:
        return f"{capability_text(lowest)}+"
    last = f"{highest[0]}.x"
    return last if lowest == (highest[0], 0) else f"{capability_text(lowest)}-{last}"


def _has_cpu_kernel(weights: str, activations: str) -> bool:
    activations = "BF16" if activations in _SIXTEEN and weights not in _SIXTEEN else activations
    return (weights, activations) in CPU_PAIRS or weights in _SIXTEEN
