"""The table of operator kernels, and the cases it gives for a device, shapes, formats and cache states. No torch here.

*eager* is what a model without fusion runs: each step of the formula a kernel of its own, intermediate results in
memory. *fused* is torch's own kernel for the whole operator. *compiled* is the eager code through torch.compile.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

from bench_cases.kernels.operators.spec import OperatorKernel
from bench_cases.kernels.rules import multiple_of
from bench_cases.kernels.spec import COMPILED_PROOF, kernel_cases

ROPE_HEAD_SIZE = 128
"""Elements that are rotated together; traffic and arithmetic are the same for any head size."""

_OPERATORS = "bench_cases.kernels.operators.plain:"
_CASTS = "bench_cases.kernels.operators.casts:"
_COMPILER = ("torch.compile", "triton")

# Operator → (kernel name, function). The feed-forward block is products above all: no version of its own is compiled.
_PLAIN = {
    "softmax": ("fused", "softmax"),
    "rmsnorm": ("fused", "rmsnorm"),
    "residual_add": ("fused", "residual_add"),
    "rope": ("eager", "rope"),
    "silu_mul": ("eager", "silu_mul"),
    "ffn": ("eager", "swiglu"),
}

_OPERATOR_PROOFS = {
    "softmax": ("aten::_softmax",),
    "rmsnorm": ("aten::_fused_rms_norm",),
    "residual_add": ("aten::add",),
    "rope": ("aten::cat",),
    "silu_mul": ("aten::silu",),
    "ffn": ("aten::silu",),
    "quantize": ("aten::amax",),
    "dequantize": ("aten::mul",),
}
"""An operator of torch that the plain code dispatches, and a compiled graph in its place would not."""


def _plain(op: str, device: Literal["cpu", "cuda"], fmt: str) -> OperatorKernel:
    name, function = _PLAIN[op]
    return OperatorKernel(
        name,
        op=op,
        device=device,
        x=fmt,
        o=fmt,
        implementation=_OPERATORS + function,
        needs=("torch.nn.functional.rms_norm",) if op == "rmsnorm" else (),
        proof=_OPERATOR_PROOFS[op],
        min_capability=(8, 0) if device == "cuda" and fmt == "BF16" else None,
        rules=(multiple_of("width", ROPE_HEAD_SIZE),) if op == "rope" else (),
    )


def _compiled(op: str) -> OperatorKernel:
    return OperatorKernel(
        "compiled",
        op=op,
        device="cuda",
        x="BF16",
        o="BF16",
        implementation=_OPERATORS + _PLAIN[op][1],
        is_compiled=True,
        needs=_COMPILER,
        proof=COMPILED_PROOF,
        min_capability=(8, 0),
        rules=(multiple_of("width", ROPE_HEAD_SIZE),) if op == "rope" else (),
    )


def _cast(
    op: str, device: Literal["cpu", "cuda"], source: str, target: str, scale: str = "row", *, is_compiled: bool = False
) -> OperatorKernel:
    return OperatorKernel(
        f"{'compiled' if is_compiled else 'eager'}_{scale}",
        op=op,
        device=device,
        x=source,
        o=target,
        implementation=f"{_CASTS}{op}_{scale}",
        scale=scale,
        is_compiled=is_compiled,
        needs=_COMPILER if is_compiled else (),
        proof=COMPILED_PROOF if is_compiled else _OPERATOR_PROOFS[op],
        min_capability=(8, 0) if device == "cuda" else None,
    )


_CPU = (
    *(_plain(op, "cpu", fmt) for op in _PLAIN for fmt in ("BF16", "FP32")),
    *(_cast("quantize", "cpu", "BF16", target) for target in ("INT8", "FP8_E4M3")),
    *(_cast("dequantize", "cpu", source, "BF16") for source in ("INT8", "FP8_E4M3")),
)

_CUDA = (
    *(_plain(op, "cuda", fmt) for op in _PLAIN for fmt in ("BF16", "FP16") if (op, fmt) != ("ffn", "FP16")),
    *(_compiled(op) for op in ("rmsnorm", "rope", "silu_mul")),
    *(_cast("quantize", "cuda", "BF16", target) for target in ("INT8", "FP8_E4M3")),
    _cast("quantize", "cuda", "BF16", "FP8_E4M3", "tensor"),
    *(_cast("quantize", "cuda", "BF16", target, is_compiled=True) for target in ("INT8", "FP8_E4M3")),
    *(_cast("dequantize", "cuda", source, "BF16") for source in ("INT8", "FP8_E4M3")),
)

OPERATOR_KERNELS: tuple[OperatorKernel, ...] = (*_CPU, *_CUDA)
OPERATORS = (*_PLAIN, "quantize", "dequantize")
"""Each has a test function of its name in test_operators.py."""

operator_cases = partial(kernel_cases, OPERATOR_KERNELS)
"""(device, shapes, formats, cache, modes) → the cases of every shape with every kernel of its operator whose format is
among `formats` (None: all). Ids are unique within an operator.
"""
