"""The product of two quantised operands, on the kernel the device has for them or emulated exactly; and which it was.

*exact emulation*: both operands are decoded to the real numbers that their codes stand for and multiplied in FP32, as a
kernel with FP32 accumulation does; what differs is the order of the additions, and the speed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from bench_cases.kernels.guards import MachineFacts, capability_reason, read_machine_facts, torch_reason
from bench_cases.kernels.products.block_scaled import (
    one_level_product,
    packed_fp4,
    swizzled_scales,
    tensor_scale_of,
    two_level_product,
)
from bench_cases.kernels.products.catalog import kernels_for
from bench_cases.kernels.products.dense import scaled_product
from bench_cases.kernels.products.integers import PADDED_ROWS
from bench_cases.kernels.spec import KernelSpec
from bench_cases.quantization.dynamic.operand import WIDE_DTYPES, Operand
from roofline_model.core.finding import Finding, finding

EMULATED = "emulated"


@dataclass(frozen=True, slots=True)
class Product:
    """A result and how it was computed."""

    value: Tensor
    """(M, N) FP32."""
    path: str
    """Name of the kernel (`int_mm`, `scaled_mm_rowwise`, `matmul`, …) or `emulated`."""
    reason: Finding | None = None
    """Why it was emulated; None for a kernel."""


def multiply(a: Operand, w: Operand) -> Product:
    """Return A·Wᵀ of an activation (M, K) and a weight (N, K)."""
    if a.is_wide and w.is_wide:
        return _wide(a, w)
    device = a.codes.device.type
    if device in ("cpu", "cuda"):
        kernel, reason = native_kernel(a, w, _facts(device))
    else:
        kernel, reason = None, _no_kernel(device, a, w)
    if kernel is not None:
        try:
            return Product(_CALLS[kernel.name](a, w), kernel.name)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:  # a build of torch without this kernel for this chip says so only when called
            reason = finding(
                "product-decoded", kernel.name, kind="refused", error=next(iter(str(error).splitlines()), "")[:160]
            )
    return Product(a.decoded() @ w.decoded().t(), EMULATED, reason)


def _wide(a: Operand, w: Operand) -> Product:
    """Multiply 16-bit operands; a result beyond FP16's range is computed again in FP32."""
    dtype = WIDE_DTYPES["FP32"] if a.codes.dtype != w.codes.dtype else a.codes.dtype
    value = torch.nn.functional.linear(a.codes.to(dtype), w.codes.to(dtype)).float()
    if bool(torch.isfinite(value).all()):
        return Product(value, "matmul")
    return Product(a.decoded() @ w.decoded().t(), EMULATED, finding("product-decoded", kind="range", format=a.format))


def native_kernel(a: Operand, w: Operand, facts: MachineFacts) -> tuple[KernelSpec | None, Finding | None]:
    """Return the kernel that multiplies these operands on a machine, or None and the first reason against one."""
    M, N, K = a.codes.shape[0], w.codes.shape[0], a.codes.shape[1]
    # INT4 and INT2 codes lie in int8, and their product is the same on the INT8 unit.
    formats = ("INT8", "INT8") if a.is_integer and w.is_integer else (a.format, w.format)
    specs = [
        kernel
        for kernel in kernels_for(facts.device)
        if (kernel.activation, kernel.weight) == formats and kernel.name in _CALLS
    ]
    reasons = []
    for kernel in specs:
        reason = (
            capability_reason(kernel, facts.capability) or torch_reason(kernel, facts) or kernel.shape_reason(M, N, K)
        )
        if reason is None:
            return kernel, None
        reasons.append(reason)
    return None, next(iter(reasons), _no_kernel(facts.device, a, w))


def _no_kernel(device: str, a: Operand, w: Operand) -> Finding:
    formats = a.format if a.format == w.format else f"{w.format}.{a.format}"
    return finding("product-decoded", kind="no-kernel", device=device, formats=formats)


@lru_cache(maxsize=4)
def _facts(device: str) -> MachineFacts:
    return read_machine_facts(device)


def _integer(a: Operand, w: Operand) -> Tensor:
    return torch._int_mm(a.codes, w.codes.t()).float() * _both_scales(a, w)


def _integer_padded(a: Operand, w: Operand) -> Tensor:
    rows = a.codes.shape[0]
    padded = torch.nn.functional.pad(a.codes, (0, 0, 0, PADDED_ROWS - rows))
    return torch._int_mm(padded, w.codes.t())[:rows].float() * _both_scales(a, w)


def _both_scales(a: Operand, w: Operand) -> Tensor:
    """Return the product of the scales, (M, N): taken first, it overflows only where the result does."""
    return a.scale * w.scale.t()


def _float8(a: Operand, w: Operand) -> Tensor:
    """Multiply FP8 by row scales: a scale of the whole activation is that of each of its rows."""
    scale_a = a.scale.expand(a.codes.shape[0], 1).contiguous()
    multiply = scaled_product("RowWise", device=a.codes.device.type)
    return multiply(a.codes, w.codes.t(), scale_a, w.scale.t().contiguous()).float()


def _block_scaled(a: Operand, w: Operand) -> Tensor:
    """Multiply block-scaled operands; the outer scales, one per row, are applied to the result."""
    assert a.blocks is not None
    assert w.blocks is not None
    scales = swizzled_scales(a.blocks), swizzled_scales(w.blocks)
    if a.format == "NVFP4":
        outer = tensor_scale_of(a.blocks), tensor_scale_of(w.blocks)
        value = two_level_product()(packed_fp4(a.blocks), packed_fp4(w.blocks).t(), *scales, *outer)
    elif a.format == "MXFP4":
        value = one_level_product("BlockWise1x32")(packed_fp4(a.blocks), packed_fp4(w.blocks).t(), *scales)
    else:
        value = one_level_product("BlockWise1x32")(a.codes, w.codes.t(), *scales)
    return value.float() * _both_scales(a, w)


_CALLS: dict[str, Callable[[Operand, Operand], Tensor]] = {
    "int_mm": _integer,
    "int_mm_padded": _integer_padded,
    "scaled_mm_rowwise": _float8,
    "scaled_mm_block": _block_scaled,
}
