"""From an attention case to something that can be timed: operands, the call, and the check."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import lru_cache

from torch import Tensor

from bench_cases.kernels.attention.reference import AttentionReference, attention_rounding
from bench_cases.kernels.attention.spec import AttentionKernel, stored_keys, value_size
from bench_cases.kernels.attention.structures import small_sizes, structured_operands
from bench_cases.kernels.inputs import uniform
from bench_cases.kernels.products.prepare import PreparedKernel, Settings, argument_sets, imported
from bench_cases.kernels.reference import HeldMatrix
from bench_cases.kernels.rules import Sizes
from bench_cases.kernels.spec import CaseSpec
from roofline_model.core.errors import UnsupportedError
from roofline_model.core.finding import Finding, short_text
from roofline_model.formats.rounding import Deviation, worst


@dataclass(frozen=True, slots=True)
class AttentionSources:
    """Inputs of an implementation. It must neither write to the tensors nor keep them."""

    sizes: Sizes
    """The letters of the case; K and V hold the keys that some query sees (`stored_keys`)."""
    q: Tensor
    """(B·Hq·Sq, D) FP32."""
    k: Tensor
    """(B·Hkv·stored keys, D) FP32."""
    v: Tensor
    """(B·Hkv·stored keys, Dv) FP32; of a latent cache the first Dv elements of `k` itself."""

    def query(self, rows: Tensor) -> Tensor:
        """Return rows of Q as (B, Hq, Sq, D)."""
        return rows.view(self.sizes["B"], self.sizes["Hq"], self.sizes["Sq"], -1)

    def cached(self, rows: Tensor) -> Tensor:
        """Return rows of K or V as (B, Hkv, stored keys, …)."""
        return rows.view(self.sizes["B"], self.sizes["Hkv"], stored_keys(self.sizes), -1)


@dataclass(frozen=True, slots=True)
class BuiltAttention:
    """What an implementation returns: the call, one set of its operands, and what these operands mean."""

    fn: Callable[..., Tensor]
    """Called with `args`; returns O (B, Hq, Sq, Dv). Everything a user of the kernel pays per call is inside."""
    args: tuple[Tensor, ...]
    """Q and the cache, copied for rotation. A mask is not a part of them: all layers of a model share one."""
    q: HeldMatrix
    k: HeldMatrix
    v: HeldMatrix
    settings: Settings = nullcontext
    """Global switches of torch that must hold during the call."""
    refusal: Callable[[], Finding | None] = lambda: None
    """Why torch will not run the kernel on these operands; asked under `settings`. Only cuDNN's makes a call."""
    decoded: Callable[[Tensor], Tensor] = lambda output: output
    """What an output means, as plain numbers; may raise `TypeError` for one in another format."""


Build = Callable[[AttentionKernel, AttentionSources], BuiltAttention]


def prepare_attention(spec: CaseSpec, device: str) -> PreparedKernel:
    """Prepare an attention case. Raises `UnsupportedError` with torch's reason when it refuses the kernel."""
    kernel = spec.kernel
    assert isinstance(kernel, AttentionKernel)
    sizes = dict(spec.case.shape)
    built = build_attention(kernel, sizes, device)
    with built.settings():
        refusal = built.refusal()
    if refusal is not None:
        raise UnsupportedError(f"{kernel.name}: {short_text(refusal)}", refusal)
    reference = attention_reference(kernel, sizes, built)

    def check(output: object) -> Deviation:
        structured = structured_deviation(kernel, sizes, device)
        return worst([attention_deviation(built, reference, output), structured])

    return PreparedKernel(built.fn, argument_sets(built.args), check, built.settings)


def structured_deviation(kernel: AttentionKernel, sizes: Sizes, device: str) -> Deviation:
    """Return how far a kernel is from right on the worst of `structured_operands`, once in a process for each kind of
    case.

    Kernels that torch.compile makes are left out: every size would be compiled anew.
    """
    if "torch.compile" in kernel.needs:
        return Deviation(0.0, 0.0)
    return _structured_deviation(kernel, tuple(small_sizes(sizes).items()), device)


@lru_cache(maxsize=256)
def _structured_deviation(kernel: AttentionKernel, shape: tuple[tuple[str, int], ...], device: str) -> Deviation:
    sizes, deviations = dict(shape), [Deviation(0.0, 0.0)]
    for name, *operands in structured_operands(sizes):
        q, k, v = (matrix.to(device) for matrix in operands)
        build: Build = imported(kernel.implementation)
        built = build(kernel, AttentionSources(sizes, q, k, k[:, : value_size(sizes)] if kernel.is_latent else v))
        with built.settings():
            if built.refusal() is not None:  # torch takes the case's size, and not this one
                continue
            output = built.fn(*built.args)
        deviation = attention_deviation(built, attention_reference(kernel, sizes, built, is_random=False), output)
        deviations.append(deviation._replace(where=f"{name}: {deviation.where}"))
    return worst(deviations)


def attention_reference(
    kernel: AttentionKernel, sizes: Sizes, built: BuiltAttention, *, is_random: bool = True
) -> AttentionReference:
    """Return what a right kernel gives for the operands; `is_random`: they are random numbers."""
    return AttentionReference.of(sizes, built.q, built.k, built.v, attention_rounding(kernel), is_random=is_random)


def attention_deviation(built: BuiltAttention, reference: AttentionReference, output: object) -> Deviation:
    """Return how far an output is from right; the error is NaN for one that is not a tensor in the kernel's format."""
    if not isinstance(output, Tensor):
        return Deviation(math.nan, 0.0)
    try:
        values = built.decoded(output)
    except TypeError:
        return Deviation(math.nan, 0.0)
    return reference.deviation(values)


def build_attention(kernel: AttentionKernel, sizes: Sizes, device: str) -> BuiltAttention:
    """Generate the operands of a kernel and build it."""
    queries = sizes["B"] * sizes["Hq"] * sizes["Sq"]
    cached = sizes["B"] * sizes["Hkv"] * stored_keys(sizes)
    q, k = uniform("q", queries, sizes["D"], device), uniform("k", cached, sizes["D"], device)
    width = value_size(sizes)
    v = k[:, :width] if kernel.is_latent else uniform("v", cached, width, device)
    build: Build = imported(kernel.implementation)
    return build(kernel, AttentionSources(sizes, q, k, v))
