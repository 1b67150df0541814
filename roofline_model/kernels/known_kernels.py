"""Which kernels are known to exist: torch's, those of serving engines, and calls that no kernel runs.

A ceiling in a chip's description says how fast its unit is, not that a library uses it, and a roofline prices any
format on any chip. Whatever is not known to be missing has no gap: a chip of another vendor, an invented one, one
without a stated capability, a format of the user's own, and weight-only formats on a GPU, whose weights any framework
can decode before it multiplies.

**torch** (`kernel_gap`; the kernels of `bench_cases`, a test holds the two tables together): block-scaled products need
a compute capability, and a CPU has kernels for a handful of formats.

**Serving engines** (`engine_gap`): kernels of released engines by compute capability (NVIDIA) or vendor (AMD), as of
2026-11-22; what has to exist before a plan may be recommended. No gap is told of chips without a list.

**Expected times** are of a kernel that runs, not of what a chip's ceilings would allow. Three things make a time that
nobody can measure. A CPU's ceilings say what its units and its memory can do, not what its kernels make of them. A
calibrated GPU knows its bandwidth and the rates of its own units, so that operands which no kernel of it multiplies
would look like fewer bytes at the rate of another format. And the fitted models price any pair of formats by its bytes
and its tensor peak, also a pair that no library multiplies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from roofline_model.chips.hardware import Device, doubt_of_times
from roofline_model.core.cost import OpCost
from roofline_model.core.errors import UnsupportedError
from roofline_model.core.finding import Finding, finding
from roofline_model.formats.catalog import FORMATS, NumberFormat, get_format, is_narrow_format
from roofline_model.operators.product import Operator, compute_format

Capability = tuple[int, int]

CapabilityRange = tuple[Capability, Capability | None]
"""Lowest and highest compute capability; None: any newer one."""

TORCH_CAPABILITIES: Final[Mapping[str, CapabilityRange]] = {
    "BF16": ((8, 0), None),
    "TF32": ((8, 0), None),
    "INT8": ((7, 5), None),
    "INT4.BF16": ((8, 0), None),
    "FP8_E4M3": ((8, 9), None),
    "FP8_E4M3 fast sums": ((8, 9), (9, 9)),
    "MXFP8_E4M3": ((10, 0), None),
    "NVFP4": ((10, 0), None),
    "MXFP4": ((10, 0), (10, 9)),
}
"""What torch multiplies on CUDA, by the label of its formats (one format: both operands). The kernels that are
measured, torchao's recipes, GPU calibration and the documentation take their ranges from here. Source: torch 2.13,
`torch.nn.functional.scaled_mm` and its checks (`_check_mxfp4_support` wants major == 10), `_int_mm`,
`_weight_int4pack_mm`; 2026-11-22. Fast sums (`use_fast_accum`): torch documents them for Hopper, cuBLASLt for FP8 on
tensor cores without full FP32 sums; Blackwell has those.
"""

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
"""(weight, activation) with a CPU kernel in torch 2.13; FP8 is decoded in software. 16-bit activations count as one
format.
"""

NO_LIBRARY: Final = frozenset({"INT4"})
"""Weights and activations in this format: some chips have the unit (A100, Ada), and neither cuBLAS nor torch multiplies
them. Source: the data types of cublasLtMatmul (CUDA 13) and torch 2.13; 2026-11-22."""

_SIXTEEN = ("BF16", "FP16")


def kernel_gap(device: Device, weight_format: str, activation_format: str) -> Finding | None:
    """Return that no kernel is known to run these operands on a chip (`kernel-gap`); None where none is known to be
    missing.

    Values: `hardware`; where torch has a kernel for other chips, `capability` of this one, `kernel` and its
    `capabilities`.

    >>> from roofline_model.chips.hardware import get_hardware
    >>> gap = kernel_gap(get_hardware("gb10"), "MXFP4", "MXFP4")
    >>> gap.value("capability"), gap.value("capabilities")
    ('12.1', '10.x')
    """
    if weight_format not in FORMATS or activation_format not in FORMATS:
        return None
    gap = finding("kernel-gap", formats_label(weight_format, activation_format), hardware=device.key)
    if device.kind == "cpu":
        return None if _has_cpu_kernel(weight_format, activation_format) else gap
    is_both = weight_format == activation_format
    needed = TORCH_CAPABILITIES.get(weight_format) if is_both and is_narrow_format(weight_format) else None
    here = device.match.capability
    if is_both and weight_format in NO_LIBRARY and not device.is_placeholder and (here or device.vendor == "amd"):
        return gap
    if needed is None or here is None:
        return None
    lowest, highest = needed
    if is_within(here, needed):
        return None
    return finding(
        "kernel-gap",
        gap.subject,
        hardware=device.key,
        capability=capability_text(here),
        kernel=f"torch {'_int_mm' if weight_format == 'INT8' else 'scaled_mm'}",
        capabilities=capabilities_text(lowest, highest),
    )


def formats_label(weights: str, activations: str) -> str:
    """Return the label of a product's formats: `INT4.BF16`, or `FP8_E4M3` where both operands have it."""
    return weights if weights == activations else f"{weights}.{activations}"


def is_within(capability: Capability, needed: CapabilityRange) -> bool:
    """Return whether a compute capability is in a range."""
    lowest, highest = needed
    return lowest <= capability and (highest is None or capability <= highest)


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
    """The name on compute capability 9.x, where a library that runs on nothing else has the kernel, too; empty: as
    elsewhere.
    """

    def name_on(self, device: Device) -> str:
        """Return the name of the kernel on a chip: of the libraries that run there, none that another chip needs."""
        if device.vendor == "amd":
            return self.amd_name
        here = _capability(device)
        return self.hopper_name if self.hopper_name and here is not None and here[0] == 9 else self.name

    def runs_on(self, capability: Capability) -> bool:
        """Return whether a compute capability is within the kernel's range."""
        return is_within(capability, (self.lowest, self.highest))


_VLLM_TABLE = "docs.vllm.ai, features/quantization, Supported Hardware"
_TORCH_BOTH_OPERANDS = frozenset(TORCH_CAPABILITIES)
"""Weights and activations in this format: torch multiplies them (`_int_mm`, `scaled_mm`) on NVIDIA where `kernel_gap`
has none.
"""
_HOPPER_LAST, _DATA_CENTRE_BLACKWELL = (9, 9), ((10, 0), (10, 9))

WEIGHT_ONLY: dict[str, ServingKernel] = {
    "INT4": ServingKernel(
        "Marlin W4A16 (AWQ, GPTQ)",
        source=f"{_VLLM_TABLE}: from Ampere on; AMD: awq, gptq in vllm/platforms/rocm.py",
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
        "NVFP4 block-scaled matmul (CUTLASS, FlashInfer)",
        source="docs of TensorRT-LLM and vLLM: Blackwell",
        lowest=(10, 0),
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


def missing_unit(device: Device, key: str) -> Finding | None:
    """Return that a chip has no unit for operands that are both in a format narrower than 16 bits (`no-unit`, or
    `cannot-run` where nothing can widen them); None where it has it, and for wider formats.
    """
    if not is_narrow_format(key):
        return None
    try:
        path = device.path(key)
    except UnsupportedError as error:
        return finding("cannot-run", key, error=str(error))
    return None if path.kind == "native" else finding("no-unit", key, unit=key, reason=path.reason or None)


def product_gap(device: Device, weights: str, activations: str) -> Finding | None:
    """Return that no kernel is known to run a product's formats on a chip; None where one is, or the chip has no list.

    Kernels of serving engines count: where torch alone multiplies the formats, the finding's value `library` says so.

    >>> from roofline_model.chips.hardware import get_hardware
    >>> gap = product_gap(get_hardware("gb10"), "INT8", "INT8")
    >>> gap.value("library"), gap.value("kernel"), gap.value("capabilities")
    ('torch', 'INT8 scaled matmul (CUTLASS)', '7.5-9.x')
    """
    if not is_narrow_format(weights) and not is_narrow_format(activations):
        return None
    of_torch = kernel_gap(device, weights, activations)
    if of_torch or not _has_list(device) or weights not in FORMATS or activations not in FORMATS:
        return of_torch
    if product_kernel(device, weights, activations) is not None:
        return None
    label = formats_label(weights, activations)
    if weights != activations:
        return _gap("kernel-gap", label, device, WEIGHT_ONLY.get(weights))
    return _gap("kernel-gap", label, device, BOTH_OPERANDS.get(weights), library=_library(device, weights))


def engine_gap(device: Device, weights: str, activations: str) -> Finding | None:
    """Return that no serving engine has a kernel for a product that a library can run; None where one has, or none can.

    `kernel_gap` is about the products that nothing runs. The two facts come from different tables: torch's kernels, and
    those of released engines, which a whole model is held to. Values: `library`, which runs the product, or `decoded`,
    the weights that are decoded before it.

    >>> from roofline_model.chips.hardware import get_hardware
    >>> engine_gap(get_hardware("gb10"), "INT8", "INT8").value("library")
    'torch'
    >>> engine_gap(get_hardware("b200"), "MXFP6_E3M2", "BF16").value("decoded")
    'MXFP6_E3M2'
    """
    if kernel_gap(device, weights, activations) or product_gap(device, weights, activations) is None:
        return None
    label = formats_label(weights, activations)
    if weights != activations:
        return _gap("engine-gap", label, device, WEIGHT_ONLY.get(weights), decoded=weights)
    return _gap("engine-gap", label, device, BOTH_OPERANDS.get(weights), library=_library(device, weights))


def cache_gap(device: Device, cache: str) -> Finding | None:
    """Return that no attention kernel is known to read a cache on a chip; None where one is, or the chip has no list.

    >>> from roofline_model.chips.hardware import get_hardware
    >>> cache_gap(get_hardware("h100"), "NVFP4").value("kernel")
    'NVFP4 KV attention (trtllm-gen)'
    """
    if not is_narrow_format(cache) or not _has_list(device) or cache not in FORMATS:
        return None
    if cache_kernel(device, cache) is not None:
        return None
    return _gap("kernel-gap", f"kv {cache}", device, CACHES.get(cache))


def plan_gap(device: Device, weights: str, activations: str, cache: str) -> Finding | None:
    """Return that the products of a model's layers, or its cache, have no known kernel on a chip; None where none is
    missing.
    """
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
    """Return the finding of a missing kernel; `kernel`: the one of other chips, which only NVIDIA's have by
    capability.
    """
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
    """Return whether the lists speak of a chip: a real GPU of NVIDIA with a stated capability, or a CDNA of AMD."""
    if device.kind != "gpu" or device.is_placeholder:
        return False
    is_cdna = device.vendor == "amd" and not device.architecture.startswith("RDNA")
    return is_cdna or (device.vendor == "nvidia" and _capability(device) is not None)


def _capability(device: Device) -> Capability | None:
    return device.match.capability if device.vendor == "nvidia" else None


KERNEL_OPS = ("gemv", "gemm", "attention")
"""What an expected time needs a timed kernel for; the other operators stream their operands."""

_RESULTS = ("c", "o")
_INVENTED = ("placeholder", "declared", "measured-here")
"""Whose word makes a unit usable that libraries leave alone: an invented chip's, a user's own, a machine that timed
it.
"""


def why_no_time_here(device: Device) -> Finding | None:
    """Return why nothing has an expected time on a CPU: it was busy while its kernels were timed, or its ceilings alone
    are known (`--hw auto` measures them); else None.
    """
    calibration = device.calibration
    if calibration is None or calibration.kind != "cpu":
        return None
    if (doubt := doubt_of_times(device)) is not None:
        return doubt
    if calibration.kernels:
        return None
    return finding("no-expected-time", kind="no-kernel-timed", hardware=device.key)


def why_untimed(work: Operator | OpCost, device: Device) -> Finding | None:
    """Return why the ceilings of a calibrated machine are no expected time of work that was not timed; None where they
    are.

    On a CPU they never are for products and attention, and for nothing while none of its kernels was timed: at few rows
    its BF16 and FP32 kernels take 2.6 to 4.7 times what the ceilings allow, those for INT4 and INT8 weights 2.5 to 3.7
    times at any (37 cases of examples/runs/cpu-amd-epyc-2t/quick.json, 2026-11-21). On a GPU they are where the
    machine's own unit for these very operands was timed: nothing is widened, decoded or emulated.
    """
    calibration = device.calibration
    if calibration is None:
        return None
    if (why_not := why_no_time_here(device)) is not None:
        return why_not
    if not isinstance(work, Operator) or work.op not in KERNEL_OPS:
        return None
    computes = [key for key, count in work.cost.flops if count]
    if not computes:
        return None
    paths = [device.path(key) for key in computes]
    is_timed = calibration.kind != "cpu" and all(
        path.kind == "native" and path.compute_format in calibration.peaks for path in paths
    )
    widest = max(get_format(path.compute_format).element_bits for path in paths)
    if is_timed and all(fmt.element_bits >= widest for fmt in _operands(work)):
        return None
    return finding("no-expected-time", kind="formats-untimed", hardware=device.key, formats=_label(work))


def why_no_product_kernel(work: Operator, device: Device) -> Finding | None:
    """Return why no library of a GPU multiplies both operands of a product as they are; None where one may.

    INT4 by INT4: no library (cuBLAS, torch) does, although A100 and Ada have the unit, and Hopper and later would
    emulate it.
    """
    operands = dict(work.formats)
    activation, weight = get_format(operands["a"]), get_format(operands["b"])
    is_narrow = all(fmt.kind == "int" and fmt.element_bits < 8 for fmt in (activation, weight))
    computes = [key for key, count in work.cost.flops if count]
    if not is_narrow or any(device.path(key).dense.status in _INVENTED for key in computes):
        return None
    return finding(
        "no-expected-time", kind="no-library-kernel", hardware=device.key, weight=weight.key, activation=activation.key
    )


def computed_activation(device: Device, weight: str | NumberFormat, activation: str | NumberFormat) -> str:
    """Return the activation's format in the kernel that exists for a pair: 16 bits where the chip would decode both
    operands.

    No library decodes two narrow operands for one product: what exists there is the weight-only kernel (Marlin).
    """
    fa, fb = get_format(activation), get_format(weight)
    path = device.path(compute_format(fa, fb))
    is_decoded = path.kind == "dequantize" and fa.element_bits < 16 and fb.element_bits < 16
    return path.compute_format if is_decoded else fa.key


def _operands(work: Operator) -> list[NumberFormat]:
    return [get_format(key) for name, key in work.formats if name not in _RESULTS]


def _label(work: Operator) -> str:
    formats = dict(work.formats)
    names = [formats["b"], formats["a"]] if {"a", "b"} <= formats.keys() else [fmt.key for fmt in _operands(work)]
    return ".".join(dict.fromkeys(names))
