"""Elementwise operators and the SwiGLU block in plain torch, each with its float64 reference on sampled rows."""

from __future__ import annotations

import torch
from torch import Tensor

from bench_cases.kernels.inputs import uniform
from bench_cases.kernels.operators.catalog import ROPE_HEAD_SIZE
from bench_cases.kernels.operators.prepare import BuiltOperator, RowSample, Sizes
from bench_cases.kernels.operators.spec import OperatorKernel
from bench_cases.kernels.reference import sample_index

DTYPES = {"FP32": torch.float32, "BF16": torch.bfloat16, "FP16": torch.float16}
MAX_ROWS = 64
MAX_ELEMENTS = 1_000_000
"""Bounds the elements of a sample, hence its time."""
NORM_EPSILON = 1e-5
"""Of Llama's norms (rms_norm_eps)."""
ROPE_BASE = 500_000.0
"""Of Llama 3 (rope_theta); time does not depend on it."""
FFN_ROWS, FFN_COLUMNS = 4, 256
CHUNK = 1_000_000
"""Weights of a feed-forward block that are float64 at one time."""

_ROUNDING = {"FP32": 2.0**-20, "FP16": 2.0**-9, "BF16": 2.0**-7}
"""Largest relative error of a row of an elementwise kernel: one to three roundings to the format, FP32 with an
approximated exponential or root and sums over the row; three times what correct kernels show."""
_BLOCK_ROUNDING = {"FP32": 2.0**-18, "BF16": 2.0**-6}
"""The same for a feed-forward block: gate, up, their product and the output are rounded, and FP32 sums are long."""


def softmax(kernel: OperatorKernel, sizes: Sizes, device: str) -> BuiltOperator:
    """Build `torch.softmax` over each row."""
    x = _input("x", kernel, sizes, device)
    rows = _sampled(sizes)
    return _built(kernel, sizes, lambda x: torch.softmax(x, dim=-1), (x,), rows, torch.softmax(_exact(x, rows), dim=-1))


def rmsnorm(kernel: OperatorKernel, sizes: Sizes, device: str) -> BuiltOperator:
    """Build `torch.nn.functional.rms_norm` with a gain."""
    x = _input("x", kernel, sizes, device)
    gain = uniform("gain", 1, sizes["width"], device).to(x.dtype).flatten()
    rows, width = _sampled(sizes), sizes["width"]
    exact = _exact(x, rows)
    expected = exact * torch.rsqrt(exact.square().mean(dim=1, keepdim=True) + NORM_EPSILON) * gain.cpu().double()

    def call(x: Tensor, gain: Tensor) -> Tensor:
        return torch.nn.functional.rms_norm(x, (width,), gain, NORM_EPSILON)

    return _built(kernel, sizes, call, (x, gain), rows, expected)


def residual_add(kernel: OperatorKernel, sizes: Sizes, device: str) -> BuiltOperator:
    """Build `torch.add` of two tensors into a third."""
    x, residual = _input("x", kernel, sizes, device), _input("residual", kernel, sizes, device)
    rows = _sampled(sizes)
    return _built(kernel, sizes, torch.add, (x, residual), rows, _exact(x, rows) + _exact(residual, rows))


def rope(kernel: OperatorKernel, sizes: Sizes, device: str) -> BuiltOperator:
    """Build the rotary embedding in its half-split form, x·cos + rotate_half(x)·sin, as Llama's code writes it.

    Sines and cosines come from a table (rows, head size), one row per token, read by all of its heads.
    """
    x = _input("x", kernel, sizes, device)
    half = ROPE_HEAD_SIZE // 2
    frequency = ROPE_BASE ** (-torch.arange(half, dtype=torch.float64) / half)
    angle = torch.arange(sizes["rows"], dtype=torch.float64).unsqueeze(1) * frequency.repeat(2)
    cos, sin = (table.to(x.device, x.dtype) for table in (angle.cos(), angle.sin()))
    rows = _sampled(sizes)

    def call(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        heads = x.unflatten(1, (-1, ROPE_HEAD_SIZE))
        rotated = torch.cat((-heads[..., half:], heads[..., :half]), dim=-1)
        return (heads * cos.unsqueeze(1) + rotated * sin.unsqueeze(1)).flatten(1)

    expected = _rotated(_exact(x, rows), _exact(cos, rows), _exact(sin, rows))
    return _built(kernel, sizes, call, (x, cos, sin), rows, expected)


def silu_mul(kernel: OperatorKernel, sizes: Sizes, device: str) -> BuiltOperator:
    """Build SiLU(gate)·up in two kernels."""
    gate, up = _input("gate", kernel, sizes, device), _input("up", kernel, sizes, device)
    rows = _sampled(sizes)
    expected = _silu(_exact(gate, rows)) * _exact(up, rows)
    return _built(kernel, sizes, lambda gate, up: torch.nn.functional.silu(gate) * up, (gate, up), rows, expected)


def swiglu(kernel: OperatorKernel, sizes: Sizes, device: str) -> BuiltOperator:
    """Build gate, up, SiLU·mul and down as a model runs them: three products on weights stored (out, in)."""
    dtype, hidden, inner = DTYPES[kernel.x], sizes["hidden"], sizes["intermediate"]
    x = uniform("x", sizes["rows"], hidden, device).to(dtype)
    gate, up = (uniform(role, inner, hidden, device).to(dtype) for role in ("gate", "up"))
    down = uniform("down", hidden, inner, device).to(dtype)

    def call(x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
        linear = torch.nn.functional.linear
        return linear(torch.nn.functional.silu(linear(x, gate)) * linear(x, up), down)

    rows, columns = sample_index(sizes["rows"], FFN_ROWS), sample_index(hidden, FFN_COLUMNS)
    exact, step = _exact(x, rows), max(1, CHUNK // hidden)
    inside = [
        _silu(exact @ gate[at : at + step].cpu().double().T) * (exact @ up[at : at + step].cpu().double().T)
        for at in range(0, inner, step)
    ]
    expected = torch.cat(inside, dim=1) @ _exact(down, columns).T
    return BuiltOperator(
        call,
        (x, gate, up, down),
        RowSample(rows, expected, columns),
        (sizes["rows"], hidden),
        _BLOCK_ROUNDING[kernel.o],
    )


def _built(
    kernel: OperatorKernel, sizes: Sizes, call: object, args: tuple[Tensor, ...], rows: Tensor, expected: Tensor
) -> BuiltOperator:
    assert callable(call)
    shape = sizes["rows"], sizes["width"]
    return BuiltOperator(call, args, RowSample(rows, expected), shape, _ROUNDING[kernel.o])


def _input(role: str, kernel: OperatorKernel, sizes: Sizes, device: str) -> Tensor:
    return uniform(role, sizes["rows"], sizes["width"], device).to(DTYPES[kernel.x])


def _sampled(sizes: Sizes) -> Tensor:
    return sample_index(sizes["rows"], min(MAX_ROWS, max(2, MAX_ELEMENTS // sizes["width"])))


def _exact(tensor: Tensor, rows: Tensor) -> Tensor:
    return tensor[rows.to(tensor.device)].cpu().to(torch.float64)


def _silu(values: Tensor) -> Tensor:
    return values / (1 + torch.exp(-values))


def _rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate the pairs (i, i + half) of each head, written as pairs and not as the kernel writes it."""
    half = ROPE_HEAD_SIZE // 2
    result = torch.empty_like(x)
    for head in range(0, x.shape[1], ROPE_HEAD_SIZE):
        for i in range(half):
            first, second = x[:, head + i], x[:, head + half + i]
            result[:, head + i] = first * cos[:, i] - second * sin[:, i]
            result[:, head + half + i] = second * cos[:, half + i] + first * sin[:, half + i]
    return result
