"""Which kernel serves a pair of formats, or a cache, on a chip: what has to exist before a plan may be recommended.

A roofline prices any format on any chip; an engine runs those somebody wrote a kernel for. Listed are kernels of released
engines by compute capability (NVIDIA) or vendor (AMD), as of 2026-11-22. Chips without a list have no gap: invented ones, the
user's own, CPUs (`kernel_gaps.py` has those of torch) and other vendors.
"""

from __future__ import annotations

from dataclasses import dataclass

from roofline_model.chips.hardware import Device
from roofline_model.core.finding import Finding, finding
from roofline_model.formats.catalog import FORMATS, get_format
from roofline_model.kernels.kernel_gaps import (
    BOTH_OPERANDS_CAPABILITY,
    capabilities_text,
    capability_text,
    kernel_gap,
    pair_label,
)

Capability = tuple[int, int]


@dataclass(frozen=True, slots=True)
class ServingKernel:
    """A kernel and where it runs."""

    name: str
    source: str
    lowest: Capability = (8, 0)
    highest: Capability | None = None
    """Last compute capability; None: any newer one."""
    amd_name: str = ""
    """The kernel of AMD's data-centre GPUs (CDNA 3) for the same formats; empty: none is listed."""
    hopper_name: str = ""
    """The name on compute capability 9.x, where a library that runs on nothing else has the kernel, too; empty: as elsewhere."""

    def name_on(self, device: Device) -> str:
        """Return the name of the kernel on a chip: of the libraries that run there, none that another chip needs."""
        if device.vendor == "amd":
            return self.amd_name
        here = _capability(device)
        return self.hopper_name if self.hopper_name and here is not None and here[0] == 9 else self.name

    def runs_on(self, capability: Capability) -> bool:
        """Return whether a compute capability is within the kernel's range."""
        return self.lowest <= capability and (self.highest is None or capability <= self.highest)


_VLLM_TABLE = "docs.vllm.ai, features/quantization, Supported Hardware"
_TORCH_BOTH_OPERANDS = frozenset({"INT8", *BOTH_OPERANDS_CAPABILITY})
"""Weights and activations in this format: torch multiplies them (`_int_mm`, `scaled_mm`) on NVIDIA where `kernel_gap` has none."""
_HOPPER_LAST, _DATA_CENTRE_BLACKWELL = (9, 9), ((10, 0), (10, 9))

WEIGHT_ONLY: dict[str, ServingKernel] = {
    "INT4": ServingKernel(
        "Marlin W4A16 (AWQ, GPTQ)",
        f"{_VLLM_TABLE}: from Ampere on; AMD: awq, gptq in vllm/platforms/rocm.py",
        amd_name="AWQ and GPTQ kernels of vLLM for ROCm",
    ),
    "INT8": ServingKernel("Marlin W8A16 (GPTQ 8 bit)", f"{_VLLM_TABLE}: from Ampere on"),
    "FP8_E4M3": ServingKernel("Marlin FP8 W8A16", "docs.vllm.ai, FP8 W8A8: weight-only on Ampere by Marlin"),
    "NVFP4": ServingKernel(
        "Marlin FP4 W4A16",
        "vllm-project/vllm 17687 and 18000 (merged); AMD: petit_nvfp4 in vllm/platforms/rocm.py",
        amd_name="Petit NVFP4 W4A16",
    ),
    "MXFP4": ServingKernel("Marlin FP4 W4A16", "vllm-project/vllm 56603: the weight-only path of NVFP4 and MXFP4"),
    "NF4": ServingKernel("bitsandbytes NF4", f"{_VLLM_TABLE}: bitsandbytes", (7, 5)),
}
"""Weight format under 16-bit activations → its kernel."""

BOTH_OPERANDS: dict[str, ServingKernel] = {
    "FP8_E4M3": ServingKernel(
        "FP8 scaled matmul (CUTLASS, cuBLASLt)",
        "docs.vllm.ai, FP8 W8A8: compute capability 8.9 on; AMD: MI300X",
        (8, 9),
        amd_name="FP8 scaled matmul (hipBLASLt)",
    ),
    "INT8": ServingKernel(
        "INT8 scaled matmul (CUTLASS)",
        "docs.vllm.ai, INT8 W8A8: Turing to Hopper, not 10.0 or newer",
        (7, 5),
        _HOPPER_LAST,
    ),
    "MXFP8_E4M3": ServingKernel(
        "MXFP8 block-scaled matmul (cuBLASLt, CUTLASS)",
        "torch 2.13, scaled_mm; vllm-project/vllm 35053 (merged)",
        (10, 0),
    ),
    "NVFP4": ServingKernel(
        "NVFP4 block-scaled matmul (CUTLASS, FlashInfer)", "docs of TensorRT-LLM and vLLM: Blackwell", (10, 0)
    ),
    "MXFP4": ServingKernel(
        "MXFP4 block-scaled matmul (cuBLASLt, CUTLASS)", "torch 2.13, scaled_mm", *_DATA_CENTRE_BLACKWELL
    ),
}
"""Format of weights and activations → its kernel."""

CACHES: dict[str, ServingKernel] = {
    "FP8_E4M3": ServingKernel(
        "FP8 KV attention (FlashInfer)",
        "docs.vllm.ai, Quantized KV Cache; Ampere: dphnAI/sonar 1440 (A100); FlashAttention-3: compute capability 9.0",
        amd_name="FP8 KV attention (ROCm)",
        hopper_name="FP8 KV attention (FlashInfer, FlashAttention-3)",
    ),
    "FP8_E5M2": ServingKernel("FP8 KV attention (FlashInfer)", "docs.vllm.ai, Quantized KV Cache"),
    "INT8": ServingKernel("INT8 KV attention (TensorRT-LLM)", "TensorRT-LLM, quantization: INT8 KV cache"),
    "INT4": ServingKernel(
        "INT4 KV attention (QServe, LMDeploy)", "mit-han-lab/deepcompressor: W4A8KV4 on A100 and L40S", (8, 0), (8, 9)
    ),
    "NVFP4": ServingKernel(
        "NVFP4 KV attention (trtllm-gen)",
        "vllm-project/vllm 40177; 12.x and 8.x are open requests (49011, 46329, 46963)",
        *_DATA_CENTRE_BLACKWELL,
    ),
}
"""Cache format → the attention kernel that reads it."""


def product_kernel(device: Device, weights: str, activations: str) -> ServingKernel | None:
    """Return the kernel of a product's formats on a chip; None where none is listed there, or nothing is narrow."""
    table = BOTH_OPERANDS if weights == activations else WEIGHT_ONLY
    return _here(table.get(weights), device)


def cache_kernel(device: Device, cache: str) -> ServingKernel | None:
    """Return the attention kernel that reads a narrow cache on a chip; None where none is listed there."""
    return _here(CACHES.get(cache), device)


def product_gap(device: Device, weights: str, activations: str) -> Finding | None:
    """Return that no kernel is known to run a product's formats on a chip; None where one is, or the chip has no list.

    Kernels of serving engines count: where torch alone multiplies the formats, the finding's value `library` says so.

    >>> from roofline_model.chips.hardware import get_hardware
    >>> gap = product_gap(get_hardware("gb10"), "INT8", "INT8")
    >>> gap.value("library"), gap.value("kernel"), gap.value("capabilities")
    ('torch', 'INT8 scaled matmul (CUTLASS)', '7.5-9.x')
    """
    if not _is_narrow(weights) and not _is_narrow(activations):
        return None
    of_torch = kernel_gap(device, weights, activations)
    if of_torch or not _has_list(device) or weights not in FORMATS or activations not in FORMATS:
        return of_torch
    if product_kernel(device, weights, activations) is not None:
        return None
    label = pair_label(weights, activations)
    if weights != activations:
        return _gap("kernel-gap", label, device, WEIGHT_ONLY.get(weights))
    return _gap("kernel-gap", label, device, BOTH_OPERANDS.get(weights), library=_library(device, weights))


def engine_gap(device: Device, weights: str, activations: str) -> Finding | None:
    """Return that no serving engine has a kernel for a product that a library can run; None where one has, or none can.

    `kernel_gap` is about the products that nothing runs. The two facts come from different tables: torch's kernels, and those
    of released engines, which a whole model is held to. Values: `library`, which runs the product, or `decoded`, the weights
    that are decoded before it.

    >>> from roofline_model.chips.hardware import get_hardware
    >>> engine_gap(get_hardware("gb10"), "INT8", "INT8").value("library")
    'torch'
    >>> engine_gap(get_hardware("b200"), "MXFP6_E3M2", "BF16").value("decoded")
    'MXFP6_E3M2'
    """
    if kernel_gap(device, weights, activations) or product_gap(device, weights, activations) is None:
        return None
    label = pair_label(weights, activations)
    if weights != activations:
        return _gap("engine-gap", label, device, WEIGHT_ONLY.get(weights), decoded=weights)
    return _gap("engine-gap", label, device, BOTH_OPERANDS.get(weights), library=_library(device, weights))


def cache_gap(device: Device, cache: str) -> Finding | None:
    """Return that no attention kernel is known to read a cache on a chip; None where one is, or the chip has no list.

    >>> from roofline_model.chips.hardware import get_hardware
    >>> cache_gap(get_hardware("h100"), "NVFP4").value("kernel")
    'NVFP4 KV attention (trtllm-gen)'
    """
    if not _is_narrow(cache) or not _has_list(device) or cache not in FORMATS:
        return None
    if cache_kernel(device, cache) is not None:
        return None
    return _gap("kernel-gap", f"kv {cache}", device, CACHES.get(cache))


def plan_gap(device: Device, weights: str, activations: str, cache: str) -> Finding | None:
    """Return that the products of a model's layers, or its cache, have no known kernel on a chip; None where none is missing."""
    return product_gap(device, weights, activations) or cache_gap(device, cache)


def _gap(
    code: str,
    label: str,
    device: Device,
    kernel: ServingKernel | None,
    *,
    library: str | None = None,
    decoded: str | None = None,
) -> Finding:
    """Return the finding of a missing kernel; `kernel`: the one of other chips, which only NVIDIA's have by capability."""
    here = _capability(device)
    elsewhere = None if here is None else kernel
    return finding(
        code,
        label,
        hardware=device.key,
        capability=None if here is None else capability_text(here),
        kernel=None if elsewhere is None else elsewhere.name,
        capabilities=None if elsewhere is None else capabilities_text(elsewhere.lowest, elsewhere.highest),
        library=library,
        decoded=decoded,
    )


def _library(device: Device, format_key: str) -> str | None:
    """Return the library that multiplies both operands in a format where no engine does; None where none does."""
    return "torch" if format_key in _TORCH_BOTH_OPERANDS and _capability(device) is not None else None


def _here(kernel: ServingKernel | None, device: Device) -> ServingKernel | None:
    if kernel is None or not _has_list(device):
        return None
    here = _capability(device)
    return kernel if (kernel.amd_name if here is None else kernel.runs_on(here)) else None


def _has_list(device: Device) -> bool:
    """Return whether the lists speak of a chip: a real GPU of NVIDIA with a stated capability, or of AMD."""
    if device.kind != "gpu" or device.is_placeholder:
        return False
    return device.vendor == "amd" or (device.vendor == "nvidia" and _capability(device) is not None)


def _is_narrow(format_key: str) -> bool:
    return format_key in FORMATS and get_format(format_key).element_bits < 16


def _capability(device: Device) -> Capability | None:
    return device.match.capability if device.vendor == "nvidia" else None
