"""Kernels as strangers write them, each right, with the reference that a careful author gives: for every data type.

Arguments differ by seed: ordinary numbers, offset ones, ones of very different sizes, and many zeros. `operators_of`
gives the operators that a data type has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

WIDE = {"FP64": torch.float64, "FP32": torch.float32, "FP16": torch.float16, "BF16": torch.bfloat16}
TYPES = (*WIDE, "INT8")
COMPLEX = {"FP64": torch.complex128, "FP32": torch.complex64}
ROWS, WIDTH = 16, 96


class Right(NamedTuple):
    """One right kernel."""

    kernel: Callable[..., Any]
    reference: Callable[..., Any]
    args: tuple[Any, ...]


Make = Callable[[torch.dtype, int], Right]


def numbers(seed: int, *shape: int) -> Tensor:
    """Return float64 numbers of a kind that depends on the seed."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(*shape, generator=generator, dtype=torch.float64)
    kind = seed % 5
    if kind == 1:
        return values + 30
    if kind == 2:
        return values * 10 ** (torch.rand(*shape, generator=generator, dtype=torch.float64) * 5 - 4)
    if kind == 3:
        return torch.where(torch.rand(*shape, generator=generator) < 0.7, 0.0, values)
    return values * 4 if kind == 4 else values


def of(dtype: torch.dtype, seed: int, *shapes: tuple[int, ...]) -> tuple[Tensor, ...]:
    """Return tensors of the shapes, each of other numbers of the same kind."""
    return tuple(numbers(seed + 5000 * position, *shape).to(dtype) for position, shape in enumerate(shapes))


def wide(value: Any) -> Any:
    """Return arguments as the reference computes with them."""
    if isinstance(value, Tensor) and value.is_floating_point():
        return value.double()
    return value.to(torch.complex128) if isinstance(value, Tensor) and value.is_complex() else value


def in_double(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function on arguments of float64."""
    return lambda *args: function(*map(wide, args))


def alike(function: Callable[..., Any], *shapes: tuple[int, ...]) -> Make:
    """Return the maker of a kernel that is the function itself, in the arguments' type."""
    return lambda dtype, seed: Right(function, in_double(function), of(dtype, seed, *shapes))


def in_parts(x: Tensor) -> Tensor:
    """GELU with each step rounded to its type."""
    return 0.5 * x * (1 + torch.erf(x * 0.7071067811865476))


def rms_norm(x: Tensor, gain: Tensor) -> Tensor:
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * gain


def layer_norm(x: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], gain, bias)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, -1)
    return torch.cat((first * cos - second * sin, first * sin + second * cos), -1)


def make_rope(dtype: torch.dtype, seed: int) -> Right:
    angles = torch.rand(ROWS, WIDTH // 2, generator=torch.Generator().manual_seed(seed)) * 6
    args = (*of(dtype, seed, (ROWS, WIDTH)), angles.cos(), angles.sin())  # tables are FP32 whatever the data are
    return Right(lambda x, cos, sin: rotate(x, cos.to(x.dtype), sin.to(x.dtype)), in_double(rotate), args)


def masked_scores(q: Tensor, k: Tensor) -> Tensor:
    scores = q @ k.T
    return scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), float("-inf"))


def masked_softmax(scores: Tensor) -> Tensor:
    return torch.softmax(scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), float("-inf")), -1)


def sdpa(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def make_attention(dtype: torch.dtype, seed: int) -> Right:
    shape = (1, 2, 24, 32)
    return Right(sdpa, in_double(sdpa), of(dtype, seed - seed % 5, shape, shape, shape))


def quantise(x: Tensor) -> tuple[Tensor, Tensor]:
    values = x if x.dtype == torch.float64 else x.float()
    scale = values.abs().amax(-1, keepdim=True).clamp_min(1e-9) / 127
    return (values / scale).round().clamp(-128, 127).to(torch.int8), scale


def quantise_double(x: Tensor) -> tuple[Tensor, Tensor]:
    scale = x.double().abs().amax(-1, keepdim=True).clamp_min(1e-9) / 127
    return (x.double() / scale).round().clamp(-128, 127), scale


def spectrum(x: Tensor) -> Tensor:
    return torch.fft.fft(x if x.dtype in (torch.float32, torch.float64) else x.float())


def make_complex_product(dtype: torch.dtype, seed: int) -> Right:
    kind = torch.complex128 if dtype == torch.float64 else torch.complex64
    parts = of(torch.float64, seed, (ROWS, 8), (ROWS, 8), (8, 6), (8, 6))
    args = (torch.complex(*parts[:2]).to(kind), torch.complex(*parts[2:]).to(kind))
    return Right(torch.matmul, in_double(torch.matmul), args)


def make_sparse(dtype: torch.dtype, seed: int) -> Right:
    kind = dtype if dtype in (torch.float32, torch.float64) else torch.float32
    held = torch.where(numbers(seed - seed % 5, ROWS, WIDTH) > 1, 1.0, 0.0) * numbers(seed, ROWS, WIDTH)
    return Right(lambda x: x.to_sparse() * 2, lambda x: x.double() * 2, (held.to(kind),))


def make_sparse_product(dtype: torch.dtype, seed: int) -> Right:
    kind = dtype if dtype in (torch.float32, torch.float64) else torch.float32
    held = torch.where(numbers(seed - seed % 5, ROWS, WIDTH) > 0.5, numbers(seed, ROWS, WIDTH), 0.0).to(kind)
    (other,) = of(kind, seed, (WIDTH, 24))
    return Right(torch.matmul, lambda a, b: a.double().to_dense() @ b.double(), (held.to_sparse(), other))


def top_values(x: Tensor) -> Any:
    return torch.topk(x, 5, dim=-1)


def cross_entropy(x: Tensor) -> Tensor:
    return F.cross_entropy(x, torch.arange(len(x)))


def numpy_of(function: Callable[..., Any], *shapes: tuple[int, ...]) -> Make:
    """Return the maker of a kernel on arrays of numpy, in the arguments' type (BF16: of ml_dtypes)."""

    def make(dtype: torch.dtype, seed: int) -> Right:
        import ml_dtypes

        kind = ml_dtypes.bfloat16 if dtype == torch.bfloat16 else str(dtype).removeprefix("torch.")
        args = tuple(each.numpy().astype(kind) for each in of(torch.float64, seed, *shapes))
        return Right(function, lambda *given: function(*(each.astype(np.float64) for each in given)), args)

    return make


MATRIX, VECTOR = (ROWS, WIDTH), (WIDTH,)
OPERATORS: dict[str, Make] = {
    "relu": alike(F.relu, MATRIX),
    "residual": alike(torch.add, MATRIX, MATRIX),
    "difference": alike(torch.sub, MATRIX, MATRIX),
    "product": alike(torch.mul, MATRIX, MATRIX),
    "affine": numpy_of(lambda x, a, b: x * a + b, MATRIX, VECTOR, VECTOR),
    "exp": alike(lambda x: torch.exp(x.clamp(max=12)), MATRIX),
    "sigmoid": alike(torch.sigmoid, MATRIX),
    "tanh": numpy_of(np.tanh, MATRIX),
    "gelu": alike(F.gelu, MATRIX),
    "gelu in parts": alike(in_parts, MATRIX),
    "silu_mul": alike(lambda gate, up: F.silu(gate) * up, MATRIX, MATRIX),
    "softmax": alike(lambda x: torch.softmax(x, -1), MATRIX),
    "masked softmax": alike(masked_softmax, (24, 24)),
    "log_softmax": alike(lambda x: torch.log_softmax(x, -1), MATRIX),
    "logsumexp": alike(lambda x: torch.logsumexp(x, -1), MATRIX),
    "cross entropy": alike(cross_entropy, MATRIX),
    "layer norm": alike(layer_norm, MATRIX, VECTOR, VECTOR),
    "rms norm": alike(rms_norm, MATRIX, VECTOR),
    "rope": make_rope,
    "sum": alike(lambda x: x.sum().item(), MATRIX),
    "sum of rows": alike(lambda x: x.sum(-1), MATRIX),
    "mean": alike(lambda x: x.mean(), MATRIX),
    "variance": alike(lambda x: x.var(-1), MATRIX),
    "norm": alike(lambda x: torch.linalg.vector_norm(x), MATRIX),
    "dot": alike(torch.dot, VECTOR, VECTOR),
    "dot in parts": alike(lambda x, y: (x * y).sum(), VECTOR, VECTOR),
    "gemv": alike(lambda x, w: F.linear(x, w), (1, WIDTH), (64, WIDTH)),
    "gemm": alike(torch.matmul, MATRIX, (WIDTH, 48)),
    "bmm": alike(torch.bmm, (3, 8, 32), (3, 32, 8)),
    "masked scores": alike(masked_scores, (24, 32), (24, 32)),
    "attention": make_attention,
    "convolution": alike(lambda x, w: F.conv1d(x, w), (2, 4, 40), (3, 4, 5)),
    "cumsum": alike(lambda x: torch.cumsum(x, -1), MATRIX),
    "maximum": alike(lambda x: x.amax(-1), MATRIX),
    "argmax": alike(lambda x: x.argmax(-1), MATRIX),
    "topk": alike(top_values, MATRIX),
    "sort": alike(lambda x: torch.sort(x, -1), MATRIX),
    "embedding": lambda dtype, seed: Right(
        lambda w, i: w[i], lambda w, i: w.double()[i], (*of(dtype, seed, (50, 24)), torch.arange(0, 50, 3))
    ),
    "fft": lambda dtype, seed: Right(spectrum, lambda x: torch.fft.fft(x.double()), of(dtype, seed, (4, 64))),
    "complex product": make_complex_product,
    "sparse": make_sparse,
    "sparse product": make_sparse_product,
    "quantise": lambda dtype, seed: Right(quantise, quantise_double, of(dtype, seed, MATRIX)),
    "comparison": alike(lambda x, y: x > y, MATRIX, MATRIX),
}


def integers(seed: int, *shapes: tuple[int, ...]) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randint(-128, 128, shape, generator=generator, dtype=torch.int8) for shape in shapes)


def of_integers(kernel: Callable[..., Any], reference: Callable[..., Any], *shapes: tuple[int, ...]) -> Make:
    return lambda _, seed: Right(kernel, reference, integers(seed, *shapes))


def with_scales(out: torch.dtype) -> Make:
    def kernel(x: Tensor, w: Tensor, scales: Tensor) -> Tensor:
        return ((x.int() @ w.int().T).float() * scales).to(out)

    def make(_: torch.dtype, seed: int) -> Right:
        scales = torch.rand(64, generator=torch.Generator().manual_seed(seed)) * 1e-3
        return Right(
            kernel,
            lambda x, w, s: (x.double() @ w.double().T) * s.double(),
            (*integers(seed, MATRIX, (64, WIDTH)), scales),
        )

    return make


def make_weight_only(_: torch.dtype, seed: int) -> Right:
    (x,), (w,) = of(torch.bfloat16, seed, (4, WIDTH)), integers(seed, (64, WIDTH))
    scales = (torch.rand(64, generator=torch.Generator().manual_seed(seed)) * 1e-2).bfloat16()
    return Right(
        lambda x, w, s: (x @ w.to(x.dtype).T) * s,
        lambda x, w, s: (x.double() @ w.double().T) * s.double(),
        (x, w, scales),
    )


INTEGER_OPERATORS: dict[str, Make] = {
    "relu": of_integers(lambda x: x.clamp_min(0), lambda x: x.long().clamp_min(0), MATRIX),
    "residual": of_integers(lambda x, y: x.short() + y, lambda x, y: x.long() + y.long(), MATRIX, MATRIX),
    "product": of_integers(lambda x, y: x.int() * y, lambda x, y: x.double() * y.double(), MATRIX, MATRIX),
    "sum": of_integers(lambda x: x.sum().item(), lambda x: x.double().sum(), MATRIX),
    "mean": of_integers(lambda x: x.float().mean(-1), lambda x: x.double().mean(-1), MATRIX),
    "dot": of_integers(lambda x, y: (x.int() * y.int()).sum(), lambda x, y: x.long() @ y.long(), VECTOR, VECTOR),
    "gemm": of_integers(lambda a, b: a.int() @ b.int(), lambda a, b: a.double() @ b.double(), MATRIX, (WIDTH, 48)),
    "gemm in FP32": of_integers(
        lambda a, b: a.float() @ b.float(), lambda a, b: a.double() @ b.double(), MATRIX, (WIDTH, 48)
    ),
    "gemm, FP16 out": with_scales(torch.float16),
    "gemm, BF16 out": with_scales(torch.bfloat16),
    "gemm, FP32 out": with_scales(torch.float32),
    "weight only": make_weight_only,
    "cumsum": of_integers(lambda x: x.cumsum(-1), lambda x: x.long().cumsum(-1), MATRIX),
    "argmax": of_integers(lambda x: x.argmax(-1), lambda x: x.double().argmax(-1), MATRIX),
    "topk": of_integers(top_values, lambda x: top_values(x.double()), MATRIX),
    "sort": of_integers(lambda x: torch.sort(x, -1), lambda x: torch.sort(x.double(), -1), MATRIX),
    "comparison": of_integers(lambda x, y: x > y, lambda x, y: x.double() > y.double(), MATRIX, MATRIX),
    "dequantise": of_integers(lambda x: x.half() * 0.01, lambda x: x.double() * 0.01, MATRIX),
}


def operators_of(kind: str) -> dict[str, Make]:
    """Return the operators that a data type has, by name."""
    return INTEGER_OPERATORS if kind == "INT8" else OPERATORS
