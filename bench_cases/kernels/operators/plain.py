"""Elementwise operators and the SwiGLU block in plain torch, each with its float64 reference on sampled rows."""

from __future__ import annotations

import torch
from torch import Tensor

from bench_cases.dtypes import DTYPES
from bench_cases.kernels.inputs import uniform
from bench_cases.kernels.operators.catalog import ROPE_HEAD_SIZE
from bench_cases.kernels.operators.prepare import BuiltOperator, Sizes
from bench_cases.kernels.operators.spec import OperatorKernel
from bench_cases.kernels.reference import EXP_ROUNDOFF, HALF_SMALLEST, Expected, sample_index
from roofline_model.formats.rounding import Rounding, spreads_allowed, unit_roundoff

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

PLAIN = unit_roundoff("FP32")
"""Of what kernels compute between a 16-bit input and output."""


def softmax(kernel: OperatorKernel, sizes: Sizes, device: str) -> BuiltOperator:
    """Build `torch.softmax` over each row."""
    x = _input("x", kernel, sizes, device)
    rows = sampled(sizes)
    exact = _exact(x, rows)
    # The exponential, its argument (the largest input is taken from it first) and the sum of a row.
    inside = EXP_ROUNDOFF + 2 * PLAIN * (exact.abs() + exact.amax(dim=1, keepdim=True).abs()) + _sum_ratio(sizes)
    expected = torch.softmax(exact, dim=-1)
    return _built(kernel, sizes, lambda x: torch.softmax(x, dim=-1), (x,), rows, expected, systematic=inside * expected)


def rmsnorm(kernel: OperatorKernel, sizes: Sizes, device: str) -> BuiltOperator:
    """Build `torch.nn.functional.rms_norm` with a gain."""
    x = _input("x", kernel, sizes, device)
    gain = uniform("gain", 1, sizes["width"], device).to(x.dtype).flatten()
    rows, width = sampled(sizes), sizes["width"]
    exact = _exact(x, rows)
    expected = exact * torch.rsqrt(exact.square().mean(dim=1, keepdim=True) + NORM_EPSILON) * gain.cpu().double()

    def call(x: Tensor, gain: Tensor) -> Tensor:
        return torch.nn.functional.rms_norm(x, (width,), gain, NORM_EPSILON)

    # x over its root mean square may be rounded before the gain is applied, and the root before that.
    inside = 2 * unit_roundoff(kernel.o) + _sum_ratio(sizes)
    return _built(kernel, sizes, call, (x, gain), rows, expected, systematic=inside * expected.abs())


def residual_add(kernel: OperatorKernel, sizes: Sizes, device: str) -> BuiltOperator:
    """Build `torch.add` of two tensors into a third."""
    x, residual = _input("x", kernel, sizes, device), _input("residual", kernel, sizes, device)
    rows = sampled(sizes)
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
    rows = sampled(sizes)

    def call(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        heads = x.unflatten(1, (-1, ROPE_HEAD_SIZE))
        rotated = torch.cat((-heads[..., half:], heads[..., :half]), dim=-1)
        return (heads * cos.unsqueeze(1) + rotated * sin.unsqueeze(1)).flatten(1)

    exact, cosines, sines = _exact(x, rows), _exact(cos, rows), _exact(sin, rows)
    expected = _rotated(exact, cosines, sines)
    # Both products may be rounded before they are added.
    products = _rotated(exact.abs(), cosines.abs(), -sines.abs(), both_add=True)
    return _built(kernel, sizes, call, (x, cos, sin), rows, expected, products=products)


def silu_mul(kernel: OperatorKernel, sizes: Sizes, device: str) -> BuiltOperator:
    """Build SiLU(gate)·up in two kernels."""
    gate, up = _input("gate", kernel, sizes, device), _input("up", kernel, sizes, device)
    rows = sampled(sizes)
    expected = _silu(_exact(gate, rows)) * _exact(up, rows)
    # SiLU may be rounded before it is multiplied.
    inside = (unit_roundoff(kernel.o) + EXP_ROUNDOFF) * expected.abs()
    return _built(
        kernel,
        sizes,
        lambda gate, up: torch.nn.functional.silu(gate) * up,
        (gate, up),
        rows,
        expected,
        systematic=inside,
    )


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
    u = unit_roundoff(kernel.o)
    inside, spreads = [], []
    for at in range(0, inner, step):
        chunk, spread = _gated(exact, gate[at : at + step], up[at : at + step], u)
        inside.append(chunk)
        spreads.append(spread)
    held, held_variance = torch.cat(inside, dim=1), torch.cat(spreads, dim=1)
    last = _exact(down, columns)
    expected, squares = held @ last.T, last.square().T
    terms = held.square() @ squares
    law = Rounding(u, PLAIN, has_partials=kernel.device == "cuda" and u > PLAIN)
    variance = held_variance @ squares + law.exact_factor(inner) * expected.square() + law.terms_factor(inner) * terms
    whole = Expected(expected, terms.sqrt(), variance.sqrt(), u * expected.abs(), torch.zeros_like(expected))
    return BuiltOperator(call, (x, gate, up, down), (sizes["rows"], hidden), rows, whole, columns)


def _gated(x: Tensor, gate: Tensor, up: Tensor, u: float) -> tuple[Tensor, Tensor]:
    """Return SiLU(x·gateᵀ)·(x·upᵀ) in float64 and the variance of its roundings in a kernel with unit roundoff u.

    Both products, SiLU and the result are rounded; SiLU's slope is at most 1.1 (at 2.4).
    """
    gate64, up64 = gate.cpu().double(), up.cpu().double()
    g, h = x @ gate64.T, x @ up64.T
    law, K, squares = Rounding(u, PLAIN, has_partials=u > PLAIN and gate.is_cuda), x.shape[1], x.square()
    off_g, off_h = (
        (law.exact_factor(K) + u**2) * value.square() + law.terms_factor(K) * (squares @ matrix.square_().T)
        for value, matrix in ((g, gate64), (h, up64))
    )
    active = _silu(g)
    result = active * h
    variance = (1.1 * h).square() * off_g + active.square() * off_h + (2 * u**2 + EXP_ROUNDOFF**2) * result.square()
    return result, variance


def _built(
    kernel: OperatorKernel,
    sizes: Sizes,
    call: object,
    args: tuple[Tensor, ...],
    rows: Tensor,
    exact: Tensor,
    *,
    systematic: Tensor | None = None,
    products: Tensor | None = None,
) -> BuiltOperator:
    """Return an elementwise kernel; its result is rounded, and beside that it may be `systematic` off.

    products: magnitude of what is rounded before it is added.
    """
    assert callable(call)
    u, size = unit_roundoff(kernel.o), exact.abs()
    bound = (u + 2 * PLAIN) * (size if products is None else size + products)
    bound += 2 * HALF_SMALLEST.get(
        kernel.o, 0.0
    )  # of the result, and of what is rounded before it; operands are below 1
    nothing = torch.zeros_like(exact)
    expected = Expected(exact, size, nothing, bound, nothing if systematic is None else systematic)
    return BuiltOperator(call, args, (sizes["rows"], sizes["width"]), rows, expected)


def _sum_ratio(sizes: Sizes) -> float:
    """Return what a sum of one sign over a row may be off in FP32, as a ratio."""
    width = sizes["width"]
    return spreads_allowed(MAX_ROWS) * Rounding(sums_ratio=PLAIN).exact_factor(width) ** 0.5


def _input(role: str, kernel: OperatorKernel, sizes: Sizes, device: str) -> Tensor:
    return uniform(role, sizes["rows"], sizes["width"], device).to(DTYPES[kernel.x])


def sampled(sizes: Sizes) -> Tensor:
    """Return the rows that are looked at."""
    return sample_index(sizes["rows"], min(MAX_ROWS, max(2, MAX_ELEMENTS // sizes["width"])))


def _exact(tensor: Tensor, rows: Tensor) -> Tensor:
    return tensor[rows.to(tensor.device)].cpu().to(torch.float64)


def _silu(values: Tensor) -> Tensor:
    return values / (1 + torch.exp(-values))


def _rotated(x: Tensor, cos: Tensor, sin: Tensor, *, both_add: bool = False) -> Tensor:
    """Rotate the pairs (i, i + half) of each head, written as pairs and not as the kernel writes it.

    both_add: the second of a pair gets the difference too, so that magnitudes stay magnitudes.
    """
    sign = -1 if both_add else 1
    half = ROPE_HEAD_SIZE // 2
    result = torch.empty_like(x)
    for head in range(0, x.shape[1], ROPE_HEAD_SIZE):
        for i in range(half):
            first, second = x[:, head + i], x[:, head + half + i]
            result[:, head + i] = first * cos[:, i] - second * sin[:, i]
            result[:, head + half + i] = second * cos[:, half + i] + sign * first * sin[:, half + i]
    return result
