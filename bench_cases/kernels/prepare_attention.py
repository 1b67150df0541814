"""From an attention case to something that can be timed: operands, the call, and the check."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass

from torch import Tensor

from bench_cases.attention_reference import AttentionReference, attention_tolerance
from bench_cases.held import HeldMatrix
from bench_cases.inputs import uniform
from bench_cases.kernels.attention_spec import AttentionKernel, Sizes, stored_keys
from bench_cases.kernels.prepare import PreparedKernel, Settings, argument_sets, imported
from bench_cases.kernels.spec import CaseSpec
from roofline_model.errors import UnsupportedError


@dataclass(frozen=True, slots=True)
class AttentionSources:
    """What an implementation starts from. Neither tensor may be written to or kept."""

    sizes: Sizes
    """The letters of the case; K and V hold the keys that some query sees (`stored_keys`)."""
    q: Tensor
    """(B·Hq·Sq, D) FP32."""
    k: Tensor
    v: Tensor
    """(B·Hkv·stored keys, D) FP32."""

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
    """Called with `args`; returns O (B, Hq, Sq, D). Everything a user of the kernel pays per call is inside."""
    args: tuple[Tensor, ...]
    """Q and the cache, copied for rotation. A mask is no part of them: all layers of a model share one."""
    q: HeldMatrix
    k: HeldMatrix
    v: HeldMatrix
    settings: Settings = nullcontext
    """Global switches of torch that must hold during the call."""
    refusal: Callable[[], str | None] = lambda: None
    """Why torch will not run the kernel on these operands, or None; asked under `settings`, runs nothing."""


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
        raise UnsupportedError(f"{kernel.name}: {refusal}")
    reference = AttentionReference.of(sizes, built.q, built.k, built.v)
    tolerance = attention_tolerance(kernel, sizes)
    return PreparedKernel(built.fn, argument_sets(built.args), reference.error, tolerance, built.settings)


def build_attention(kernel: AttentionKernel, sizes: Sizes, device: str) -> BuiltAttention:
    """Generate the operands of a kernel and build it."""
    queries = sizes["B"] * sizes["Hq"] * sizes["Sq"]
    cached = sizes["B"] * sizes["Hkv"] * stored_keys(sizes)
    sources = AttentionSources(
        sizes,
        *(uniform(role, rows, sizes["D"], device) for role, rows in (("q", queries), ("k", cached), ("v", cached))),
    )
    build: Build = imported(kernel.implementation)
    return build(kernel, sources)
