"""The table of the products' kernels, and the cases it gives for a device, shapes, formats and cache states.

A static table: neither this module nor anything it imports needs torch or numpy, so that collecting thousands of
tests costs a second. What a machine can run is decided later, per case, in `guards.py`.

INT32, the output of the integer kernels, is no storage format of the model's catalog: their C is counted as FP32,
which has the same four bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bench_cases.kernels.products.spec import KernelSpec
from bench_cases.kernels.rules import at_least, emulated_small, multiple_of, one_thread_per_output
from bench_cases.kernels.spec import FAST_SUFFIX, CaseSpec, chosen_kernels, kernel_cases
from bench_cases.shapes.products import Shape
from roofline_model.core.errors import InvalidValueError
from roofline_model.formats.catalog import get_format
from roofline_model.kernels.known_kernels import TORCH_CAPABILITIES

_SCALED_MM = "torch.nn.functional.scaled_mm"
_BLOCK_SCALED = ("torch.nn.functional.scaled_mm", "torch.nn.functional.SwizzleType", "torch.float8_e8m0fnu")
_FP4 = (*_BLOCK_SCALED, "torch.float4_e2m1fn_x2")
_DENSE = "bench_cases.kernels.products.dense:matmul"
_DEQUANTIZE = "bench_cases.kernels.products.dequantize:dequant_matmul"
_SCALED_PROOF = ("aten::_scaled_mm",)
_MM_PROOF = ("aten::mm",)
_N16_K16 = (multiple_of("N", 16), multiple_of("K", 16))


def _fp8(name: str) -> KernelSpec:
    """Return an FP8 product of CUDA, one scale per tensor, or rowwise: per row of A and column of B; fast: with
    `use_fast_accum`.
    """
    lowest, highest = TORCH_CAPABILITIES["FP8_E4M3 fast sums" if name.endswith(FAST_SUFFIX) else "FP8_E4M3"]
    return KernelSpec(
        name,
        "cuda",
        "FP8_E4M3",
        "FP8_E4M3",
        "BF16",
        implementation=f"bench_cases.kernels.products.dense:{'scaled_mm_tensorwise' if name == 'scaled_mm' else name}",
        needs=(_SCALED_MM,),
        proof=_SCALED_PROOF,
        min_capability=lowest,
        max_capability=highest,
        rules=_N16_K16,
    )


_CPU = (
    KernelSpec("matmul", "cpu", "FP32", "FP32", "FP32", implementation=_DENSE, proof=_MM_PROOF),
    KernelSpec("matmul", "cpu", "BF16", "BF16", "BF16", implementation=_DENSE, proof=_MM_PROOF),
    KernelSpec("matmul", "cpu", "FP16", "FP16", "FP16", implementation=_DENSE, proof=_MM_PROOF),
    # INT32 result, before the scales are applied; torch 2.13 is wrong at K = 1.
    KernelSpec(
        "int_mm",
        "cpu",
        "INT8",
        "INT8",
        "FP32",
        implementation="bench_cases.kernels.products.integers:int_mm",
        needs=("torch._int_mm",),
        proof=("aten::_int_mm",),
        rules=(at_least("K", 2),),
    ),
    # Weight only, one BF16 scale per output channel.
    KernelSpec(
        "int8pack",
        "cpu",
        "INT8",
        "BF16",
        "BF16",
        implementation="bench_cases.kernels.products.integers:int8pack",
        needs=("torch._weight_int8pack_mm",),
        proof=("aten::_weight_int8pack_mm",),
        rules=(multiple_of("K", 16),),
    ),
    # Weight only, BF16 scale and zero point per 128 weights.
    KernelSpec(
        "int4pack",
        "cpu",
        "INT4",
        "BF16",
        "BF16",
        implementation="bench_cases.kernels.products.integers:int4pack_cpu",
        needs=("torch._convert_weight_to_int4pack_for_cpu", "torch._weight_int4pack_mm_for_cpu"),
        proof=("aten::_weight_int4pack_mm_for_cpu",),
        rules=(multiple_of("N", 16), multiple_of("K", 128)),
        group_size=128,
        zero_bits=16,
    ),
    # Decoded in software: a CPU has no FP8 unit.
    KernelSpec(
        "scaled_mm_emulated",
        "cpu",
        "FP8_E4M3",
        "FP8_E4M3",
        "BF16",
        implementation="bench_cases.kernels.products.dense:scaled_mm_tensorwise",
        needs=(_SCALED_MM,),
        proof=_SCALED_PROOF,
        rules=(emulated_small,),
    ),
)

_CUDA_PLAIN = (
    KernelSpec("matmul", "cuda", "FP32", "FP32", "FP32", implementation=_DENSE, proof=_MM_PROOF),
    KernelSpec(
        "matmul",
        "cuda",
        "TF32",
        "TF32",
        "FP32",
        implementation=_DENSE,
        min_capability=TORCH_CAPABILITIES["TF32"][0],
        proof=_MM_PROOF,
    ),
    KernelSpec("matmul", "cuda", "FP16", "FP16", "FP16", implementation=_DENSE, proof=_MM_PROOF),
    KernelSpec(
        "matmul",
        "cuda",
        "BF16",
        "BF16",
        "BF16",
        implementation=_DENSE,
        min_capability=TORCH_CAPABILITIES["BF16"][0],
        proof=_MM_PROOF,
    ),
    _fp8("scaled_mm"),
    _fp8("scaled_mm_fast"),
    _fp8("scaled_mm_rowwise"),
    _fp8("scaled_mm_rowwise_fast"),
    # INT32 result, before the scales are applied.
    KernelSpec(
        "int_mm",
        "cuda",
        "INT8",
        "INT8",
        "FP32",
        implementation="bench_cases.kernels.products.integers:int_mm",
        needs=("torch._int_mm",),
        proof=("aten::_int_mm",),
        op="gemm",
        min_capability=TORCH_CAPABILITIES["INT8"][0],
        rules=(at_least("M", 17), multiple_of("N", 8), multiple_of("K", 8)),
    ),
    # Torch._int_mm refuses M ≤ 16: A is padded to 32 rows inside the timed call.
    KernelSpec(
        "int_mm_padded",
        "cuda",
        "INT8",
        "INT8",
        "FP32",
        implementation="bench_cases.kernels.products.integers:int_mm_padded",
        needs=("torch._int_mm",),
        proof=("aten::_int_mm",),
        op="gemv",
        min_capability=TORCH_CAPABILITIES["INT8"][0],
        rules=(multiple_of("N", 8), multiple_of("K", 8)),
    ),
    # Torch's own weight-only kernel: FP32 arithmetic, one thread per output (torch ≥ 2.9).
    KernelSpec(
        "int8pack",
        "cuda",
        "INT8",
        "BF16",
        "BF16",
        implementation="bench_cases.kernels.products.integers:int8pack",
        needs=("torch._weight_int8pack_mm",),
        proof=("aten::_weight_int8pack_mm",),
        rules=(one_thread_per_output,),
    ),
    # Weight only, BF16 scale and zero point per 128 weights.
    KernelSpec(
        "tinygemm",
        "cuda",
        "INT4",
        "BF16",
        "BF16",
        implementation="bench_cases.kernels.products.integers:tinygemm",
        needs=("torch._convert_weight_to_int4pack", "torch._weight_int4pack_mm"),
        proof=("aten::_weight_int4pack_mm",),
        min_capability=TORCH_CAPABILITIES["INT4.BF16"][0],
        rules=(multiple_of("N", 8), multiple_of("K", 128)),
        group_size=128,
        zero_bits=16,
    ),
)


def _block_scaled(fmt: str, function: str, needs: tuple[str, ...]) -> KernelSpec:
    lowest, highest = TORCH_CAPABILITIES[fmt]
    return KernelSpec(
        "scaled_mm_block",
        "cuda",
        fmt,
        fmt,
        "BF16",
        implementation=f"bench_cases.kernels.products.block_scaled:{function}",
        needs=needs,
        proof=_SCALED_PROOF,
        min_capability=lowest,
        max_capability=highest,
        rules=(multiple_of("N", 16), multiple_of("K", 32)),
    )


_CUDA_BLOCK_SCALED = (
    _block_scaled("MXFP8_E4M3", "mxfp8", _BLOCK_SCALED),
    _block_scaled("MXFP4", "mxfp4", _FP4),
    # Block scales and one FP32 scale per tensor.
    _block_scaled("NVFP4", "nvfp4", _FP4),
)

_DEQUANT_NAME = "dequant_emulated"


def _dequant(weight: str, block: int, *, group_size: int | None = None, zero_bits: int = 0) -> KernelSpec:
    """Return the kernel that decodes weights to BF16 and then multiplies, both inside the timed call."""
    return KernelSpec(
        _DEQUANT_NAME,
        "cuda",
        weight,
        "BF16",
        "BF16",
        implementation=_DEQUANTIZE,
        min_capability=(8, 0),
        rules=(multiple_of("K", block),),
        group_size=group_size,
        zero_bits=zero_bits,
        decoded="BF16",
        proof=_MM_PROOF,
    )


_CUDA_DEQUANTIZE = (
    _dequant("INT8", 4),
    _dequant("NVFP4", 16),
    _dequant("MXFP4", 32),
    _dequant("NF4", 64),
    _dequant("MXFP6_E3M2", 32),
    _dequant("INT2", 64, group_size=64, zero_bits=16),
)

KERNELS: tuple[KernelSpec, ...] = (*_CPU, *_CUDA_PLAIN, *_CUDA_BLOCK_SCALED, *_CUDA_DEQUANTIZE)


def kernels_for(device: str, formats: Sequence[str] | None = None) -> tuple[KernelSpec, ...]:
    """Return the products' kernels of a device whose weight format is among `formats` (None: all).

    Raises `UnknownNameError` for a format nobody knows and `InvalidValueError` when no kernel is left.
    """
    chosen = chosen_kernels(KERNELS, device, formats)
    if not chosen and formats is not None:
        weights = sorted({kernel.weight for kernel in KERNELS if kernel.device == device})
        wanted = sorted({get_format(name).key for name in formats})
        raise InvalidValueError(
            f"no {device} kernel has {', '.join(wanted)} weights. Formats with {device} kernels: {', '.join(weights)}."
        )
    return chosen


def cases_for(
    device: str,
    shapes: Iterable[Shape],
    formats: Sequence[str] | None = None,
    cache: str = "cold",
    modes: Sequence[str] = ("eager",),
) -> list[CaseSpec]:
    """Return the products' cases, as `kernel_cases`; ids are unique. Raises as `kernels_for`."""
    kernels_for(device, formats)
    return kernel_cases(KERNELS, device, shapes, formats, cache, modes)
